//! What a message takes on its way down: the real sender and the real driver, over a device that takes no
//! time.
//!
//! Each part follows from what whole messages take that differ in it: in their length, in the number of
//! their buffers and pieces.

use warikomi_clock::{Span, Time, TscClock};
use warikomi_driver::transmit::{Bounce, Completion, CostClock, Work};
use warikomi_driver::{DriverError, Hardware, NicDriver, OwnPool, TxFrame};
use warikomi_inject::{GUEST_IP, NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_nic::NicOptions;
use warikomi_pci::{Mmio, MmioError, SharedMemory, Width};
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::{SendPlan, Sender, Step, Transport};
use warikomi_stack::{Destination, Headers, Station};
use warikomi_wire::CountedSink;

use super::error::CalibrateError;
use super::timing::{SIZES, least_ns, line, whole};
use crate::CostModel;
use crate::device::{Device, Registers};
use crate::recorder::RINGS;
use crate::transmit::{SendCosts, TransmitError};

/// The driver that is measured; of the others only its registers differ.
const DRIVER: &str = "oc48";
/// The registers that count (docs/descriptor-fifo.md).
const TX_PUSH: u64 = 0x38;
const TX_REMAINING: u64 = 0x40;
/// Bytes that are on their way as usual, so that buffers are not the same ones again and again, and
/// descriptors, of which a device has no more.
const IN_FLIGHT_BYTES: u64 = 1 << 20;
const IN_FLIGHT: u64 = 100;
const SHORT_BYTES: u32 = 16;
const LONG_BYTES: u32 = 8_000;
const LONGEST_BYTES: u32 = warikomi_stack::send::MOST_MESSAGE_BYTES;
/// Long enough for many of the short clusters, and for one of the long ones.
const CHAIN_BYTES: u32 = 16_384;
const CLUSTER_BYTES: [u32; 2] = [512, CHAIN_BYTES];
const MESSAGES: u64 = 2_000;

/// Registers that cost nothing: of what was pushed, all but the last few is sent when somebody asks.
struct Absorbing {
    remaining: u64,
    most: u64,
}

impl Absorbing {
    fn new(size_bytes: u32) -> Absorbing {
        let most = (IN_FLIGHT_BYTES / u64::from(size_bytes)).min(IN_FLIGHT);
        Absorbing { remaining: 0, most }
    }
}

impl Mmio for Absorbing {
    fn register_bar(&self) -> u8 {
        0
    }

    fn bar_read(&mut self, _bar: u8, offset: u64, _: Width) -> Result<u64, MmioError> {
        if offset != TX_REMAINING {
            return Ok(0);
        }
        self.remaining = self.remaining.min(self.most);
        Ok(self.remaining)
    }
    fn bar_write(&mut self, _bar: u8, offset: u64, _: Width, _: u64) -> Result<(), MmioError> {
        self.remaining += u64::from(offset == TX_PUSH);
        Ok(())
    }
    fn config_read(&mut self, _: u16, _: Width) -> Result<u64, MmioError> {
        Ok(0)
    }
    fn config_write(&mut self, _: u16, _: Width, _: u64) -> Result<(), MmioError> {
        Ok(())
    }
}

/// Real time.
struct RealCostClock<'c>(&'c TscClock);

impl CostClock for RealCostClock<'_> {
    fn now(&mut self) -> Time {
        self.0.now()
    }
    fn spend(&mut self, _: Work) {}
}

/// A driver whose device was set up, and is not asked any more.
struct Bench {
    driver: Box<dyn NicDriver>,
    memory: SharedMemory,
    /// Memory for buffers: bus address and length in bytes.
    room: (u64, u64),
}

impl Bench {
    fn new(room_bytes: u64) -> Result<Bench, CalibrateError> {
        let mut driver = warikomi_driver::by_name(DRIVER)
            .ok_or_else(|| TransmitError::NoDriver(DRIVER.to_owned()))?;
        let rings = (driver.info().ring_bytes as u64).next_multiple_of(4_096);
        let (rx, rx_bytes) = (RINGS + rings, 4_096);
        let memory = SharedMemory::anonymous(RINGS, (rings + rx_bytes + room_bytes) as usize)?;
        let nic = warikomi_nic::build(&NicOptions::of(DRIVER), Box::new(CountedSink::new()));
        let mut device = Device::with_nic(nic.map_err(TransmitError::from)?, memory.clone());
        let free = CostModel::default();
        let mut registers = Registers::new(&mut device, &free, Time::ZERO + Span::from_ms(1));
        let mut pool = OwnPool::new(rx, rx_bytes, 1, 2_048)
            .map_err(|error| DriverError::Invalid(error.to_string()))?;
        let mut hw = Hardware { mmio: &mut registers, memory: &memory };
        driver.init(&mut hw, RINGS, 1, &mut pool)?;
        Ok(Bench { driver, memory, room: (rx + rx_bytes, room_bytes) })
    }

