//! What makes a measurement worth less than it could be, and what to do about it.
//!
//! Functions of the result alone, so that a result can be judged again later.

use serde_json::Value;

use crate::{RunResult, TimeBase, Warning};

/// From where on something is worth a warning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Stolen time, in percent.
    pub stolen_percent: f64,
    /// Share (0 to 1) of the time that one side waited for its core.
    pub waited_share: f64,
    /// Share (0 to 1) of packets that missed their deadline.
    pub missed_share: f64,
    /// Share (0 to 1) of intervals in hiccups.
    pub hiccup_share: f64,
    /// Share (0 to 1) of accepted packets that the application did not get.
    pub stack_loss_share: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            stolen_percent: 0.1,
            waited_share: 0.05,
            missed_share: 0.001,
            hiccup_share: 0.001,
            stack_loss_share: 0.0,
        }
    }
}

/// Everything that there is to say against a result, most important first.
pub fn warnings(result: &RunResult, thresholds: &Thresholds) -> Vec<Warning> {
    // In virtual time neither the machine nor its load matters.
    let timing =
        [shared_core, stolen_time, cores_taken, missed_deadlines, hiccups, governor, deferred];
    let timing = if result.time_base == TimeBase::Real { &timing[..] } else { &[] };
    let always = [unaccounted, cut_short, saturated, no_times, handler_not_seen];
    let checks = always[..1].iter().chain(timing).chain(&always[1..]);
    checks.filter_map(|check| check(result, thresholds)).collect()
}

