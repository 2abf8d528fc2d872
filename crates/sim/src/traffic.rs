//! What arrives: bursts of frames that follow each other as fast as the line carries them.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Arrivals, Seed, Span, Time};
use warikomi_inject::{Addresses, FrameTemplate, PlanError, SEQUENCE_OFFSET, Source};
use warikomi_nic::{Frame, MIN_FRAME_BYTES};
use warikomi_wire::wire_time;

/// Bursts of frames on a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Bytes of all frames of a burst together, without check sequences. What does not fill the last
    /// frame makes it shorter; it has 60 bytes at least.
    pub burst_bytes: usize,
    /// The longest frame in bytes, without check sequence.
    pub frame_bytes: usize,
    /// What the line carries, in bit/s.
    pub line_rate_bps: u64,
    /// The mean share of the time for which the line is busy, 0 to 1 (both excluded and included).
    pub load_share: f64,
    /// Gaps between bursts are random, with an exponential distribution, not all the same.
    pub random_gaps: bool,
    /// Bursts in all.
    pub bursts: u64,
}

impl Traffic {
    /// Frames of each burst.
    pub fn frames_per_burst(&self) -> u64 {
        self.burst_bytes.div_ceil(self.frame_bytes.max(1)).max(1) as u64
    }

    /// Length of the last frame of a burst in bytes.
    fn last_bytes(&self) -> usize {
        let before = (self.frames_per_burst() as usize - 1) * self.frame_bytes;
        (self.burst_bytes - before.min(self.burst_bytes)).max(MIN_FRAME_BYTES)
    }

    /// How long the line is busy with a burst.
    pub fn burst_time(&self) -> Span {
        wire_time(self.frame_bytes, self.line_rate_bps) * (self.frames_per_burst() - 1)
            + wire_time(self.last_bytes(), self.line_rate_bps)
    }

    /// The mean time between the ends of bursts and the beginnings of the next.
    pub fn mean_gap(&self) -> Span {
        let share = self.load_share.clamp(1e-6, 1.0);
        Span::from_ps((self.burst_time().as_ps() as f64 * (1.0 - share) / share) as u64)
    }
}

/// The bytes of each frame of a [`Traffic`], by its number.
#[derive(Clone)]
pub(super) struct BurstFrames {
    full: FrameTemplate,
    last: FrameTemplate,
    frames_per_burst: u64,
    count: u64,
}

impl BurstFrames {
    fn new(traffic: &Traffic, station: [u8; 6], run_id: u32) -> Result<BurstFrames, PlanError> {
        let addresses = Addresses::to_guest(station);
        let frames_per_burst = traffic.frames_per_burst();
        let template = |bytes| FrameTemplate::new(&addresses, bytes, run_id);
        let last = template(traffic.last_bytes())?;
        let full = if frames_per_burst == 1 || traffic.frame_bytes == traffic.last_bytes() {
            last.clone()
        } else {
            template(traffic.frame_bytes)?
        };
        let count = frames_per_burst * traffic.bursts;
        Ok(BurstFrames { full, last, frames_per_burst, count })
    }

    #[inline]
    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        if (sequence + 1).is_multiple_of(self.frames_per_burst) {
            self.last.frame(sequence)
        } else {
            self.full.frame(sequence)
        }
    }

    /// Length of the longest frame in bytes.
    pub(super) fn longest_bytes(&self) -> usize {
        self.full.size_bytes().max(self.last.size_bytes())
    }

    /// The number of the frame that has exactly these bytes; `None` if there is none.
    pub(super) fn number_of(&mut self, bytes: &[u8]) -> Option<u64> {
        let sequence = number_in(bytes).filter(|sequence| *sequence < self.count)?;
        (self.frame(sequence).bytes == bytes).then_some(sequence)
    }
}

