//! One driver comes into the place of another: getting warm, handing over, accepting, and the ways back.

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::times;
use warikomi_process::{How, Program, Seat, Wanted};

use crate::phase::{Attempt, Cleanup, Driver, Phase, Restart};
use crate::supervisor::{Supervisor, Turn, why_over};
use crate::{Drivers, Event, Kind, Replacement};

/// How long a warm driver may take to rehearse: after that it is handed the device as it is.
const REHEARSED_WITHIN: Span = Span::from_ms(2);
/// How long the old driver may take to wake up.
const ROUSED_WITHIN: Span = Span::from_us(200);

impl Supervisor {
    pub(crate) fn warming(
        &mut self,
        attempt: Attempt,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if attempt.from_lives
            && let Some(cleanup) = self.look_at_current(now, target)
        {
            return (Phase::CleaningUp(Cleanup { candidate: Some(attempt.to), ..cleanup }), None);
        }
        let to = attempt.to.generation;
        // One to which the dead driver has given the device has begun already, and may have come to its end since: whose
        // the device is, the owner says.
        let has_it = target.baton().generation == to;
        if !has_it {
            let seat = target.seat(to);
            if let Some(why) = self.no_good(seat.as_ref(), &attempt, now, "was not warm") {
                return self.not_warm(attempt, why, now, target);
            }
            if !seat.is_some_and(|seat| seat.is_warm()) {
                return (Phase::Warming(attempt), None);
            }
        }
        let attempt = Attempt { warm: Some(now), ..attempt };
        if attempt.from_lives {
            target.alert(to, to);
            let until = now + REHEARSED_WITHIN;
            return (Phase::Rehearsing(Attempt { until, ..attempt }), None);
        }
        target.serve_seat(to);
        if !has_it {
            target.give_baton(to, attempt.how);
        }
        let until = now + self.policy.accept_within;
        (Phase::Accepting(Attempt { until, ..attempt }), None)
    }

    /// A driver that does not rehearse is good enough.
    pub(crate) fn rehearsing(
        &mut self,
        attempt: Attempt,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        let to = attempt.to.generation;
        let is_done = |seat: &Seat| seat.is_over() || seat.is_alert();
        if now < attempt.until && !target.seat(to).as_ref().is_none_or(is_done) {
            return (Phase::Rehearsing(attempt), None);
        }
        target.alert(self.current.generation, to);
        (Phase::Waking(Attempt { until: now + ROUSED_WITHIN, ..attempt }), None)
    }

    /// The order goes out to a driver that is awake, if it wakes up soon enough.
    pub(crate) fn waking(&mut self, attempt: Attempt, now: Time, target: &mut dyn Drivers) -> Turn {
        let sleeps = target.seat(self.current.generation).is_some_and(|seat| seat.sleeps);
        if sleeps && now < attempt.until {
            return (Phase::Waking(attempt), None);
        }
        target.order_hand_over(attempt.to.generation);
        let until = now + self.policy.hand_over_within;
        (Phase::HandingOver(Attempt { begun: now, until, ..attempt }), None)
    }

    /// What is wrong with a driver that is to do something until a time.
    fn no_good(
        &self,
        seat: Option<&Seat>,
        attempt: &Attempt,
        now: Time,
        what_not: &str,
    ) -> Option<String> {
        match seat {
            None => Some("its seat is gone".to_owned()),
            Some(seat) if seat.is_over() => Some(why_over(seat)),
            Some(_) if now >= attempt.until => Some(format!("it {what_not} in time")),
            Some(_) => None,
        }
    }

    /// The new driver comes to nothing before it had the device.
    fn not_warm(
        &mut self,
        attempt: Attempt,
        why: String,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        self.order_to_end(attempt.to.generation, now, target);
        if attempt.from_lives {
            return self.rolled_back(attempt, why);
        }
        self.next_attempt(&attempt, attempt.how, why, now, target)
    }

    /// The old driver is dead, and the new one no good: another is tried.
    fn next_attempt(
        &mut self,
        attempt: &Attempt,
        how: How,
        why: String,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        let restart = Restart {
            at: now,
            program: self.next_program(),
            candidate: None,
            how,
            begun: attempt.begun,
            gone: now,
        };
        self.restart(restart, why, attempt.to.generation, target)
    }

    fn rolled_back(&mut self, attempt: Attempt, why: String) -> Turn {
        self.rolled_back += 1;
        let (kept, refused) = (self.current.generation, attempt.to.generation);
        (Phase::Running, Some(Event::RolledBack { kept, refused, why }))
    }

    /// What was handed over in time has been taken note of already.
    pub(crate) fn handing_over(
        &mut self,
        attempt: Attempt,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if let Some(cleanup) = self.look_at_current(now, target) {
            return (Phase::CleaningUp(Cleanup { candidate: Some(attempt.to), ..cleanup }), None);
        }
        let seat = target.seat(attempt.to.generation);
        let why = match self.no_good(seat.as_ref(), &attempt, now, "was not handed the device") {
            None => return (Phase::HandingOver(attempt), None),
            Some(why) => why,
        };
        target.order_hand_over(0);
        let heartbeat = target.seat(self.current.generation).map_or(0, |seat| seat.heartbeat);
        (Phase::Withdrawing { attempt, why, heartbeat, beats: 0 }, None)
    }

