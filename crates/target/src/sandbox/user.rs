//! A user of its own, for a process that root starts.
//!
//! Root's number opens what belongs to root, also without a capability, and the kernel counts none of root's processes.
//! So a program that root starts gets the number of a user that does not exist, from the range that systemd keeps for
//! such (systemd.exec(5), `DynamicUser=`): nothing on this machine belongs to it. A program that lies where only root
//! may go stays root's: another user could not run it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;

use procfs::process::all_processes;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// First of the numbers that belong to no user, and how many there are.
const NUMBERS: (u32, u32) = (61_184, 4_336);
/// What others may: read and run a file, or go through a directory.
const OTHERS_RUN: u32 = 0o005;
const OTHERS_PASS: u32 = 0o001;

/// The number that processes of ours get; `None` if we are not root, or may not give it. Of each of our processes
/// another one: confined processes of two runs are strangers to each other.
static NUMBER: LazyLock<Option<u32>> = LazyLock::new(|| {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    if !geteuid().is_root() || !may {
        return None;
    }
    let all = all_processes().into_iter().flatten().flatten();
    let taken: BTreeSet<u32> = all.filter_map(|process| process.uid().ok()).collect();
    let (first, count) = NUMBERS;
    let numbers = (0..count).map(|further| first + (std::process::id() + further) % count);
    numbers.into_iter().find(|number| !taken.contains(number))
});

/// A user that owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnUser(u32);

impl OwnUser {
    /// One for a program that is at these paths; `None` if it must be ours.
    pub(super) fn of<'a>(mut paths: impl Iterator<Item = &'a Path>) -> Option<OwnUser> {
        let number = (*NUMBER)?;
        paths.all(|path| may_be_run_by_all(path).unwrap_or(false)).then_some(OwnUser(number))
    }

    #[cfg(test)]
    pub(super) fn number(self) -> u32 {
        self.0
    }

    /// Makes the calling thread, and what it starts, this user's.
    pub(super) fn take(self) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.0), Gid::from_raw(self.0));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        Ok(set_thread_res_uid(user, user, user)?)
    }
}

/// Whether every user may go to a file and run it, by its mode and those of the directories above.
fn may_be_run_by_all(path: &Path) -> io::Result<bool> {
    let path = path.canonicalize()?;
    let allows =
        |path: &Path, bits: u32| Ok(fs::metadata(path)?.permissions().mode() & bits == bits);
    let above = path.ancestors().skip(1).map(|directory| allows(directory, OTHERS_PASS));
    above
        .chain([allows(&path, OTHERS_RUN)])
        .try_fold(true, |all: bool, one: io::Result<bool>| Ok(all && one?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_can_be_run_by_all_if_the_way_to_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let (below, file) = (directory.path().join("below"), directory.path().join("below/file"));
        fs::create_dir(&below).unwrap();
        fs::write(&file, "").unwrap();
        for (modes, expected) in [
            ([0o755, 0o755, 0o755], true),
            ([0o711, 0o711, 0o705], true),
            ([0o700, 0o755, 0o755], false),
            ([0o755, 0o754, 0o755], false),
            ([0o755, 0o755, 0o751], false),
            ([0o755, 0o755, 0o744], false),
        ] {
            for (path, mode) in [directory.path(), &below, &file].into_iter().zip(modes) {
                set_mode(path, mode);
            }
            assert_eq!(may_be_run_by_all(&file).unwrap(), expected, "{modes:?}");
        }
        assert!(may_be_run_by_all(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn root_has_one_that_owns_nothing_and_others_have_none() {
        let found = OwnUser::of([Path::new("/bin/sh")].into_iter());
        match *NUMBER {
            None => assert_eq!(found, None),
            Some(number) => {
                assert_eq!(found, Some(OwnUser(number)));
                assert!((NUMBERS.0..NUMBERS.0 + NUMBERS.1).contains(&number));
            }
        }
        assert_eq!(OwnUser::of([Path::new("/no/such/program")].into_iter()), None);
    }
}
