//! The command queue: the driver's register and configuration accesses, served in order.
//!
//! A write is posted: the guest goes on at once. A read is waited for by a guest that spins (and that
//! must never give up: see `process`), so this queue is looked at on every pass of the support side's
//! loop, and the guest is told never to notify.

use std::rc::Rc;

use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestMemoryMmap};
use warikomi_clock::{Clock, Time};
use warikomi_nic::Nic;
use warikomi_nic::register::Role;
use warikomi_pci::{Host, SharedMemory};

use super::interrupts::InterruptQueue;
use super::line::Line;
use super::message::{Access, HEADER_BYTES, MAX_DATA_BYTES};
use super::unserved::Unserved;
use crate::cycles::{little_endian, pieces};

/// Accesses served in one pass: many, because the guest spins for some of them, but bounded, so
/// that a guest cannot keep the injector waiting.
const ACCESSES_PER_PASS: usize = 64;

/// Descriptors of one access. The guest uses two or three; a chain of empty ones could be as long as the queue, or a
/// table of its own.
const DESCRIPTORS_PER_ACCESS: usize = 8;

/// Posted writes after which the guest is signalled to take its buffers back.
///
/// It takes them back by itself whenever it reads a register; a driver that only writes would run
/// out of the queue's 256 descriptors and its writes would be lost. The signal must not come while
/// the guest puts another access into the queue (see `port`), so there has to be time to find a
/// moment.
const WRITES_BEFORE_CALL: u32 = 128;

/// What a pass of the queue found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) accesses: u64,
    pub(super) malformed: u64,
    pub(super) disguised: u64,
}

pub(super) struct CommandQueue {
    queue: Queue,
    unserved: Rc<Unserved>,
    call: Option<Line>,
    writes_since_read: u32,
    /// The last access was one that came as another.
    disguised: bool,
    request: [u8; HEADER_BYTES + MAX_DATA_BYTES],
    reply: [u8; MAX_DATA_BYTES],
}

impl CommandQueue {
    pub(super) fn new(mut queue: Queue, call: Option<Line>, memory: &SharedMemory) -> Self {
        // The guest must not spend a system call on telling us what we see by polling. If the flag
        // cannot be written the queue is unusable, and serving it finds that out.
        let _ = queue.disable_notification(memory.regions());
        let unserved = Unserved::new(memory, &queue);
        CommandQueue {
            queue,
            unserved,
            call,
            writes_since_read: 0,
            disguised: false,
            request: [0; HEADER_BYTES + MAX_DATA_BYTES],
            reply: [0; MAX_DATA_BYTES],
        }
    }

    /// Which buffer is taken next, as the guest counts them.
    pub(super) fn next_available(&self) -> u16 {
        self.queue.next_avail()
    }

    /// What has not been served, now and later.
    pub(super) fn unserved(&self) -> Rc<Unserved> {
        Rc::clone(&self.unserved)
    }

    /// Whether the guest must be signalled to take its buffers back.
    #[inline]
    pub(super) fn wants_a_call(&self) -> bool {
        self.writes_since_read >= WRITES_BEFORE_CALL && self.call.is_some()
    }

    /// Signals it.
    pub(super) fn call(&mut self) {
        self.writes_since_read = 0;
        if let Some(call) = &self.call {
            // A full line means that a signal is on its way already.
            let _ = call.write(&1u64.to_ne_bytes());
        }
    }

    /// Serves what is waiting.
    #[inline]
    pub(super) fn serve(
        &mut self,
        nic: &mut dyn Nic,
        memory: &SharedMemory,
        interrupts: &mut InterruptQueue,
        clock: &Clock,
    ) -> Served {
        let mut served = Served::default();
        for _ in 0..ACCESSES_PER_PASS {
            let Some(chain) = self.pop(memory.regions()) else { break };
            let head = chain.head_index();
            let now = clock.now();
            interrupts.set_now(now);
            match self.execute(chain, memory, nic, interrupts, now) {
                Some(replied) => {
                    served.accesses += 1;
                    served.disguised += u64::from(std::mem::take(&mut self.disguised));
                    self.finish(memory, head, replied);
                }
                None => {
                    served.malformed += 1;
                    self.finish(memory, head, 0);
                }
            }
        }
        served
    }

