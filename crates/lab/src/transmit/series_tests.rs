use std::collections::HashMap;

use warikomi_clock::Time;
use warikomi_driver::transmit::Completion;
use warikomi_inject::{GUEST_IP, NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_protocol::answers::Sent;
use warikomi_protocol::payload::{HEAD_BYTES, Head, filler};
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::{Destination, Station, headers};
use warikomi_target::{Interrupted, TargetError};
use warikomi_wire::Wire;
use warikomi_wire::peer::numbered::Numbered;

use super::super::options::{Pace, driver};
use super::super::traffic::Traffic;
use super::*;
use crate::journal::NewRun;
use crate::watch::Progress;

/// Sends at once, at a rate that follows from the plan; loses what it is told to lose.
#[derive(Default)]
struct Invented {
    /// Run id, bytes, strategy and messages of each run.
    runs: Vec<(u32, u32, String, Messages)>,
    dead_lock: Option<Completion>,
    lose: Option<u64>,
    drop: u64,
    pools_leak: bool,
    stop_after: Option<usize>,
    seen_of: HashMap<String, u64>,
}

/// A message as the sender makes it.
fn message(run_id: u32, sequence: u64, bytes: u32) -> Vec<u8> {
    let station = Station { mac: [2, 0, 0, 0, 0, 1], address: GUEST_IP, prefix_bits: 24 };
    let to = Destination { address: NETWORK_IP, port: UDP_PORT, source_port: UDP_PORT };
    let mut frame = headers(&station, to, NETWORK_MAC, bytes as u16).unwrap().to_vec();
    frame.extend(Head { run_id, sequence }.to_bytes());
    frame.extend((HEAD_BYTES..bytes as usize).map(filler));
    frame
}

impl Bench for Invented {
    fn send(
        &mut self,
        plan: &SendPlan,
        look: Look,
        _: &mut Watch,
    ) -> Result<(Outcome, Seen), Error> {
        if self.stop_after == Some(self.runs.len()) {
            return Err(TargetError::Interrupted.into());
        }
        let (count, warmup) = (plan.count, plan.warmup);
        let completion = plan.completion.to_string();
        let bytes = plan.sizes_bytes[0];
        self.runs.push((plan.run_id, bytes, completion.clone(), Messages { count, warmup }));
        let (mut sink, judge) = Numbered::sink();
        judge.lock().begin(plan.run_id, warmup + count, look);
        let kept = (0..warmup + count - self.drop).filter(|&number| Some(number) != self.lose);
        kept.for_each(|number| {
            sink.transmit(Time::ZERO, &message(plan.run_id, number, bytes));
        });
        // The second repetition is the fastest, the third the slowest.
        let repeat = self.seen_of.entry(format!("{bytes} {completion}")).or_default();
        *repeat += u64::from(warmup > 0);
        let ns = 1_000 * count * [3, 3, 2, 4][*repeat as usize % 4];
        let dead_locked = self.dead_lock == Some(plan.completion);
        let sent = Sent {
            planned: count,
            sent: count - self.drop,
            sent_bytes: (count - self.drop) * u64::from(bytes),
            socket_drops: self.drop,
            took_ns: ns,
            busy_ns: ns / 2,
            interrupts: count,
            transfers: 3 * count,
            copied_bytes: count * u64::from(bytes),
            dead_locked,
            pools_full: !dead_locked && !self.pools_leak,
            ..Sent::default()
        };
        Ok((Outcome { sent, segments_per_message: None, digest: None }, judge.lock().seen()))
    }
}

fn options() -> Options {
    Options {
        traffic: vec![Traffic::Size(64), Traffic::Size(2_048)],
        buffers: vec![BufferKind::Contiguous],
        completions: vec![Completion::Interrupt, Completion::InterruptFree],
        amount: Amount::Messages(40),
        ..Options::default()
    }
}

fn oc48() -> &'static DriverInfo {
    driver("oc48").unwrap()
}

fn carried_out(options: &Options, bench: &mut Invented) -> Result<Vec<Row>, Error> {
    rows(options, oc48(), bench, &mut Watch::unobserved()).map(|(rows, _)| rows)
}

