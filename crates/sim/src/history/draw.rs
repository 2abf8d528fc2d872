//! What a seed decides: what arrives, who receives it how, what everything takes, and what goes wrong.

use warikomi_clock::{Dice, Seed, Span};
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_inject::{Fault, FaultKind, Probability, When};
use warikomi_nic::RxError;
use warikomi_wire::wire_time;

use crate::{
    CostModel, Disturbances, Options, Order, Part, SchedulerModel, Sends, Topology, Traffic,
    Trigger, Way,
};

/// The options of the history with this seed.
pub(super) fn options(seed: Seed, faults: bool) -> Options {
    let mut dice = seed.dice();
    let traffic = traffic(&mut dice);
    let mut costs = CostModel::default();
    costs.vary(|cost| (cost * dice.magnitude(1, 64) / 8).max(1));
    let mut options = Options {
        strategy: strategy(&mut dice),
        topology: dice.of(&[
            Topology::Direct,
            Topology::Application,
            Topology::StackAndApplication,
        ]),
        buffers: dice.magnitude(1, 64) as usize,
        buffer_bytes: traffic.frame_bytes as u32 + dice.number(4, 64) as u32,
        compute: dice.one_in(2),
        real_time: false,
        costs,
        scheduler: SchedulerModel {
            time_slice_us: dice.magnitude(50, 6_400),
            wake_up_granularity_us: dice.number(0, 1_000),
            sleeper_credit_us: dice.number(0, 6_000),
        },
        sleep_timeout: None,
        every_idle_look: false,
        way: dice.of(&[Way::Reload, Way::DataStore, Way::SharedState]),
        sends: sends(&mut dice),
        seed,
        disturbances: Disturbances::default(),
        traffic,
    };
    if faults {
        disturbances(&mut dice, &mut options);
    }
    options.disturbances.orders = orders(&mut dice, &options.traffic);
    options
}

fn sends(dice: &mut Dice) -> Option<Sends> {
    let sends = Sends {
        frame_bytes: dice.number(60, 1_514) as usize,
        buffers: dice.magnitude(1, 8) as u32,
        at_once: dice.number(0, 4) as u32,
        every: dice.magnitude(1, 8),
    };
    dice.one_in(2).then_some(sends)
}

/// What is ordered while packets come.
fn orders(dice: &mut Dice, traffic: &Traffic) -> Vec<(Span, Order)> {
    let duration = (traffic.burst_time() + traffic.mean_gap()) * traffic.bursts;
    let count = if dice.one_in(2) { 0 } else { dice.number(1, 3) };
    let order = |dice: &mut Dice| match dice.number(0, 5) {
        0 => Order::Restart,
        1 | 2 => Order::Strategy(strategy(dice)),
        _ => Order::Replace,
    };
    (0..count)
        .map(|_| (Span::from_ps(dice.number(0, duration.as_ps().max(1))), order(dice)))
        .collect()
}

fn traffic(dice: &mut Dice) -> Traffic {
    const MOST_FRAMES: u64 = 120;
    let frame_bytes = dice.number(60, 1_514) as usize;
    let frames = dice.magnitude(1, 32);
    let burst_bytes = (frame_bytes * frames as usize - dice.number(0, 59) as usize).max(60);
    let line_rate_bps = dice.of(&[100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000]);
    let busy = wire_time(frame_bytes, line_rate_bps) * frames;
    // From back to back to far apart.
    let gap = if dice.one_in(4) { 0 } else { dice.magnitude(100, 1_000_000) };
    let load_share = busy.as_ns() / (busy.as_ns() + gap as f64);
    Traffic {
        burst_bytes,
        frame_bytes,
        line_rate_bps,
        load_share,
        random_gaps: dice.one_in(2),
        bursts: dice.number(1, (MOST_FRAMES / frames).max(1)),
    }
}

