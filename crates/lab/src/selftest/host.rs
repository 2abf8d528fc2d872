//! What of this machine a guest sees in which the kernel's tests run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use warikomi_protocol::commands::MountRoot;

use crate::error::Error;

/// Where programs and libraries are. Nothing else of this machine is seen, but what their names stand for.
const PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", ALTERNATIVES];
/// What the names of some programs stand for (Debian's update-alternatives).
const ALTERNATIVES: &str = "/etc/alternatives";

/// Where the guest has the tree of tests.
const TREE: &str = "/selftests";
/// And the tests in it.
pub(super) const TESTS: &str = "/selftests/tools/testing/selftests";

/// Where programs are looked for: the system's before those of /usr/local.
pub(super) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin";

/// What no test can do without. The others say themselves what they miss.
const NEEDED: [&str; 5] = ["bash", "ethtool", "ip", "ping", "python3"];

/// Directories that the guest's kernel reads and that no kernel may read otherwise.
pub(super) fn reads() -> Vec<PathBuf> {
    vec![ALTERNATIVES.into()]
}

/// The tree of directories for the guest, with the tests of this one in it.
pub(super) fn root(tree: &Path) -> MountRoot {
    let (mut directories, mut links) = (Vec::new(), Vec::new());
    for path in PROGRAMS {
        match fs::read_link(path) {
            Ok(target) => links.push((path.to_owned(), target.to_string_lossy().into_owned())),
            Err(_) if Path::new(path).is_dir() => directories.push(path.to_owned()),
            Err(_) => {}
        }
    }
    let overlaid = vec![(tree.to_string_lossy().into_owned(), TREE.to_owned())];
    MountRoot { directories, links, overlaid }
}

/// Refuses a machine on which no test could run.
pub(super) fn check() -> Result<(), Error> {
    let there = |name: &&&str| PATH.split(':').any(|place| Path::new(place).join(name).exists());
    let missing: Vec<_> = NEEDED.iter().filter(|name| !there(name)).copied().collect();
    if !missing.is_empty() {
        return Err(missing_here(&missing.join(", ")));
    }
    let mut yaml = Command::new("python3");
    yaml.env("PATH", PATH).args(["-c", "import yaml"]).stderr(Stdio::null());
    match yaml.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(missing_here("python3's module yaml")),
    }
}

fn missing_here(what: &str) -> Error {
    Error::impossible(format!(
        "the kernel's tests need programs of this machine that are not installed: {what}; \
         `scripts/setup selftest` installs them on Debian"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_sees_programs_and_tests_and_nothing_of_anyone() {
        let root = root(Path::new("/tree"));
        assert!(root.directories.contains(&"/usr".to_owned()));
        let seen = root.directories.iter().chain(root.links.iter().map(|(path, _)| path));
        assert!(seen.into_iter().all(|path| PROGRAMS.contains(&path.as_str())));
        assert_eq!(root.overlaid, [("/tree".to_owned(), TREE.to_owned())]);
    }
}
