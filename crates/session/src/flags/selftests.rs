//! What the kernel's own tests of NICs run on, and where they come from.

use std::path::{Path, PathBuf};

use warikomi_kernel::{Cache, Cancel, Image, SELFTESTS, Selftests, Source, Wanted, source_of};
use warikomi_nic::NicOptions;
use warikomi_target::Interrupted;

use super::kernel::model_of;
use crate::error::SessionError;
use crate::options::{GuestSettings, SessionOptions};

/// Memory of the guest in MB: interpreters and their libraries are in it.
const MEMORY_MB: u64 = 512;

/// A kernel for its own tests, and the tests.
pub struct PreparedSelftests {
    image: Image,
    tests: Selftests,
}

impl PreparedSelftests {
    /// The newest such kernel, or one of this version, and the tests of this tree, or of the sources that the kernel
    /// was built from.
    pub fn look_up(
        version: Option<&str>,
        tree: Option<&Path>,
        interrupted: &Interrupted,
    ) -> Result<PreparedSelftests, SessionError> {
        let cache = Cache::of_this_user()?;
        let image = cache.find(&Wanted { version, selftests: true, ..Wanted::default() })?;
        let source = match tree {
            Some(tree) => Source::Tree(tree.to_owned()),
            None => source_of(&image)?,
        };
        let tests = Selftests::of(&cache, &source, &Cancel::from(interrupted.flag()))?;
        Ok(PreparedSelftests { image, tests })
    }

    /// A tree with nothing in it but the tests and what they need, readable by the guest's kernel.
    pub fn tree(&self) -> &Path {
        self.tests.directory()
    }

    /// Where the tests are in it.
    pub fn tests(&self) -> PathBuf {
        self.tree().join(SELFTESTS)
    }

    /// Where the tests come from.
    pub fn source(&self) -> &str {
        self.tests.source()
    }

    /// The kernel's release.
    pub fn release(&self) -> &str {
        &self.image.info().release
    }

    /// What a session with this driver is brought up with; its kernel may read the tests, and these directories.
    pub fn options(&self, driver: &str, reads: &[PathBuf]) -> Result<SessionOptions, SessionError> {
        let tree = [self.tree().to_owned()];
        Ok(SessionOptions {
            kernel: self.image.kernel(),
            initramfs: self.image.initramfs(),
            modules: Some(self.image.modules()),
            driver: driver.to_owned(),
            is_own_driver: false,
            driver_parameters: Vec::new(),
            nic: NicOptions::of(model_of(driver)?),
            make_nic: warikomi_nic::build,
            memory_mb: MEMORY_MB,
            socket: None,
            second: None,
            kernel_arguments: Vec::new(),
            bridge: self.image.info().bridge,
            interrupts: None,
            settings: GuestSettings::default(),
            // Nothing is measured.
            realtime: false,
            virtual_time: None,
            reads: tree.iter().chain(reads).cloned().collect(),
            confined: true,
        })
    }
}
