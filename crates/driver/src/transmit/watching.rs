//! The resources that a watching driver looks at, and who is to ask the device.
//!
//! Three occasions give back what was sent: the next transmission, the receive side's next pass, and an interrupt.
//! The cheapest that comes soon enough is taken. What is soon enough depends on what is scarce: while the processor
//! has time to spare, or there is little room left (in the socket's buffer or on the descriptor ring), the device is
//! asked at every occasion; while the processor is what is waited for, once for several packets. An interrupt costs
//! most, so it is for senders to whom neither of the other two comes soon.

use warikomi_clock::{Span, Time};

/// The processor's share is looked at over so long.
const WINDOW: Span = Span::from_us(200);
/// The processor has time to spare from this share on that it idles, in percent, and not any more below the other.
const SPARE_PERCENT: u64 = 20;
const BUSY_PERCENT: u64 = 10;
/// What was sent is not to be held much longer than this for want of an occasion.
const LONGEST_HELD: Span = Span::from_us(100);
/// While the processor is short of time, the receive side asks when packets have been held for so long...
const HELD_WITH_RECEIVE: Span = Span::from_us(50);
/// ...or are so many.
const PACKETS_WITH_RECEIVE: usize = 8;
/// How much an earlier gap counts against the newest, in eighths.
const FADES: u64 = 7;

/// How often something happens.
#[derive(Clone, Copy, Debug, Default)]
struct Occasion {
    last: Option<Time>,
    /// Fading mean of the times between.
    gap: Option<Span>,
}

impl Occasion {
    #[inline]
    fn comes(&mut self, now: Time) {
        if let Some(last) = self.last.replace(now) {
            let newest = now.since(last);
            let mean = |gap: Span| Span::from_ps((gap.as_ps() / 8) * FADES + newest.as_ps() / 8);
            self.gap = Some(self.gap.map_or(newest, mean));
        }
    }

    /// How long it takes until it happens again; for ever, if it never has twice.
    #[inline]
    fn gap(&self, now: Time) -> Span {
        let Some((last, gap)) = self.last.zip(self.gap) else { return Span::from_ps(u64::MAX) };
        // Who has been quiet for longer than usual will not be sooner than that.
        gap.max(now.since(last))
    }
}

/// What is known of the processor and of the occasions to ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    transmits: Occasion,
    receives: Occasion,
    window: Option<Time>,
    idled: Span,
    spare: bool,
}

impl Watch {
    /// A packet was handed over.
    #[inline]
    pub(super) fn transmitted(&mut self, now: Time) {
        self.transmits.comes(now);
    }

    /// The receive side has taken packets.
    #[inline]
    pub(super) fn received(&mut self, now: Time) {
        self.receives.comes(now);
    }

    /// The processor had nothing to do for so long.
    #[inline]
    pub(super) fn idled(&mut self, span: Span) {
        self.idled += span;
    }

    /// Looks at the processor's share of the time, once in a while.
    #[inline]
    pub(super) fn look(&mut self, now: Time) {
        let begun = *self.window.get_or_insert(now);
        let took = now.since(begun);
        if took < WINDOW {
            return;
        }
        let percent = if self.spare { BUSY_PERCENT } else { SPARE_PERCENT };
        self.spare =
            u128::from(self.idled.as_ps()) * 100 >= u128::from(took.as_ps()) * u128::from(percent);
        (self.window, self.idled) = (Some(now), Span::ZERO);
    }

    /// Whether the processor has time to spare.
    #[inline]
    pub(super) fn has_spare(&self) -> bool {
        self.spare
    }

    /// Whether neither a transmission nor the receive side asks soon enough, and an interrupt is worth its time.
    #[inline]
    pub(super) fn wants_interrupts(&self, now: Time, short_of_room: bool) -> bool {
        let soonest = self.transmits.gap(now).min(self.receives.gap(now));
        // Before the second packet nobody knows.
        self.transmits.gap.is_some() && soonest > LONGEST_HELD && (self.spare || short_of_room)
    }

    /// Whether the receive side asks for `packets` of which the oldest has been held for so long.
    #[inline]
    pub(super) fn asks_with_receive(
        &self,
        packets: usize,
        held: Span,
        short_of_room: bool,
    ) -> bool {
        let enough = held >= HELD_WITH_RECEIVE || packets >= PACKETS_WITH_RECEIVE;
        packets > 0 && (self.spare || short_of_room || enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// A packet every so many microseconds, of which the processor idles so many.
    fn sending(gap_us: u64, idle_us: u64) -> (Watch, Time) {
        let mut watch = Watch::default();
        for packet in 0..200 {
            watch.idled(Span::from_us(idle_us));
            watch.transmitted(us(packet * gap_us));
            watch.look(us(packet * gap_us));
        }
        (watch, us(199 * gap_us))
    }

    #[test]
    fn the_processor_has_time_to_spare_if_it_idles_for_long_enough() {
        assert!(!sending(10, 0).0.has_spare() && !sending(10, 1).0.has_spare());
        assert!(sending(10, 3).0.has_spare());
        let (mut watch, now) = sending(10, 3);
        for window in 1..4 {
            watch.idled(Span::from_us(30));
            watch.look(now + Span::from_us(200 * window));
        }
        assert!(watch.has_spare(), "15% is between the two");
        watch.look(now + Span::from_us(1_000));
        assert!(!watch.has_spare());
    }

    #[test]
    fn an_interrupt_is_for_whom_no_other_occasion_comes_soon() {
        let (often, now) = sending(10, 5);
        assert!(!often.wants_interrupts(now, true));
        let (seldom, now) = sending(1_000, 900);
        assert!(seldom.wants_interrupts(now, false));
        let (busy, later) = sending(1_000, 0);
        assert!(!busy.wants_interrupts(later, false) && busy.wants_interrupts(later, true));
        let mut receiving = seldom;
        for packet in 0..50 {
            receiving.received(now + Span::from_us(10 * packet));
        }
        assert!(!receiving.wants_interrupts(now + Span::from_us(500), false));
        assert!(receiving.wants_interrupts(now + Span::from_us(5_000), false), "quiet since");
    }

    #[test]
    fn the_receive_side_asks_at_once_unless_the_processor_is_short_of_time() {
        let (idle, _) = sending(10, 5);
        assert!(idle.asks_with_receive(1, Span::ZERO, false));
        assert!(!idle.asks_with_receive(0, Span::from_ms(1), true), "nothing to ask for");
        let (busy, _) = sending(10, 0);
        assert!(!busy.asks_with_receive(7, Span::from_us(49), false));
        assert!(busy.asks_with_receive(8, Span::ZERO, false));
        assert!(busy.asks_with_receive(1, Span::from_us(50), false));
        assert!(busy.asks_with_receive(1, Span::ZERO, true));
    }

    proptest! {
        #[test]
        fn no_times_upset_it(events in prop::collection::vec((0u64..u64::MAX / 4, 0u8..4), 0..100)) {
            let (mut watch, mut now) = (Watch::default(), Time::ZERO);
            for (ps, what) in events {
                now = now.max(Time::from_ps(ps));
                match what {
                    0 => watch.transmitted(now),
                    1 => watch.received(now),
                    2 => watch.idled(Span::from_ps(ps % 1_000_000_000_000)),
                    _ => watch.look(now),
                }
                let _ = watch.wants_interrupts(now, ps % 2 == 0);
            }
        }
    }
}
