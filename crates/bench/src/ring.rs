//! The reference: a bare ring between two threads, with one producer and one consumer.
//!
//! Nothing but what moving bytes between cores takes. A packet is copied from a buffer that the
//! sender has in its cache into a slot, and from the slot into a buffer that the receiver has in its
//! cache. Each side keeps the other's count and looks again only when it has to, and shows its own
//! once in a batch; the counts lie in cache lines of their own. No descriptors, no lengths, no
//! buffers to be given back: all packets are of one length.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use nix::unistd::gettid;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};
use warikomi_shared::create_region;
use warikomi_target::cores::Pinned;

use crate::way::{Failure, Running, Sample, Setup, Way, waited_ns};

/// What the slots take together, within the limits of their number: little enough for both cores to
/// keep it near.
const RING_BYTES: usize = 256 * 1_024;
/// Limits of the number of slots, which is a power of two.
const SLOTS: std::ops::RangeInclusive<usize> = 32..=1_024;
/// A side shows its count after so many packets.
const MOST_BATCH: usize = 32;
/// There are so many batches in the ring, so that both sides can work at a time.
const BATCHES: usize = 4;

const CACHE_LINE_BYTES: usize = 64;
const WORD_BYTES: usize = size_of::<u64>();

pub(super) struct BareRing;

impl Way for BareRing {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn description(&self) -> &'static str {
        "a bare ring of 64 to 512 KB between two threads, batches of up to 32; each packet is \
         copied twice, into the ring and out of it"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Running>, Failure> {
        Ok(Box::new(Between { setup: setup.clone() }))
    }
}

/// A ring that is measured anew each time.
struct Between {
    setup: Setup,
}

/// A count that only one side writes, away from the other's. Two cache lines, because processors
/// fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

struct Ring {
    memory: MmapRegion,
    size_bytes: usize,
    slots: usize,
    batch: u64,
    head: Count,
    tail: Count,
    ended: AtomicBool,
    /// Both sides on one core have to let each other run.
    yielding: bool,
}

impl Ring {
    fn new(setup: &Setup) -> Result<Ring, Failure> {
        let size_bytes = setup.size_bytes.max(2 * WORD_BYTES);
        let slot_bytes = size_bytes.next_multiple_of(CACHE_LINE_BYTES);
        let fitting = (RING_BYTES / slot_bytes).max(1).next_power_of_two();
        let slots = fitting.clamp(*SLOTS.start(), *SLOTS.end());
        let no_memory = "cannot map memory for a ring";
        let bytes = slots * slot_bytes;
        let file =
            create_region("warikomi-ring", bytes as u64).map_err(Failure::system(no_memory))?;
        let memory = MmapRegion::from_file(FileOffset::new(file, 0), bytes)
            .map_err(|error| Failure::system(no_memory)(std::io::Error::other(error)))?;
        Ok(Ring {
            memory,
            size_bytes,
            slots,
            batch: (slots / BATCHES).min(MOST_BATCH) as u64,
            head: Count::default(),
            tail: Count::default(),
            ended: AtomicBool::new(false),
            yielding: setup.cores.shared(),
        })
    }

    #[inline]
    fn slot(&self, count: u64) -> VolatileSlice<'_> {
        let slot_bytes = self.size_bytes.next_multiple_of(CACHE_LINE_BYTES);
        let at = (count as usize & (self.slots - 1)) * slot_bytes;
        self.memory.get_slice(at, self.size_bytes).expect("the ring is as long as its slots")
    }

    fn wait(&self) {
        if self.yielding {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    /// Sends until the receiver has seen enough. Each packet has its number at both ends.
    fn send(&self) {
        let mut packet = vec![0x5a; self.size_bytes];
        let (mut head, mut tail) = (0u64, 0u64);
        while !self.ended.load(Ordering::Relaxed) {
            if self.slots as u64 - (head - tail) < self.batch {
                tail = self.tail.0.load(Ordering::Acquire);
                if self.slots as u64 - (head - tail) < self.batch {
                    self.wait();
                    continue;
                }
            }
            for _ in 0..self.batch {
                stamp(&mut packet, head);
                self.slot(head).copy_from(&packet);
                head += 1;
            }
            self.head.0.store(head, Ordering::Release);
        }
    }

    /// Takes what comes; `batch_taken` is told how many came so far, and says whether to go on.
    fn receive(&self, mut batch_taken: impl FnMut(u64) -> bool) -> Result<(), Failure> {
        let mut packet = vec![0; self.size_bytes];
        let (mut head, mut tail) = (0u64, 0u64);
        while batch_taken(tail) {
            if head == tail {
                head = self.head.0.load(Ordering::Acquire);
                if head == tail {
                    self.wait();
                    continue;
                }
            }
            for _ in 0..self.batch.min(head - tail) {
                self.slot(tail).copy_to(&mut packet);
                check(&packet, tail)?;
                tail += 1;
            }
            self.tail.0.store(tail, Ordering::Release);
        }
        Ok(())
    }
}

#[inline]
fn stamp(packet: &mut [u8], number: u64) {
    let end = packet.len() - WORD_BYTES;
    packet[..WORD_BYTES].copy_from_slice(&number.to_le_bytes());
    packet[end..].copy_from_slice(&number.to_le_bytes());
}

#[inline]
fn check(packet: &[u8], expected: u64) -> Result<(), Failure> {
    for word in [packet.first_chunk(), packet.last_chunk()] {
        let found = word.copied().map_or(u64::MAX, u64::from_le_bytes);
        if found != expected {
            return Err(Failure::Corrupt { expected, found });
        }
    }
    Ok(())
}

/// Sets the flag when it goes out of scope, however that comes.
struct EndsAtLast<'a>(&'a AtomicBool);

