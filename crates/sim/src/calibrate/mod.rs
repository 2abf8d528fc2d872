//! Measures on this machine what virtual time charges: about a second, and nothing else should run
//! meanwhile. What it cannot measure keeps its declared value, and is named.
//!
//! Each figure is the least of several rounds of a loop, so that another's time slice is in none
//! of them. The driver's costs are those of the real driver against the real model.

mod error;
mod send;
mod timing;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time, TscClock};
use warikomi_driver::{Buffer, DriverError, Hardware, NicDriver, Received, RxSink};
use warikomi_inject::{Addresses, FrameTemplate};
use warikomi_pci::{DmaMemory, SharedMemory};
use warikomi_target::cores::{Pinned, allowed_cores};
use warikomi_target::kernel::GuestCosts;
use warikomi_wire::CountedSink;

pub use error::CalibrateError;
use timing::{ROUNDS, SIZES, least_ns, line, whole};

use super::device::{Device, Registers};
use super::transmit::SendCosts;
use super::{CostModel, Pair};
use crate::recorder::RINGS;

/// Costs of receiving and sending, measured on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The costs of receiving, measured ones in the place of declared ones.
    pub costs: CostModel,
    /// The costs of sending.
    pub send: SendCosts,
    /// The costs of a kernel, which follow from those of receiving.
    pub kernel: GuestCosts,
    /// Names of the costs that are as declared.
    pub declared: Vec<String>,
}

/// The card, with its driver, whose costs are measured.
const CARD: &str = "rtl8168";

const BUFFERS: usize = 256;
const BUFFER_BYTES: u32 = 16_383;

/// What is copied, so that it does not stay in the first cache.
const COPIED_BYTES: usize = 8 << 20;

/// Measures.
pub fn calibrate() -> Result<Calibration, CalibrateError> {
    let clock = TscClock::calibrate()?;
    let mut costs = CostModel::default();
    let mut declared = vec!["protocol_packet_ns", "interrupt_ns", "frame_ns", "channel_packet_ns"];
    copying(&clock, &mut costs);
    driving(&clock, &mut costs)?;
    sleeping(&clock, &mut costs)?;
    let cores = allowed_cores()?;
    match cores[..] {
        [first, second, ..] => crossing(&clock, (first, second), &mut costs)?,
        _ => declared.extend([
            "register_read_ns",
            "access_ns",
            "register_posted_ns",
            "register_write_ns",
        ]),
    }
    let send = send::sending(&clock, &costs)?;
    let declared = declared.into_iter().map(str::to_owned).collect();
    Ok(Calibration { costs, send, kernel: costs.of_kernel(), declared })
}

fn copying(clock: &TscClock, costs: &mut CostModel) {
    let (from, mut to) = (vec![1_u8; COPIED_BYTES], vec![0_u8; COPIED_BYTES]);
    let times = SIZES.map(|size| {
        let mut at = 0;
        least_ns(clock, 2_000, || {
            at = if at + 2 * size > COPIED_BYTES { 0 } else { at + size };
            to[at..at + size].copy_from_slice(&from[at..at + size]);
            std::hint::black_box(&mut to[at]);
        })
    });
    (costs.copy_packet_ns, costs.copy_ps_per_byte) = line(times);
}

/// Buffers for the driver, used again at once.
struct Recycled {
    free: VecDeque<Buffer>,
}

impl RxSink for Recycled {
    fn buffer(&mut self) -> Option<Buffer> {
        self.free.pop_front()
    }
    fn received(&mut self, buffer: Buffer, _: Received) {
        self.free.push_back(buffer);
    }
    fn returned(&mut self, buffer: Buffer) {
        self.free.push_back(buffer);
    }
}

/// A driver with its device.
struct Bench {
    driver: Box<dyn NicDriver>,
    device: Device,
    memory: SharedMemory,
    sink: Recycled,
}

