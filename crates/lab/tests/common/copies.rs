//! Changed copies of r8169, as modules to compile with a kernel. They are made of the kernel's own sources when the
//! tests run; the driver itself stays as it is.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag::{register, register_conditional_shutdown};
use tempfile::TempDir;
use warikomi_kernel::{BuildOptions, Cache, Cancel, Image, build, source_tree};

/// Text of the driver, and what it is replaced by.
pub(crate) type Changes = &'static [(&'static str, &'static str)];

/// The kernel with a module for each name, built if it is not there.
pub(crate) fn image_with(options: BuildOptions, copies: &[(&str, Changes)]) -> Image {
    let cache = Cache::of_this_user().unwrap();
    let tree = source_tree(&cache, &options.source, &Cancel::new());
    let tree = tree.unwrap_or_else(|error| panic!("{error}"));
    let directory = modules(&tree.join("drivers/net/ethernet/realtek"), copies);
    let modules = if copies.is_empty() { vec![] } else { vec![directory.path().to_owned()] };
    let options = BuildOptions { modules, ..options };
    built(&cache, &options)
}

/// A signal that ends these tests while a kernel is built ends the build first, whose processes are a group of their own.
fn built(cache: &Cache, options: &BuildOptions) -> Image {
    let [cancelled, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for signal in TERM_SIGNALS {
        register_conditional_shutdown(*signal, 130, Arc::clone(&over)).unwrap();
        register(*signal, Arc::clone(&cancelled)).unwrap();
    }
    let image = build(cache, options, &Cancel::from(cancelled), &mut |_| ());
    over.store(true, Ordering::SeqCst);
    image.unwrap_or_else(|error| panic!("{error}"))
}

/// The names of these copies of which the kernel has no module.
pub(crate) fn missing<'a>(image: &Image, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let modules = image.modules().join("extra");
    names.filter(|name| !modules.join(format!("{name}.ko")).is_file()).collect()
}

/// One directory: the files that the modules have in common, and a main file of each.
fn modules(driver: &Path, copies: &[(&str, Changes)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path();
    for name in ["r8169.h", "r8169_firmware.c", "r8169_firmware.h", "r8169_phy_config.c"] {
        fs::copy(driver.join(name), into.join(name)).unwrap();
    }
    let main = fs::read_to_string(driver.join("r8169_main.c")).unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/warikomi_here.h");
    fs::copy(header, into.join("warikomi_here.h")).unwrap();
    let mut rules = String::new();
    for (name, changes) in copies {
        fs::write(into.join(format!("{name}_main.c")), changed(&main, name, changes)).unwrap();
        rules.push_str(&format!(
            "obj-m += {name}.o\n{name}-y := {name}_main.o r8169_firmware.o r8169_phy_config.o\n",
        ));
    }
    fs::write(into.join("Kbuild"), rules).unwrap();
    directory
}

fn changed(main: &str, name: &str, changes: Changes) -> String {
    changes.iter().fold(main.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{name}: the driver has changed at: {from}");
        text.replace(from, to)
    })
}