    #[inline]
    fn pop<'m>(
        &mut self,
        memory: &'m GuestMemoryMmap,
    ) -> Option<DescriptorChain<&'m GuestMemoryMmap>> {
        let chain = self.queue.iter(memory).ok()?.next()?;
        self.unserved.take_up_to(self.queue.next_avail());
        Some(chain)
    }

    /// Carries one access out; returns the length of the reply, or `None` if it made no sense.
    #[inline]
    fn execute(
        &mut self,
        chain: DescriptorChain<&GuestMemoryMmap>,
        memory: &SharedMemory,
        nic: &mut dyn Nic,
        interrupts: &mut InterruptQueue,
        now: Time,
    ) -> Option<u32> {
        let regions = memory.regions();
        let (mut filled, mut into) = (0, None);
        for (number, descriptor) in chain.enumerate() {
            if number == DESCRIPTORS_PER_ACCESS {
                return None;
            }
            let len = descriptor.len() as usize;
            if descriptor.is_write_only() {
                into = Some((descriptor.addr(), len));
                break;
            }
            let room = self.request.get_mut(filled..filled + len)?;
            regions.read_slice(room, descriptor.addr()).ok()?;
            filled += len;
        }
        let access = Access::decode(&self.request[..filled]).ok()?;
        self.disguised = matches!(access, Access::BarFill { disguised: true, .. });
        let role = access.place().map_or(Role::Other, |(bar, at)| nic.info().role(bar, at));
        match role {
            Role::Status(_) | Role::Mask(_) => {}
            Role::Doorbell(_) => interrupts.driver_transmits(),
            Role::Other => interrupts.driver_is_at_work(),
        }
        let mut host = Host { now, memory, interrupts, looks: None };
        let reply = perform(access, nic, &mut host, &mut self.reply);
        if reply == 0 {
            self.writes_since_read += 1;
            return Some(0);
        }
        self.writes_since_read = 0;
        let (address, room) = into?;
        let reply = &self.reply[..reply.min(room)];
        regions.write_slice(reply, address).ok()?;
        Some(reply.len() as u32)
    }

    #[inline]
    fn finish(&mut self, memory: &SharedMemory, head: u16, replied: u32) {
        // A used ring outside memory was refused at set-up, so this cannot fail later.
        let _ = self.queue.add_used(memory.regions(), head, replied);
    }
}