    pub(crate) fn withdrawing(
        &mut self,
        attempt: Attempt,
        why: String,
        (heartbeat, beats): (u64, u32),
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if let Some(cleanup) = self.look_at_current(now, target) {
            return (Phase::CleaningUp(Cleanup { candidate: Some(attempt.to), ..cleanup }), None);
        }
        let seen = target.seat(self.current.generation).map_or(0, |seat| seat.heartbeat);
        let beats = beats + u32::from(seen != heartbeat);
        // The baton is looked at last.
        if target.baton().generation == attempt.to.generation {
            target.serve_seat(attempt.to.generation);
            let until = now + self.policy.accept_within;
            return (Phase::Accepting(Attempt { until, ..attempt }), None);
        }
        if beats < 2 {
            return (Phase::Withdrawing { attempt, why, heartbeat: seen, beats }, None);
        }
        self.order_to_end(attempt.to.generation, now, target);
        self.rolled_back(attempt, why)
    }

    /// The way in which the old driver is gone before the new one is started.
    pub(crate) fn stopping(
        &mut self,
        program: Program,
        begun: Time,
        until: Time,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        let generation = self.current.generation;
        let has_ended = target.seat(generation).is_none_or(|seat| seat.ended.is_some());
        if !(has_ended || now >= until) || !target.end_seat(generation) {
            return (Phase::Stopping { program, begun, until }, None);
        }
        let to = Driver { generation: target.next_generation(), program };
        let mut attempt = Attempt {
            creating: now,
            gone: Some(now),
            until: now + self.policy.warm_within,
            ..Attempt::new(Kind::Planned, to, How::Start, begun)
        };
        match target.prepare(&attempt.to.program, Wanted::AtOnce) {
            Ok(generation) => {
                attempt.to.generation = generation;
                (Phase::Warming(attempt), None)
            }
            Err(error) => self.next_attempt(&attempt, How::Start, error.to_string(), now, target),
        }
    }

    pub(crate) fn accepting(
        &mut self,
        attempt: Attempt,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if target.baton().owner == attempt.to.generation {
            let until = now + self.policy.accept_within;
            return (Phase::Settling(Attempt { until, ..attempt }), None);
        }
        let seat = target.seat(attempt.to.generation);
        match self.no_good(seat.as_ref(), &attempt, now, "did not accept the device") {
            None => (Phase::Accepting(attempt), None),
            Some(why) => (Phase::TakingBack { attempt, why }, None),
        }
    }

    pub(crate) fn taking_back(
        &mut self,
        attempt: Attempt,
        why: String,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if !target.end_seat(attempt.to.generation) {
            return (Phase::TakingBack { attempt, why }, None);
        }
        if target.baton().owner == attempt.to.generation {
            // It had accepted after all, and so the old one has let go for good.
            if attempt.from_lives {
                self.order_to_end(self.current.generation, now, target);
            }
            let cleanup = self.cleanup_of_candidate(&attempt, why, now);
            return (Phase::CleaningUp(cleanup), None);
        }
        let old = self.current.generation;
        if attempt.from_lives && target.seat(old).is_some_and(|seat| !seat.is_over()) {
            target.serve_seat(old);
            target.order_hand_over(0);
            target.give_baton(old, How::HandedOver);
            self.restart_watch(now);
            return self.rolled_back(attempt, why);
        }
        if attempt.from_lives {
            // Both are gone: the old one had left everything in order.
            self.order_to_end(old, now, target);
            return self.next_attempt(&attempt, attempt.how, why, now, target);
        }
        self.next_attempt(&attempt, How::Start, why, now, target)
    }

    /// A new driver that had the device, and was no good.
    fn cleanup_of_candidate(&mut self, attempt: &Attempt, why: String, begun: Time) -> Cleanup {
        Cleanup {
            generation: attempt.to.generation,
            why,
            begun,
            candidate: None,
            had_just_taken_over: attempt.how != How::HandedOver,
        }
    }

    pub(crate) fn settling(
        &mut self,
        attempt: Attempt,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        let seat = target.seat(attempt.to.generation);
        if let Some(seat) = &seat
            && seat.times[times::SERVED] != Time::NEVER
        {
            let from = target.seat(self.current.generation).filter(|_| attempt.from_lives);
            let replaced = self.replacement(&attempt, from.as_ref(), seat, now);
            self.has_begun(&attempt, now, target);
            return (Phase::Running, Some(Event::Replaced(replaced)));
        }
        match self.no_good(seat.as_ref(), &attempt, now, "did not serve the device") {
            None => (Phase::Settling(attempt), None),
            Some(why) => {
                if attempt.from_lives {
                    self.order_to_end(self.current.generation, now, target);
                }
                (Phase::CleaningUp(self.cleanup_of_candidate(&attempt, why, now)), None)
            }
        }
    }

    /// The times of a replacement that is over now, as both drivers tell them.
    fn replacement(
        &self,
        attempt: &Attempt,
        from: Option<&Seat>,
        to: &Seat,
        now: Time,
    ) -> Replacement {
        let told = |seat: &Seat, which: usize| {
            let at = seat.times[which];
            (at != Time::NEVER && at >= attempt.begun).then_some(at)
        };
        let served = to.times[times::SERVED];
        let handed_over = from.and_then(|seat| told(seat, times::HANDED_OVER)).or(attempt.gone);
        Replacement {
            kind: attempt.kind,
            from: self.current.generation,
            to: attempt.to.generation,
            reset: attempt.how == How::Start,
            requested: attempt.requested,
            creating: attempt.creating,
            warm: attempt.warm.unwrap_or(attempt.creating),
            begun: attempt.begun,
            order_seen: from.and_then(|seat| told(seat, times::ORDER_SEEN)),
            handed_over: handed_over.unwrap_or(attempt.begun),
            awake: told(to, times::AWAKE).unwrap_or(served),
            accepted: told(to, times::ACCEPTED).unwrap_or(served),
            served,
            returned: now,
            read_dispatches: to.read_dispatches,
        }
    }
}
