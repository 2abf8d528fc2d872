//! A target brought up: kernel started, driver bound, interface configured, link up; or driver process
//! started, device set up, link up. And the flags that say which.

mod error;
pub mod flags;
mod interface;
mod options;
mod second;
mod session;

pub use error::SessionError;
pub use flags::{
    CostArguments, ImageArguments, LINUX_DRIVER, Prepared, PreparedSelftests, SecondArguments,
    StrictArguments, Strictness, TargetArguments, Usual, VirtualArguments, VirtualFlag,
};
pub use interface::link_up;
pub use options::{
    GuestSettings, Interrupts, LiveOptions, OwnParts, PATH_BUFFER_BYTES, PacketPath,
    ProcessSessionOptions, SecondCard, SessionOptions, VmSessionOptions,
};
pub use second::Exit;
pub use session::{CoreWatch, Session, bring_up, bring_up_again};
pub use warikomi_kernel::is_version;
