//! What a guest's work takes in virtual time: declared, and charged at its accesses, where it lets time pass.
//! What an interrupt takes is charged by the guest's bridge, before the handler and so before its accesses.

use warikomi_clock::{Span, Time};
use warikomi_nic::Nic;
use warikomi_pci::Host;

use super::options::GuestCosts;

/// A driver that looks at a register until it changes would look for ever, if looking took no time.
const FREE_ACCESSES: u32 = 4_096;
const PASSES_THEN: Span = Span::from_us(1);

/// What has been charged to a card's driver.
pub(super) struct Charge {
    costs: GuestCosts,
    /// Frames (and descriptors of those sent) and bytes that have been charged.
    frames: u64,
    copied: u64,
    /// Of fractions of a nanosecond, what is left over.
    rest: Span,
    last: Time,
    at_once: u32,
}

impl Charge {
    pub(super) fn new(costs: GuestCosts) -> Charge {
        let (rest, last) = (Span::ZERO, Time::ZERO);
        Charge { costs, frames: 0, copied: 0, rest, last, at_once: 0 }
    }

    /// What an interrupt takes.
    pub(super) fn interrupt(&self) -> Span {
        self.costs.interrupt
    }

    /// How many nanoseconds the access at `now` takes, with what came before it: frames and their bytes.
    pub(super) fn for_access(&mut self, now: Time, nic: &mut dyn Nic, host: &mut Host<'_>) -> u64 {
        let mut span = self.rest + self.costs.access + self.loops(now);
        if self.costs.frame > Span::ZERO {
            let queues = 0..nic.info().rx_queues;
            let of_queue = |queue| nic.rx_queue_progress(host, queue, usize::MAX).accepted;
            let frames = queues.map(of_queue).sum::<u64>() + nic.counters().tx_descriptors;
            span += self.costs.frame * frames.saturating_sub(self.frames);
            self.frames = self.frames.max(frames);
        }
        let copied = nic.counters().dma_bytes;
        span += self.costs.byte * copied.saturating_sub(self.copied);
        self.copied = copied;
        let ns = span.as_ps() / 1_000;
        self.rest = Span::from_ps(span.as_ps() % 1_000);
        ns
    }

    fn loops(&mut self, now: Time) -> Span {
        self.at_once = if now == self.last { self.at_once + 1 } else { 0 };
        self.last = now;
        if self.at_once < FREE_ACCESSES { Span::ZERO } else { PASSES_THEN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_testbench::{Bench, card};

    fn charged(charge: &mut Charge, bench: &mut Bench) -> u64 {
        bench.host(|nic, host| charge.for_access(host.now, nic, host))
    }

    #[test]
    fn accesses_and_what_is_left_of_a_nanosecond_are_charged() {
        let costs = GuestCosts {
            access: Span::from_ps(400),
            interrupt: Span::from_ns(700),
            frame: Span::from_us(1),
            byte: Span::ZERO,
        };
        let mut charge = Charge::new(costs);
        let mut bench = Bench::around(card("rtl8168"));
        let charged = [(); 5].map(|()| charged(&mut charge, &mut bench));
        assert_eq!(charged, [0, 0, 1, 0, 1], "0.4 ns each");
    }

    #[test]
    fn a_loop_that_only_looks_comes_to_an_end() {
        let mut charge = Charge::new(GuestCosts::default());
        let mut bench = Bench::around(card("rtl8168"));
        let free = (0..FREE_ACCESSES).map(|_| charged(&mut charge, &mut bench)).sum::<u64>();
        assert_eq!((free, charged(&mut charge, &mut bench)), (0, 1_000));
        bench.wait(Span::from_us(1));
        assert_eq!(charged(&mut charge, &mut bench), 0, "time has passed");
    }
}
