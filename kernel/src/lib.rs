//! The kernels that Warikomi's kernel targets run: User Mode Linux, with PCI over virtio, the NIC
//! drivers under test, and an initramfs that holds the guest agent.
//!
//! A kernel is built once and kept in the user's cache ([`Cache`]) as an [`Image`]. It comes from
//! the distribution's source package, or from a developer's own tree, which is never written to
//! ([`Source`]). [`inspect`] tells what any other kernel binary can do, and [`initramfs_for`] makes
//! an initramfs for it.
//!
//! ```no_run
//! use warikomi_kernel::{BuildOptions, Cache, Cancel, build};
//!
//! let cache = Cache::of_this_user()?;
//! let image = build(&cache, &BuildOptions::default(), &Cancel::new(), &mut |progress| {
//!     println!("{}/{} {}", progress.done, progress.total, progress.what);
//! })?;
//! println!("{}", image.kernel().display());
//! # Ok::<(), warikomi_kernel::KernelError>(())
//! ```
//!
//! The order of things: `build` → `source` (where the sources are), `config` (what is
//! asked of them), `make` (running it), `initramfs`, `image` (what is kept, published with one
//! rename).

mod bridge;
mod build;
mod cache;
mod config;
mod error;
mod hash;
mod image;
mod initramfs;
mod inspect;
mod machine;
mod make;
mod own;
mod selftests;
mod shadow;
mod source;
mod staging;
mod tools;

/// A shared library that is loaded before the C library of every kernel that is started: it saves registers that old
/// kernels have no room for (`kernel/preload/xstate.c`), gives them memory in a file that can be sealed
/// (`kernel/preload/memory.c`), and answers for randomness in virtual time (`kernel/preload/seeded.c`).
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

pub use build::{BuildOptions, build, source_tree};
pub use cache::{Cache, Wanted, is_version};
pub use config::{DriverMode, DriverPlace, needs_more_drivers};
pub use error::{KernelError, MissingTools, Result};
pub use image::{Image, ImageInfo};
pub use initramfs::{agent, initramfs_for};
pub use inspect::{KernelInfo, inspect, module_file};
pub use machine::MachineKernel;
pub use make::{Cancel, Progress};
pub use selftests::{SELFTESTS, Selftests, source_of};
pub use source::Source;
pub use tools::check_tools;
