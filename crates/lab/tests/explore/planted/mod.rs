//! Copies of r8169 with a bug each, and one with names of places, compiled with a kernel that finds its own mistakes.
//!
//! The copies are made of the kernel's own sources when the tests run; the driver itself stays as it is.

mod bugs;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use warikomi_kernel::{BuildOptions, Cache, Cancel, Image, Source, build, source_tree};

pub(crate) use bugs::{BUGS, DRIVER_VERSION, MARKED};
use bugs::{MARKS, STRAY};

/// The kernel with all of them, built if it is not there.
pub(crate) fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        image_with(|_| true, BuildOptions { debug: true, ..BuildOptions::default() })
    })
}

/// A kernel of this kind with those whose names are wanted, built if it is not there.
pub(crate) fn image_with(is_wanted: impl Fn(&str) -> bool, kind: BuildOptions) -> Image {
    let cache = Cache::of_this_user().unwrap();
    let source = Source::Distribution { version: Some(DRIVER_VERSION.into()) };
    let tree = source_tree(&cache, &source, &Cancel::new());
    let tree = tree.unwrap_or_else(|error| panic!("{error}"));
    let directory = tempfile::tempdir().unwrap();
    write_modules(&tree.join("drivers/net/ethernet/realtek"), directory.path(), is_wanted);
    let modules = vec![directory.path().to_owned()];
    let options = BuildOptions { source, modules, ..kind };
    build(&cache, &options, &Cancel::new(), &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// One directory: the files that the modules have in common, and a main file of each that is wanted.
fn write_modules(driver: &Path, into: &Path, is_wanted: impl Fn(&str) -> bool) {
    for name in ["r8169.h", "r8169_firmware.c", "r8169_firmware.h", "r8169_phy_config.c"] {
        fs::copy(driver.join(name), into.join(name)).unwrap();
    }
    let main = fs::read_to_string(driver.join("r8169_main.c")).unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/warikomi_here.h");
    fs::copy(header, into.join("warikomi_here.h")).unwrap();
    let mut rules = String::new();
    let bugs = BUGS.iter().map(|bug| (bug.name, bug.changes));
    let all = bugs.chain(STRAY.iter().copied()).chain([(MARKED, MARKS)]);
    for (name, changes) in all.filter(|(name, _)| is_wanted(name)) {
        let changed = planted(&main, name, changes);
        fs::write(into.join(format!("{name}_main.c")), changed).unwrap();
        rules.push_str(&format!(
            "obj-m += {name}.o\n{name}-y := {name}_main.o r8169_firmware.o r8169_phy_config.o\n",
        ));
    }
    fs::write(into.join("Kbuild"), rules).unwrap();
}

fn planted(main: &str, name: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(main.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{name}: the driver has changed at: {from}");
        text.replace(from, to)
    })
}