impl Bench {
    fn new() -> Result<Bench, CalibrateError> {
        let pair = Pair::by_name(CARD)
            .ok_or_else(|| DriverError::Invalid(format!("there is no card {CARD}")))?;
        let driver = pair.driver();
        let rings = (driver.info().ring_bytes as u64).next_multiple_of(4_096);
        let bytes = u64::from(BUFFER_BYTES) + 1;
        let memory = SharedMemory::anonymous(RINGS, (rings + BUFFERS as u64 * bytes) as usize)?;
        let buffer = |token: u32| {
            let address = RINGS + rings + u64::from(token) * bytes;
            Buffer::new(address, BUFFER_BYTES, token)
        };
        let free: VecDeque<Buffer> = (0..BUFFERS as u32).filter_map(buffer).collect();
        // So that no page is touched for the first time while the clock runs.
        free.iter()
            .try_for_each(|buffer| memory.write(buffer.address, &[0; BUFFER_BYTES as usize]))
            .map_err(DriverError::from)?;
        let device = Device::with_nic(pair.card(Box::new(CountedSink::new())), memory.clone());
        let mut bench = Bench { driver, device, memory, sink: Recycled { free } };
        bench.drive(|driver, hw, sink| driver.init(hw, RINGS, BUFFERS, sink))?;
        Ok(bench)
    }

    fn drive<R>(
        &mut self,
        call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>, &mut Recycled) -> R,
    ) -> R {
        let costs = CostModel::default();
        let mut mmio = Registers::new(&mut self.device, &costs, Time::ZERO + Span::from_ms(1));
        let mut hardware = Hardware { mmio: &mut mmio, memory: &self.memory };
        call(&mut *self.driver, &mut hardware, &mut self.sink)
    }
}

fn driving(clock: &TscClock, costs: &mut CostModel) -> Result<(), CalibrateError> {
    let mut bench = Bench::new()?;
    let mut failed = Ok(());
    let empty = bench.drive(|driver, hw, sink| {
        least_ns(clock, 10_000, || {
            if let Err(error) = driver.poll(hw, 64, sink) {
                failed = Err(error);
            }
        })
    });
    failed?;
    let handler = bench.drive(|driver, hw, _| {
        least_ns(clock, 50, || {
            let _ = std::hint::black_box(driver.on_interrupt(hw, 0));
        })
    });
    bench.device.poll(Time::ZERO + Span::from_ms(2));
    let station = bench.driver.mac_address();
    let (mut injecting, mut taking) = ([f64::INFINITY; 2], f64::INFINITY);
    for (place, size) in SIZES.into_iter().enumerate() {
        let mut template = FrameTemplate::new(&Addresses::to_guest(station), size, 0)?;
        for _ in 0..ROUNDS * 4 {
            let batch = BUFFERS as u64 / 2;
            let start = clock.now();
            bench.device.with(Time::ZERO + Span::from_ms(3), |nic, host| {
                (0..batch).for_each(|sequence| {
                    nic.receive(host, template.frame(sequence));
                });
            });
            let between = clock.now();
            let taken = bench.drive(|driver, hw, sink| driver.poll(hw, BUFFERS, sink))?;
            let end = clock.now();
            let injected = between.since(start).as_ns() / batch as f64;
            injecting[place] = injecting[place].min(injected);
            taking = taking.min(end.since(between).as_ns() / taken.max(1) as f64);
        }
    }
    (costs.dma_packet_ns, costs.dma_ps_per_byte) = line(injecting);
    costs.poll_empty_ns = whole(empty);
    costs.driver_packet_ns = whole(taking);
    costs.handler_ns = whole(handler);
    Ok(())
}

