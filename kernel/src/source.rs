//! Where kernel sources come from.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::error::{FileContext, KernelError, Result};
use crate::hash::fnv1a;
use crate::make::Runner;
use crate::staging::Staging;
use crate::{shadow, tools};

/// Where the distribution puts its source packages.
const PACKAGES: &str = "/usr/src";

/// What a UML kernel never compiles, left out when the package is unpacked. Kconfig files stay:
/// the kernel's configuration reads them all.
const LEFT_OUT: [&str; 10] = [
    "*/arch/[a-tvwyz]*/*.[chS]",
    "*/arch/[a-tvwyz]*/*.dts*",
    "*/Documentation/*.[a-z][a-z]*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/perf/*",
    "*/tools/testing/*",
];

/// Where the sources come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The distribution's package `linux-source-<version>`; the newest where none is named.
    Distribution {
        /// As in the package's name: `6.1`.
        version: Option<String>,
    },
    /// A developer's own tree. Never written to.
    Tree(PathBuf),
}

impl Default for Source {
    fn default() -> Self {
        Self::Distribution { version: None }
    }
}

/// A source that was found, and what is built from it.
#[derive(Debug)]
pub(crate) enum Found {
    /// A package's source archive.
    Archive { path: PathBuf, version: String },
    /// A source tree.
    Tree(PathBuf),
}

impl Found {
    pub(crate) fn look_up(source: &Source) -> Result<Self> {
        match source {
            Source::Distribution { version } => newest(Path::new(PACKAGES), version.as_deref()),
            Source::Tree(path) => {
                let path = fs::canonicalize(path).at("open the kernel tree", path)?;
                kernel_version(&path)?;
                Ok(Self::Tree(path))
            }
        }
    }

    /// What `image.json` names as the source.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Archive { path, .. } => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Self::Tree(path) => path.display().to_string(),
        }
    }

    /// Hexadecimal digits that tell one state of a package, or one tree, from another.
    pub(crate) fn identity(&self) -> Result<u64> {
        match self {
            Self::Archive { path, .. } => {
                let metadata = fs::metadata(path).at("look at", path)?;
                let (length, changed) = (metadata.len(), metadata.mtime());
                let text = format!("{} {length} {changed} {LEFT_OUT:?}", path.display());
                Ok(fnv1a(text.as_bytes()))
            }
            Self::Tree(path) => Ok(fnv1a(path.as_os_str().as_encoded_bytes())),
        }
    }

    /// A tree that `make O=` can be run on.
    pub(crate) fn prepare(&self, cache: &Cache, runner: &mut Runner<'_>) -> Result<PathBuf> {
        if let Self::Tree(tree) = self
            && shadow::is_clean(tree)
        {
            return Ok(tree.clone());
        }
        // Kernels of several kinds may be built from one source at a time.
        let identity = format!("{:016x}", self.identity()?);
        let _lock = cache.lock(&format!("source-{identity}"), runner.cancel(), || ())?;
        match self {
            Self::Archive { path, version } => {
                let name = format!("linux-source-{version}-{identity}");
                unpack(path, &cache.sources().join(name), runner)
            }
            Self::Tree(tree) => {
                let copy = cache.shadows().join(identity);
                shadow::sync(tree, &copy)?;
                Ok(copy)
            }
        }
    }
}

/// The newest package, or the one named.
fn newest(packages: &Path, version: Option<&str>) -> Result<Found> {
    let mut archives: Vec<(Vec<u32>, String, PathBuf)> = Vec::new();
    for path in entries(packages) {
        // Debian puts the archive there, Ubuntu into a directory of the same name.
        let inside = if path.is_dir() && has_our_name(&path) { entries(&path) } else { vec![path] };
        for path in inside {
            if let Some(version) = archived_version(&path) {
                archives.push((numbers(&version), version, path));
            }
        }
    }
    archives.sort();
    let installed = archives.iter().map(|(_, version, _)| version.clone()).collect();
    let found = archives
        .into_iter()
        .rfind(|(_, there, _)| version.is_none_or(|wanted| wanted == there.as_str()));
    match found {
        Some((_, version, path)) => Ok(Found::Archive { path, version }),
        None => Err(KernelError::NoSource { version: version.map(str::to_owned), installed }),
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn has_our_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("linux-source-"))
}

/// The version that the archive's name states; `None` if it is not one.
fn archived_version(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let (version, compression) = name.strip_prefix("linux-source-")?.rsplit_once(".tar.")?;
    ["xz", "bz2", "gz"].contains(&compression).then(|| version.to_owned())
}

/// `6.12` is newer than `6.9`.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Unpacks an archive once.
fn unpack(archive: &Path, into: &Path, runner: &mut Runner<'_>) -> Result<PathBuf> {
    if into.is_dir() {
        return Ok(into.to_owned());
    }
    let partial = Staging::new(into.parent().unwrap_or(Path::new("/")))?;
    let mut tar = Command::new(tools::find("tar").unwrap_or_else(|| "tar".into()));
    tar.env("LC_ALL", "C").args(["--extract", "--strip-components=1", "--wildcards"]);
    for pattern in LEFT_OUT {
        tar.arg(format!("--exclude={pattern}"));
    }
    tar.arg("--directory").arg(partial.path()).arg("--file").arg(archive);
    runner.run("unpacking", tar, |_| {})?;
    partial.rename(into)?;
    Ok(into.to_owned())
}

