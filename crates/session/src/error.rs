//! Why there is no session.

use warikomi_clock::TscUnusable;
use warikomi_kernel::KernelError;
use warikomi_nic::NicError;
use warikomi_stack::StackError;
use warikomi_target::TargetError;

/// Why a session could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// What was asked for cannot be. The text says what can.
    #[error("{0}")]
    Impossible(String),
    /// There is no kernel to run, or it is not fit.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The clock cannot be used.
    #[error(transparent)]
    Clock(#[from] TscUnusable),
    /// The NIC cannot be made.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The driver cannot drive that NIC.
    #[error(
        "the driver '{driver}' does not drive the NIC model '{model}'; choose {}another --model",
        choices.iter().map(|name| format!("--driver {name} or ")).collect::<String>()
    )]
    WrongDriver {
        /// The driver.
        driver: String,
        /// The model.
        model: &'static str,
        /// Drivers that do.
        choices: &'static [&'static str],
    },
    /// What is above the driver could not be had.
    #[error(transparent)]
    Path(#[from] StackError),
    /// The wire could not be had.
    #[error("cannot set up the wire: {0}")]
    Wire(std::io::Error),
    /// The cores could not be had.
    #[error("cannot pin the two sides to cores: {0}")]
    Cores(std::io::Error),
}

impl SessionError {
    /// Of something that was asked for and cannot be; `what` says what can.
    pub fn impossible(what: impl Into<String>) -> SessionError {
        SessionError::Impossible(what.into())
    }

    /// Whether the user stopped it.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            SessionError::Target(TargetError::Interrupted)
                | SessionError::Kernel(KernelError::Cancelled)
        )
    }
}