impl Drop for EndsAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Running for Between {
    fn measure(&mut self) -> Result<Sample, Failure> {
        let ring = Ring::new(&self.setup)?;
        let sender_thread = AtomicU32::new(0);
        let no_core = "cannot pin a thread to its core";
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let _ends = EndsAtLast(&ring.ended);
                let _pinned =
                    Pinned::to(self.setup.cores.support).map_err(Failure::system(no_core))?;
                sender_thread.store(gettid().as_raw() as u32, Ordering::Relaxed);
                ring.send();
                Ok(())
            });
            let receiver = scope.spawn(|| {
                let _ends = EndsAtLast(&ring.ended);
                let _pinned =
                    Pinned::to(self.setup.cores.target).map_err(Failure::system(no_core))?;
                self.watch(&ring, &sender_thread)
            });
            let received = receiver.join().expect("the receiver does not panic");
            sender.join().expect("the sender does not panic")?;
            received
        })
    }
}

impl Between {
    /// Receives, and measures what it receives once the warm-up is over.
    fn watch(&self, ring: &Ring, sender_thread: &AtomicU32) -> Result<Sample, Failure> {
        let started = Instant::now();
        let own = gettid().as_raw() as u32;
        let waited = || waited_ns(&[own, sender_thread.load(Ordering::Relaxed)]);
        let mut from: Option<(Instant, u64, u64)> = None;
        let mut sample = None;
        ring.receive(|taken| {
            let now = Instant::now();
            match from {
                None if now - started >= self.setup.warm_up => from = Some((now, taken, waited())),
                Some((at, before, waited_before)) if now - at >= self.setup.measured => {
                    let seconds = (now - at).as_secs_f64();
                    let waited_ns = waited().saturating_sub(waited_before);
                    sample = Some(Sample {
                        packets_per_second: (taken - before) as f64 / seconds,
                        waited_share: waited_ns as f64 / 1e9 / (2.0 * seconds),
                    });
                }
                _ => {}
            }
            let ended = ring.ended.load(Ordering::Relaxed) || self.setup.interrupted.is_set();
            sample.is_none() && !ended
        })?;
        sample.ok_or(Failure::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use warikomi_target::Interrupted;
    use warikomi_target::cores::Cores;

    fn setup(size_bytes: usize) -> Setup {
        let cores = Cores::choose(&[]).unwrap();
        Setup {
            size_bytes,
            cores,
            warm_up: Duration::from_millis(5),
            measured: Duration::from_millis(20),
            interrupted: Interrupted::default(),
        }
    }

    #[test]
    fn every_packet_arrives_whole_and_in_order() {
        const PACKETS: u64 = 5_000;
        for size_bytes in [64, 100, 1_500, 16_000] {
            let mut ring = Ring::new(&setup(size_bytes)).unwrap();
            // The machine may have one core only.
            ring.yielding = true;
            let mut taken = 0;
            thread::scope(|scope| {
                scope.spawn(|| ring.send());
                let _ends = EndsAtLast(&ring.ended);
                ring.receive(|so_far| {
                    taken = so_far;
                    so_far < PACKETS
                })
                .unwrap();
            });
            assert!(taken >= PACKETS, "{size_bytes}: {taken}");
        }
    }

    #[test]
    fn a_packet_that_is_not_the_expected_one_is_found() {
        let mut packet = vec![0; 64];
        stamp(&mut packet, 7);
        assert!(check(&packet, 7).is_ok());
        assert!(matches!(check(&packet, 8), Err(Failure::Corrupt { expected: 8, found: 7 })));
        packet[63] = 1;
        assert!(check(&packet, 7).is_err(), "its end is another packet's");
    }

    #[test]
    fn a_measurement_ends_and_counts_what_came() {
        let mut between = Between { setup: setup(1_500) };
        // On a busy machine a side may not run at all in so short a time.
        let came = (0..1_000).any(|_| between.measure().unwrap().packets_per_second > 0.0);
        assert!(came);
        between.setup.interrupted.set();
        between.setup.measured = Duration::MAX;
        assert!(matches!(between.measure(), Err(Failure::Interrupted)));
    }
}
