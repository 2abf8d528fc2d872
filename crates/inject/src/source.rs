//! Where an injector's frames and deadlines come from.

use warikomi_clock::Time;
use warikomi_nic::{Frame, LONGEST_FRAME_BYTES};

use crate::burst::Burst;
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
    /// Where packets arrive in bursts: the bursts, and the last frame of each.
    last_of_burst: Option<(Burst, FrameTemplate)>,
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
        // Whoever has the card knows what it takes.
        plan.validate_for(LONGEST_FRAME_BYTES)?;
        let template = |size_bytes| {
            let template = FrameTemplate::new(addresses, size_bytes, run_id)?;
            let template = template.with_flows(plan.flows);
            Ok::<_, PlanError>(match plan.receiver {
                Receiver::Application | Receiver::SecondCard => template,
                Receiver::Driver => template.for_no_protocol(),
            })
        };
        let last = |burst: Burst| Ok::<_, PlanError>((burst, template(burst.last_frame_bytes())?));
        Ok(Planned {
            pacer: Pacer::new(plan, start),
            template: template(plan.size_bytes)?,
            last_of_burst: plan.burst().map(last).transpose()?,
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
        match &mut self.last_of_burst {
            Some((burst, last)) if burst.ends_with(sequence) => last.frame(sequence),
            _ => self.template.frame(sequence),
        }
    }

    #[inline]
    fn paced(&self) -> bool {
        self.pacer.paced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrival, PAYLOAD_OFFSET, Schedule};

    #[test]
    fn the_last_frame_of_a_burst_has_what_is_left_and_its_own_number() {
        let plan = Plan {
            arrival: Arrival::Bursts,
            size_bytes: 1_000,
            burst_bytes: Some(2_100),
            line_rate_bps: Some(1_000_000_000),
            count: 5,
            ..Plan::default()
        };
        let addresses = Addresses::to_guest([2, 0, 0, 0, 0, 9]);
        let mut planned = Planned::new(&plan, &addresses, 7, Time::ZERO).unwrap();
        for (sequence, bytes) in [(0, 1_000), (1, 1_000), (2, 100), (3, 1_000), (4, 1_000)] {
            let frame = planned.frame(sequence);
            assert_eq!(frame.bytes.len(), bytes);
            assert_eq!(Schedule::number_in(frame.bytes), Some(sequence));
            assert_eq!(frame.fcs, warikomi_nic::fcs(frame.bytes));
            // The length that UDP's header states is the frame's.
            let udp = u16::from_be_bytes([frame.bytes[38], frame.bytes[39]]);
            assert_eq!(usize::from(udp), bytes - PAYLOAD_OFFSET + 8);
        }
    }
}
