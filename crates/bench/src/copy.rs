//! Injecting a packet against copying its bytes.
//!
//! What makes either slow is the state of the memory: the buffers were last touched by the other
//! core. So the copy must go to the very buffers that packets go to, after the driver has read
//! them. Their addresses repeat with the ring and are learnt in a first lap; then every other
//! packet is timed whole, and before each of the rest its bytes are copied, timed, into the buffer
//! that it will go to: cold, and at once again, warm. Both are a plain copy (`ptr::copy_nonoverlapping`,
//! behind a check of the address).

use std::cell::RefCell;

use vm_memory::{Bytes, GuestAddress};
use warikomi_clock::{Clock, Span, Time, read_tsc};
use warikomi_inject::{Addresses, FrameTemplate};
use warikomi_lab::Error;
use warikomi_lab::inject::LOOKED_AHEAD;
use warikomi_nic::RxOutcome;
use warikomi_pci::{DmaError, DmaMemory, Host, SharedMemory};
use warikomi_session::Session;
use warikomi_target::{CardId, Target};

use crate::rounds::{ROUNDS, median, middle_mean};

/// Packets of a round; of these the middle third counts, as in the published measurement.
const PACKETS: usize = 3_000;

/// Short enough that the driver polls on, long enough that it keeps up, for frames of no bytes and
/// per byte.
const POLLED_INTERVAL: Span = Span::from_ns(1_500);
const POLLED_PS_PER_BYTE: u64 = 400;
/// Long enough that every packet finds the driver's interrupt enabled.
const SIGNALLED_INTERVAL: Span = Span::from_us(80);

pub(super) struct Copy {
    pub(super) inject_ns: f64,
    pub(super) memcpy_ns: f64,
    pub(super) memcpy_warm_ns: f64,
    pub(super) ratio: f64,
    pub(super) inject_and_signal_ns: f64,
}

pub(super) fn inject_against_memcpy(session: &mut Session, size: usize) -> Result<Copy, Error> {
    let polled = POLLED_INTERVAL + Span::from_ps(size as u64 * POLLED_PS_PER_BYTE);
    let mut medians = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        let Round { inject, memcpy, warm } = round(session, size, polled)?;
        let signalled = round(session, size, SIGNALLED_INTERVAL)?.inject;
        let seen = [inject, memcpy, warm, inject / memcpy, signalled];
        medians.iter_mut().zip(seen).for_each(|(into, value)| into.push(value));
    }
    let [inject_ns, memcpy_ns, memcpy_warm_ns, ratio, inject_and_signal_ns] =
        medians.map(|mut values| median(&mut values));
    Ok(Copy { inject_ns, memcpy_ns, memcpy_warm_ns, ratio, inject_and_signal_ns })
}

/// Means of the middle half of all times, in nanoseconds: of injecting, of copying, and of copying once more to where the
/// lines are now.
struct Round {
    inject: f64,
    memcpy: f64,
    warm: f64,
}

fn round(session: &mut Session, size: usize, interval: Span) -> Result<Round, Error> {
    let target = &mut *session.target;
    let clock = target.clock();
    let addresses = Addresses::to_guest(target.card(CardId::FIRST)?.0.mac_address());
    let mut template = FrameTemplate::new(&addresses, size, 0)?.for_no_protocol();
    let ring = learn_ring(target, &mut template, interval)?;
    let overhead = reading_the_clock(&clock);
    let (mut injects, mut copies, mut warm) = (Vec::new(), Vec::new(), Vec::new());
    let mut due = clock.now() + interval;
    let mut placed = 0;
    for packet in 0..PACKETS {
        let copied = packet % 2 == 1;
        // A copy finds the lines where the driver has left them.
        wait(target, &mut due, interval, if copied { 0 } else { size })?;
        if copied && let Some(&address) = ring.get(placed % ring.len().max(1)) {
            let bytes = template.frame(packet as u64).bytes.to_vec();
            copies.push(timed_copy(target, address, &bytes, &clock));
            warm.push(timed_copy(target, address, &bytes, &clock));
        }
        let (nic, mut host) = target.card(CardId::FIRST)?;
        let frame = template.frame(packet as u64);
        let started = read_tsc();
        let outcome = nic.receive(&mut host, frame);
        let took = clock.at(read_tsc()).since(clock.at(started)).as_ns();
        if outcome == RxOutcome::OnRing {
            placed += 1;
            if !copied {
                injects.push(took);
            }
        }
    }
    let middle = |values: &[f64]| {
        let third = values.len() / 3;
        middle_mean(&mut values[third..2 * third].to_vec()) - overhead
    };
    Ok(Round { inject: middle(&injects), memcpy: middle(&copies), warm: middle(&warm) })
}

