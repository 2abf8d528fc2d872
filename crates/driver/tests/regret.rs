//! How `auto` does against every fixed poll time, on the same arrivals: simulated, so that one seed is
//! one result.

use rand_distr::{Distribution, Exp1};
use warikomi_clock::{Arrivals, Seed, Span, Time};
use warikomi_driver::strategy::{CpuBudget, Next, Receiver, Strategy};

/// What the simulated machine takes for things.
#[derive(Clone, Copy, Debug)]
struct Machine {
    work_ns: u64,
    sleep_cost_ns: u64,
    wake_up_ns: u64,
}

/// What a receiver did on some arrivals, without the time in which it learns.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    cpu: f64,
    /// Mean delay of a packet because of wake-ups, in nanoseconds.
    delay_ns: f64,
}

/// Arrivals that are not counted: `auto` does not know anything yet.
const LEARNING: usize = 6_000;

fn simulate(strategy: Strategy, arrivals: &[Time], machine: Machine) -> Outcome {
    let ns = Span::from_ns;
    let mut receiver = Receiver::new(strategy, Time::ZERO);
    let (mut now, mut idle, mut woken) = (Time::ZERO, Span::ZERO, Span::ZERO);
    let (mut sleeps, mut delay, mut begin) = (0_u64, Span::ZERO, (Time::ZERO, Span::ZERO, 0));
    let mut next = 0;
    while next < arrivals.len() {
        if next == LEARNING {
            (begin, delay) = ((now, idle, sleeps), Span::ZERO);
        }
        if arrivals[next] <= now {
            // Delay that is due to a sleep, not to packets before this one.
            delay += now.since(arrivals[next].max(Time::ZERO)).min(woken);
            let asked = now;
            receiver.next(asked, 0);
            now += ns(machine.work_ns);
            receiver.next(now, 1);
            next += 1;
            continue;
        }
        woken = Span::ZERO;
        // Looks until then find nothing and change nothing.
        now = arrivals[next].min(receiver.polls_until()).max(now);
        if arrivals[next] <= now {
            continue;
        }
        if let Next::Arm { .. } = receiver.next(now, 0) {
            let to = arrivals[next] + ns(machine.wake_up_ns);
            receiver.sleep_cost(ns(machine.sleep_cost_ns));
            receiver.slept(now, to);
            idle += to.since(now);
            (now, woken) = (to, ns(machine.wake_up_ns));
            sleeps += 1;
        }
    }
    let (since, idle_before, sleeps_before) = begin;
    let time = now.since(since).as_ns();
    let cost = ((sleeps - sleeps_before) * machine.sleep_cost_ns) as f64;
    let cpu = (time - (idle.as_ns() - idle_before.as_ns()) + cost) / time;
    Outcome { cpu, delay_ns: delay.as_ns() / (arrivals.len() - LEARNING) as f64 }
}

/// Arrival processes with this mean gap.
fn processes(mean_us: u64, seed: u64, count: usize) -> Vec<(&'static str, Vec<Time>)> {
    let add = |gap: &mut dyn FnMut() -> Span| {
        let mut at = Time::ZERO;
        let next = || {
            at += gap();
            at
        };
        std::iter::repeat_with(next).take(count).collect::<Vec<_>>()
    };
    let mean = Span::from_us(mean_us);
    let mut poisson = Arrivals::Poisson { mean, generator: Box::new(Seed(seed).generator()) };
    // Bursts of 32 packets, one in 12 µs as at the published link rate, with pauses between them.
    let mut generator = Seed(seed + 1).generator();
    let mut in_burst = 0_u32;
    let mut on_off = || {
        in_burst = (in_burst + 1) % 32;
        if in_burst != 0 {
            return Span::from_us(12);
        }
        let unit: f64 = Exp1.sample(&mut generator);
        Span::from_ns((unit * 32.0 * mean_us as f64 * 1e3) as u64)
    };
    // Two kinds of gaps without order: many short, some long, both exponential.
    let mut generator = Seed(seed + 2).generator();
    let mut mixed = || {
        let (which, unit): (f64, f64) = (Exp1.sample(&mut generator), Exp1.sample(&mut generator));
        let mean = if which > 1.6 { mean_us as f64 * 4.0 } else { mean_us as f64 * 0.25 };
        Span::from_ns((unit * mean * 1e3) as u64)
    };
    vec![
        ("constant", add(&mut || mean)),
        ("Poisson", add(&mut || poisson.next_gap())),
        ("on/off", add(&mut on_off)),
        ("mixed", add(&mut mixed)),
    ]
}

