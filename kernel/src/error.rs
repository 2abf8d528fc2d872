//! What can go wrong, and what to do about it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, KernelError>;

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file could not be read, written, moved, ...
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The verb.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Run {
        /// Name of the program.
        program: String,
        /// The system's words.
        source: io::Error,
    },
    /// There is no cache directory to use.
    #[error("neither XDG_CACHE_HOME nor HOME says where to keep kernels; set one of them")]
    NoCacheDirectory,
    /// Programs that a build needs are not installed.
    #[error("{0}")]
    MissingTools(MissingTools),
    /// No distribution's kernel source is installed, or not the version asked for.
    #[error("{}", no_source(version.as_deref(), installed))]
    NoSource {
        /// The version asked for.
        version: Option<String>,
        /// Versions that are there.
        installed: Vec<String>,
    },
    /// A directory that should be a kernel tree is none.
    #[error("{} is not a Linux source tree ({why})", path.display())]
    NotATree {
        /// The directory.
        path: PathBuf,
        /// What the tree lacks.
        why: String,
    },
    /// A tree or package has none of the kernel's own tests of NICs.
    #[error(
        "{origin} has no tools/testing/selftests/drivers/net; name a tree that has with --source, Linux 6.9 or newer"
    )]
    NoSelftests {
        /// Which.
        origin: String,
    },
    /// The kernel's configuration does not grant what is needed.
    #[error(
        "this kernel cannot be a target: its configuration does not grant {}",
        symbols.join(", ")
    )]
    Config {
        /// Each symbol with the value asked for, the value it has, and what it is for.
        symbols: Vec<String>,
    },
    /// `make` (or another step) failed.
    #[error("{step} failed ({status}); the log is {}; its end:\n{tail}", log.display())]
    Step {
        /// The step of the build.
        step: String,
        /// Exit status of the step.
        status: String,
        /// The whole log.
        log: PathBuf,
        /// The last lines.
        tail: String,
    },
    /// Not a directory of a module's sources.
    #[error("{} has no modules to build: it needs a Kbuild or Makefile beside its C files", path.display())]
    NoModule {
        /// The directory.
        path: PathBuf,
    },
    /// The build was cancelled; nothing is left running, nothing half-built is left.
    #[error("the kernel build was cancelled")]
    Cancelled,
    /// A file is not a kernel that can be a target.
    #[error("{} is not a User Mode Linux kernel: {why}", path.display())]
    NotUml {
        /// The file.
        path: PathBuf,
        /// How it was noticed.
        why: String,
    },
    /// There is no such image yet.
    #[error("there is no kernel image{what} in {}; run: warikomi kernel build{flags}", cache.display())]
    NoImage {
        /// What was asked for, with a leading blank, or nothing.
        what: String,
        /// Flags that would build it.
        flags: String,
        /// Where images are kept.
        cache: PathBuf,
    },
    /// An image's description cannot be understood.
    #[error("{} is not an image description ({source}); run: warikomi kernel build --force", path.display())]
    BadImage {
        /// The file.
        path: PathBuf,
        /// What the JSON parser says.
        source: serde_json::Error,
    },
}

fn no_source(version: Option<&str>, installed: &[String]) -> String {
    let package = version.map_or("linux-source".to_owned(), |v| format!("linux-source-{v}"));
    let there = if installed.is_empty() {
        String::new()
    } else {
        format!(" (installed: {})", installed.join(", "))
    };
    let wanted = version.map_or(String::new(), |version| format!(" {version}"));
    format!(
        "no kernel source{wanted} in /usr/src{there}; run: sudo apt-get install {package}, or name \
         your own tree: warikomi kernel build --source DIR"
    )
}

/// Adds the file to a system error.
pub(crate) trait FileContext<T> {
    fn at(self, what: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn at(self, what: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| KernelError::File { what, path: path.as_ref().to_owned(), source })
    }
}

/// Programs that are not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTools {
    /// Names of the programs.
    pub programs: Vec<&'static str>,
    /// The Debian packages that have them, each once.
    pub packages: BTreeSet<&'static str>,
}

impl fmt::Display for MissingTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packages: Vec<_> = self.packages.iter().copied().collect();
        write!(
            f,
            "building a kernel needs {}; run: sudo apt-get install {}",
            self.programs.join(", "),
            packages.join(" ")
        )
    }
}
