//! Taking hold of a target's driver, so that it can be stopped at places.

use std::cell::RefCell;
use std::rc::Rc;

use warikomi_debugger::{Program, Tracee};
use warikomi_session::{Prepared, Session, SessionOptions};
use warikomi_target::CardId;

use super::code::program;
use super::gate::Gate;
use super::striker::{Striker, StrikerHook};
use super::watched::{AccessWatch, Watched};
use crate::error::Error;

/// A target whose driver can be stopped.
pub(crate) struct Grip {
    pub(crate) program: Rc<Program>,
    pub(crate) striker: Rc<RefCell<Striker>>,
}

impl Grip {
    /// Whether a driver can be stopped in what is to be started.
    pub(crate) fn check(prepared: &Prepared) -> Result<&SessionOptions, Error> {
        let options = prepared.kernel().ok_or_else(|| {
            Error::impossible(
                "places in code are those of a driver in a kernel; leave --target process out",
            )
        })?;
        if !options.bridge {
            return Err(Error::impossible(
                "this needs our PCI bridge in the kernel, and this one has none; `warikomi kernel build` makes \
                 kernels that have it",
            ));
        }
        Ok(options)
    }

    /// Takes hold of a target that was started so.
    pub(crate) fn take(session: &mut Session, options: &SessionOptions) -> Result<Grip, Error> {
        let target = &mut *session.target;
        let program = program(target, options)?;
        let gate = match target.clock().is_virtual() {
            true => Some(Gate::of(&program).ok_or_else(no_gate)?),
            false => None,
        };
        let tracee = Tracee::seize(target.process_id())?;
        let striker = Rc::new(RefCell::new(Striker::new(tracee, gate)));
        let watch: Rc<RefCell<dyn AccessWatch>> = striker.clone();
        target.slot(CardId::FIRST)?.change(|nic| Watched::around(nic, watch));
        target.set_hook(Some(Box::new(StrikerHook(Rc::clone(&striker)))));
        Ok(Grip { program: Rc::new(program), striker })
    }
}

fn no_gate() -> Error {
    Error::impossible(
        "this kernel does not say where it lets interrupts in (it has no symbols), which is needed in virtual time; \
         `warikomi kernel build --virtual` makes kernels that do",
    )
}
