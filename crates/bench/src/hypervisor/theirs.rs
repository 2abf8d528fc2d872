//! What is measured in a guest of QEMU.
//!
//! When a handler begins, the guest's own kernel notes by its tracepoint `irq_handler_entry`, directly before it
//! calls the handler, with the processor's counter (`trace_clock`: `x86-tsc`). No module is needed. The counter is
//! the host's with another zero, translated or not, which is checked against ours in every round.

use std::time::Duration;

use warikomi_clock::{Span, TscClock, read_tsc};
use warikomi_inject::UDP_PORT;
use warikomi_lab::Error;
use warikomi_protocol::commands::{
    Counters, PingAgent, ReadFile, ReceiveRuns, ReceiveStart, ReceiveStop, WriteFile,
};
use warikomi_target::{Target, TargetError};

use super::figures::{self, Figures};
use super::guest::{Flow, Guest, thread_ns};
use super::{COUNT, INTERVALS, RATE_SIZES, SIZE_BYTES};
use crate::rounds::median;

const TRACER: &str = "/sys/kernel/tracing";
/// A guest's counter may differ from ours by this share; it is read when an answer is made, not when it comes.
const COUNTER_TOLERANCE: f64 = 0.02;
/// What is sent before a rate is measured, and for how long it is.
const WARM_UP: Span = Span::from_ms(200);
const MEASURED: Span = Span::from_ms(1_000);
/// How long a saturated guest may take beyond the usual to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The clocks of the two sides are compared so often.
const ANSWERS: usize = 20;
/// Nothing is on its way any more after this.
const QUIET: Duration = Duration::from_millis(200);
/// From bringing everything into place to the first frame.
const LEAD: Span = Span::from_ms(2);

/// One round on a guest: the figures of each interval, and those of the whole.
pub(super) fn round(
    guest: &mut Guest,
    clock: &TscClock,
    interrupt: &str,
) -> Result<(Vec<Figures>, Figures), Error> {
    let begun = counter(guest)?;
    let trace = |name: &str, text: &str| (format!("{TRACER}/{name}"), text.to_owned());
    // The agent's own line interrupts, too.
    let only = format!("name == \"{interrupt}\"");
    let of_interrupts = [
        trace("events/irq/irq_handler_entry/filter", &only),
        trace("events/irq/irq_handler_entry/enable", "1"),
    ];
    write(guest, of_interrupts)?;
    let mut of_intervals = Vec::new();
    for interval in INTERVALS {
        of_intervals.push(paced(guest, clock, interval)?);
    }
    write(guest, [trace("events/irq/irq_handler_entry/enable", "0")])?;
    let mut whole = Figures::new();
    for size_bytes in RATE_SIZES {
        whole
            .insert(format!("accepted_pps_{size_bytes}"), saturated_pps(guest, clock, size_bytes)?);
    }
    check_counter(clock, begun, counter(guest)?)?;
    Ok((of_intervals, whole))
}

fn write<const N: usize>(guest: &mut Guest, files: [(String, String); N]) -> Result<(), Error> {
    let target: &mut dyn Target = guest;
    for (path, text) in files {
        target.ask(WriteFile { path, text }, PATIENCE)?;
    }
    Ok(())
}

/// The guest's counter and ours, of nearly one moment.
fn counter(guest: &mut Guest) -> Result<(u64, u64), Error> {
    let target: &mut dyn Target = guest;
    let theirs = target.ask(PingAgent {}, PATIENCE)?.tsc;
    Ok((theirs, read_tsc()))
}

fn check_counter(clock: &TscClock, from: (u64, u64), until: (u64, u64)) -> Result<(), Error> {
    let theirs = until.0.saturating_sub(from.0) as f64;
    let ours = until.1.saturating_sub(from.1) as f64;
    if ours > 0.0 && (theirs / ours - 1.0).abs() <= COUNTER_TOLERANCE {
        return Ok(());
    }
    let seconds = ours / clock.ticks_per_second();
    Err(Error::impossible(format!(
        "the guest's time stamp counter advanced by {theirs} while ours did by {ours} in {seconds:.1} s, so \
         its times say nothing"
    )))
}

