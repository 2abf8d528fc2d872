//! Ways to receive in a driver of our own, in virtual time: the same question, asked of declared costs.

use serde_json::json;
use warikomi_driver::DriverInfo;
use warikomi_driver::strategy::Strategy;
use warikomi_measure::{Machine, TargetInfo, TimeBase, table};
use warikomi_sim::receive as simulated;
use warikomi_sim::{CostModel, SchedulerModel, Topology};
use warikomi_target::TargetError;

use super::made::Received;
use super::process::{BUFFER_BYTES, Case, Options};
use super::row::Row;
use crate::error::Error;
use crate::watch::Watch;

/// Line rates at which the rule for the buffer is held against what is needed, as multiples of the rate
/// that was asked for.
const SCALES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Compares the ways to receive with this driver and its card; one seed is one history.
pub fn receive(
    options: &Options,
    driver: &DriverInfo,
    costs: &CostModel,
    scheduler: &SchedulerModel,
    watch: &mut Watch,
) -> Result<Received, Error> {
    let name = |case: &Case| case.strategy.name().to_owned();
    let rows = watch.each(&options.cases(), name, |case, watch| {
        if watch.interrupted.is_set() {
            return Err(TargetError::Interrupted.into());
        }
        rows_of(options, case, world(options, case, driver, costs, scheduler))
    })?;
    let rows = rows.concat();
    let target = TargetInfo::of_simulated(driver.name, driver.name);
    let (base, machine) = (TimeBase::Virtual, Machine::default());
    let mut result = table("receive", base, machine, target, options, &rows);
    result.figures.insert("costs".into(), json!(costs));
    result.figures.insert("scheduler".into(), json!(scheduler));
    if let Some(scaling) = scaling(options, driver, costs, scheduler)? {
        result.figures.insert("scaling".into(), json!(scaling));
    }
    Ok(Received { result, rows, bursts: Vec::new() }.judged(options))
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
    Ok(found.iter().map(|found| row_of(case, found)).collect())
}

fn world(
    options: &Options,
    case: &Case,
    driver: &DriverInfo,
    costs: &CostModel,
    scheduler: &SchedulerModel,
) -> simulated::ReceiveOptions {
    let traffic = options.traffic_of(case);
    let stall = options.stall.map(|stall| stall.times(traffic.duration, traffic.seed));
    simulated::ReceiveOptions {
        driver: driver.name.to_owned(),
        core_taken: stall.unwrap_or_default(),
        real_time: case.setting.real_time == Some(true),
        frame_bytes: traffic.frame_bytes,
        line_rate_bps: traffic.line_rate_bps,
        load_share: case.load,
        random_gaps: traffic.poisson,
        duration: traffic.duration,
        topology: Topology::Direct,
        compute: options.compute,
        costs: case.setting.cpu_speed.map_or(*costs, |speed| costs.with_cpu_speed(speed)),
        scheduler: *scheduler,
        seed: traffic.seed,
        ..simulated::ReceiveOptions::default()
    }
}

fn row_of(case: &Case, found: &simulated::Row) -> Row {
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
        ..case.row(poll_us, found.buffer_bytes)
    }
}

