//! Arrivals one by one, each at a time of its own: a recorded run, or real traffic.

use warikomi_clock::{Span, Time};
use warikomi_nic::{Frame, MAX_FRAME_BYTES, MIN_FRAME_BYTES, fcs};

use crate::frame::{SEQUENCE_BYTES, SEQUENCE_OFFSET};
use crate::{MAX_COUNT, MAX_DURATION, PAYLOAD_MAGIC, PAYLOAD_OFFSET, Source};

/// The most bytes of frames that a schedule holds.
const MAX_BYTES: usize = 2 << 30;

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Nothing to replay.
    #[error("there is no frame in it that a NIC could receive, so there is nothing to replay")]
    Empty,
    /// Too much to replay.
    #[error(
        "there are more than {MAX_COUNT} frames in it, or more than {} MB of them; cut it into \
         parts, for example with editcap -c", MAX_BYTES >> 20
    )]
    TooMuch,
    /// The run would be too long.
    #[error("it takes longer than {MAX_DURATION}; cut it into parts, or replay it with a --speed")]
    TooLong,
    /// A factor that makes no sense.
    #[error("a speed of {0} is not possible: choose 0.001 to 1000, such as 2.0 for twice as fast")]
    Speed(String),
}

/// A frame of a schedule and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// Time since the first arrival.
    pub after: Span,
    /// Which of the bytes that were added.
    base: u32,
    /// What the eight bytes are that frames of our own count in; `None` for the bytes as they are.
    number: Option<u64>,
    /// The check sequence behind the frame.
    fcs: u32,
}

/// Arrivals in the order of their times.
///
/// Frames that differ in their sequence number only share their bytes, so a run of 100,000 packets
/// of 16 KB takes 4 MB.
#[derive(Clone, Debug)]
pub struct Schedule {
    bases: Vec<Vec<u8>>,
    bytes: usize,
    arrivals: Vec<Arriving>,
    packets_per_deadline: u32,
    start: Time,
    /// The next deadline is that of this arrival.
    next: usize,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule::new()
    }
}

impl Schedule {
    /// A schedule without arrivals.
    pub fn new() -> Schedule {
        Schedule {
            bases: Vec::new(),
            bytes: 0,
            arrivals: Vec::new(),
            packets_per_deadline: 1,
            start: Time::ZERO,
            next: 0,
        }
    }

    /// Adds bytes that arrivals can name: a frame without check sequence, of
    /// [`MIN_FRAME_BYTES`] to [`MAX_FRAME_BYTES`].
    pub fn add_base(&mut self, bytes: &[u8]) -> Result<u32, ScheduleError> {
        debug_assert!((MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&bytes.len()));
        self.bytes += bytes.len();
        if self.bytes > MAX_BYTES || self.bases.len() as u64 >= MAX_COUNT {
            return Err(ScheduleError::TooMuch);
        }
        self.bases.push(bytes.to_vec());
        Ok(self.bases.len() as u32 - 1)
    }

    /// Adds an arrival of the bytes `base`, with `number` in place of their sequence number if there
    /// is one. A time before that of the last arrival counts as that.
    pub fn add(
        &mut self,
        after: Span,
        base: u32,
        number: Option<u64>,
        fcs: u32,
    ) -> Result<(), ScheduleError> {
        if self.arrivals.len() as u64 >= MAX_COUNT {
            return Err(ScheduleError::TooMuch);
        }
        let after = self.arrivals.last().map_or(after, |last| last.after.max(after));
        self.arrivals.push(Arriving { after, base, number, fcs });
        Ok(())
    }

    /// So many packets share a deadline, that of the first of them, and an interrupt.
    #[must_use]
    pub fn in_bursts_of(self, packets: u32) -> Schedule {
        Schedule { packets_per_deadline: packets.max(1), ..self }
    }

    /// `speed` times as fast: 0.001 to 1000. An error if there is no arrival at all.
    pub fn at_speed(mut self, speed: f64) -> Result<Schedule, ScheduleError> {
        if !(0.001..=1000.0).contains(&speed) {
            return Err(ScheduleError::Speed(speed.to_string()));
        }
        if self.arrivals.is_empty() {
            return Err(ScheduleError::Empty);
        }
        if self.duration().as_secs() / speed > MAX_DURATION.as_secs() {
            return Err(ScheduleError::TooLong);
        }
        if speed != 1.0 {
            for arrival in &mut self.arrivals {
                arrival.after = Span::from_ps((arrival.after.as_ps() as f64 / speed) as u64);
            }
        }
        Ok(self)
    }

    /// Sets the time of the first arrival.
    #[must_use]
    pub fn from(self, start: Time) -> Schedule {
        Schedule { start, ..self }
    }

    /// Addresses all frames that are for one station to this hardware address. A check sequence
    /// that was wrong stays wrong in the same bits.
    pub fn readdress(&mut self, destination: [u8; 6]) {
        const GROUP: u8 = 1;
        // A check sequence changes by the same bits in all frames of one length.
        let readdressed = self.bases.iter_mut().map(|base| {
            if base[0] & GROUP != 0 || base[..6] == destination {
                return 0;
            }
            let before = fcs(base);
            base[..6].copy_from_slice(&destination);
            before ^ fcs(base)
        });
        let changes: Vec<u32> = readdressed.collect();
        for arrival in &mut self.arrivals {
            arrival.fcs ^= changes[arrival.base as usize];
        }
    }

