//! The text of the lines that a driver was made from.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use warikomi_session::Prepared;

use crate::strike::driver_code;

/// The longest source file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Where source files are looked for.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// As the debug information names them.
    paths: Vec<PathBuf>,
    /// A directory in which they are looked for first.
    directory: Option<PathBuf>,
    /// When the code was made. What has changed since has other lines.
    made: Option<SystemTime>,
}

impl Sources {
    /// The sources of the driver, which stand where the debug information says, or below `directory`. It needs no
    /// target: a run that is merged has none.
    pub(super) fn of(prepared: &Prepared, directory: Option<&Path>) -> Sources {
        let code = prepared.kernel().and_then(driver_code);
        let paths = code.iter().flat_map(|(_, code)| code.files()).map(PathBuf::from).collect();
        let made = code.and_then(|(path, _)| path.metadata().ok()?.modified().ok());
        Sources { paths, directory: directory.map(Path::to_owned), made }
    }

    /// What stands below a directory.
    #[cfg(test)]
    pub(super) fn below(directory: &Path) -> Sources {
        Sources { directory: Some(directory.to_owned()), ..Sources::default() }
    }

    /// The lines of a file, which is known by the end of its path; `None` if it is not there, or is not what the
    /// code was made from.
    pub(super) fn lines(&self, file: &str) -> Option<Vec<String>> {
        let known: Vec<&Path> =
            self.paths.iter().map(PathBuf::as_path).filter(|path| path.ends_with(file)).collect();
        let below = self.directory.iter().flat_map(|directory| {
            let paths = known.iter().copied().chain([Path::new(file)]);
            paths.flat_map(ends).map(|end| directory.join(end))
        });
        let found = below.chain(known.iter().map(|path| path.to_path_buf()));
        found.filter(|path| path.is_file()).find_map(|path| self.read(&path))
    }

    fn read(&self, path: &Path) -> Option<Vec<String>> {
        let file = File::open(path).ok()?;
        let data = file.metadata().ok()?;
        let is_newer = self.made.is_some_and(|made| data.modified().is_ok_and(|at| at > made));
        if is_newer || data.len() > MAX_FILE_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }
}

/// A path without its first part, without its first two, and so on, down to the file's name.
fn ends(path: &Path) -> impl Iterator<Item = &Path> {
    let parts = path.components().count();
    (1..=parts).map(move |skip| {
        let mut rest = path.components();
        rest.by_ref().take(skip - usize::from(path.is_relative())).for_each(drop);
        rest.as_path()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_is_found_by_the_end_of_its_path_and_not_if_it_has_changed_since() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        std::fs::create_dir_all(tree.join("drivers/net")).unwrap();
        std::fs::write(tree.join("drivers/net/b.c"), "one\ntwo\n").unwrap();
        let gone = |directory: Option<&Path>, made| Sources {
            paths: vec!["/gone/drivers/net/b.c".into()],
            directory: directory.map(Path::to_owned),
            made,
        };
        assert_eq!(gone(None, None).lines("net/b.c"), None);
        let lines = Some(vec!["one".to_owned(), "two".to_owned()]);
        assert_eq!(gone(Some(&tree), None).lines("net/b.c"), lines);
        assert_eq!(gone(Some(&tree.join("drivers/net")), None).lines("net/b.c"), lines);
        assert_eq!(gone(Some(&tree), None).lines("other/b.c"), None);
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        assert_eq!(gone(Some(&tree), Some(long_ago)).lines("net/b.c"), None);
        let here = Sources { paths: vec![tree.join("drivers/net/b.c")], ..Sources::default() };
        assert_eq!(here.lines("net/b.c"), lines);
    }
}
