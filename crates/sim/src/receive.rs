//! The receive experiment in virtual time: what receiving takes of the processor, and what is lost, by
//! strategy, receive buffer and burst; and the rule that scales the buffer to another link rate.

use serde::Serialize;
use warikomi_clock::{Seed, Span};
use warikomi_driver::strategy::Strategy;
use warikomi_driver::{DRIVERS, DriverInfo};
use warikomi_measure::Delay;

use super::{
    CostModel, Disturbances, Options, Outcome, SchedulerModel, Topology, Traffic, VirtualError,
    Way, run,
};

/// What to try: every strategy with every buffer and every burst.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Strategies, each with its poll time or budget.
    pub strategies: Vec<Strategy>,
    /// Receive buffer in bytes: all buffers together. The NIC's ring names as many of them as its driver says.
    pub buffer_bytes: Vec<u64>,
    /// Bytes of a burst.
    pub burst_bytes: Vec<usize>,
    /// The longest frame in bytes, without check sequence.
    pub frame_bytes: usize,
    /// What the link carries, in bit/s.
    pub line_rate_bps: u64,
    /// The mean share of time for which the link is busy.
    pub load_share: f64,
    /// Random gaps between bursts, or all the same.
    pub random_gaps: bool,
    /// How long bursts come, in each row.
    pub duration: Span,
    /// Which processes there are.
    pub topology: Topology,
    /// Whether a job that computes competes for the core.
    pub compute: bool,
    /// Whether what receives has real-time priority.
    pub real_time: bool,
    /// When the core is taken from all parts without it, from the first burst on, and for how long.
    pub core_taken: Vec<(Span, Span)>,
    /// Costs of what the processes do.
    pub costs: CostModel,
    /// The scheduler.
    pub scheduler: SchedulerModel,
    /// The driver, by its name.
    pub driver: String,
    /// Where all randomness starts from.
    pub seed: Seed,
}

impl Default for ReceiveOptions {
    /// The published link, 100 MB/s, and the published bursts, poll times and buffers.
    fn default() -> Self {
        let hybrid = |us| Strategy::Hybrid { poll_time: Span::from_us(us) };
        ReceiveOptions {
            strategies: [100, 140, 300].map(hybrid).to_vec(),
            buffer_bytes: vec![7_000_000, 10_000_000, 15_000_000],
            burst_bytes: vec![50_000],
            frame_bytes: 15_000,
            line_rate_bps: 800_000_000,
            load_share: 0.2,
            random_gaps: true,
            duration: Span::from_ms(2_000),
            topology: Topology::Direct,
            compute: true,
            real_time: false,
            core_taken: Vec::new(),
            costs: CostModel::default(),
            scheduler: SchedulerModel::default(),
            driver: "rtl8168".to_owned(),
            seed: Seed(1),
        }
    }
}

/// A row of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The strategy's name.
    pub strategy: String,
    /// Its poll time, in microseconds; absent where there is none, or it is chosen on line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_us: Option<f64>,
    /// Its budget, as a share of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_budget: Option<f64>,
    /// Receive buffer that was there, in bytes: what was asked for, in whole buffers.
    pub buffer_bytes: u64,
    /// Bytes of a burst.
    pub burst_bytes: usize,
    /// The share of the processor that receiving took.
    pub cpu_share: f64,
    /// The share of the packets that the application never had.
    pub lost_share: f64,
    /// From the last frame of a burst in memory until the application has it; absent if nothing was
    /// delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<Delay>,
    /// Times that the driver slept.
    pub sleeps: u64,
    /// Interrupts that the NIC sent.
    pub interrupts: u64,
    /// Packets that were to come.
    pub planned: u64,
    /// Packets that the application had.
    pub delivered: u64,
    /// Packets that it never had.
    pub lost: u64,
    /// The digest of the row's history.
    pub digest: String,
}