/// Does to the NIC what was asked; returns the length of the reply, 0 for a write.
#[inline]
fn perform(access: Access<'_>, nic: &mut dyn Nic, host: &mut Host<'_>, reply: &mut [u8]) -> usize {
    match access {
        Access::ConfigRead { offset, len } => {
            for (at, width) in pieces(u64::from(offset), len) {
                let value = nic.config_read(offset.wrapping_add(at as u16), width);
                reply[at..at + width.bytes()]
                    .copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
            }
            len
        }
        Access::ConfigWrite { offset, data } => {
            for (at, width) in pieces(u64::from(offset), data.len()) {
                let value = little_endian(&data[at..at + width.bytes()]);
                nic.config_write(host, offset.wrapping_add(at as u16), width, value);
            }
            0
        }
        Access::BarRead { bar, offset, len } => {
            for (at, width) in pieces(offset, len) {
                let value = nic.bar_read(host, bar, offset.wrapping_add(at as u64), width);
                reply[at..at + width.bytes()]
                    .copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
            }
            len
        }
        Access::BarWrite { bar, offset, data } => {
            for (at, width) in pieces(offset, data.len()) {
                let value = little_endian(&data[at..at + width.bytes()]);
                nic.bar_write(host, bar, offset.wrapping_add(at as u64), width, value);
            }
            0
        }
        Access::BarFill { bar, offset, len, value, .. } => {
            let value = u64::from_ne_bytes([value; 8]);
            for (at, width) in pieces(offset, len) {
                nic.bar_write(host, bar, offset.wrapping_add(at as u64), width, value);
            }
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{GuestQueue, Signals};
    use proptest::prelude::*;
    use warikomi_clock::TscClock;
    use warikomi_pci::Width;
    use warikomi_testbench::card;

    struct Bench {
        guest: GuestQueue,
        signals: Signals,
        queue: CommandQueue,
        interrupts: InterruptQueue,
        nic: Box<dyn Nic>,
    }

    impl Bench {
        fn new() -> Bench {
            let guest = GuestQueue::new();
            let (signals, call) = Signals::line();
            let queue = CommandQueue::new(guest.device_side(), Some(call), &guest.memory);
            let nic = card("rtl8168");
            let idle = GuestQueue::new();
            let (_, call) = Signals::line();
            let unserved = queue.unserved();
            let interrupts =
                InterruptQueue::new(idle.device_side(), call, idle.memory.clone(), unserved);
            Bench { guest, signals, queue, interrupts, nic }
        }

        fn serve(&mut self) -> Served {
            let clock = Clock::Real(TscClock::with_frequency(0, 1e9));
            self.queue.serve(&mut *self.nic, &self.guest.memory, &mut self.interrupts, &clock)
        }

        fn roundtrip(&mut self, message: &[u8], room: u32) -> (Served, Vec<u8>) {
            self.guest.send(0, message, room);
            let served = self.serve();
            assert!(self.guest.take().is_some(), "every message comes back");
            (served, self.guest.answer(0, room as usize))
        }
    }

    fn message(op: u8, bar: u8, size: u32, address: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![op, bar, 0, 0];
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn a_configuration_read_is_answered_and_notifications_are_off() {
        let mut bench = Bench::new();
        assert!(bench.guest.notifications_off());
        let (served, answer) = bench.roundtrip(&message(1, 0, 4, 0, &[]), 8);
        assert_eq!((served.accesses, served.malformed), (1, 0));
        assert_eq!(&answer[..4], &[0xec, 0x10, 0x68, 0x81]);
    }

    #[test]
    fn posted_writes_without_a_read_make_the_guest_collect_its_buffers() {
        let mut bench = Bench::new();
        let write = message(2, 0, 2, 4, &[6, 0, 0, 0, 0, 0, 0, 0]);
        for _ in 0..WRITES_BEFORE_CALL {
            assert!(!bench.queue.wants_a_call());
            bench.roundtrip(&write, 0);
        }
        assert!(bench.queue.wants_a_call());
        bench.queue.call();
        assert_eq!((bench.signals.count(), bench.queue.wants_a_call()), (1, false));
        for _ in 0..WRITES_BEFORE_CALL {
            bench.roundtrip(&write, 0);
        }
        bench.roundtrip(&message(1, 0, 4, 0, &[]), 8);
        assert!(!bench.queue.wants_a_call(), "a read lets the guest collect by itself");
    }

    #[test]
    fn a_memset_reaches_the_bar_whichever_way_it_comes() {
        for op in [2, 5] {
            let mut bench = Bench::new();
            bench.roundtrip(&message(2, 0, 2, 4, &[6, 0, 0, 0, 0, 0, 0, 0]), 0);
            let (served, _) = bench.roundtrip(&message(op, 2, 8, 0x08, &[0xff]), 0);
            assert_eq!(served.disguised, u64::from(op == 2));
            let (_, answer) = bench.roundtrip(&message(3, 2, 4, 0x08, &[]), 4);
            assert_eq!(answer, [0xff; 4], "the multicast hash takes any value");
        }
    }

    #[test]
    fn nonsense_is_counted_and_returned() {
        let mut bench = Bench::new();
        for bad in [&message(99, 0, 4, 0, &[])[..], &[1, 2, 3], &message(3, 2, 0, 0, &[])] {
            let (served, _) = bench.roundtrip(bad, 8);
            assert_eq!((served.accesses, served.malformed), (0, 1));
        }
        let (served, _) = bench.roundtrip(&message(1, 0, 4, 0, &[]), 0);
        assert_eq!(served.malformed, 1, "a read with no room for its answer");
    }

    #[test]
    fn an_access_has_a_few_descriptors_and_what_has_more_is_not_followed() {
        let write = message(2, 0, 2, 4, &[6, 0, 0, 0, 0, 0, 0, 0]);
        for (empty, made_sense) in [(2, true), (DESCRIPTORS_PER_ACCESS as u16, false)] {
            let mut bench = Bench::new();
            bench.guest.send_behind(empty, &write);
            let served = bench.serve();
            assert_eq!((served.accesses == 1, served.malformed == 0), (made_sense, made_sense));
            assert!(bench.guest.take().is_some(), "every message comes back");
        }
    }

    #[test]
    fn an_ordinary_access_is_one_cycle_even_when_unaligned() {
        assert_eq!(pieces(3, 4).collect::<Vec<_>>(), [(0, Width::B4)]);
    }

    proptest! {
        #[test]
        fn the_pieces_cover_the_access_once_and_in_order(offset: u64, len in 0usize..5000) {
            let mut next = 0;
            for (at, width) in pieces(offset, len) {
                prop_assert_eq!(at, next);
                next += width.bytes();
            }
            prop_assert_eq!(next, len);
        }

        #[test]
        fn any_message_comes_back(
            messages in prop::collection::vec(
                (0u8..10, 0u8..6, prop_oneof![0u32..16, any::<u32>()], any::<u64>(),
                 prop::collection::vec(any::<u8>(), 0..100), 0u32..64),
                1..40)
        ) {
            let mut bench = Bench::new();
            for (op, bar, size, address, data, room) in messages {
                bench.roundtrip(&message(op, bar, size, address % 0x2000, &data), room);
            }
        }
    }
}