/// The number that a frame would have if it were one of ours.
pub(super) fn number_in(frame: &[u8]) -> Option<u64> {
    frame.get(SEQUENCE_OFFSET..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// The frames of a [`Traffic`], one at a time.
pub struct Bursts {
    frames: BurstFrames,
    full_time: Span,
    gaps: Arrivals,
    /// Of the frame that is next: its place in its burst, and when it has arrived.
    place: u64,
    due: Time,
    left: u64,
    last_time: Span,
}

impl Bursts {
    /// The frames of `traffic`, to this station, the first burst beginning at `start`.
    pub fn new(
        traffic: &Traffic,
        station: [u8; 6],
        run_id: u32,
        seed: Seed,
        start: Time,
    ) -> Result<Bursts, PlanError> {
        let frames = BurstFrames::new(traffic, station, run_id)?;
        let mean = traffic.mean_gap();
        let mut bursts = Bursts {
            last_time: wire_time(frames.last.size_bytes(), traffic.line_rate_bps),
            full_time: wire_time(frames.full.size_bytes(), traffic.line_rate_bps),
            gaps: match traffic.random_gaps {
                true => Arrivals::Poisson { mean, generator: Box::new(seed.generator()) },
                false => Arrivals::Constant(mean),
            },
            place: 0,
            due: start,
            left: frames.count,
            frames,
        };
        bursts.due += bursts.time_of(0);
        Ok(bursts)
    }

    /// Its frames, without their times.
    pub(super) fn frames(&self) -> &BurstFrames {
        &self.frames
    }

    /// Bytes of the frame that is next.
    pub(super) fn next_bytes(&self) -> usize {
        let [full, last] = self.sizes_bytes();
        if self.is_last(self.place) { last } else { full }
    }

    /// Lengths of the frames within a burst, and of its last, in bytes.
    pub(super) fn sizes_bytes(&self) -> [usize; 2] {
        [self.frames.full.size_bytes(), self.frames.last.size_bytes()]
    }

    fn is_last(&self, place: u64) -> bool {
        place + 1 == self.frames.frames_per_burst
    }

    fn time_of(&self, place: u64) -> Span {
        if self.is_last(place) { self.last_time } else { self.full_time }
    }
}

impl Source for Bursts {
    fn count(&self) -> u64 {
        self.frames.count
    }

    fn packets_per_deadline(&self) -> u32 {
        1
    }

    #[inline]
    fn due(&self) -> Time {
        if self.left == 0 { Time::NEVER } else { self.due }
    }

    #[inline]
    fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.is_last(self.place) {
            self.place = 0;
            self.due += self.gaps.next_gap();
        } else {
            self.place += 1;
        }
        self.due += self.time_of(self.place);
    }

    #[inline]
    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        self.frames.frame(sequence)
    }

    fn paced(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(burst_bytes: usize) -> Traffic {
        Traffic {
            burst_bytes,
            frame_bytes: 1_500,
            line_rate_bps: 1_000_000_000,
            load_share: 0.25,
            random_gaps: false,
            bursts: 100,
        }
    }

    fn frames(traffic: &Traffic) -> Vec<(Time, usize)> {
        let mut bursts = Bursts::new(traffic, [2, 0, 0, 0, 0, 1], 1, Seed(1), Time::ZERO).unwrap();
        let mut frames = Vec::new();
        while bursts.due() != Time::NEVER {
            let (due, bytes) = (bursts.due(), bursts.next_bytes());
            assert_eq!(bursts.frame(frames.len() as u64).bytes.len(), bytes);
            frames.push((due, bytes));
            bursts.advance();
        }
        assert_eq!(frames.len() as u64, bursts.count());
        frames
    }

    #[test]
    fn a_burst_is_cut_into_frames_that_follow_each_other() {
        let all = frames(&traffic(50_000));
        assert_eq!(all.len(), 3_400);
        assert_eq!(all[..34].iter().map(|(_, bytes)| bytes).sum::<usize>(), 33 * 1_500 + 500);
        let line = wire_time(1_500, 1_000_000_000);
        assert_eq!((all[0].0, all[1].0), (Time::ZERO + line, Time::ZERO + line * 2));
    }

    #[test]
    fn the_line_is_busy_for_the_share_that_was_asked_for() {
        for (burst_bytes, random_gaps, tolerance) in
            [(1_000, false, 0.01), (65_000, false, 0.01), (20_000, true, 0.1)]
        {
            let traffic = Traffic { random_gaps, bursts: 2_000, ..traffic(burst_bytes) };
            let all = frames(&traffic);
            let busy = (traffic.burst_time() * 2_000).as_secs();
            let share = busy / all.last().unwrap().0.since(Time::ZERO).as_secs();
            assert!((share - 0.25).abs() < 0.25 * tolerance, "{burst_bytes}: {share}");
        }
    }

    #[test]
    fn a_short_rest_is_padded() {
        let all = frames(&traffic(1_510));
        assert_eq!((all[0].1, all[1].1), (1_500, MIN_FRAME_BYTES));
    }
}