    fn station(&self) -> Station {
        Station { mac: self.driver.mac_address(), address: GUEST_IP, prefix_bits: 24 }
    }
}

fn plan(buffers: BufferKind, size_bytes: u32, checksum: bool) -> SendPlan {
    SendPlan {
        sizes_bytes: vec![size_bytes],
        block: 1,
        seed: 0,
        count: 1 << 20,
        warmup: 0,
        interval_ps: 0,
        buffers,
        checksum,
        completion: Completion::InterruptFree,
        bounce: Bounce::None,
        alignment_bytes: 1,
        transport: Transport::Udp,
        send_buffer_bytes: 2 * IN_FLIGHT_BYTES,
        mtu_bytes: warikomi_driver::descriptor_fifo::OC48.info.max_mtu_bytes(),
        run_id: 0,
        mixed: None,
    }
}

/// What a message takes without a checksum, in nanoseconds, besides register accesses.
fn message(clock: &TscClock, buffers: BufferKind, size_bytes: u32) -> Result<f64, CalibrateError> {
    measured(clock, &plan(buffers, size_bytes, false))
}

/// What a checksum takes besides.
fn checksum(clock: &TscClock, buffers: BufferKind, size_bytes: u32) -> Result<f64, CalibrateError> {
    let with = measured(clock, &plan(buffers, size_bytes, true))?;
    Ok((with - message(clock, buffers, size_bytes)?).max(0.0))
}

fn measured(clock: &TscClock, plan: &SendPlan) -> Result<f64, CalibrateError> {
    let size_bytes = plan.largest_bytes();
    let info = &warikomi_driver::descriptor_fifo::OC48.info;
    let mut bench = Bench::new(plan.dma_bytes(info.tx_descriptors, info.max_frame_bytes))?;
    let (station, to) = (bench.station(), (NETWORK_MAC, NETWORK_IP, UDP_PORT));
    let (driver, room) = (&mut *bench.driver, bench.room);
    let mut absorbing = Absorbing::new(size_bytes);
    let mut hw = Hardware { mmio: &mut absorbing, memory: &bench.memory };
    let mut cost_clock = RealCostClock(clock);
    let mut sender =
        Sender::new(plan, station, to, room, driver, &mut hw).map_err(TransmitError::from)?;
    let mut failed = Ok(());
    let ns =
        least_ns(clock, MESSAGES, || match sender.step(driver, &mut hw, &mut cost_clock, false) {
            Ok(Step::Again) => {}
            Ok(step) => failed = Err(DriverError::Invalid(format!("the sender is at {step:?}"))),
            Err(error) => failed = Err(error),
        });
    failed?;
    Ok(ns)
}

/// Handing a packet in so many pieces over and taking it back, in nanoseconds.
fn packet(clock: &TscClock, pieces: usize) -> Result<f64, CalibrateError> {
    let mut bench = Bench::new(0)?;
    let mut absorbing = Absorbing::new(SHORT_BYTES);
    let mut hw = Hardware { mmio: &mut absorbing, memory: &bench.memory };
    let pieces = vec![(RINGS, 64); pieces];
    let mut failed = Ok(());
    let ns = least_ns(clock, MESSAGES, || {
        let frame = TxFrame { pieces: std::hint::black_box(&pieces), token: 0, segments: None };
        let driver = &mut bench.driver;
        let given =
            driver.reclaim(&mut hw, &mut |_| ()).and_then(|_| driver.transmit(&mut hw, frame));
        match given {
            Ok(true) => {}
            Ok(false) => failed = Err(DriverError::Invalid("the driver has no room".to_owned())),
            Err(error) => failed = Err(error),
        }
    });
    failed?;
    Ok(ns)
}