/// Frames at an interval, to the application of the guest.
fn paced(guest: &mut Guest, clock: &TscClock, interval: Span) -> Result<Figures, Error> {
    let run_id = read_tsc() as u32;
    let template = Flow::template(SIZE_BYTES, run_id)?;
    // A clock that is chosen empties what was traced.
    write(guest, [(format!("{TRACER}/trace_clock"), "x86-tsc".to_owned())])?;
    let target: &mut dyn Target = guest;
    let receive =
        ReceiveStart { max_runs: COUNT as u32, ..ReceiveStart::on_port(UDP_PORT, run_id) };
    target.ask(receive, Duration::ZERO)?;
    let (card_before, idle_from) = (guest.card_ns(), clock.now());
    guest.serve_for(QUIET)?;
    let idle_ns = guest.card_ns().zip(card_before).map(|(now, before)| now - before);
    let idle_share = idle_ns.map(|ns| ns as f64 / clock.now().since(idle_from).as_ns());

    let (card_before, begun) = (guest.card_ns(), clock.now());
    guest.send(Flow::new(template, interval, begun + LEAD, COUNT));
    guest.send_for(interval * COUNT * 20 + Span::from_ms(2_000))?;
    let flow = guest.take_flow().ok_or_else(|| Error::impossible("a flow was lost"))?;
    let (took, card_after) = (clock.now().since(begun), guest.card_ns());
    guest.serve_for(QUIET)?;

    let sent: Vec<f64> = flow.sent.iter().map(|at| at.as_ps() as f64 / 1e3).collect();
    let mut found = seen(guest, clock, interval, &sent)?;
    found.extend(figures::intervals("sent", &sent, interval.as_ns(), COUNT - 1));
    found.insert("sent_share".into(), flow.count() as f64 / COUNT as f64);
    let card_ns = card_after.zip(card_before).zip(idle_share).map(|((after, before), share)| {
        ((after - before) as f64 - share * took.as_ns()) / flow.count().max(1) as f64
    });
    if let Some(card_ns) = card_ns {
        let own_ns = median(&mut flow.cost_ns.clone()) - reading_ns();
        found.insert("inject_ns".into(), own_ns + card_ns);
        found.insert("inject_of_card_ns".into(), card_ns);
    }
    Ok(found)
}

/// What the tracer and the application of the guest have noted of frames that were sent at these times.
fn seen(
    guest: &mut Guest,
    clock: &TscClock,
    interval: Span,
    sent_ns: &[f64],
) -> Result<Figures, Error> {
    let ahead_ns = ahead_ns(guest, clock)?;
    let target: &mut dyn Target = guest;
    let totals = target.ask(ReceiveStop {}, PATIENCE)?;
    let runs = ReceiveRuns { from: 0, max: ReceiveRuns::MOST };
    let runs = target.ask(runs, PATIENCE)?.runs;
    let ns = |ticks: u64| ticks as f64 * 1e9 / clock.ticks_per_second();
    let application: Vec<f64> =
        runs.iter().flat_map(|run| std::iter::repeat_n(ns(run.2), run.1 as usize)).collect();
    let path = format!("{TRACER}/trace");
    let text = target.ask(ReadFile { path }, PATIENCE)?;
    if text.truncated {
        return Err(Error::impossible("the guest traced more than two interrupts a frame"));
    }
    let handled: Vec<f64> = handler_times(&text.text).into_iter().map(ns).collect();
    let due: Vec<f64> = sent_ns.iter().map(|at| at + ahead_ns).collect();
    let first = first_of_each(&handled, &due);
    let (requested, planned) = (interval.as_ns(), COUNT - 1);
    let mut found = figures::intervals("handler", &first, requested, planned);
    found.extend(figures::intervals("application", &application, requested, planned));
    found.insert("interrupts_per_frame".into(), handled.len() as f64 / COUNT as f64);
    found.insert("delivered_share".into(), totals.delivered as f64 / COUNT as f64);
    Ok(found)
}

/// By how much the guest's counter is ahead of our clock, in nanoseconds, at least: an answer is made before it has
/// come, and the quickest of several says most.
fn ahead_ns(guest: &mut Guest, clock: &TscClock) -> Result<f64, Error> {
    let mut ahead = f64::NEG_INFINITY;
    for _ in 0..ANSWERS {
        let theirs = counter(guest)?.0 as f64 * 1e9 / clock.ticks_per_second();
        ahead = ahead.max(theirs - clock.now().as_ps() as f64 / 1e3);
    }
    Ok(ahead)
}

