//! What a kernel target is started with.

use std::path::PathBuf;

/// What a kernel target is started with.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The kernel, an executable built with `ARCH=um`.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initramfs: PathBuf,
    /// The guest's memory in MB.
    pub memory_mb: u64,
    /// The core that the kernel runs on; anywhere if `None`.
    pub core: Option<usize>,
    /// The socket on which the kernel finds the NIC; a private one if `None`.
    pub socket: Option<PathBuf>,
    /// More for the kernel's command line.
    pub extra_arguments: Vec<String>,
    /// How the card is attached.
    pub attachment: Attachment,
    /// Yield instead of spin while waiting: for both sides on one core.
    pub shared_core: bool,
}

/// How a card is attached to a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Through the kernel's own virt-pci.
    #[default]
    VirtPci,
    /// Through our bridge, a module that the initramfs holds.
    Bridge {
        /// The guest polls for interrupts while it has nothing else to do.
        polling: bool,
    },
}