/// The rule that scales the buffer to another line, held against what other lines need: for the first
/// strategy that may have to wait for its core (one that just wakes up is given it at once, and needs
/// hardly a buffer), and the first of the bursts.
fn scaling(
    options: &Options,
    driver: &DriverInfo,
    costs: &CostModel,
    scheduler: &SchedulerModel,
) -> Result<Option<Vec<simulated::Scaling>>, Error> {
    let cases = options.cases();
    let waits = |case: &&Case| {
        options.find_smallest_buffer
            && options.claim.is_none()
            && matches!(case.strategy, Strategy::Poll | Strategy::Hybrid { .. })
    };
    let Some(case) = cases.iter().find(waits) else { return Ok(None) };
    let rate = options.traffic.line_rate_bps as f64;
    let rates = SCALES.map(|scale| (rate * scale) as u64);
    let mut world = world(options, case, driver, costs, scheduler);
    // The smallest buffer of a slow line is few buffers: shorter frames say it more finely.
    if !options.whole_messages {
        world.frame_bytes = world.frame_bytes.min(BUFFER_BYTES as usize / 4);
    }
    Ok(simulated::scaling(&world, case.strategy, case.burst_bytes, &rates)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::Traffic;
    use crate::receive::{Claim, Found};
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
        run_watched(options, &mut Watch::unobserved()).unwrap()
    }

    fn run_watched(options: &Options, watch: &mut Watch) -> Result<Received, Error> {
        let (costs, scheduler) = (CostModel::default(), SchedulerModel::default());
        receive(options, warikomi_driver::DRIVERS[0], &costs, &scheduler, watch)
    }

    #[test]
    fn ctrl_c_ends_it_before_the_next_row() {
        let mut watch = Watch::unobserved();
        watch.interrupted.set();
        let ended = run_watched(&options(), &mut watch);
        assert!(ended.is_err_and(|error| error.is_interrupted()));
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let (first, second) = (run(&options()), run(&options()));
        assert_eq!(first.rows, second.rows);
        assert_eq!(first.rows.len(), 3);
        assert!(first.rows.iter().all(|row| row.lost == Some(0) && row.digest.is_some()));
        assert_eq!(first.rows[0].published_cpu_share, Some(0.25));
    }

    #[test]
    fn the_smallest_buffer_is_no_larger_than_what_was_asked_for_and_the_rule_is_shown() {
        let found = run(&Options { find_smallest_buffer: true, ..options() });
        assert!(found.rows.iter().all(|row| row.buffer_bytes <= 7_010_000), "{:?}", found.rows);
        let scaling = found.result.figures["scaling"].as_array().unwrap();
        assert_eq!(scaling.len(), SCALES.len());
    }

    fn stalled() -> Options {
        Options {
            stall: Some("100ms:every=1s".parse().unwrap()),
            polls_us: vec![100],
            buffers_bytes: vec![1_000_000, 7_000_000],
            traffic: Traffic { duration: Span::from_ms(1_000), ..options().traffic },
            ..options()
        }
    }

    #[test]
    fn what_takes_the_core_away_costs_the_packets_that_no_buffer_bridges() {
        let found = run(&stalled());
        let [small, large] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
        // A quarter of 800 Mbit/s for 100 ms are 2.5 MB, in frames of 8,000 bytes.
        let arrives = 100e-3 * 0.25 * 100e6 / 8_000.0;
        let lost = small.lost.unwrap() as f64;
        assert!((0.5 * arrives..arrives).contains(&lost), "{lost} of {arrives}");
        assert_eq!(large.lost, Some(0), "{large:?}");
        let losses = found.result.figures["losses"].as_array().unwrap();
        assert_eq!((&losses[0]["losing"], &losses[1]["losing"]), (&1.into(), &0.into()));
        assert_eq!(found.rows, run(&stalled()).rows, "one seed, one history");
        let share = [small, large].map(|row| row.cpu_share.unwrap());
        assert!(share.iter().all(|share| (0.0..0.6).contains(share)), "{share:?}");
    }

    #[test]
    fn claims_about_the_needed_buffer_are_answered() {
        let verdict = |claim| {
            let searched = Options { find_smallest_buffer: true, claim: Some(claim), ..stalled() };
            let found = run(&searched);
            assert_eq!(found.rows.len(), 2, "{:?}", found.rows);
            (found.result.figures["verdict"]["verdict"].clone(), found.rows)
        };
        let same = serde_json::json!(Found::Same);
        let (doubled, rows) = verdict(Claim::LineDoubled);
        assert_eq!(doubled, same, "{rows:?}");
        assert_eq!(rows[1].line_rate_bps, Some(1_600_000_000));
        let (halved, rows) = verdict(Claim::CpuHalved);
        assert_eq!(halved, same, "{rows:?}");
        assert_eq!(rows[1].cpu_speed, Some(0.5));
        let (urgent, rows) = verdict(Claim::RealTimePriority);
        assert_eq!(urgent, same, "{rows:?}");
        assert!(rows[1].buffer_bytes * 10 < rows[0].buffer_bytes, "{rows:?}");
    }

    #[test]
    fn a_message_of_65_kb_is_one_frame_in_one_buffer_of_a_card_that_has_such_frames() {
        let whole = Options {
            whole_messages: true,
            polls_us: vec![100],
            traffic: Traffic { bursts_bytes: vec![1_000, 65_000], ..options().traffic },
            ..options()
        };
        let driver = warikomi_driver::DRIVERS.iter().find(|info| info.name == "oc48").unwrap();
        whole.check(driver.max_frame_bytes).unwrap();
        let (costs, scheduler) = (CostModel::default(), SchedulerModel::default());
        let found = receive(&whole, driver, &costs, &scheduler, &mut Watch::unobserved()).unwrap();
        for row in &found.rows {
            assert_eq!((row.lost, row.planned > Some(0)), (Some(0), true), "{row:?}");
        }
        // A quarter of 100 MB/s for 50 ms: a packet is a message.
        assert_eq!(found.rows[1].planned, Some(19));
        let refused = whole.check(16_379).unwrap_err().to_string();
        assert!(refused.contains("65000 bytes") && refused.contains("oc48"), "{refused}");
    }
}