/// Fixed poll times, 7% apart, with what each leads to.
fn fixed(arrivals: &[Time], machine: Machine) -> Vec<(Span, Outcome)> {
    let times = std::iter::successors(Some(1_000.0), |ns| Some(ns * 1.07));
    let times = times.take_while(|ns| *ns < 2e7).map(|ns: f64| Span::from_ns(ns as u64));
    std::iter::once(Span::ZERO)
        .chain(times)
        .map(|poll_time| (poll_time, simulate(Strategy::Hybrid { poll_time }, arrivals, machine)))
        .collect()
}

#[test]
fn auto_stays_within_its_budget_and_close_to_the_best_fixed_poll_time() {
    let seed = std::env::var("WARIKOMI_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("WARIKOMI_SEED={seed}");
    let machines = [
        Machine { work_ns: 300, sleep_cost_ns: 4_000, wake_up_ns: 4_000 },
        Machine { work_ns: 1_000, sleep_cost_ns: 5_000, wake_up_ns: 15_000 },
        Machine { work_ns: 300, sleep_cost_ns: 12_000, wake_up_ns: 6_000 },
    ];
    let (mut worst, mut cases, mut failures) = (0.0_f64, 0, Vec::new());
    for (number, machine) in machines.into_iter().enumerate() {
        for mean_us in [20, 300] {
            for (name, arrivals) in processes(mean_us, seed + 100 * number as u64, 24_000) {
                let fixed = fixed(&arrivals, machine);
                let least = fixed.iter().map(|(_, it)| it.cpu).fold(f64::INFINITY, f64::min);
                for percent in [2_u32, 5, 10, 25, 50, 80] {
                    let cpu_budget = CpuBudget::from_ppm(percent * 10_000);
                    let auto = simulate(Strategy::Auto { cpu_budget }, &arrivals, machine);
                    let best = fixed
                        .iter()
                        .filter(|(_, it)| it.cpu <= auto.cpu)
                        .min_by(|a, b| a.1.delay_ns.total_cmp(&b.1.delay_ns));
                    // Where no fixed poll time keeps to the budget, nothing can; what counts then is
                    // how far it is from the least.
                    let allowed = cpu_budget.share().max(least * 1.15);
                    // No fixed poll time uses as little: nothing to compare with.
                    let best_ns = best.map_or(auto.delay_ns, |(_, it)| it.delay_ns);
                    let regret =
                        if auto.delay_ns > best_ns { auto.delay_ns / best_ns - 1.0 } else { 0.0 };
                    let line = format!(
                        "{name} {mean_us} us, {machine:?}, budget {percent}%: used {:.2}%, delay {:.0} ns, \
                         best fixed {:?} delay {best_ns:.0} ns, regret {:.1}%",
                        auto.cpu * 100.0,
                        auto.delay_ns,
                        best.map(|(time, _)| time.to_string()),
                        regret * 100.0
                    );
                    println!("{line}");
                    if auto.cpu > allowed || regret > 0.1 {
                        failures.push(line);
                    }
                    (worst, cases) = (worst.max(regret), cases + 1);
                }
            }
        }
    }
    println!("{cases} cases, worst regret {:.1}%", worst * 100.0);
    assert!(failures.is_empty(), "{} of {cases}:\n{}", failures.len(), failures.join("\n"));
}
