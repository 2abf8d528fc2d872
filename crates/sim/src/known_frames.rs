//! Frames that arrived, known again in memory by all their bytes.

use warikomi_pci::{DmaMemory, SharedMemory};

use super::traffic::BurstFrames;

/// The frames of a run, and room for one that is looked at.
pub(super) struct KnownFrames {
    frames: BurstFrames,
    bytes: Vec<u8>,
}

impl KnownFrames {
    pub(super) fn new(frames: BurstFrames) -> KnownFrames {
        KnownFrames { bytes: vec![0; frames.longest_bytes()], frames }
    }

    /// The number of the frame of `bytes` bytes at `address`. `None` if it is none of ours, or differs in a byte.
    pub(super) fn sequence_at(
        &mut self,
        memory: &SharedMemory,
        address: u64,
        bytes: u32,
    ) -> Option<u64> {
        let found = self.bytes.get_mut(..bytes as usize)?;
        memory.read(address, found).ok()?;
        self.frames.number_of(found)
    }
}

#[cfg(test)]
mod tests {
    use warikomi_clock::{Seed, Time};
    use warikomi_inject::Source;

    use super::*;
    use crate::{Bursts, Traffic};

    #[test]
    fn a_frame_is_recognised_whole_or_not_at_all() {
        let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
        let traffic = Traffic {
            burst_bytes: 2_500,
            frame_bytes: 1_000,
            line_rate_bps: 1_000_000_000,
            load_share: 1.0,
            random_gaps: false,
            bursts: 26,
        };
        let bursts = |run_id| {
            Bursts::new(&traffic, [2, 0, 0, 0, 0, 1], run_id, Seed(1), Time::ZERO).unwrap()
        };
        let mut frames = bursts(9);
        let [mut known, mut other_run] =
            [&frames, &bursts(8)].map(|bursts| KnownFrames::new(bursts.frames().clone()));
        memory.write(0x100, frames.frame(76).bytes).unwrap();
        let mut sequence_at = |address, bytes| known.sequence_at(&memory, address, bytes);
        assert_eq!(sequence_at(0x100, 1_000), Some(76));
        assert_eq!(other_run.sequence_at(&memory, 0x100, 1_000), None);
        assert_eq!(sequence_at(0x100, 999), None, "cut off");
        assert_eq!(sequence_at(0x100, 20), None, "too short for a number");
        assert_eq!(sequence_at(0x100, 1_001), None, "longer than any");
        assert_eq!(sequence_at(u64::MAX - 5, 1_000), None, "nowhere");
        for at in 0..1_000 {
            let mut byte = [0];
            memory.read(0x100 + at, &mut byte).unwrap();
            memory.write(0x100 + at, &[byte[0] ^ 1]).unwrap();
            assert_eq!(sequence_at(0x100, 1_000), None, "byte {at} is another");
            memory.write(0x100 + at, &byte).unwrap();
        }
        memory.write(0x100, frames.frame(77).bytes).unwrap();
        assert_eq!(sequence_at(0x100, 500), Some(77), "the last of a burst is shorter");
        memory.write(0x100, frames.frame(78).bytes).unwrap();
        assert_eq!(sequence_at(0x100, 1_000), None, "there are 78");
    }
}
