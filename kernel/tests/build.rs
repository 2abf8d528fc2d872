//! Real builds of real kernels: minutes each, so ignored unless asked for, as `make test` does:
//! `cargo test -p warikomi-kernel --test build -- --ignored`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use ignore::WalkBuilder;
use warikomi_kernel::{
    BuildOptions, Cache, Cancel, DriverPlace, KernelError, Source, build, inspect,
};

fn tree_state(tree: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let walk = WalkBuilder::new(tree).standard_filters(false).build();
    let mut state: Vec<_> = walk
        .map(|entry| {
            let path = entry.unwrap().into_path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            (path, metadata.len(), metadata.modified().unwrap())
        })
        .collect();
    state.sort();
    state
}

/// Unpacks a package and builds something in place, as a developer for another machine would have.
fn tree_built_in_place(into: &Path) -> PathBuf {
    let mut archives: Vec<PathBuf> = fs::read_dir("/usr/src")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("linux-source-") && name.contains(".tar.")
        })
        .collect();
    archives.sort();
    let archive = archives.first().expect("run: sudo apt-get install linux-source");
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let tree = into.join("tree");
    fs::create_dir(&tree).unwrap();
    let mut tar = Command::new("tar");
    run(tar.arg("-xf").arg(archive).arg("--strip-components=1").arg("-C").arg(&tree));
    run(Command::new("make").arg("-C").arg(&tree).args(["ARCH=x86", "tinyconfig", "prepare"]));
    run(Command::new("make").arg("-C").arg(&tree).args(["ARCH=x86", "lib/string.o"]));
    tree
}

/// What the kernel's own check finds wrong with our modules: nothing, but what a module for several kernels and
/// a poller cannot do without.
fn assert_our_modules_have_the_style_of(tree: &Path) {
    let bridge = Path::new(env!("CARGO_MANIFEST_DIR")).join("bridge");
    let sources = [
        "access.c",
        "bridge.h",
        "interrupts.c",
        "main.c",
        "warikomi_bridge.h",
        "warikomi_vectors.c",
    ];
    let output = Command::new("perl")
        .arg(tree.join("scripts/checkpatch.pl"))
        .args(["--no-tree", "--no-signoff", "--terse"])
        .args(["--ignore", "LINUX_VERSION_CODE,CONSTANT_COMPARISON,YIELD"])
        .arg("--file")
        .args(sources.map(|source| bridge.join(source)))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "builds a kernel: minutes"]
fn a_tree_that_was_built_in_place_serves_and_stays_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::at(directory.path().join("cache")).unwrap();
    let tree = tree_built_in_place(directory.path());
    let before = tree_state(&tree);
    let options = BuildOptions { source: Source::Tree(tree.clone()), ..BuildOptions::default() };
    let first = build(&cache, &options, &Cancel::new(), &mut |_| {}).unwrap();
    assert!(tree_state(&tree) == before, "the build changed the developer's tree");
    assert_eq!(first.info().drivers["r8169"], DriverPlace::Module);
    assert!(first.info().bridge);
    assert_our_modules_have_the_style_of(&tree);

    // One file changes: little is compiled, and the image is new.
    let driver = tree.join("drivers/net/ethernet/realtek/r8169_main.c");
    let text = fs::read_to_string(&driver).unwrap();
    fs::write(&driver, format!("{text}\n/* changed */\n")).unwrap();
    let second = build(&cache, &options, &Cancel::new(), &mut |_| {}).unwrap();
    let (all, few) = (first.info().steps, second.info().steps);
    assert!(few < all / 10, "{few} steps of {all} were done again");
    assert_eq!(second.directory(), first.directory());
    inspect(&second.kernel()).unwrap().check().unwrap();

    // A kernel that our module does not compile for serves without it.
    let header = tree.join("include/linux/logic_iomem.h");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, format!("#ifdef MODULE\n#error \"not for modules\"\n#endif\n{text}"))
        .unwrap();
    let third = build(&cache, &options, &Cancel::new(), &mut |_| {}).unwrap();
    assert!(!third.info().bridge);
    inspect(&third.kernel()).unwrap().check().unwrap();
}

#[test]
#[ignore = "unpacks a kernel and starts to build it: half a minute"]
fn a_cancelled_build_leaves_no_image() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::at(directory.path()).unwrap();
    let cancel = Cancel::new();
    let result = build(&cache, &BuildOptions::default(), &cancel, &mut |progress| {
        if progress.done > 30 {
            cancel.cancel();
        }
    });
    assert!(matches!(result, Err(KernelError::Cancelled)));
    assert!(cache.images().unwrap().is_empty());
    let left = fs::read_dir(directory.path().join("kernels")).unwrap().count();
    assert_eq!(left, 0, "something half-built is left");
}
