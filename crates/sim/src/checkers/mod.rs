//! Judges of a history. They know the events and nothing of the system that made them.

mod balance;
mod checker;
mod ledger;
mod order;
mod ownership;
mod progress;
mod succession;
mod transmit;

use warikomi_clock::Time;

pub use balance::Balance;
pub use checker::{Checker, Violation};
pub use ledger::Ledger;
pub use order::Order;
pub use ownership::Ownership;
pub use progress::Progress;
pub use succession::Succession;
pub use transmit::Transmit;

use super::{Event, Observer, Options};

/// All of them. Of each the first violation is kept: what comes behind it may follow from it.
pub struct Checkers {
    checkers: Vec<Box<dyn Checker>>,
    violations: Vec<Violation>,
}

impl Checkers {
    /// All checkers, for a history with these options.
    pub fn new(options: &Options) -> Checkers {
        let (buffers, bound) = (options.buffers, options.disturbances.bound);
        Checkers {
            checkers: vec![
                Box::new(Ledger::default()),
                Box::new(Ownership::new(buffers)),
                Box::new(Balance::new(buffers)),
                Box::new(Order::default()),
                Box::new(Progress::new(bound)),
                Box::new(Transmit::new(bound)),
                Box::new(Succession::new(options)),
            ],
            violations: Vec::new(),
        }
    }

    /// The violations that were found.
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
