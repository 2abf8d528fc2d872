//! Where an injector's frames and deadlines come from.

use warikomi_clock::Time;
use warikomi_nic::Frame;

use crate::{Addresses, FrameTemplate, Pacer, Plan, PlanError, Receiver};

/// Frames, each with a deadline. Asked between two packets, which may be 200 ns apart: no
/// allocation, no system call.
pub trait Source {
    /// Packets in all.
    fn count(&self) -> u64;

    /// Packets at each deadline, at least 1; fewer may be left for the last.
    fn packets_per_deadline(&self) -> u32;

    /// The next deadline; [`Time::NEVER`] if none is left.
    fn due(&self) -> Time;

    /// Goes on to the deadline after this one.
    fn advance(&mut self);

    /// The packet with this number; numbers are asked for in order, from 0 on, and are less than
    /// [`count`](Source::count).
    fn frame(&mut self, sequence: u64) -> Frame<'_>;

    /// Whether deadlines mean anything: not where everything comes as fast as possible.
    fn paced(&self) -> bool;
}

/// The packets of a plan.
pub struct Planned {
    pacer: Pacer,
    template: FrameTemplate,
    count: u64,
    packets_per_interrupt: u32,
}

impl Planned {
    /// What `plan` asks for, from `start` on, the time of the first deadline.
    pub fn new(
        plan: &Plan,
        addresses: &Addresses,
        run_id: u32,
        start: Time,
    ) -> Result<Planned, PlanError> {
        plan.validate()?;
        let template = FrameTemplate::new(addresses, plan.size_bytes, run_id)?;
        Ok(Planned {
            pacer: Pacer::new(plan, start),
            template: match plan.receiver {
                Receiver::Application => template,
                Receiver::Driver => template.for_no_protocol(),
            },
            count: plan.count,
            packets_per_interrupt: plan.packets_per_interrupt,
        })
    }
}

impl Source for Planned {
    fn count(&self) -> u64 {
        self.count
    }

    fn packets_per_deadline(&self) -> u32 {
        self.packets_per_interrupt
    }

    #[inline]
    fn due(&self) -> Time {
        self.pacer.peek()
    }

    #[inline]
    fn advance(&mut self) {
        self.pacer.advance();
    }

    #[inline]
    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        self.template.frame(sequence)
    }

    #[inline]
    fn paced(&self) -> bool {
        self.pacer.paced()
    }
}