    /// Whether these are the packets 0, 1, 2 and so on of the run `run_id`, so that the application
    /// in the target recognises each.
    pub fn is_run(&self, run_id: u32) -> bool {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&PAYLOAD_MAGIC.to_le_bytes());
        head[4..].copy_from_slice(&run_id.to_le_bytes());
        let ours = |base: &Vec<u8>| base[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 8] == head;
        self.bases.iter().all(ours)
            && self.arrivals.iter().enumerate().all(|(at, arrival)| {
                let base = &self.bases[arrival.base as usize];
                arrival.number.or_else(|| Schedule::number_in(base)) == Some(at as u64)
            })
    }

    /// What stands in a frame where frames of our own have their sequence number; `None` of one that
    /// is shorter than that.
    pub fn number_in(frame: &[u8]) -> Option<u64> {
        let digits = frame.get(SEQUENCE_OFFSET..SEQUENCE_OFFSET + SEQUENCE_BYTES)?;
        digits.try_into().ok().map(u64::from_le_bytes)
    }

    /// The length of each frame in bytes, without check sequence.
    pub fn sizes_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.arrivals.iter().map(|at| self.bases[at.base as usize].len() as u64)
    }

    /// The arrivals, in order.
    pub fn arrivals(&self) -> &[Arriving] {
        &self.arrivals
    }

    /// Time from the first arrival to the last.
    pub fn duration(&self) -> Span {
        self.arrivals.last().map_or(Span::ZERO, |last| last.after)
    }

    /// Bytes of all frames together, without check sequences.
    pub fn total_bytes(&self) -> u64 {
        self.sizes_bytes().sum()
    }

    /// The longest frame in bytes, without check sequence.
    pub fn longest_frame_bytes(&self) -> usize {
        self.bases.iter().map(Vec::len).max().unwrap_or(MIN_FRAME_BYTES)
    }
}

impl Source for Schedule {
    fn count(&self) -> u64 {
        self.arrivals.len() as u64
    }

    fn packets_per_deadline(&self) -> u32 {
        self.packets_per_deadline
    }

    #[inline]
    fn due(&self) -> Time {
        self.arrivals.get(self.next).map_or(Time::NEVER, |arrival| self.start + arrival.after)
    }

    #[inline]
    fn advance(&mut self) {
        self.next += self.packets_per_deadline as usize;
    }

    #[inline]
    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        let arrival = &self.arrivals[sequence as usize];
        let bytes = &mut self.bases[arrival.base as usize];
        if let Some(number) = arrival.number {
            bytes[SEQUENCE_OFFSET..SEQUENCE_OFFSET + SEQUENCE_BYTES]
                .copy_from_slice(&number.to_le_bytes());
        }
        Frame { bytes, fcs: arrival.fcs }
    }

    #[inline]
    fn paced(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addresses, FrameTemplate};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// Three packets of a run, 0, 1,500 and 4,000 ns after the first.
    fn run() -> (FrameTemplate, Schedule) {
        let mut template = FrameTemplate::new(&Addresses::to_guest(MAC), 200, 77).unwrap();
        let mut schedule = Schedule::new();
        let base = schedule.add_base(template.frame(0).bytes).unwrap();
        for (number, ns) in [(0, 0), (1, 1_500), (2, 4_000)] {
            let check = template.frame(number).fcs;
            schedule.add(Span::from_ns(ns), base, Some(number), check).unwrap();
        }
        (template, schedule)
    }

    #[test]
    fn frames_come_as_they_were_at_their_times() {
        let (mut template, schedule) = run();
        let mut schedule = schedule.at_speed(2.0).unwrap().from(Time::from_ps(500));
        assert!(schedule.is_run(77) && !schedule.is_run(78));
        for (number, ps) in [(0, 500), (1, 750_500), (2, 2_000_500)] {
            assert_eq!(schedule.due(), Time::from_ps(ps));
            let (wanted, got) = (template.frame(number), schedule.frame(number));
            assert_eq!((wanted.bytes, wanted.fcs), (got.bytes, got.fcs));
            schedule.advance();
        }
        assert_eq!(schedule.due(), Time::NEVER);
    }

    #[test]
    fn another_address_keeps_check_sequences_right_and_wrong_ones_wrong() {
        let (_, mut schedule) = run();
        let wrong = schedule.frame(2).fcs ^ 4;
        schedule.add(Span::from_ns(5_000), 0, Some(3), wrong).unwrap();
        let other = schedule.frame(3).bytes.to_vec();
        let error = fcs(&other) ^ wrong;
        schedule.readdress([2, 0, 0, 0, 0, 1]);
        for number in 0..3 {
            let frame = schedule.frame(number);
            assert_eq!(frame.bytes[..6], [2, 0, 0, 0, 0, 1]);
            assert_eq!(frame.fcs, fcs(frame.bytes));
        }
        let frame = schedule.frame(3);
        assert_eq!(frame.fcs ^ fcs(frame.bytes), error);
    }

    #[test]
    fn a_time_that_goes_back_stands_still_and_nonsense_is_refused() {
        let (_, mut schedule) = run();
        schedule.add(Span::ZERO, 0, Some(3), 0).unwrap();
        assert_eq!(schedule.duration(), Span::from_ns(4_000));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(schedule.clone().at_speed(speed), Err(ScheduleError::Speed(_))));
        }
        assert_eq!(Schedule::new().at_speed(1.0).unwrap_err(), ScheduleError::Empty);
    }
}