/// Runs every combination, in order; `done` is told of each row.
pub fn receive(
    options: &ReceiveOptions,
    done: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, VirtualError> {
    let mut rows = Vec::new();
    for &strategy in &options.strategies {
        for &buffer_bytes in &options.buffer_bytes {
            for &burst_bytes in &options.burst_bytes {
                let row = row(options, strategy, buffer_bytes, burst_bytes)?;
                done(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn driver(options: &ReceiveOptions) -> Result<&'static DriverInfo, VirtualError> {
    let found = DRIVERS.iter().find(|info| info.name == options.driver);
    found.copied().ok_or_else(|| VirtualError::Driver(options.driver.clone()))
}

/// Bytes of one buffer: a frame and its check sequence, in whole words of four bytes.
fn one_buffer(options: &ReceiveOptions) -> Result<u64, VirtualError> {
    let bytes = (options.frame_bytes as u64 + 4).next_multiple_of(4);
    Ok(bytes.min(driver(options)?.max_buffer_bytes as u64))
}

fn row(
    options: &ReceiveOptions,
    strategy: Strategy,
    buffer_bytes: u64,
    burst_bytes: usize,
) -> Result<Row, VirtualError> {
    let one_buffer = one_buffer(options)?;
    let buffers = (buffer_bytes / one_buffer).max(1);
    let outcome = one(options, strategy, buffers, burst_bytes)?;
    let (poll_us, cpu_budget) = match strategy {
        Strategy::Hybrid { poll_time } => (Some(poll_time.as_us()), None),
        Strategy::Auto { cpu_budget } => (None, Some(cpu_budget.share())),
        _ => (None, None),
    };
    let counts = outcome.counts;
    Ok(Row {
        strategy: strategy.name().to_owned(),
        poll_us,
        cpu_budget,
        buffer_bytes: buffers * one_buffer,
        burst_bytes,
        cpu_share: outcome.cpu_share,
        lost_share: counts.lost_share(),
        delay_us: outcome.delay().map(Delay::of),
        sleeps: counts.sleeps,
        interrupts: counts.interrupts,
        planned: counts.planned,
        delivered: counts.delivered,
        lost: counts.planned - counts.delivered,
        digest: outcome.digest,
    })
}

fn one(
    options: &ReceiveOptions,
    strategy: Strategy,
    buffers: u64,
    burst_bytes: usize,
) -> Result<Outcome, VirtualError> {
    let mut traffic = Traffic {
        burst_bytes,
        // A burst may be shorter than a frame.
        frame_bytes: options.frame_bytes.min(burst_bytes.max(60)),
        line_rate_bps: options.line_rate_bps,
        load_share: options.load_share,
        random_gaps: options.random_gaps,
        bursts: 1,
    };
    let cycle = (traffic.burst_time() + traffic.mean_gap()).as_ps().max(1);
    traffic.bursts = (options.duration.as_ps() / cycle).max(1);
    let run_options = Options {
        traffic,
        strategy,
        topology: options.topology,
        buffers: buffers as usize,
        buffer_bytes: one_buffer(options)? as u32,
        compute: options.compute,
        real_time: options.real_time,
        costs: options.costs,
        scheduler: options.scheduler,
        sleep_timeout: None,
        every_idle_look: false,
        way: Way::default(),
        sends: None,
        seed: options.seed,
        disturbances: Disturbances {
            core_taken: options.core_taken.clone(),
            bound: Span::from_ms(2_000),
            ..Disturbances::default()
        },
    };
    run(&run_options, &options.driver)
}

/// The smallest receive buffer, in bytes, with which nothing of this traffic is lost; `None` if the
/// largest that the ring can name is too small. Found by halving, to one buffer.
pub fn smallest_buffer(
    options: &ReceiveOptions,
    strategy: Strategy,
    burst_bytes: usize,
) -> Result<Option<u64>, VirtualError> {
    let ring = driver(options)?.rx_descriptors as u64;
    let lossless = |buffers| -> Result<bool, VirtualError> {
        Ok(one(options, strategy, buffers, burst_bytes)?.counts.lost_share() == 0.0)
    };
    if !lossless(ring)? {
        return Ok(None);
    }
    let (mut too_few, mut enough) = (0, ring);
    while enough - too_few > 1 {
        let middle = (too_few + enough) / 2;
        if lossless(middle)? {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Ok(Some(enough * one_buffer(options)?))
}

/// The rule: the receive buffer that is needed is what the link brings while the receiver does not
/// have the processor. That time is the scheduler's, whatever the link and however fast the processor
/// is. So it is in proportion to the link's rate.
pub fn scaled_buffer_bytes(needed_bytes: u64, from_bps: u64, to_bps: u64) -> u64 {
    (u128::from(needed_bytes) * u128::from(to_bps)).div_ceil(u128::from(from_bps.max(1))) as u64
}

/// The rule, held against what was found at another link rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scaling {
    /// The link rate in bit/s.
    pub line_rate_bps: u64,
    /// The smallest buffer without loss at this rate, in bytes; absent if the ring is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
    /// What the rule makes of the need at the first rate, in bytes.
    pub predicted_bytes: u64,
}

/// The smallest buffers at several link rates (same load in proportion, same bursts in time), against
/// the rule from the first of them. `None` if the first has none.
pub fn scaling(
    options: &ReceiveOptions,
    strategy: Strategy,
    burst_bytes: usize,
    rates_bps: &[u64],
) -> Result<Option<Vec<Scaling>>, VirtualError> {
    let Some(&first) = rates_bps.first() else { return Ok(None) };
    let mut base = None;
    let mut rows = Vec::new();
    for &line_rate_bps in rates_bps {
        // A burst lasts as long as on the first link.
        let burst = scaled_buffer_bytes(burst_bytes as u64, first, line_rate_bps) as usize;
        let options = ReceiveOptions { line_rate_bps, ..options.clone() };
        let needed_bytes = smallest_buffer(&options, strategy, burst)?;
        let base = *base.get_or_insert(needed_bytes);
        let Some(base) = base else { return Ok(None) };
        let predicted_bytes = scaled_buffer_bytes(base, first, line_rate_bps);
        rows.push(Scaling { line_rate_bps, needed_bytes, predicted_bytes });
    }
    Ok(Some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that must wait for its turn: it uses up its share, so the job's time slice is what
    /// the buffer must bridge.
    fn waiting() -> ReceiveOptions {
        ReceiveOptions {
            frame_bytes: 1_500,
            load_share: 0.4,
            duration: Span::from_ms(400),
            ..ReceiveOptions::default()
        }
    }

    const POLL: Strategy = Strategy::Poll;

    #[test]
    fn rows_come_in_order_and_add_up() {
        let options = ReceiveOptions {
            strategies: Strategy::ALL.to_vec(),
            buffer_bytes: vec![500_000, 1_000_000],
            burst_bytes: vec![1_000, 50_000],
            duration: Span::from_ms(50),
            ..ReceiveOptions::default()
        };
        let mut told = 0;
        let rows = receive(&options, &mut |_| told += 1).unwrap();
        assert_eq!((rows.len(), told), (24, 24));
        for row in &rows {
            assert_eq!(row.planned, row.delivered + row.lost, "{row:?}");
            assert!((0.0..=1.0).contains(&row.cpu_share), "{row:?}");
            assert_eq!(row.poll_us.is_some(), row.strategy == "hybrid");
        }
        assert!(rows.iter().filter(|row| row.strategy == "poll").all(|row| row.sleeps == 0));
        assert_eq!(rows, receive(&options, &mut |_| ()).unwrap(), "one seed, one experiment");
    }

    #[test]
    fn a_longer_poll_time_takes_more_of_the_processor() {
        let shares = [20, 100, 300].map(|us| {
            let strategy = Strategy::Hybrid { poll_time: Span::from_us(us) };
            let options = ReceiveOptions { compute: false, ..waiting() };
            one(&options, strategy, 500, 50_000).unwrap().cpu_share
        });
        assert!(shares.is_sorted() && shares[2] > shares[0] * 1.2, "{shares:?}");
    }

    #[test]
    fn auto_keeps_its_budget() {
        use warikomi_driver::strategy::CpuBudget;
        for percent in [25, 50] {
            let cpu_budget = CpuBudget::from_ppm(percent * 10_000);
            let options = ReceiveOptions { load_share: 0.1, compute: false, ..waiting() };
            let strategy = Strategy::Auto { cpu_budget };
            let share = one(&options, strategy, 500, 50_000).unwrap().cpu_share;
            assert!(share <= cpu_budget.share() * 1.05, "{share} of {percent}%");
        }
    }

    #[test]
    fn the_buffer_that_is_needed_scales_with_the_link_and_not_with_the_processor() {
        let rates = [200_000_000, 400_000_000, 800_000_000, 1_600_000_000];
        let rows = scaling(&waiting(), POLL, 12_500, &rates).unwrap().expect("the ring is enough");
        for row in &rows {
            let needed = row.needed_bytes.expect("the ring is enough") as f64;
            let ratio = needed / row.predicted_bytes as f64;
            assert!((0.75..=1.25).contains(&ratio), "{row:?} of {rows:?}");
        }
        let mut costs = CostModel::default();
        costs.vary(|cost| cost / 2);
        let faster = ReceiveOptions { costs, line_rate_bps: rates[2], ..waiting() };
        let needed = smallest_buffer(&faster, POLL, 50_000).unwrap().expect("the ring is enough");
        let ratio = needed as f64 / rows[2].needed_bytes.unwrap_or(1) as f64;
        assert!((0.75..=1.25).contains(&ratio), "with a processor twice as fast: {ratio}");
    }

    /// Not a test of anything: the published poll times and buffers, as declared costs have them.
    /// `cargo test --release -p warikomi-lab --lib -- --ignored --nocapture published_link`
    #[test]
    #[ignore = "a measurement"]
    fn rows_at_the_published_link() {
        let cpu_budget = warikomi_driver::strategy::CpuBudget::from_ppm(250_000);
        let mut options = ReceiveOptions::default();
        options.strategies.extend([Strategy::Interrupt, POLL, Strategy::Auto { cpu_budget }]);
        receive(&options, &mut |row| println!("{}", serde_json::to_string(row).unwrap())).unwrap();
        for strategy in options.strategies.clone() {
            let smallest = smallest_buffer(&options, strategy, 50_000).unwrap();
            println!("{strategy}: smallest buffer without loss {smallest:?} bytes");
        }
        let rates = [200_000_000, 400_000_000, 800_000_000, 1_600_000_000];
        println!("{:?}", scaling(&waiting(), POLL, 12_500, &rates).unwrap());
    }
}