/// The handlers that count where there are more of them than frames, because a card or its driver asks for a second
/// interrupt: the first behind each frame. All of them otherwise.
fn first_of_each(handled_ns: &[f64], sent_ns: &[f64]) -> Vec<f64> {
    if handled_ns.len() <= sent_ns.len() {
        return handled_ns.to_vec();
    }
    let mut frame = None;
    let is_first = |at: &&f64| {
        let of = sent_ns.partition_point(|sent| sent <= *at);
        of > 0 && frame.replace(of) != Some(of)
    };
    handled_ns.iter().filter(is_first).copied().collect()
}

/// The counter's values in the lines of a trace:
/// `          <idle>-0       [000] d.h1. 5812345678: irq_handler_entry: irq=24 name=eth0`.
fn handler_times(trace: &str) -> Vec<u64> {
    let time = |line: &str| {
        let (before, _) = line.split_once(": irq_handler_entry:")?;
        before.split_ascii_whitespace().next_back()?.parse().ok()
    };
    trace.lines().filter(|line| !line.starts_with('#')).filter_map(time).collect()
}

/// What two readings of this thread's processor time are apart.
fn reading_ns() -> f64 {
    let gap = |_| {
        let before = thread_ns();
        thread_ns().saturating_sub(before) as f64
    };
    median(&mut (0..1_000).map(gap).collect::<Vec<_>>())
}

/// Frames that the driver takes in a second when they come as fast as QEMU takes them, by the guest's counts.
fn saturated_pps(guest: &mut Guest, clock: &TscClock, size_bytes: usize) -> Result<f64, Error> {
    let template = Flow::template(size_bytes, 0)?;
    guest.send(Flow::new(template.for_no_protocol(), Span::ZERO, clock.now(), u64::MAX));
    guest.send_for(WARM_UP)?;
    let from = taken(guest)?;
    guest.send_for(MEASURED)?;
    let until = taken(guest)?;
    guest.take_flow();
    guest.serve_for(QUIET)?;
    let seconds = until.1.saturating_sub(from.1) as f64 / clock.ticks_per_second();
    Ok(until.0.saturating_sub(from.0) as f64 / seconds)
}

/// What the interface has received, and when that was.
fn taken(guest: &mut Guest) -> Result<(u64, u64), TargetError> {
    let target: &mut dyn Target = guest;
    let counters = target.ask(Counters { interface: None }, PATIENCE)?;
    Ok((counters.interface.get("rx_packets").copied().unwrap_or(0), counters.tsc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_lines_of_handlers_and_from_no_others() {
        let trace = "# tracer: nop\n#   TASK-PID  CPU#  |||||  TIMESTAMP  FUNCTION\n\
            \x20 <idle>-0   [000] d.h1. 5812345678: irq_handler_entry: irq=24 name=eth0\n\
            \x20 a: b-12    [000] d.h.. 5812345999: irq_handler_entry: irq=24 name=eth0\n\
            \x20 nonsense: irq_handler_entry:\n  <idle>-0 [000] d.h1. 7: softirq_entry: vec=3\n";
        assert_eq!(handler_times(trace), [5_812_345_678, 5_812_345_999]);
    }

    #[test]
    fn of_more_interrupts_than_frames_the_first_of_each_frame_counts() {
        let sent = [100.0, 200.0, 300.0];
        assert_eq!(first_of_each(&[90.0, 110.0, 150.0, 320.0, 390.0], &sent), [110.0, 320.0]);
        assert_eq!(first_of_each(&[110.0, 150.0], &sent), [110.0, 150.0]);
    }

    #[test]
    fn a_counter_of_another_speed_is_an_error() {
        let clock = TscClock::with_frequency(0, 1e9);
        assert!(check_counter(&clock, (5, 1_000), (1_000_005, 1_001_000)).is_ok());
        let error = check_counter(&clock, (0, 0), (1_100_000, 1_000_000)).unwrap_err().to_string();
        assert!(error.contains("1100000 while ours did by 1000000"), "{error}");
    }
}