#[test]
fn rows_take_turns_and_are_the_median_of_their_repetitions() {
    let mut bench = Invented::default();
    let mut watch = Watch::unobserved();
    let (rows, repetitions) = rows(&options(), oc48(), &mut bench, &mut watch).unwrap();
    let order: Vec<_> = bench.runs.iter().map(|run| (run.1, run.2.as_str())).collect();
    let round = [
        (64, "interrupt"),
        (64, "interrupt-free"),
        (2_048, "interrupt"),
        (2_048, "interrupt-free"),
    ];
    assert_eq!(order, [round; 3].concat());
    let ids: Vec<u32> = bench.runs.iter().map(|run| run.0).collect();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>(), "no run has the id of another");
    let row = &rows[0];
    let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 1e-9;
    assert!(near(row.pps, 1e6 / 3.0) && near(row.bps, 512e6 / 3.0), "{row:?}");
    assert!(near(row.min_bps, 128e6) && near(row.max_bps, 256e6), "{row:?}");
    assert_eq!((row.cpu_share, row.transfers_per_packet), (Some(0.5), Some(3.0)));
    assert_eq!((repetitions.len(), repetitions[2].repeat, repetitions[3].row), (12, 3, 1));
}

#[test]
fn messages_are_so_many_that_a_row_takes_the_time_asked_for() {
    let mut bench = Invented::default();
    let options = Options { amount: Amount::For(Span::from_ms(3)), repeats: 1, ..options() };
    carried_out(&options, &mut bench).unwrap();
    let (pilot, run) = (bench.runs[0].3, bench.runs[1].3);
    assert_eq!(pilot, Messages { count: 2_000, warmup: 0 });
    assert_eq!(run, Messages { count: 1_000, warmup: 250 });
    let paced = Options { pace: Pace::Interval(Span::from_us(10)), ..options };
    let mut bench = Invented::default();
    carried_out(&paced, &mut bench).unwrap();
    assert_eq!(bench.runs[0].3, Messages { count: 300, warmup: 75 }, "no need of an estimate");
}

#[test]
fn a_dead_lock_is_a_row_without_a_rate_and_is_not_repeated() {
    let mut bench = Invented { dead_lock: Some(Completion::InterruptFree), ..Invented::default() };
    let rows = carried_out(&options(), &mut bench).unwrap();
    assert_eq!(rows.iter().filter(|row| row.dead_locked && row.bps.is_none()).count(), 2);
    assert_eq!(bench.runs.len(), 2 * 3 + 2);
}

#[test]
fn what_the_wire_has_not_seen_fails_the_experiment() {
    for lose in [0, 20, 49] {
        let mut bench = Invented { lose: Some(lose), ..Invented::default() };
        let error = carried_out(&options(), &mut bench).unwrap_err().to_string();
        assert!(error.contains("1 lost") && error.contains("64 bytes, contiguous"), "{error}");
    }
    let mut bench = Invented { pools_leak: true, ..Invented::default() };
    let error = carried_out(&options(), &mut bench).unwrap_err().to_string();
    assert!(error.contains("pools"), "{error}");
}

#[test]
fn drops_at_the_socket_of_a_pace_are_no_loss() {
    let mut bench = Invented { drop: 10, ..Invented::default() };
    let paced = Options { pace: Pace::Rate(1_000_000), ..options() };
    let rows = carried_out(&paced, &mut bench).unwrap();
    assert_eq!(rows[0].socket_drop_share, Some(0.25));
    let unpaced = carried_out(&options(), &mut Invented { lose: Some(49), ..Invented::default() });
    assert!(unpaced.is_err(), "without a pace the last message is missed");
}

#[test]
fn a_run_that_was_stopped_goes_on_with_the_rates_and_dead_locks_of_its_earlier_runs() {
    let amount = Amount::For(Span::from_ms(3));
    let (options, lock) = (Options { amount, ..options() }, Some(Completion::InterruptFree));
    let mut whole = Invented { dead_lock: lock, ..Invented::default() };
    let mut unobserved = Watch::unobserved();
    let expected = rows(&options, oc48(), &mut whole, &mut unobserved).unwrap();
    for stop_after in 1..whole.runs.len() {
        let runs = tempfile::tempdir().unwrap();
        let show = || Box::new(|_: Progress<'_>| ());
        let run = NewRun {
            runs: runs.path().to_owned(),
            name: "transmit".into(),
            now_s: 0,
            plan: String::new(),
        };
        let mut watch = Watch::of_new_run(Interrupted::default(), show(), run);
        let mut first =
            Invented { stop_after: Some(stop_after), dead_lock: lock, ..Invented::default() };
        assert!(rows(&options, oc48(), &mut first, &mut watch).is_err());
        let directory = watch.directory().unwrap().path().to_owned();
        drop(watch);
        let mut watch = Watch::of_resumed_run(Interrupted::default(), show(), &directory).unwrap();
        assert_eq!(watch.earlier_steps(), stop_after);
        let mut second =
            Invented { dead_lock: lock, seen_of: first.seen_of, ..Invented::default() };
        assert_eq!(rows(&options, oc48(), &mut second, &mut watch).unwrap(), expected);
        assert_eq!([first.runs, second.runs].concat(), whole.runs);
    }
}