/// The version that a tree's Makefile states.
pub(crate) fn kernel_version(tree: &Path) -> Result<String> {
    let not_a_tree = |why: String| KernelError::NotATree { path: tree.to_owned(), why };
    for needed in ["Kbuild", "arch/um/Makefile", "arch/x86/um/Makefile"] {
        if !tree.join(needed).is_file() {
            return Err(not_a_tree(format!("there is no {needed}")));
        }
    }
    let makefile = tree.join("Makefile");
    let text = fs::read_to_string(&makefile).at("read", &makefile)?;
    let part = |name: &str| {
        text.lines().take(20).find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let mut version = String::new();
    for name in ["VERSION", "PATCHLEVEL", "SUBLEVEL"] {
        let value =
            part(name).ok_or_else(|| not_a_tree(format!("its Makefile states no {name}")))?;
        if !version.is_empty() {
            version.push('.');
        }
        version.push_str(&value);
    }
    version.push_str(&part("EXTRAVERSION").unwrap_or_default());
    // It becomes a directory's name.
    if version.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c)) {
        Ok(version)
    } else {
        Err(not_a_tree(format!("its version is {version:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_or_the_named_one_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let empty = newest(directory.path(), None).unwrap_err().to_string();
        assert!(empty.contains("apt-get install linux-source,"), "{empty}");
        for name in ["linux-source-6.9.tar.xz", "linux-source-6.12.tar.xz", "linux-config-6.20"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let version = |wanted| match newest(directory.path(), wanted).unwrap() {
            Found::Archive { version, .. } => version,
            Found::Tree(path) => panic!("{}", path.display()),
        };
        assert_eq!(version(None), "6.12");
        assert_eq!(version(Some("6.9")), "6.9");
        let ubuntu = directory.path().join("linux-source-6.14.0");
        fs::create_dir(&ubuntu).unwrap();
        fs::write(ubuntu.join("linux-source-6.14.0.tar.bz2"), "").unwrap();
        assert_eq!(version(None), "6.14.0");
        let error = newest(directory.path(), Some("6.1")).unwrap_err().to_string();
        assert!(
            error.contains("linux-source-6.1") && error.contains("6.9, 6.12, 6.14.0"),
            "{error}"
        );
    }

    /// As kernels of two kinds are, which are made from one package.
    #[test]
    fn one_source_is_unpacked_once_however_many_builds_want_it() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("linux-source-9.9");
        fs::create_dir_all(tree.join("arch")).unwrap();
        (0..200).for_each(|at| fs::write(tree.join(format!("arch/{at}")), "text").unwrap());
        let path = directory.path().join("linux-source-9.9.tar.gz");
        let packed = Command::new("tar")
            .args(["--create", "--gzip", "--directory"])
            .arg(directory.path())
            .arg("--file")
            .arg(&path)
            .arg("linux-source-9.9")
            .status();
        assert!(packed.unwrap().success());
        let cache = Cache::at(directory.path().join("cache")).unwrap();
        let found = Found::Archive { path, version: "9.9".into() };
        let trees: Vec<PathBuf> = std::thread::scope(|scope| {
            let prepare = |at: usize| {
                let (cache, found) = (&cache, &found);
                scope.spawn(move || {
                    let cancel = crate::Cancel::new();
                    let mut runner = Runner::new(&cache.log(&at.to_string()), &cancel).unwrap();
                    found.prepare(cache, &mut runner).unwrap()
                })
            };
            let running: Vec<_> = (0..4).map(prepare).collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(trees.iter().all(|tree| *tree == trees[0] && tree.join("arch/199").is_file()));
        assert_eq!(fs::read_dir(cache.sources()).unwrap().count(), 1, "and nothing is left behind");
    }

    #[test]
    fn a_directory_that_is_no_tree_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = kernel_version(directory.path()).unwrap_err().to_string();
        assert!(error.contains("Kbuild"), "{error}");
    }

    #[test]
    fn the_makefile_states_the_version() {
        let directory = tempfile::tempdir().unwrap();
        for needed in ["Kbuild", "arch/um/Makefile", "arch/x86/um/Makefile"] {
            let path = directory.path().join(needed);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let makefile = directory.path().join("Makefile");
        let text = "# x\nVERSION = 6\nPATCHLEVEL = 19\nSUBLEVEL = 0\nEXTRAVERSION = -rc2\n";
        fs::write(&makefile, text).unwrap();
        assert_eq!(kernel_version(directory.path()).unwrap(), "6.19.0-rc2");
        fs::write(&makefile, text.replace("-rc2", "/../x")).unwrap();
        assert!(kernel_version(directory.path()).is_err());
    }
}
