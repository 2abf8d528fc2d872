//! Directories in the cache that are on their way to become something there.
//!
//! Each stands beside what it is to become, and goes if it becomes nothing. A program that is killed leaves its own
//! behind. Every directory is locked as long as it is worked in, so the next one that is made finds those that are not, and
//! removes them.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::error::{FileContext, Result};

const PREFIX: &str = ".unfinished-";

/// A directory that is worked in.
#[derive(Debug)]
pub(crate) struct Staging {
    directory: TempDir,
    _in_use: File,
}

impl Staging {
    /// An empty one in `parent`. What others have left there is removed.
    pub(crate) fn new(parent: &Path) -> Result<Staging> {
        // None sees one that is made and not locked yet.
        let one_at_a_time = File::open(parent).at("open", parent)?;
        one_at_a_time.lock().at("lock", parent)?;
        remove_left_behind(parent)?;
        let make = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
        let directory = make.at("make a directory in", parent)?;
        let in_use = File::open(directory.path()).at("open", directory.path())?;
        in_use.lock().at("lock", directory.path())?;
        Ok(Staging { directory, _in_use: in_use })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Gets its name. It is gone if it cannot.
    pub(crate) fn rename(self, to: &Path) -> Result<()> {
        fs::rename(self.path(), to).at("rename to", to)?;
        let _ = self.directory.keep();
        Ok(())
    }
}

/// What is not worked in any more.
fn remove_left_behind(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).at("list", parent)?.flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_unused = || File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if is_ours && is_unused() {
            fs::remove_dir_all(&path).at("remove", &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_became_nothing_is_gone_and_what_a_killed_program_has_left_goes_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        drop(Staging::new(parent.path()).unwrap());
        assert!(names(parent.path()).is_empty());
        let left = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(left.join("objects")).unwrap();
        for of_others in [".other", "unfinished"] {
            fs::create_dir(parent.path().join(of_others)).unwrap();
        }
        let first = Staging::new(parent.path()).unwrap();
        let second = Staging::new(parent.path()).unwrap();
        assert!(!left.exists() && first.path().exists() && second.path().exists());
        assert_eq!(names(parent.path()).len(), 4);
    }

    #[test]
    fn it_gets_its_name_or_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let name = parent.path().join("finished");
        let make = || {
            let made = Staging::new(parent.path()).unwrap();
            fs::write(made.path().join("file"), "").unwrap();
            made
        };
        make().rename(&name).unwrap();
        assert!(make().rename(&name).is_err(), "a directory with something in it is there");
        assert_eq!(names(parent.path()), ["finished"]);
    }
}
