//! The processor's time stamp counter as a clock.
//!
//! Both sides of an experiment run on one machine, so raw counter values taken in the target can
//! be turned into our time base: see [`TscClock::at`].

use std::time::{Duration, Instant};

use crate::{Span, Time};

/// The counter's current value. Not ordered against the surrounding loads and stores: an error of
/// some nanoseconds, against tens for the ordered form.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no other form")]
pub fn read_tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Why the counter cannot serve as a clock here.
#[derive(Debug, thiserror::Error)]
#[error(
    "this processor's time stamp counter is not invariant (its speed follows the core's), so \
     intervals measured with it would be wrong; use a machine whose /proc/cpuinfo shows \
     constant_tsc and nonstop_tsc"
)]
pub struct TscUnusable;

/// Maps counter values to [`Time`], the epoch being the moment of calibration.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    epoch: u64,
    /// Picoseconds per tick, as a 32.32 fixed-point number.
    ps_per_tick: u64,
    ticks_per_second: f64,
}

const CALIBRATION: Duration = Duration::from_millis(40);

impl TscClock {
    /// Measures the counter against the operating system's monotonic clock, which takes 40 ms.
    ///
    /// Each end of the measurement is the closest of several readings, so that being descheduled
    /// between the two clocks does not spoil it; what is left is about one part in a million.
    pub fn calibrate() -> Result<TscClock, TscUnusable> {
        if !has_invariant_tsc() {
            return Err(TscUnusable);
        }
        let (tick_start, os_start) = paired_reading();
        std::thread::sleep(CALIBRATION);
        let (tick_end, os_end) = paired_reading();
        let seconds = os_end.duration_since(os_start).as_secs_f64();
        let ticks_per_second = (tick_end - tick_start) as f64 / seconds;
        Ok(TscClock::with_frequency(tick_end, ticks_per_second))
    }

    /// A clock for a counter whose speed is known.
    pub fn with_frequency(epoch: u64, ticks_per_second: f64) -> TscClock {
        let ps_per_tick = (1e12 / ticks_per_second * (1u64 << 32) as f64) as u64;
        TscClock { epoch, ps_per_tick, ticks_per_second }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        self.at(read_tsc())
    }

    /// The time at which the counter showed `ticks`; the epoch for anything before it.
    #[inline]
    pub fn at(&self, ticks: u64) -> Time {
        let elapsed = ticks.saturating_sub(self.epoch);
        Time::from_ps(((u128::from(elapsed) * u128::from(self.ps_per_tick)) >> 32) as u64)
    }

    /// Counter ticks in a second.
    pub fn ticks_per_second(&self) -> f64 {
        self.ticks_per_second
    }

    /// The length of one tick: the finest difference this clock can show.
    pub fn resolution(&self) -> Span {
        Span::from_ps((self.ps_per_tick >> 32).max(1))
    }

    /// Spins until `deadline`; returns the time at which it noticed.
    #[inline]
    pub fn spin_until(&self, deadline: Time) -> Time {
        loop {
            let now = self.now();
            if now >= deadline {
                return now;
            }
            std::hint::spin_loop();
        }
    }
}

/// CPUID leaf 8000_0007h, EDX bit 8: the counter runs at one speed in all P-, C- and T-states
/// (Intel SDM volume 3, 18.17.1). Hypervisors often hide the bit although the host has it; then
/// the operating system's own choice of a clock source that is the TSC, or (`kvm-clock`) is worked out
/// from it, is taken as proof.
fn has_invariant_tsc() -> bool {
    let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    let told =
        extended >= 0x8000_0007 && core::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0;
    told || std::fs::read_to_string(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    )
    .is_ok_and(|source| matches!(source.trim(), "tsc" | "kvm-clock"))
}

/// The pair of readings with the shortest time between them, of 32 tries.
fn paired_reading() -> (u64, Instant) {
    let mut best = (u64::MAX, 0, Instant::now());
    for _ in 0..32 {
        let before = read_tsc();
        let os = Instant::now();
        let after = read_tsc();
        let gap = after.wrapping_sub(before);
        if gap < best.0 {
            best = (gap, before + gap / 2, os);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_ticks_without_drift() {
        let clock = TscClock::with_frequency(1_000, 2.5e9);
        assert_eq!(clock.at(1_000), Time::ZERO);
        let hour = 2_500_000_000u64 * 3600;
        let error_ps = clock.at(1_000 + hour).as_ps().abs_diff(3_600_000_000_000_000);
        assert!(error_ps < 1_000_000, "off by {error_ps} ps in an hour");
    }

    #[test]
    fn a_value_from_before_the_epoch_is_the_epoch() {
        assert_eq!(TscClock::with_frequency(1_000, 1e9).at(5), Time::ZERO);
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no cpuid under Miri")]
    fn agrees_with_the_operating_system() {
        let clock = TscClock::calibrate().unwrap();
        let (ours, theirs) = (clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(30));
        let (ours, theirs) = (clock.now().since(ours).as_secs(), theirs.elapsed().as_secs_f64());
        // Two clocks are read one after the other, so being descheduled in between is allowed for.
        assert!((ours - theirs).abs() < 0.02 + theirs * 0.01, "{ours} s against {theirs} s");
    }
}
