//! What comes while a sender sends: frames of ours, each of which is read by the application.

use warikomi_driver::{Buffer, Received, RxSink};
use warikomi_pci::DmaMemory;
use warikomi_protocol::payload::{HEAD_BYTES, Head};

use crate::HEADER_BYTES;

/// Bytes of the frames that come, without check sequence.
pub const RECEIVED_FRAME_BYTES: usize = 256;
/// Frames that one pass takes at most: sending goes on behind it.
pub(super) const BUDGET: usize = 16;

/// The application's end of the receive side.
#[derive(Debug)]
pub(super) struct Inbox {
    run_id: u32,
    /// Number of the next frame, if none is missing.
    next: u64,
    /// Frames so far.
    pub(super) received: u64,
    /// Frames of the pass at hand, behind so many that are missing, and their bytes.
    pub(super) frames: u64,
    pub(super) missing: u64,
    pub(super) bytes: usize,
    /// The application's copy of a frame.
    copy: Vec<u8>,
}

impl Inbox {
    /// For frames of this run.
    pub(super) fn new(run_id: u32) -> Inbox {
        let copy = vec![0; RECEIVED_FRAME_BYTES];
        Inbox { run_id, next: 0, received: 0, frames: 0, missing: 0, bytes: 0, copy }
    }

    /// A pass begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.frames, self.missing, self.bytes) = (0, 0, 0);
    }

    /// Copies a frame and looks whether it is one of ours; any other is left alone.
    #[inline]
    fn read(&mut self, memory: &dyn DmaMemory, buffer: Buffer, frame: Received) {
        let bytes = (frame.bytes as usize).min(self.copy.len());
        let copy = &mut self.copy[..bytes];
        if memory.read(buffer.address, copy).is_err() {
            return;
        }
        let Some(payload) = copy.get(HEADER_BYTES..).filter(|it| it.len() >= HEAD_BYTES) else {
            return;
        };
        let Some(head) = Head::from_bytes(payload) else { return };
        if head.run_id != self.run_id || head.sequence < self.next {
            return;
        }
        self.missing += head.sequence - self.next;
        self.next = head.sequence + 1;
        self.frames += 1;
        self.received += 1;
        self.bytes += bytes;
    }
}

/// The receive side for one pass: the application reads each frame before its buffer goes back.
pub(super) struct Reading<'a> {
    pub(super) inbox: &'a mut Inbox,
    pub(super) memory: &'a dyn DmaMemory,
    pub(super) pool: &'a mut dyn RxSink,
}

impl RxSink for Reading<'_> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        self.pool.buffer()
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, frame: Received) {
        self.inbox.read(self.memory, buffer, frame);
        self.pool.received(buffer, frame);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.pool.returned(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::SharedMemory;

    /// A pool without buffers of its own; how many came back.
    struct Back(usize);

    impl RxSink for Back {
        fn buffer(&mut self) -> Option<Buffer> {
            None
        }
        fn received(&mut self, _: Buffer, _: Received) {
            self.0 += 1;
        }
        fn returned(&mut self, _: Buffer) {
            self.0 += 1;
        }
    }

    #[test]
    fn frames_of_the_run_are_counted_in_order_and_gaps_between_them_as_missing() {
        let memory = SharedMemory::anonymous(0x1000, 4_096).unwrap();
        let (mut inbox, mut pool) = (Inbox::new(7), Back(0));
        let mut come = |run_id, sequence, bytes| {
            let head = Head { run_id, sequence }.to_bytes();
            memory.write(0x1000 + HEADER_BYTES as u64, &head).unwrap();
            let buffer = Buffer::new(0x1000, 2_048, 0).unwrap();
            let mut reading = Reading { inbox: &mut inbox, memory: &memory, pool: &mut pool };
            reading.received(buffer, Received { bytes, checksums_good: true });
        };
        come(7, 0, 256);
        come(7, 1, 100);
        come(8, 2, 256);
        come(7, 5, 256);
        come(7, 4, 256);
        come(7, 6, 50);
        come(7, 6, 60_000);
        assert_eq!(pool.0, 7, "every buffer goes back");
        assert_eq!((inbox.frames, inbox.missing), (4, 3));
        assert_eq!(inbox.bytes, 256 + 100 + 256 + 256, "of what is too long a part is read");
        inbox.begin();
        assert_eq!((inbox.frames, inbox.missing, inbox.bytes, inbox.next), (0, 0, 0, 7));
    }
}
