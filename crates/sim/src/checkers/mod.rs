//! Judges of a history. They know the events and nothing of the system that made them.

mod balance;
mod ledger;
mod order;
mod ownership;
mod progress;
mod succession;
mod transmit;

use std::fmt;

use warikomi_clock::Time;

pub use balance::Balance;
pub use ledger::Ledger;
pub use order::Order;
pub use ownership::Ownership;
pub use progress::Progress;
pub use succession::Succession;
pub use transmit::Transmit;

use super::{Event, Observer, Options};

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// When, in virtual time.
    pub at: Time,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.3} µs: {}", self.checker, self.at.as_ns() / 1e3, self.what)
    }
}

/// One judge.
pub trait Checker {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What is wrong with this event, if anything is.
    fn check(&mut self, at: Time, event: &Event) -> Result<(), String>;
}

/// All of them. Of each the first violation is kept: what comes behind it may follow from it.
pub struct Checkers {
    checkers: Vec<Box<dyn Checker>>,
    violations: Vec<Violation>,
}

impl Checkers {
    /// All checkers, for a history with these options.
    pub fn new(options: &Options) -> Checkers {
        let (buffers, bound) = (options.buffers, options.trouble.bound);
        let may_fail = !options.trouble.faults.is_empty();
        Checkers {
            checkers: vec![
                Box::new(Ledger::default()),
                Box::new(Ownership::new(buffers)),
                Box::new(Balance::new(buffers)),
                Box::new(Order::default()),
                Box::new(Progress::new(bound)),
                Box::new(Transmit::new(bound, may_fail)),
                Box::new(Succession::new(may_fail)),
            ],
            violations: Vec::new(),
        }
    }

    /// What they have found.
    pub fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}

impl Observer for Checkers {
    fn event(&mut self, at: Time, event: &Event) {
        for checker in &mut self.checkers {
            let name = checker.name();
            let Err(what) = checker.check(at, event) else { continue };
            if self.violations.iter().all(|found| found.checker != name) {
                self.violations.push(Violation { checker: name, at, what });
            }
        }
    }
}
