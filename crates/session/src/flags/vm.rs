//! Flags of a driver in a virtual machine.

use warikomi_nic::NicOptions;

use super::TargetArguments;
use super::check::refuse;

use crate::error::SessionError;
use crate::options::VmSessionOptions;

/// The model unless another is asked for: its driver is in every distribution's kernel.
const USUAL_MODEL: &str = "rtl8168";

impl TargetArguments {
    /// What is to be waited for.
    pub(super) fn vm(&self, in_virtual_time: bool) -> Result<VmSessionOptions, SessionError> {
        refuse(&self.process.given(), "process")?;
        let kernels = self.kernel.given();
        refuse(
            &kernels.into_iter().filter(|flag| *flag != "--socket").collect::<Vec<_>>(),
            "kernel",
        )?;
        if self.no_sandbox {
            return Err(SessionError::impossible(
                "--no-sandbox is for processes that we start, and a virtual machine is yours; leave it out",
            ));
        }
        if in_virtual_time {
            return Err(SessionError::impossible(
                "a virtual machine has its own time; --virtual needs --target kernel",
            ));
        }
        let socket = self.kernel.socket.clone().ok_or_else(|| {
            SessionError::impossible(
                "--target vm needs --socket PATH, where the hypervisor finds the card; the command then says with \
                 what to start it",
            )
        })?;
        Ok(VmSessionOptions {
            driver: self.driver.clone(),
            nic: NicOptions::of(self.model.as_deref().unwrap_or(USUAL_MODEL)),
            make_nic: warikomi_nic::build,
            socket,
        })
    }
}
