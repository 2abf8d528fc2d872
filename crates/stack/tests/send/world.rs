//! A device, its driver, and the sender above it, in one thread and in a time of their own: register
//! writes take effect some time later, and the device stands still now and then.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::{CostClock, Work};
use warikomi_driver::{Hardware, NicDriver, OwnPool};
use warikomi_nic::{NicOptions, build};
use warikomi_pci::{Mmio, MmioError, SharedMemory, Width};
use warikomi_protocol::answers::Sent;
use warikomi_protocol::payload::{HEAD_BYTES, Head};
use warikomi_stack::Station;
use warikomi_stack::send::{SendPlan, Sender, Step};
use warikomi_testbench::{Bench, JudgingWire};

use crate::{DESTINATION, STATION};

/// Where memory begins: above 4 GB, so that a forgotten high half is noticed, if the card reaches it.
fn memory_base(model: &str) -> u64 {
    if model == "rtl8139" { 0x8000_0000 } else { 0x3_0000_0000 }
}

const RECEIVE_BUFFERS: usize = 4;
const RECEIVE_BUFFER_BYTES: u32 = 2_048;

/// Random numbers (xorshift64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// The time, which everybody shares.
#[derive(Clone, Debug, Default)]
struct Clock(Rc<Cell<Time>>);

impl Clock {
    fn pass(&self, span: Span) {
        self.0.set(self.0.get() + span);
    }
}

impl CostClock for Clock {
    fn now(&mut self) -> Time {
        self.0.get()
    }

    fn spend(&mut self, work: Work) {
        self.pass(match work {
            Work::Copy { bytes } => Span::from_ps(100 * bytes as u64),
            Work::Take { buffers } | Work::Free { buffers } | Work::Visit { buffers } => {
                Span::from_ns(10 * buffers as u64)
            }
            Work::Sum { bytes } | Work::SumCopied { bytes } => Span::from_ps(10 * bytes as u64),
            Work::Interrupt | Work::Switch => Span::from_us(1),
            _ => Span::from_ns(50),
        });
    }
}

/// How badly the device behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disturbances {
    /// The longest time, in nanoseconds, after which a register write takes effect.
    pub(crate) posted_ns: u64,
    /// Once in so many steps the device stands still; 0 for never.
    pub(crate) stall_in: u64,
    /// For at most so long, in nanoseconds.
    pub(crate) stall_ns: u64,
}

impl Disturbances {
    pub(crate) const NONE: Disturbances = Disturbances { posted_ns: 0, stall_in: 0, stall_ns: 0 };
}

/// A write on its way: when it takes effect, and what it writes.
type Posted = (Time, u64, Width, u64);

struct Device {
    card: Bench,
    clock: Clock,
    posted: VecDeque<Posted>,
    random: Random,
    disturbances: Disturbances,
    stalled_until: Time,
}

impl Device {
    /// The card, at this time.
    fn at(&mut self, now: Time) -> &mut Bench {
        self.card.now = now;
        &mut self.card
    }

    /// Lets the writes take effect that are due by `until`, and does what is due by then.
    fn serve(&mut self, until: Time) {
        while let Some(&(due, offset, width, value)) =
            self.posted.front().filter(|it| it.0 <= until)
        {
            self.posted.pop_front();
            self.at(due).poll();
            self.card.write(offset, width, value);
        }
        self.at(until).poll();
    }

    fn advance(&mut self) {
        let now = self.clock.now();
        if self.disturbances.stall_in > 0 && self.random.below(self.disturbances.stall_in) == 0 {
            self.stalled_until = now + Span::from_ns(self.random.below(self.disturbances.stall_ns));
        }
        if now >= self.stalled_until {
            self.serve(now);
        }
    }

    /// Waits until something happens by itself; `false` if nothing ever will.
    fn wait(&mut self, limit: Time) -> bool {
        let next = self.posted.front().map_or(Time::NEVER, |posted| posted.0);
        let next = next.min(self.card.nic.next_due()).min(limit);
        if next == Time::NEVER {
            return false;
        }
        let next = next.max(self.stalled_until.min(limit));
        let now = self.clock.now().max(next);
        self.clock.0.set(now);
        self.serve(now);
        true
    }
}

impl Mmio for Device {
    fn register_bar(&self) -> u8 {
        self.card.nic.info().register_bar
    }

    fn bar_read(&mut self, _bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.clock.pass(Span::from_ns(200));
        // It comes behind all writes before it.
        while let Some(posted) = self.posted.back() {
            let last = posted.0.max(self.clock.now());
            self.clock.0.set(last);
            self.serve(last);
        }
        let now = self.clock.now();
        Ok(self.at(now).read(offset, width))
    }

    fn bar_write(
        &mut self,
        _bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        let delay = Span::from_ns(self.random.below(self.disturbances.posted_ns + 1));
        let last = self.posted.back().map_or(Time::ZERO, |posted| posted.0);
        self.posted.push_back(((self.clock.now() + delay).max(last), offset, width, value));
        Ok(())
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.card.config_read(offset, width))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        let now = self.clock.now();
        self.at(now).config(offset, width, value);
        Ok(())
    }
}

