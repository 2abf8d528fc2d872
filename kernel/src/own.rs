//! Modules of the user's own that are compiled with a kernel: a driver under development, or one with a change.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{FileContext, KernelError, Result};
use crate::hash::fnv1a;

/// Files of a directory of modules: name and content.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// What has more than this is no directory of a module.
const MOST_FILES: usize = 1_000;

/// Directories of modules, as they were when the build began.
pub(crate) struct OwnModules(Vec<Files>);

impl OwnModules {
    /// Reads them. What a build has left there is not taken along.
    pub(crate) fn look_up(directories: &[PathBuf]) -> Result<OwnModules> {
        directories.iter().map(|directory| read(directory)).collect::<Result<_>>().map(OwnModules)
    }

    pub(crate) fn directories(&self) -> usize {
        self.0.len()
    }

    /// What stands for them in an image's name; nothing if there are none.
    pub(crate) fn hash(&self) -> String {
        let files = self.0.iter().flatten();
        files.fold(String::new(), |mut hash, (name, content)| {
            let name = fnv1a(name.as_os_str().as_encoded_bytes());
            // Writing to a string cannot fail.
            let _ = write!(hash, " {name:016x}{:016x}", fnv1a(content));
            hash
        })
    }

    /// Writes one of the directories anew.
    pub(crate) fn copy(&self, number: usize, into: &Path) -> Result<()> {
        fs::create_dir_all(into).at("make the directory", into)?;
        for (name, content) in self.0.get(number).into_iter().flatten() {
            let path = into.join(name);
            fs::write(&path, content).at("write", &path)?;
        }
        Ok(())
    }
}

fn read(directory: &Path) -> Result<Files> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).at("list", directory)? {
        let entry = entry.at("list", directory)?;
        let (path, name) = (entry.path(), PathBuf::from(entry.file_name()));
        let is_source = name.extension().is_some_and(|end| end == "c" || end == "h" || end == "S");
        let is_rule = ["Kbuild", "Makefile"].iter().any(|rule| name == Path::new(rule));
        let is_made = name.to_string_lossy().ends_with(".mod.c");
        if (is_source || is_rule) && !is_made {
            files.push((name, fs::read(&path).at("read", &path)?));
        }
    }
    files.sort();
    let has_rule = files.iter().any(|(name, _)| name.extension().is_none());
    if !has_rule || files.len() > MOST_FILES {
        return Err(KernelError::NoModule { path: directory.to_owned() });
    }
    Ok(files)
}

/// The modules that stand compiled in these directories.
pub(crate) fn modules_of(directories: &[PathBuf]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for directory in directories {
        for entry in fs::read_dir(directory).at("list", directory)? {
            let path = entry.at("list", directory)?.path();
            if path.extension().is_some_and(|end| end == "ko") {
                names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_rules_are_taken_and_what_a_build_has_left_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        put("a.c", "int a;");
        let look_up = || OwnModules::look_up(&[directory.path().to_owned()]);
        let error = look_up().err().unwrap().to_string();
        assert!(error.contains("Kbuild"), "{error}");
        put("Kbuild", "obj-m += a.o");
        for left in ["a.o", "a.mod.c", "a.ko", "Module.symvers"] {
            put(left, "");
        }
        let own = look_up().unwrap();
        let into = tempfile::tempdir().unwrap();
        own.copy(0, into.path()).unwrap();
        assert_eq!(fs::read_dir(into.path()).unwrap().count(), 2);
        assert_eq!(modules_of(&[directory.path().to_owned()]).unwrap(), ["a"]);

        let before = own.hash();
        put("a.c", "int b;");
        assert_ne!(look_up().unwrap().hash(), before);
        assert_eq!(OwnModules::look_up(&[]).unwrap().hash(), "");
    }
}