fn warning(what: String, hint: &str) -> Option<Warning> {
    Some(Warning { what, hint: hint.to_owned() })
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// `1 packet`, `2 packets`.
fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn beyond(part: u64, whole: u64, share: f64) -> bool {
    part > 0 && part as f64 > share * whole as f64
}

fn unaccounted(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let error = result.ledger.as_ref()?.check().err()?;
    warning(error.to_string(), "do not use this result")
}

fn shared_core(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let machine = &result.machine;
    if machine.logical_cores == Some(1) {
        return warning(
            "both sides share the machine's only core, so each waits for the other".to_owned(),
            "use a machine with two cores or more",
        );
    }
    if machine.support_cores.is_empty() || machine.target_cores.is_empty() {
        return warning(
            "one side is not pinned to a core and may be moved while it runs".to_owned(),
            "pin each side to a core of its own",
        );
    }
    let core = machine.support_cores.iter().find(|core| machine.target_cores.contains(core))?;
    warning(
        format!("both sides run on core {core}, so each waits for the other"),
        "pin each side to a core of its own",
    )
}

fn stolen_time(result: &RunResult, thresholds: &Thresholds) -> Option<Warning> {
    let stolen = result.machine.stolen_percent?;
    if stolen <= thresholds.stolen_percent {
        return None;
    }
    warning(
        format!("the host of this virtual machine took away {stolen:.2}% of the cores' time"),
        "repeat when the host is less busy, or run on a machine without other guests; look at the \
         figures without hiccups",
    )
}

fn cores_taken(result: &RunResult, thresholds: &Thresholds) -> Option<Warning> {
    let waited = |side: Option<f64>| side.unwrap_or(0.0);
    let support = waited(result.machine.support_waited_us);
    let target = waited(result.machine.target_waited_us);
    let watched_us = result.machine.watched_ms? * 1e3;
    if support.max(target) <= thresholds.waited_share * watched_us {
        return None;
    }
    warning(
        format!(
            "other processes had the cores meanwhile: the support side waited {:.1} ms and the \
             target {:.1} ms for theirs",
            support / 1e3,
            target / 1e3,
        ),
        "stop what else runs, or isolate two cores (isolcpus=)",
    )
}

fn missed_deadlines(result: &RunResult, thresholds: &Thresholds) -> Option<Warning> {
    let (pacing, ledger) = (result.pacing.as_ref()?, result.ledger.as_ref()?);
    let missed = pacing.missed_deadlines;
    if !beyond(missed, ledger.injected, thresholds.missed_share) {
        return None;
    }
    warning(
        format!(
            "{} ({}) went out more than {:.1} µs late, the latest by {:.1} µs",
            counted(missed, "packet"),
            percent(missed, ledger.injected),
            pacing.slack_ns / 1e3,
            pacing.longest_lateness_ns / 1e3,
        ),
        "lengthen the interval, shorten the packets, or give the support side a quieter core",
    )
}

fn hiccups(result: &RunResult, thresholds: &Thresholds) -> Option<Warning> {
    let support = result.hiccups.as_ref()?.support.as_ref()?;
    let injected = result.intervals.as_ref()?.injected.as_ref()?;
    if !beyond(injected.in_hiccups, injected.all.count, thresholds.hiccup_share) {
        return None;
    }
    warning(
        format!(
            "the support side was not running {}, for up to {:.1} µs; {} of the intervals \
             fall into that",
            counted(support.count, "time"),
            support.longest_ns / 1e3,
            percent(injected.in_hiccups, injected.all.count),
        ),
        "isolate its core (isolcpus=) or stop what else runs there; figures without hiccups are in \
         the result",
    )
}

fn governor(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let governor = result.machine.governor.as_deref()?;
    if governor == "performance" {
        return None;
    }
    warning(
        format!("the processor's frequency follows its load (governor '{governor}')"),
        "set the governor to 'performance' for the run",
    )
}

/// UML-NOTES: newer drivers ask NAPI to defer interrupts, which is right for throughput and wrong
/// for an interval.
fn deferred(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    result.intervals.as_ref()?.requested_ns?;
    let on = |name: &&str| result.target.settings.get(*name).is_some_and(is_on);
    let names: Vec<&str> =
        ["napi_defer_hard_irqs", "gro_flush_timeout_ns"].into_iter().filter(on).collect();
    if names.is_empty() {
        return None;
    }
    warning(
        format!(
            "{} is on in the target: it takes many packets for one interrupt, so intervals at the \
             handler are not those of the packets",
            names.join(" and ")
        ),
        "set it to 0 for an interval test; leave it for a throughput test",
    )
}

fn is_on(setting: &Value) -> bool {
    match setting {
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !matches!(text.trim(), "" | "0" | "off" | "false"),
        _ => false,
    }
}

fn cut_short(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let ledger = result.ledger.as_ref()?;
    // What faults do is told with them.
    if ledger.not_injected == 0 || result.faults.is_some() {
        return None;
    }
    warning(
        format!(
            "the run was cut short before {} could be injected",
            counted(ledger.not_injected, "packet")
        ),
        "run it again, and let it come to its end",
    )
}

fn saturated(result: &RunResult, thresholds: &Thresholds) -> Option<Warning> {
    let ledger = result.ledger.as_ref()?;
    let lost = beyond(ledger.lost_in_stack, ledger.accepted, thresholds.stack_loss_share);
    // What forwarding loses is no application's.
    if !lost || result.faults.is_some() || result.is_forwarded() {
        return None;
    }
    warning(
        format!(
            "the application did not keep up: {} ({}) that the driver accepted got lost behind it",
            counted(ledger.lost_in_stack, "packet"),
            percent(ledger.lost_in_stack, ledger.accepted),
        ),
        "lengthen the interval, or enlarge the socket's receive buffer; judge the driver by its own \
         success",
    )
}

/// Intervals at the handler are part of every result that has intervals, unless its driver was told to do
/// without interrupts.
fn handler_not_seen(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let polls = result.target.settings.get("strategy").is_some_and(|strategy| strategy == "poll");
    if polls || result.faults.is_some() { None } else { no_handler(result) }
}

/// What there is to say if intervals were requested and injected, and there are none at the handler.
pub fn no_handler(result: &RunResult) -> Option<Warning> {
    let intervals = result.intervals.as_ref()?;
    intervals.requested_ns.and(intervals.injected.as_ref())?;
    if intervals.handler.is_some() {
        return None;
    }
    let interrupts = result.interrupts.clone().unwrap_or_default();
    let hint = if interrupts.raised < 2 {
        "choose a strategy by which the driver takes an interrupt for each packet (awake, interrupt), or a \
         longer interval; if it should have taken them, look at what it leaves masked or unacknowledged"
    } else {
        "look at the driver's handler: the NIC has not seen it read the interrupt status"
    };
    warning(
        format!(
            "there are no intervals at the handler: {} raised, and {} of them handled",
            counted(interrupts.raised, "interrupt"),
            interrupts.handled,
        ),
        hint,
    )
}

fn no_times(result: &RunResult, _: &Thresholds) -> Option<Warning> {
    let ledger = result.ledger.as_ref()?;
    if result.per_packet_times || ledger.planned <= crate::Ledger::DETAILED_ROWS {
        return None;
    }
    warning(
        format!("{} packets are too many to keep the times of each", ledger.planned),
        "plan 1,000,000 packets or fewer if you need samples.csv",
    )
}

#[cfg(test)]
mod tests;