/// The costs of sending; registers and sleeping as `costs` has them.
pub(super) fn sending(clock: &TscClock, costs: &CostModel) -> Result<SendCosts, CalibrateError> {
    const MANY: usize = 32;
    let (one, many) = (packet(clock, 1)?, packet(clock, MANY)?);
    let describe = (many - one).max(0.0) / (MANY - 1) as f64;
    let reclaim = (one - describe).max(0.0);
    let headers = making_headers(clock);
    let [short, long] = [SHORT_BYTES, LONG_BYTES];
    let contiguous = BufferKind::Contiguous;
    let whole_short = message(clock, contiguous, short)?;
    let whole_long = message(clock, contiguous, long)?;
    let per_byte = (whole_long - whole_short).max(0.0) / f64::from(long - short);
    let near = SendCosts::default().copy_near_bytes;
    let near_part = per_byte * (near as f64 - f64::from(long));
    let far_part = message(clock, contiguous, LONGEST_BYTES)? - whole_long - near_part;
    let per_far_byte = far_part.max(0.0) / (f64::from(LONGEST_BYTES) - near as f64);
    let copy = copying_nothing(clock);
    let [chain, cluster] = CLUSTER_BYTES
        .map(|cluster_bytes| message(clock, BufferKind::Mbuf { cluster_bytes }, CHAIN_BYTES));
    let sums = CLUSTER_BYTES
        .map(|cluster_bytes| checksum(clock, BufferKind::Mbuf { cluster_bytes }, CHAIN_BYTES));
    let [chain_sum, cluster_sum] = sums;
    let cluster_sum = cluster_sum?;
    // Each cluster has an mbuf that holds it, is visited by the driver, and is a piece; a checksum visits it again.
    let clusters = f64::from(CHAIN_BYTES / CLUSTER_BYTES[0] - 1);
    let visit = ((chain_sum? - cluster_sum) / clusters).max(0.0);
    let buffer = (((chain? - cluster?) / clusters - describe - visit) / 2.0).max(0.0);
    let sum = cluster_sum / f64::from(CHAIN_BYTES);
    let sum_copied = checksum(clock, contiguous, CHAIN_BYTES)? / f64::from(CHAIN_BYTES);
    let rest = whole_short - buffer - visit - headers - copy - describe - reclaim;
    Ok(SendCosts {
        register_write_ns: costs.register_write_ns,
        register_posted_ns: costs.register_posted_ns,
        register_read_ns: costs.register_read_ns,
        system_call_ns: whole(rest.max(0.0)),
        headers_ns: whole(headers),
        copy_ns: whole(copy),
        copy_ps_per_byte: whole(per_byte * 1e3),
        copy_near_bytes: near,
        copy_far_ps_per_byte: whole(per_far_byte * 1e3),
        sum_ps_per_byte: whole(sum * 1e3),
        sum_copied_ps_per_byte: whole(sum_copied * 1e3),
        take_ns: whole(buffer / 2.0),
        free_ns: whole(buffer / 2.0),
        visit_ns: whole(visit),
        contiguous_more_ns: 0,
        describe_ns: whole(describe),
        // One that was sent, and one that was not.
        reclaim_ns: whole(reclaim / 2.0),
        interrupt_ns: costs.interrupt_ns,
        handler_ns: whole(handling(clock)?),
        switch_ns: costs.sleep_ns + costs.context_switch_ns,
        wake_up_ns: costs.wake_up_ns,
    })
}

fn making_headers(clock: &TscClock) -> f64 {
    let station = Station { mac: [2, 0, 0, 0, 0, 1], address: GUEST_IP, prefix_bits: 24 };
    let to = Destination { address: NETWORK_IP, port: UDP_PORT, source_port: UDP_PORT };
    least_ns(clock, MESSAGES, || {
        let bytes = std::hint::black_box(SHORT_BYTES as u16);
        std::hint::black_box(Headers::new(&station, to, NETWORK_MAC, bytes));
    })
}

/// A copy's own time, whatever its length.
fn copying_nothing(clock: &TscClock) -> f64 {
    let (from, mut to) = ([1_u8; LONG_BYTES as usize], [0_u8; LONG_BYTES as usize]);
    let times = SIZES.map(|size| {
        least_ns(clock, MESSAGES, || {
            let size = std::hint::black_box(size);
            to[..size].copy_from_slice(&from[..size]);
            std::hint::black_box(&mut to);
        })
    });
    line(times).0 as f64
}

/// The handler without its register accesses.
fn handling(clock: &TscClock) -> Result<f64, CalibrateError> {
    let mut bench = Bench::new(0)?;
    let mut absorbing = Absorbing::new(SHORT_BYTES);
    let mut hw = Hardware { mmio: &mut absorbing, memory: &bench.memory };
    let mut failed = Ok(());
    let ns = least_ns(clock, MESSAGES, || {
        if let Err(error) = bench.driver.acknowledge(&mut hw, 0) {
            failed = Err(error);
        }
    });
    failed?;
    Ok(ns)
}
