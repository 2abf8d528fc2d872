//! The kernel's own tests of NICs, and what they need of its tree: copied out of it, and compiled there where they have
//! to be. A developer's tree stays as it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::error::{KernelError, Result};
use crate::image::Image;
use crate::make::{Cancel, Runner};
use crate::source::{Found, Source};
use crate::staging::Staging;
use crate::tools;

/// Changes whenever the same tree would lead to other files.
const RECIPE: u32 = 2;

/// What is taken from a tree: the tests, what speaks netlink for them (`tools/net/ynl`) from its own descriptions, what
/// compiles programs for the kernel's virtual machine (BPF), and what the headers are made of that programs include.
const PARTS: [&str; 20] = [
    "Documentation/netlink",
    // By this ynl finds the root of the tree; without it, it looks for ever.
    "MAINTAINERS",
    "Makefile",
    "arch/x86/Makefile",
    "arch/x86/entry/syscalls",
    "arch/x86/include",
    "include/asm-generic",
    "include/uapi",
    "scripts",
    "tools/arch/x86/include",
    "tools/build",
    "tools/include",
    "tools/lib/bpf",
    "tools/net/ynl",
    "tools/scripts",
    "tools/testing/selftests/drivers/net",
    "tools/testing/selftests/kselftest.h",
    "tools/testing/selftests/kselftest_harness.h",
    "tools/testing/selftests/lib.mk",
    "tools/testing/selftests/net",
];

/// Where the tests are in a tree.
pub const SELFTESTS: &str = "tools/testing/selftests";

/// Directories of tests that have programs to be compiled.
const COMPILED: [&str; 3] = ["net/lib", "drivers/net", "drivers/net/hw"];

/// The tests of one tree.
pub struct Selftests {
    directory: PathBuf,
    /// From which tree or package.
    source: String,
    /// If nothing of it is kept.
    _files: Option<Staging>,
}

impl Selftests {
    /// Those of a package, which are kept in the cache, or of a developer's tree as it is now.
    pub fn of(cache: &Cache, source: &Source, cancel: &Cancel) -> Result<Selftests> {
        let found = Found::look_up(source)?;
        let name = format!("{:016x}-{RECIPE}", found.identity()?);
        let log = cache.log(&format!("selftests-{name}"));
        let mut runner = Runner::new(&log, cancel)?;
        let _lock = cache.lock(&format!("selftests-{name}"), cancel, || ())?;
        let kept = cache.selftests().join(&name);
        let (source, archive) = (found.description(), matches!(found, Found::Archive { .. }));
        if archive && kept.is_dir() {
            return Ok(Selftests { directory: kept, source, _files: None });
        }
        let files = Staging::new(&cache.selftests())?;
        copy(&found, files.path(), &mut runner)?;
        compile(files.path(), &mut runner)?;
        if !archive {
            let directory = files.path().to_owned();
            return Ok(Selftests { directory, source, _files: Some(files) });
        }
        files.rename(&kept)?;
        Ok(Selftests { directory: kept, source, _files: None })
    }