/// What has come out of the NIC.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Messages, each in its turn and whole.
    pub(crate) messages: u64,
    /// What was wrong with the first frame that was not.
    pub(crate) wrong: Option<String>,
}

fn judge(plan: &SendPlan, expected: u64, frame: &[u8]) -> Result<(), String> {
    let sliced = SlicedPacket::from_ethernet(frame).map_err(|error| error.to_string())?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (sliced.net, sliced.transport)
    else {
        return Err("no UDP datagram".to_owned());
    };
    let header = ip.header();
    if header.header_checksum() != header.to_header().calc_header_checksum() {
        return Err("a wrong checksum".to_owned());
    }
    let (Station { mac, address, .. }, (to_mac, to, port)) = (STATION, DESTINATION);
    let addresses = header.source_addr() == address && header.destination_addr() == to;
    if !addresses || udp.destination_port() != port || frame[..6] != to_mac || frame[6..12] != mac {
        return Err("wrong addresses".to_owned());
    }
    let payload = udp.payload();
    let checksum = udp.to_header().calc_checksum_ipv4(&header.to_header(), payload);
    let checksum = checksum.map_err(|error| error.to_string())?;
    if udp.checksum() != if plan.checksum { checksum } else { 0 } {
        return Err(format!("UDP's checksum is {:#06x}, not {checksum:#06x}", udp.checksum()));
    }
    let size = payload.len() as u32;
    if !plan.sizes_bytes.contains(&size) {
        return Err(format!("{size} bytes were never sent"));
    }
    match Head::from_bytes(payload) {
        Some(Head { run_id, sequence }) if run_id == plan.run_id && sequence == expected => {}
        head => return Err(format!("{head:?} in place of number {expected}")),
    }
    let filler = payload.iter().enumerate().skip(HEAD_BYTES);
    let whole = filler.clone().all(|(at, &byte)| byte == (at % 251) as u8);
    whole.then_some(()).ok_or_else(|| format!("number {expected} was changed on the way"))
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) step: Step,
    pub(crate) sent: Sent,
    pub(crate) seen: Seen,
}

/// Sends by `plan` with this model and its driver.
pub(crate) fn run(model: &str, plan: &SendPlan, disturbances: Disturbances, seed: u64) -> Ended {
    let driver = warikomi_driver::by_name(model).unwrap();
    let mtu_bytes = plan.mtu_bytes.min(driver.info().max_mtu_bytes());
    let plan = &SendPlan { mtu_bytes, ..plan.clone() };
    let expected = plan.clone();
    let wire = JudgingWire::judging(move |number, frame| judge(&expected, number, frame));
    let mut driver = warikomi_driver::by_name(model).unwrap();
    let info = driver.info();
    let rings = (info.ring_bytes as u64).next_multiple_of(4_096);
    let receive = RECEIVE_BUFFERS as u64 * u64::from(RECEIVE_BUFFER_BYTES);
    let needed = plan.dma_bytes(info.tx_descriptors, info.max_frame_bytes);
    let bytes = rings + receive + needed;
    let base = memory_base(model);
    let memory = SharedMemory::anonymous(base, bytes as usize).unwrap();
    let mut clock = Clock::default();
    clock.pass(Span::from_us(1));
    let mut device = Device {
        card: Bench::cabled_to(wire.clone(), |wire| build(&NicOptions::of(model), wire).unwrap())
            .sharing(memory.clone()),
        clock: clock.clone(),
        posted: VecDeque::new(),
        random: Random(seed | 1),
        disturbances,
        stalled_until: Time::ZERO,
    };
    let mut pool =
        OwnPool::new(base + rings, receive, RECEIVE_BUFFERS, RECEIVE_BUFFER_BYTES).unwrap();
    let mut hw = Hardware { mmio: &mut device, memory: &memory };
    driver.init(&mut hw, base, RECEIVE_BUFFERS, &mut pool).unwrap();
    let buffers = (base + rings + receive, needed);
    let driver: &mut dyn NicDriver = &mut *driver;
    let mut sender = Sender::new(plan, STATION, DESTINATION, buffers, driver, &mut hw).unwrap();
    // More than this, and it turns in circles.
    let most_steps = 100_000 + 1_000 * (plan.count + plan.warmup);
    let mut taken = 0;
    for _ in 0..most_steps {
        device.advance();
        let interrupted = device.card.line.messages() > taken;
        taken += u64::from(interrupted);
        let mut hw = Hardware { mmio: &mut device, memory: &memory };
        let step = sender.step(driver, &mut hw, &mut clock, interrupted).unwrap();
        let limit = match step {
            Step::Again => {
                clock.pass(Span::from_ns(device.random.below(300)));
                continue;
            }
            Step::Until(time) => time,
            Step::Interrupt => Time::NEVER,
            Step::DeadLocked | Step::Finished => {
                let seen = Seen { messages: wire.right(), wrong: wire.wrong() };
                return Ended { step, sent: sender.sent(), seen };
            }
        };
        while device.card.line.messages() == taken && clock.now() < limit {
            assert!(device.wait(limit), "it sleeps, and no interrupt will ever come (seed {seed})");
        }
    }
    panic!("{} of {} messages after {most_steps} steps (seed {seed})", sender.tried(), plan.count);
}
