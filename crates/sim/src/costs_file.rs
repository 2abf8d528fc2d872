//! Costs as a file: what `warikomi calibrate` prints.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use warikomi_target::kernel::GuestCosts;

use super::CostModel;
use super::transmit::{PRESETS, SendCosts};

/// The longest file of costs that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A file of costs. What it leaves out has its declared value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostsFile {
    /// Those of receiving.
    pub costs: CostModel,
    /// Those of sending.
    pub send: SendCosts,
    /// Those of a kernel, which come from those of receiving.
    pub kernel: GuestCosts,
}

/// Why there are no costs.
#[derive(Debug, thiserror::Error)]
pub enum CostsFileError {
    /// The file cannot be read.
    #[error("cannot read the costs in {}: {error}; costs with a name: {}", path.display(), names())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is not a file of costs.
    #[error("{} is no file of costs, as 'warikomi calibrate' prints one: {error}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// The parser's error.
        error: Box<toml::de::Error>,
    },
}

fn names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

impl CostsFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<CostsFile, CostsFileError> {
        let text = File::open(path)
            .and_then(|file| warikomi_shared::read_text(file, MAX_BYTES))
            .map_err(|error| CostsFileError::Read { path: path.to_owned(), error })?;
        toml::from_str(&text).map_err(|error| CostsFileError::Content {
            path: path.to_owned(),
            error: Box::new(error),
        })
    }

    /// Costs of sending that have this name, or are in the file of this name.
    pub fn send_costs(name_or_path: &str) -> Result<SendCosts, CostsFileError> {
        match SendCosts::preset(name_or_path) {
            Some(costs) => Ok(costs),
            None => Ok(CostsFile::read(Path::new(name_or_path))?.send),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_leave_out_what_it_likes_and_misspell_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("costs.toml");
        std::fs::write(&path, "[send]\nhandler_ns = 7\n").unwrap();
        let name = path.to_str().unwrap();
        let expected = SendCosts { handler_ns: 7, ..SendCosts::default() };
        assert_eq!(CostsFile::send_costs(name).unwrap(), expected);
        assert_eq!(CostsFile::read(&path).unwrap().costs, CostModel::default());
        std::fs::write(&path, "[send]\nhander_ns = 7\n").unwrap();
        let error = CostsFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("hander_ns") && error.contains("warikomi calibrate"), "{error}");
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = CostsFile::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn a_name_comes_before_a_file_and_an_error_says_which_names_there_are() {
        assert_eq!(CostsFile::send_costs("fitted-bsd-2004").unwrap(), SendCosts::FITTED_BSD_2004);
        let error = CostsFile::send_costs("bsd-1804").unwrap_err().to_string();
        assert!(error.contains("bsd-1804") && error.contains("fitted-bsd-2004"), "{error}");
    }
}
