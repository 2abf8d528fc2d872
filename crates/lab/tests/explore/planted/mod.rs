//! Copies of r8169 with a bug each, and one with names of places, compiled with a kernel that finds its own mistakes.

mod bugs;

use std::sync::OnceLock;

use warikomi_kernel::{BuildOptions, Image, Source};

use crate::copies::{Changes, image_with};
pub(crate) use bugs::{BUGS, DRIVER_VERSION, MARKED, RINGS_ONCE};
use bugs::{MARKS, STRAY, WITHOUT_HACK};

/// Every copy of the driver that is in the kernel, by its name.
pub(crate) fn copies() -> Vec<(&'static str, Changes)> {
    let bugs = BUGS.iter().map(|bug| (bug.name, bug.changes));
    let others = [(MARKED, MARKS), (RINGS_ONCE, WITHOUT_HACK)];
    bugs.chain(STRAY.iter().copied()).chain(others).collect()
}

/// The kernel with all of them, built if it is not there.
pub(crate) fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let source = Source::Distribution { version: Some(DRIVER_VERSION.into()) };
        image_with(BuildOptions { source, debug: true, ..BuildOptions::default() }, &copies())
    })
}
