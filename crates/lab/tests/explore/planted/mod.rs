//! Copies of r8169 with a bug each, and one with names of places, compiled with a kernel that finds its own mistakes.

mod bugs;

use std::sync::OnceLock;

use warikomi_kernel::{BuildOptions, Image, Source};

use crate::copies::{Changes, image_with};
pub(crate) use bugs::{BUGS, DRIVER_VERSION, MARKED, RINGS_ONCE};
use bugs::{MARKS, STRAY, WITHOUT_HACK};

/// The kernel with all of them, built if it is not there.
pub(crate) fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let bugs = BUGS.iter().map(|bug| (bug.name, bug.changes));
        let others = [(MARKED, MARKS), (RINGS_ONCE, WITHOUT_HACK)];
        let copies: Vec<(&str, Changes)> =
            bugs.chain(STRAY.iter().copied()).chain(others).collect();
        let source = Source::Distribution { version: Some(DRIVER_VERSION.into()) };
        image_with(BuildOptions { source, debug: true, ..BuildOptions::default() }, &copies)
    })
}