/// Serves the driver until the next packet is due. Before one of `size` bytes, but for 0, looks ahead as injectors do.
fn wait(target: &mut dyn Target, due: &mut Time, interval: Span, size: usize) -> Result<(), Error> {
    let mut looked_ahead = size == 0;
    loop {
        let now = target.poll()?.at;
        if now >= *due {
            break;
        }
        let (nic, mut host) = target.card(CardId::FIRST)?;
        if !looked_ahead && due.since(now) < LOOKED_AHEAD && !nic.probe().is_waiting() {
            looked_ahead = true;
            nic.look_ahead(&mut host, 1, size);
        }
    }
    // After a pause of the host the driver is given time again, rather than a burst.
    *due = (*due + interval).max(target.clock().now());
    Ok(())
}

fn timed_copy(target: &mut dyn Target, address: u64, bytes: &[u8], clock: &Clock) -> f64 {
    let Some(memory) = target.memory(CardId::FIRST) else { return f64::NAN };
    let started = read_tsc();
    let copied = memory.regions().write_slice(bytes, GuestAddress(address));
    let took = clock.at(read_tsc()).since(clock.at(started)).as_ns();
    if copied.is_ok() { took } else { f64::NAN }
}

/// What two readings of the clock with nothing in between are apart.
fn reading_the_clock(clock: &Clock) -> f64 {
    let mut gaps: Vec<f64> = (0..1_000)
        .map(|_| {
            let started = read_tsc();
            clock.at(read_tsc()).since(clock.at(started)).as_ns()
        })
        .collect();
    middle_mean(&mut gaps)
}

/// Memory that remembers where frames were written.
struct Watched<'a> {
    memory: &'a SharedMemory,
    frame_bytes: usize,
    written: RefCell<Vec<u64>>,
}

impl DmaMemory for Watched<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.memory.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        if from.len() >= self.frame_bytes {
            self.written.borrow_mut().push(address);
        }
        self.memory.write(address, from)
    }

    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        self.memory.load_u32(address)
    }

    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.memory.store_u32(address, value)
    }
}

/// The buffers of the ring in order, starting with the one that comes next.
fn learn_ring(
    target: &mut dyn Target,
    template: &mut FrameTemplate,
    interval: Span,
) -> Result<Vec<u64>, Error> {
    const MORE_THAN_A_RING: u64 = 1_025;
    let mut addresses = Vec::new();
    let mut due = target.clock().now() + interval;
    for packet in 0..MORE_THAN_A_RING {
        wait(target, &mut due, interval, 0)?;
        let Some(memory) = target.memory(CardId::FIRST).cloned() else { break };
        let frame = template.frame(packet);
        let watched = Watched {
            memory: &memory,
            frame_bytes: frame.bytes.len(),
            written: RefCell::default(),
        };
        let (nic, host) = target.card(CardId::FIRST)?;
        let mut host = Host { memory: &watched, ..host };
        nic.receive(&mut host, frame);
        addresses.extend(watched.written.into_inner());
        let lap = addresses.len().saturating_sub(1);
        if lap > 0 && addresses.last() == addresses.first() {
            addresses.rotate_left(1);
            addresses.truncate(lap);
            return Ok(addresses);
        }
    }
    // No lap was completed; without its ring there is nothing to copy to.
    Ok(Vec::new())
}
