//! One kernel in the cache, ready to run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use serde::{Deserialize, Serialize};

use crate::config::{DriverMode, DriverPlace};
use crate::error::{FileContext, KernelError, Result};
use crate::hash::fnv1a;
use crate::initramfs;

const INFO: &str = "image.json";

/// What `image.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// `uname -r`.
    pub release: String,
    /// The version that the sources state, such as `6.1.192`.
    pub version: String,
    /// The package's archive, or the path of the developer's tree.
    pub source: String,
    /// Stands for the configuration (and, for a developer's tree, for its path).
    pub config_hash: String,
    /// How drivers were asked for.
    pub driver_mode: DriverMode,
    /// Whether it has the drivers of further cards.
    #[serde(default)]
    pub more_drivers: bool,
    /// Made for the kernel's own tests of NICs.
    #[serde(default)]
    pub selftests: bool,
    /// Whether it finds its own mistakes, and has debug information.
    #[serde(default)]
    pub debug: bool,
    /// Whether its time can be virtual.
    #[serde(default)]
    pub virtual_time: bool,
    /// Modules of directories that were given to the build, by name.
    #[serde(default)]
    pub own_modules: Vec<String>,
    /// The NIC drivers that it has.
    pub drivers: BTreeMap<String, DriverPlace>,
    /// Whether our PCI bridge compiled for it; without it cards are attached by virt-pci.
    #[serde(default)]
    pub bridge: bool,
    /// Stands for the sources of that bridge.
    #[serde(default)]
    pub bridge_hash: String,
    /// How long the build took, in seconds.
    pub build_seconds: f64,
    /// Objects that it made.
    pub steps: u32,
    /// When it was built, in seconds since 1970.
    pub built_at_s: u64,
    /// Which guest agent the initramfs holds.
    pub agent_hash: String,
}

/// A kernel in the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    directory: PathBuf,
    info: ImageInfo,
}

impl Image {
    /// Reads what is in a directory of the cache.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(INFO);
        let text = fs::read_to_string(&path).at("read", &path)?;
        let info =
            serde_json::from_str(&text).map_err(|source| KernelError::BadImage { path, source })?;
        Ok(Self { directory: directory.to_owned(), info })
    }

    /// Writes `image.json` into a directory that is about to be published.
    pub(crate) fn describe(directory: &Path, info: &ImageInfo) -> Result<()> {
        let path = directory.join(INFO);
        // Plain data with string keys; this cannot fail.
        let text = serde_json::to_string_pretty(info).expect("an image's info is valid JSON");
        fs::write(&path, text + "\n").at("write", &path)
    }

    /// Description of the image.
    pub fn info(&self) -> &ImageInfo {
        &self.info
    }

    /// Directory of the image.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kernel, a program to run.
    pub fn kernel(&self) -> PathBuf {
        self.directory.join("linux")
    }

    /// The uncompressed initramfs, for `initrd=`.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join("initramfs")
    }

    /// The installed modules, a directory with `modules.dep` in it. They are in the initramfs too.
    pub fn modules(&self) -> PathBuf {
        self.directory.join("modules").join(&self.info.release)
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.directory.join("config")
    }

    /// The whole output of its build.
    pub fn log(&self) -> PathBuf {
        self.directory.join("build.log")
    }

    /// What all its files take, in bytes.
    pub fn size_bytes(&self) -> u64 {
        let walk = WalkBuilder::new(&self.directory).standard_filters(false).build();
        let files = walk.filter_map(|entry| entry.ok()?.metadata().ok());
        files.filter(fs::Metadata::is_file).map(|metadata| metadata.len()).sum()
    }

    /// Rewrites the initramfs if it holds another agent than this library does, so that the two
    /// always speak the same protocol.
    pub(crate) fn with_current_agent(mut self) -> Result<Self> {
        let current = agent_hash();
        if self.info.agent_hash != current || !self.initramfs().is_file() {
            write_initramfs(&self.directory, &self.info.release)?;
            self.info.agent_hash = current;
            Self::describe(&self.directory, &self.info)?;
        }
        Ok(self)
    }
}

/// Writes the initramfs of a directory that holds the modules already.
pub(crate) fn write_initramfs(directory: &Path, release: &str) -> Result<()> {
    let modules = directory.join("modules").join(release);
    initramfs::write(Some((&modules, release)), &directory.join("initramfs"))
}

/// Stands for the agent in this library.
pub(crate) fn agent_hash() -> String {
    format!("{:016x}", fnv1a(initramfs::agent()))
}
