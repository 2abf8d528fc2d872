//! Ways to receive in a driver of our own, in virtual time: the same question, asked of declared costs.

use serde_json::json;
use warikomi_driver::DEFAULT_DRIVER;
use warikomi_driver::strategy::Strategy;
use warikomi_measure::{Machine, TargetInfo, TimeBase, table};
use warikomi_sim::receive as simulated;
use warikomi_sim::{CostModel, SchedulerModel, Topology};

use super::made::Received;
use super::process::{BUFFER_BYTES, Case, Options};
use super::row::Row;
use crate::error::Error;
use crate::watch::Watch;

/// Line rates at which the rule for the buffer is held against what is needed, as multiples of the rate
/// that was asked for.
const SCALES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Compares the ways to receive; one seed is one history.
pub fn receive(
    options: &Options,
    costs: &CostModel,
    scheduler: &SchedulerModel,
    watch: &mut Watch,
) -> Result<Received, Error> {
    let name = |case: &Case| case.strategy.name().to_owned();
    let rows = watch.each(&options.cases(), name, |case, _| {
        rows_of(options, case, world(options, costs, scheduler))
    })?;
    let rows = rows.concat();
    let target = TargetInfo {
        kind: "process".into(),
        driver: DEFAULT_DRIVER.into(),
        model: DEFAULT_DRIVER.into(),
        ..TargetInfo::default()
    };
    let (base, machine) = (TimeBase::Virtual, Machine::default());
    let mut result = table("receive", base, machine, target, options, &rows);
    result.figures.insert("costs".into(), json!(costs));
    result.figures.insert("scheduler".into(), json!(scheduler));
    if let Some(scaling) = scaling(options, costs, scheduler)? {
        result.figures.insert("scaling".into(), json!(scaling));
    }
    Ok(Received { result, rows, bursts: Vec::new() })
}

fn rows_of(
    options: &Options,
    case: &Case,
    mut world: simulated::ReceiveOptions,
) -> Result<Vec<Row>, Error> {
    world.strategies = vec![case.strategy];
    world.buffer_bytes = vec![case.buffer_bytes];
    world.burst_bytes = vec![case.burst_bytes];
    if options.find_smallest_buffer {
        let found = simulated::smallest_buffer(&world, case.strategy, case.burst_bytes)?;
        world.buffer_bytes = vec![found.unwrap_or(case.buffer_bytes)];
    }
    let found = simulated::receive(&world, &mut |_| ())?;
    let rows = found.iter().map(|found| {
        let row = row_of(found);
        let published_lost_share = Row::published_loss(row.poll_us, case.buffer_bytes);
        Row { published_lost_share, ..row }
    });
    Ok(rows.collect())
}

fn world(
    options: &Options,
    costs: &CostModel,
    scheduler: &SchedulerModel,
) -> simulated::ReceiveOptions {
    let traffic = &options.traffic;
    simulated::ReceiveOptions {
        frame_bytes: traffic.frame_bytes,
        line_rate_bps: traffic.line_rate_bps,
        load_share: traffic.load,
        random_gaps: traffic.poisson,
        duration: traffic.duration,
        topology: Topology::Direct,
        compute: options.compute,
        costs: *costs,
        scheduler: *scheduler,
        seed: traffic.seed,
        ..simulated::ReceiveOptions::default()
    }
}

fn row_of(found: &simulated::Row) -> Row {
    let poll_us = found.poll_us.map(|us| us as u64);
    Row {
        cpu_share: Some(found.cpu_share),
        lost_share: Some(found.lost_share),
        delay_us: found.delay_us,
        interrupts: Some(found.interrupts),
        sleeps: Some(found.sleeps),
        planned: Some(found.planned),
        delivered: Some(found.delivered),
        lost: Some(found.lost),
        digest: Some(found.digest.clone()),
        ..Row::new(&found.strategy, poll_us, found.buffer_bytes, found.burst_bytes as u64)
    }
}

/// The rule that scales the buffer to another line, held against what other lines need: for the first
/// strategy that may have to wait for its core (one that just wakes up is given it at once, and needs
/// hardly a buffer), and the first of the bursts.
fn scaling(
    options: &Options,
    costs: &CostModel,
    scheduler: &SchedulerModel,
) -> Result<Option<Vec<simulated::Scaling>>, Error> {
    let cases = options.cases();
    let waits = |case: &&Case| {
        options.find_smallest_buffer
            && matches!(case.strategy, Strategy::Poll | Strategy::Hybrid { .. })
    };
    let Some(case) = cases.iter().find(waits) else { return Ok(None) };
    let rate = options.traffic.line_rate_bps as f64;
    let rates = SCALES.map(|scale| (rate * scale) as u64);
    let mut world = world(options, costs, scheduler);
    // The smallest buffer of a slow line is few buffers: shorter frames say it more finely.
    world.frame_bytes = world.frame_bytes.min(BUFFER_BYTES as usize / 4);
    Ok(simulated::scaling(&world, case.strategy, case.burst_bytes, &rates)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::Traffic;
    use warikomi_clock::Span;

    fn options() -> Options {
        Options {
            strategies: vec![Strategy::Hybrid { poll_time: Span::from_us(100) }],
            buffers_bytes: vec![7_000_000],
            traffic: Traffic {
                duration: Span::from_ms(50),
                frame_bytes: 8_000,
                ..Traffic::default()
            },
            ..Options::default()
        }
    }

    fn run(options: &Options) -> Received {
        receive(
            options,
            &CostModel::default(),
            &SchedulerModel::default(),
            &mut Watch::unobserved(),
        )
        .unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let (first, second) = (run(&options()), run(&options()));
        assert_eq!(first.rows, second.rows);
        assert_eq!(first.rows.len(), 3);
        assert!(first.rows.iter().all(|row| row.lost == Some(0) && row.digest.is_some()));
        assert_eq!(first.rows[0].published_lost_share, Some(0.002));
    }

    #[test]
    fn the_smallest_buffer_is_no_larger_than_what_was_asked_for_and_the_rule_is_shown() {
        let found = run(&Options { find_smallest_buffer: true, ..options() });
        assert!(found.rows.iter().all(|row| row.buffer_bytes <= 7_010_000), "{:?}", found.rows);
        let scaling = found.result.figures["scaling"].as_array().unwrap();
        assert_eq!(scaling.len(), SCALES.len());
    }
}
