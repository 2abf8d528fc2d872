//! A target that is ready to be brought up.

use std::sync::Arc;

use tempfile::TempDir;
use warikomi_nic::NicOptions;
use warikomi_nic::bus::Bus;
use warikomi_process::{Orders, Program};
use warikomi_stack::Topology;
use warikomi_target::Interrupted;
use warikomi_wire::Wire;

use super::process::dma_bytes;
use crate::error::SessionError;
use crate::options::{
    Interrupts, ProcessSessionOptions, SecondCard, SessionOptions, VmSessionOptions,
};
use crate::session::Session;

/// A target to be started, and the files that it needs while it is used.
pub struct Prepared {
    pub(super) options: Options,
    /// Kept as long as the target may be started.
    pub(super) files: Option<Arc<TempDir>>,
}

#[derive(Clone)]
pub(super) enum Options {
    Kernel(SessionOptions),
    Process(ProcessSessionOptions),
    Vm(VmSessionOptions),
}

impl Options {
    fn nic(&mut self) -> &mut NicOptions {
        match self {
            Options::Kernel(options) => &mut options.nic,
            Options::Process(options) => &mut options.nic,
            Options::Vm(options) => &mut options.nic,
        }
    }
}

impl Prepared {
    /// The same driver process with other orders; any other target as it is.
    #[must_use]
    pub fn with_orders(&self, orders: &Orders) -> Prepared {
        let options = match &self.options {
            Options::Process(options) => Options::Process(ProcessSessionOptions {
                orders: *orders,
                dma_bytes: dma_bytes(orders),
                ..options.clone()
            }),
            other => other.clone(),
        };
        Prepared { options, files: self.files.clone() }
    }

    /// The same driver process below an application that is a program of the user's; a kernel as it is.
    #[must_use]
    pub fn with_application(&self, program: Program) -> Prepared {
        let mut options = self.options.clone();
        if let Options::Process(options) = &mut options {
            options.path.topology = Topology::Application;
            options.application = Some(program);
        }
        Prepared { options, files: self.files.clone() }
    }

    /// The longest frame in bytes, without check sequence, that its card takes.
    pub fn longest_frame_bytes(&self) -> usize {
        let nic = match &self.options {
            Options::Kernel(options) => &options.nic,
            Options::Process(options) => &options.nic,
            Options::Vm(options) => &options.nic,
        };
        let info = warikomi_nic::MODELS.iter().find(|info| info.name == nic.model);
        info.map_or(warikomi_nic::MAX_FRAME_BYTES, |info| info.max_frame_bytes)
    }

    /// Gives the guest a second card; only a kernel of ours can have one.
    pub(super) fn add_second(&mut self, card: SecondCard) {
        if let Options::Kernel(options) = &mut self.options {
            options.second = Some(card);
        }
    }

    /// What a kernel is brought up with.
    pub fn kernel(&self) -> Option<&SessionOptions> {
        let Options::Kernel(options) = &self.options else { return None };
        Some(options)
    }

    /// Leaves interrupts of a kernel undeferred unless something else is asked for.
    pub fn defer_nothing(&mut self) {
        if let Options::Kernel(options) = &mut self.options {
            options.settings.defer_nothing();
        }
    }

    /// Lets a kernel sleep while it has nothing to do unless something else is asked for: for an experiment that
    /// accounts for the processor.
    pub fn let_sleep(&mut self) {
        if let Options::Kernel(options) = &mut self.options {
            options.interrupts.get_or_insert(Interrupts::Signalled);
        }
    }

    /// Leaves a kernel at a priority at which it may stand still, and lets it poll unless something else is asked
    /// for: soft interrupts then run outside of User Mode Linux' own handler, in which a second interrupt of the
    /// same device would wait (arch/um/kernel/irq.c, `sigio_reg_handler`).
    pub fn let_be_stopped(&mut self) {
        if let Options::Kernel(options) = &mut self.options {
            options.interrupts.get_or_insert(Interrupts::Polled);
            options.realtime = false;
        }
    }

    /// Attaches the NIC of a kernel, also of one in a virtual machine, by this bus, and to this line, rather than by ones
    /// that take no time.
    pub fn attach_by(&mut self, bus: Option<Bus>, line_rate_bps: Option<u64>) {
        if !matches!(self.options, Options::Process(_)) {
            let nic = self.options.nic();
            *nic = NicOptions { bus, line_rate_bps, ..nic.clone() };
        }
    }

    /// The same, whose NIC names the steps that a driver must not take.
    #[must_use]
    pub fn with_strict_card(&self) -> Prepared {
        let mut options = self.options.clone();
        options.nic().strict = true;
        Prepared { options, files: self.files.clone() }
    }

    /// Brings it up. `status` is told what is being waited for.
    pub fn start(
        &self,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        match &self.options {
            Options::Kernel(options) => Session::start(options, wire, interrupted, status),
            Options::Process(options) => Session::start_process(options, wire, interrupted, status),
            Options::Vm(options) => Session::start_vm(options, wire, interrupted, status),
        }
    }
}