fn strategy(dice: &mut Dice) -> Strategy {
    match dice.number(0, 4) {
        0 => Strategy::Interrupt,
        1 => Strategy::Poll,
        2 => Strategy::Napi { budget: dice.magnitude(1, 64) as usize },
        3 => Strategy::Hybrid { poll_time: Span::from_ns(dice.magnitude(100, 400_000)) },
        _ => {
            let ppm = dice.number(10_000, 900_000) as u32;
            Strategy::Auto { cpu_budget: CpuBudget::from_ppm(ppm) }
        }
    }
}

/// The longest sleep of a driver whose interrupts may get lost.
const LONGEST_SLEEP: Span = Span::from_ms(5);

fn disturbances(dice: &mut Dice, options: &mut Options) {
    let traffic = &options.traffic;
    let duration = (traffic.burst_time() + traffic.mean_gap()) * traffic.bursts;
    let moment = |dice: &mut Dice| Span::from_ps(dice.number(0, duration.as_ps().max(1)));
    let until = moment(dice);
    let faults: Vec<Fault> =
        (0..dice.number(0, 3)).map(|_| fault(dice, until.as_ps().max(1))).collect();
    let events = traffic.bursts * traffic.frames_per_burst() * 7;
    let parts = [Part::Driver, Part::First, Part::Second];
    let mut kills: Vec<(Trigger, Part)> = (0..dice.number(0, 2))
        .map(|_| (Trigger::Event(dice.number(1, events)), dice.of(&parts)))
        .collect();
    kills.sort_by_key(|(moment, _)| match moment {
        Trigger::Event(number) | Trigger::HandOver(number) => *number,
        Trigger::After(span) => span.as_ps(),
    });
    if dice.one_in(4) {
        kills.insert(0, (Trigger::HandOver(dice.number(1, 16)), Part::Driver));
    }
    let stalls = (0..dice.number(0, 2))
        .map(|_| (moment(dice), Span::from_ns(dice.magnitude(100, 3_000_000))));
    let stalls = stalls.collect();
    let lossy = |fault: &Fault| matches!(fault.kind, FaultKind::InterruptDropped);
    // Without this a lost wake-up shows, and is always wrong.
    options.sleep_timeout = faults.iter().any(lossy).then_some(LONGEST_SLEEP);
    options.disturbances = Disturbances {
        faults,
        until,
        kills,
        restart: Span::from_us(dice.magnitude(10, 2_000)),
        stalls,
        ..Disturbances::default()
    };
}

/// A fault that a driver must survive, or fail of in a way that is told and be started again.
fn fault(dice: &mut Dice, until_ps: u64) -> Fault {
    let span = |dice: &mut Dice, most| Span::from_ns(dice.magnitude(10, most));
    let at = When::At(Span::from_ps(dice.number(0, until_ps)));
    let chance = Probability::from_billionths(dice.magnitude(1_000_000, 300_000_000) as u32)
        .map_or(at, When::Probability);
    let when = if dice.one_in(3) { at } else { chance };
    match dice.number(0, 8) {
        0 => Fault { kind: FaultKind::InterruptDropped, when },
        1 => Fault { kind: FaultKind::InterruptDelayed { by: span(dice, 500_000) }, when },
        2 => Fault { kind: FaultKind::InterruptDuplicated, when },
        3 => Fault { kind: FaultKind::InterruptSpurious { vector: 0 }, when },
        4 => {
            let (count, every) = (dice.number(1, 50) as u32, span(dice, 5_000));
            Fault { kind: FaultKind::InterruptStorm { vector: 0, count, every }, when: at }
        }
        5 => Fault { kind: FaultKind::DescriptorCompletedLate { by: span(dice, 800_000) }, when },
        6 => {
            let error = dice.of(&[RxError::Crc, RxError::Runt, RxError::TooLong]);
            Fault { kind: FaultKind::DescriptorError(error), when }
        }
        7 => Fault { kind: FaultKind::LinkFlap { down_for: span(dice, 500_000) }, when: at },
        _ => Fault { kind: FaultKind::DmaError, when: at },
    }
}