    /// A tree with nothing in it but the tests and what they need.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// From which package or tree.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// The sources that an image was built from, if they are still there.
pub fn source_of(image: &Image) -> Result<Source> {
    let source = &image.info().source;
    if Path::new(source).is_absolute() {
        return Ok(Source::Tree(source.into()));
    }
    let version = source.strip_prefix("linux-source-");
    let version = version.and_then(|rest| rest.rsplit_once(".tar.")).map(|(version, _)| version);
    match version {
        Some(version) => Ok(Source::Distribution { version: Some(version.to_owned()) }),
        None => Err(KernelError::NoSource { version: Some(source.clone()), installed: Vec::new() }),
    }
}

fn copy(found: &Found, into: &Path, runner: &mut Runner<'_>) -> Result<()> {
    let program = |name: &str| Command::new(tools::find(name).unwrap_or_else(|| name.into()));
    let command = match found {
        Found::Archive { path, .. } => {
            let mut tar = program("tar");
            tar.env("LC_ALL", "C").args(["--extract", "--strip-components=1"]);
            tar.args(["--wildcards", "--no-wildcards-match-slash"]);
            tar.arg("--directory").arg(into).arg("--file").arg(path);
            tar.args(PARTS.map(|part| format!("*/{part}")));
            tar
        }
        Found::Tree(tree) => {
            let mut cp = program("cp");
            cp.current_dir(tree).args(["--archive", "--parents", "--target-directory"]).arg(into);
            cp.args(PARTS.iter().filter(|part| tree.join(part).exists()));
            cp
        }
    };
    runner.run("taking the tests out of the tree", command, |_| {})?;
    match into.join(SELFTESTS).join("drivers/net").is_dir() {
        true => Ok(()),
        false => Err(KernelError::NoSelftests { origin: found.description() }),
    }
}

/// Compiles what there is to compile, with the headers of the tree. A program that does not compile is missed by its
/// test, which says so.
fn compile(tree: &Path, runner: &mut Runner<'_>) -> Result<()> {
    attempt("making the headers", tree, &["headers", "ARCH=x86"], runner)?;
    for part in COMPILED {
        let directory = tree.join(SELFTESTS).join(part);
        if directory.join("Makefile").is_file() {
            attempt(
                &format!("compiling the tests of {part}"),
                &directory,
                &["--keep-going"],
                runner,
            )?;
        }
    }
    Ok(())
}

/// Runs make, which may fail.
fn attempt(
    what: &str,
    directory: &Path,
    arguments: &[&str],
    runner: &mut Runner<'_>,
) -> Result<()> {
    let mut make = Command::new(tools::find("make").unwrap_or_else(|| "make".into()));
    make.args(arguments).arg("--directory").arg(directory);
    match runner.run(what, make, |_| {}) {
        Err(KernelError::Step { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use tempfile::TempDir;

    /// A tree as small as one can be, with a test.
    fn tree() -> TempDir {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for needed in ["Kbuild", "arch/um/Makefile", "arch/x86/um/Makefile"] {
            write(needed, "");
        }
        write("Makefile", "VERSION = 6\nPATCHLEVEL = 19\nSUBLEVEL = 0\n");
        write("tools/testing/selftests/drivers/net/a.py", "");
        write("tools/testing/selftests/net/lib/Makefile", "all:\n\ttouch made\n");
        write("tools/testing/selftests/mm/b.c", "");
        tree
    }

    #[test]
    fn tests_are_taken_out_of_a_tree_and_compiled_elsewhere() {
        let (tree, cache) = (tree(), tempfile::tempdir().unwrap());
        let cache = Cache::at(cache.path()).unwrap();
        let source = Source::Tree(tree.path().to_owned());
        let tests = Selftests::of(&cache, &source, &Cancel::new()).unwrap();
        let there = tests.directory().join(SELFTESTS);
        assert!(there.join("drivers/net/a.py").is_file() && there.join("net/lib/made").is_file());
        assert!(!there.join("mm").exists(), "other tests are left where they are");
        assert!(!tree.path().join(SELFTESTS).join("net/lib/made").exists());
        assert_eq!(tests.source(), fs::canonicalize(tree.path()).unwrap().to_str().unwrap());
        let directory = tests.directory().to_owned();
        drop(tests);
        assert!(!directory.exists(), "a tree may be another the next time");
    }

    #[test]
    fn a_tree_without_tests_is_refused() {
        let (tree, cache) = (tree(), tempfile::tempdir().unwrap());
        let cache = Cache::at(cache.path()).unwrap();
        fs::remove_dir_all(tree.path().join(SELFTESTS).join("drivers")).unwrap();
        let source = Source::Tree(tree.path().to_owned());
        let error = Selftests::of(&cache, &source, &Cancel::new()).err().unwrap().to_string();
        assert!(error.contains("drivers/net"), "{error}");
    }

    #[test]
    fn what_is_not_compiled_is_no_reason_to_stop() {
        let (tree, cache) = (tree(), tempfile::tempdir().unwrap());
        let cache = Cache::at(cache.path()).unwrap();
        let makefile = tree.path().join(SELFTESTS).join("net/lib/Makefile");
        fs::write(makefile, "all:\n\tfalse\n").unwrap();
        let source = Source::Tree(tree.path().to_owned());
        assert!(Selftests::of(&cache, &source, &Cancel::new()).is_ok());
    }
}
