//! A replay that stops at a place, as often as one likes at the same: in virtual time one seed is one history.

use std::cell::RefCell;
use std::rc::Rc;

use clap::Args;
use serde_json::{Value, json};
use warikomi_clock::{Span, Time};
use warikomi_debugger::{Gdb, Program};
use warikomi_measure::RunResult;
use warikomi_session::{Prepared, Session};
use warikomi_target::{PassHook, Target, TargetError};

use crate::error::Error;
use crate::strike::{
    Delivery, Grip, KernelCode, Strike, StrikePlace, Striker, StrikerHook, Struck, resolve,
    stack_at_place,
};

#[derive(Args)]
#[command(next_help_heading = "Until a place")]
pub(super) struct UntilArguments {
    /// Note when and how the driver reaches this place: a function (rtl8169_poll), a function and an offset
    /// (rtl8169_poll+0x18c), a line, a register access (read IntrStatus), as of `warikomi at`. In virtual time each
    /// replay of a recording comes to it in the same way
    #[arg(long = "until", value_name = "PLACE", requires = "virtual_time")]
    place: Option<StrikePlace>,
    /// When it is reached for the Nth time, counted from the beginning of the replay [default: 1]
    #[arg(long, value_name = "N", requires = "place",
        value_parser = clap::value_parser!(u64).range(1..))]
    nth: Option<u64>,
    /// Stop there, with gdb attached to the kernel: its time stands still meanwhile, and the replay goes on as gdb lets it
    #[arg(long, requires = "place")]
    gdb: bool,
    /// A command for gdb to begin with, such as 'backtrace'; may be repeated
    #[arg(long = "gdb-command", value_name = "COMMAND", requires = "gdb")]
    gdb_commands: Vec<String>,
}

impl UntilArguments {
    /// Refuses what cannot be before anything is started.
    pub(super) fn check(&self, prepared: &Prepared) -> Result<(), Error> {
        if self.place.is_some() {
            Grip::check(prepared)?;
        }
        if self.gdb { Gdb::check().map_err(Error::impossible) } else { Ok(()) }
    }

    /// Stops the driver when it comes to the place, if one is given.
    pub(super) fn begin(
        &self,
        session: &mut Session,
        prepared: &Prepared,
    ) -> Result<Option<Until>, Error> {
        let Some(place) = &self.place else { return Ok(None) };
        let Grip { program, striker } =
            Grip::take(session, Grip::check(prepared)?, &mut KernelCode::default())?;
        let place = resolve(&program, &mut *session.target, place)?;
        let delivery = Delivery::Nothing { hand_over: self.gdb };
        striker.borrow_mut().arm(Strike {
            place,
            conditions: Vec::new(),
            device: None,
            nth: self.nth.unwrap_or(1),
            delivery,
            then: None,
        })?;
        let gdb = Rc::new(RefCell::new(None));
        let hook = UntilHook {
            striker: StrikerHook(Rc::clone(&striker)),
            program: Rc::clone(&program),
            gdb_commands: self.gdb.then(|| self.gdb_commands.clone()),
            gdb: Rc::clone(&gdb),
        };
        session.target.set_hook(Some(Box::new(hook)));
        Ok(Some(Until { program, striker, gdb }))
    }
}

/// Starts gdb once the driver stands at the place.
struct UntilHook {
    striker: StrikerHook,
    program: Rc<Program>,
    /// What gdb is told first, if there shall be one that has not been started.
    gdb_commands: Option<Vec<String>>,
    gdb: Rc<RefCell<Option<Gdb>>>,
}

impl PassHook for UntilHook {
    fn pass(&mut self, target: &mut dyn Target) -> Result<(), TargetError> {
        self.striker.pass(target)?;
        // Once gdb has ended, the kernel goes on.
        has_ended(&self.gdb);
        if self.striker.0.borrow().struck().at.is_none() {
            return Ok(());
        }
        let Some(commands) = self.gdb_commands.take() else { return Ok(()) };
        let gdb = Gdb::attach(target.process_id(), &self.program, &commands);
        *self.gdb.borrow_mut() = Some(gdb.map_err(TargetError::system("cannot start gdb"))?);
        Ok(())
    }
}

/// A replay that is to come to a place.
pub(super) struct Until {
    program: Rc<Program>,
    striker: Rc<RefCell<Striker>>,
    gdb: Rc<RefCell<Option<Gdb>>>,
}

impl Until {
    /// Whether gdb has the terminal.
    pub(super) fn is_in_gdb(&self) -> bool {
        !has_ended(&self.gdb)
    }

    /// The replay is over: serves the kernel for as long as gdb has it, and tells of the place.
    pub(super) fn end(self, session: &mut Session, result: &mut RunResult) -> Result<(), Error> {
        const LOOK_EVERY: Span = Span::from_ms(1);
        while self.is_in_gdb() {
            let target = &mut *session.target;
            target.keep_clear_of(target.clock().now() + LOOK_EVERY);
            target.poll()?;
            target.housekeep()?;
        }
        session.target.set_hook(None);
        let mut striker = self.striker.borrow_mut();
        striker.disarm()?;
        tell(&self.program, striker.struck(), result);
        Ok(())
    }
}

/// Whether there is no gdb, or no longer.
fn has_ended(gdb: &RefCell<Option<Gdb>>) -> bool {
    let mut gdb = gdb.borrow_mut();
    if gdb.as_mut().is_some_and(|gdb| gdb.has_ended().unwrap_or(true)) {
        *gdb = None;
    }
    gdb.is_none()
}

fn tell(program: &Program, struck: &Struck, result: &mut RunResult) {
    let stack = stack_at_place(program, struck);
    let frames: Vec<Value> = stack.iter().map(|frame| json!({ "frame": frame })).collect();
    let at_ns = struck.at.map(|at| at.since(Time::ZERO).as_ns());
    let figures = &mut result.figures;
    figures.insert("until_reached".into(), struck.hits.into());
    figures.insert("until_place".into(), stack.first().cloned().into());
    figures.insert("until_at_ns".into(), at_ns.into());
    figures.insert("stack".into(), frames.into());
}
