//! What a card does not see of a driver in a guest's kernel: read from the kernel's memory, and from its stack.

use std::fmt;

use warikomi_debugger::{Frame, Memory, Program, Tracee, TraceeError, call_stack};
use warikomi_nic::strict::{Misuse, Transfer, Witness};
use warikomi_session::{Session, SessionOptions};
use warikomi_target::CardId;

use super::mappings::Mappings;
use super::modules::Place;
use super::shadow::Shadow;
use crate::error::Error;
use crate::strike::{program, stack_before_the_access};

/// What is not looked at, in a kernel that does not say where things are.
const NOTHING: &str = "memory that is freed or not mapped for DMA, and the driver's stack at a step, because this \
    kernel has no debug information; `warikomi kernel build --debug` makes kernels that have";
const NO_MAPPINGS: &str = "memory that is not mapped for DMA, because this kernel keeps no count of that \
    (CONFIG_DMA_API_DEBUG), or has given up";
const NO_SHADOW: &str =
    "memory that is freed, because this kernel keeps no count of that (CONFIG_KASAN)";

/// Calls a witness for the strict card of a kernel that was started so.
pub fn call(session: &mut Session, options: &SessionOptions) -> Result<(), Error> {
    let target = &mut *session.target;
    let program = program(target, options)?;
    let witness: Box<dyn Witness> =
        match KernelWitness::of(target.process_id(), program, &options.driver)? {
            Some(witness) => Box::new(witness),
            None => Box::new(Blind),
        };
    if let Some(strict) = target.card(CardId::FIRST)?.0.strict() {
        strict.call(witness);
    }
    Ok(())
}

/// What can be said of a driver in a kernel without debug information.
#[derive(Debug)]
struct Blind;

impl Witness for Blind {
    fn objection(&mut self, _: Transfer) -> Option<Misuse> {
        None
    }

    fn stack(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn unseen(&self) -> Vec<&'static str> {
        vec![NOTHING]
    }
}

/// What can be said of a driver in a kernel that has debug information.
struct KernelWitness {
    pid: u32,
    program: Program,
    memory: Memory,
    mappings: Option<Mappings>,
    shadow: Option<Shadow>,
    /// Where the driver was when its code was read, if it is a module.
    driver: Option<Place>,
}

impl KernelWitness {
    /// Of a process that runs this; `None` without debug information.
    fn of(pid: u32, program: Program, driver: &str) -> Result<Option<KernelWitness>, Error> {
        let kernel = program.parts.last().filter(|code| code.has_debug_information());
        let Some(kernel) = kernel else { return Ok(None) };
        let memory = Memory::open(pid).map_err(|error| TraceeError::Seize { pid, error })?;
        let mappings = Mappings::of(kernel, &memory);
        let shadow = Shadow::of(kernel, &memory);
        let driver = Place::of(kernel, &memory, driver);
        Ok(Some(KernelWitness { pid, program, memory, mappings, shadow, driver }))
    }

    /// The stack as it is now; empty where something else traces the process. The finding stands without.
    fn frames(&self) -> Vec<Frame> {
        let frames = || {
            let mut tracee = Tracee::seize(self.pid).ok()?;
            tracee.interrupt().ok()?;
            Some(call_stack(&tracee, tracee.registers().ok()?))
        };
        frames().unwrap_or_default()
    }
}

impl Witness for KernelWitness {
    fn objection(&mut self, transfer: Transfer) -> Option<Misuse> {
        // That it is free says more than that it is not mapped.
        let freed =
            self.shadow.as_ref().and_then(|shadow| shadow.objection(&self.memory, transfer));
        let mappings = self.mappings.as_ref();
        freed.or_else(|| mappings?.objection(&self.memory, transfer))
    }

    fn stack(&mut self) -> Vec<String> {
        let mut frames = self.frames();
        if let (Some(driver), Some(code)) = (&self.driver, self.program.parts.first()) {
            driver.take_back(&self.memory, code, &mut frames);
        }
        stack_before_the_access(&self.program, &frames)
    }

    fn unseen(&self) -> Vec<&'static str> {
        let mappings = self.mappings.is_none().then_some(NO_MAPPINGS);
        let shadow = self.shadow.is_none().then_some(NO_SHADOW);
        mappings.into_iter().chain(shadow).collect()
    }
}

impl fmt::Debug for KernelWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelWitness { pid, mappings, shadow, .. } = self;
        f.debug_struct("KernelWitness")
            .field("pid", pid)
            .field("mappings", mappings)
            .field("shadow", shadow)
            .finish_non_exhaustive()
    }
}
