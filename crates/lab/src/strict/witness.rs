//! What a card does not see of a driver in a guest's kernel: read from the kernel's memory, and from its stack.

use std::fmt;

use warikomi_debugger::{Memory, Program, Tracee, TraceeError, call_stack};
use warikomi_nic::strict::{Misuse, Transfer, Witness};
use warikomi_session::{Session, SessionOptions};
use warikomi_target::CardId;

use super::mappings::Mappings;
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

/// Calls a witness for the strict card of a kernel that was started so. The result says in words what it cannot see.
pub fn call(session: &mut Session, options: &SessionOptions) -> Result<Vec<&'static str>, Error> {
    let target = &mut *session.target;
    let modules = options.modules.as_deref();
    let program = program(target, &options.kernel, modules, &session.info.driver)?;
    let kernel = program.parts.last().filter(|code| code.has_debug_information());
    let Some(kernel) = kernel else { return Ok(vec![NOTHING]) };
    let pid = target.process_id();
    let memory = Memory::open(pid).map_err(|error| TraceeError::Seize { pid, error })?;
    let mappings = Mappings::of(kernel, &memory);
    let shadow = Shadow::of(kernel, &memory);
    let unseen = [mappings.is_none().then_some(NO_MAPPINGS), shadow.is_none().then_some(NO_SHADOW)];
    let witness = KernelWitness { pid, program, memory, mappings, shadow };
    if let Some(strict) = target.card(CardId::FIRST)?.0.strict() {
        strict.call(Box::new(witness));
    }
    Ok(unseen.into_iter().flatten().collect())
}

/// What can be said of a driver in a kernel that has debug information.
struct KernelWitness {
    pid: u32,
    program: Program,
    memory: Memory,
    mappings: Option<Mappings>,
    shadow: Option<Shadow>,
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
        // Something else may trace it, and then there is no stack; the finding stands without.
        let frames = || {
            let mut tracee = Tracee::seize(self.pid).ok()?;
            tracee.interrupt().ok()?;
            Some(call_stack(&tracee, tracee.registers().ok()?))
        };
        let frames = frames().unwrap_or_default();
        stack_before_the_access(&self.program, &frames)
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