/// Two threads on one core that wake each other: a round is two bells, two sleeps, two wake-ups and two
/// switches. What a bell takes by itself is that of one for which nobody waits.
fn sleeping(clock: &TscClock, costs: &mut CostModel) -> Result<(), CalibrateError> {
    const BELLS: u64 = 200;
    const TURNS: u64 = 1_000;
    let core = allowed_cores()?.last().copied().unwrap_or(0);
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let mut failed = Ok(());
    let bell = least_ns(clock, BELLS, || {
        if let Err(error) = ours.write_all(&[1]).and_then(|()| theirs.read_exact(&mut [0])) {
            failed = Err(error);
        }
    });
    failed?;
    let turn = std::thread::scope(|scope| -> std::io::Result<f64> {
        let _here = Pinned::to(core)?;
        let other = scope.spawn(move || -> std::io::Result<()> {
            let _there = Pinned::to(core)?;
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && byte[0] == 1 {
                theirs.write_all(&byte)?;
            }
            Ok(())
        });
        let mut failed = Ok(());
        let turn = least_ns(clock, TURNS, || {
            if let Err(error) = ours.write_all(&[1]).and_then(|()| ours.read_exact(&mut [0])) {
                failed = Err(error);
            }
        });
        ours.write_all(&[0])?;
        other.join().unwrap_or(Ok(()))?;
        failed.map(|()| turn)
    })?;
    // A pair of calls that does not sleep is half bell, half what sleeping takes without the sleep.
    let call = bell / 2.0;
    costs.bell_ns = whole(call);
    costs.sleep_ns = whole(call);
    let waking = (turn / 2.0 - bell).max(2.0);
    // One cannot tell the two apart from outside; the wake-up puts the sleeper into the queue, the
    // switch takes it out.
    costs.wake_up_ns = whole(waking / 2.0);
    costs.context_switch_ns = whole(waking / 2.0);
    Ok(())
}

/// A word that goes to another core and comes back: a register read. A write goes one way.
fn crossing(
    clock: &TscClock,
    (here, there): (usize, usize),
    costs: &mut CostModel,
) -> Result<(), CalibrateError> {
    const TURNS: u64 = 5_000;
    const OVER: u64 = u64::MAX;
    let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let turn = std::thread::scope(|scope| -> std::io::Result<f64> {
        let _here = Pinned::to(here)?;
        let other = scope.spawn(|| -> std::io::Result<()> {
            let _there = Pinned::to(there);
            loop {
                match asked.load(Ordering::Acquire) {
                    OVER => return Ok(()),
                    number => answered.store(number, Ordering::Release),
                }
                std::hint::spin_loop();
            }
        });
        let mut number = 0;
        let turn = least_ns(clock, TURNS, || {
            number += 1;
            asked.store(number, Ordering::Release);
            while answered.load(Ordering::Acquire) != number {
                std::hint::spin_loop();
            }
        });
        asked.store(OVER, Ordering::Release);
        other.join().unwrap_or(Ok(()))?;
        Ok(turn)
    })?;
    let word = AtomicU64::new(0);
    let write = least_ns(clock, TURNS, || word.store(1, Ordering::Release));
    costs.register_read_ns = whole(turn);
    costs.register_posted_ns = whole(turn / 2.0);
    costs.register_write_ns = whole(write);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_that_is_not_declared_is_measured() {
        let calibration = calibrate().unwrap();
        let costs = serde_json::to_value(calibration.costs).unwrap();
        let costs = costs.as_object().unwrap();
        for (name, cost) in costs {
            let most = 10_000_000;
            assert!(cost.as_u64().is_some_and(|cost| cost < most), "{name} = {cost}");
        }
        let kernel = serde_json::to_value(calibration.kernel).unwrap();
        let kernel = kernel.as_object().unwrap();
        let is_cost = |name: &String| costs.contains_key(name) || kernel.contains_key(name);
        assert!(calibration.declared.iter().all(is_cost), "{:?}", calibration.declared);
    }

    #[test]
    fn two_lengths_give_the_cost_by_packet_and_by_byte() {
        assert_eq!(line([100.0 + 6.4, 100.0 + 800.0]), (100, 100));
    }
}
