//! What came of a mixed load: a row for each choice in each phase, and the verdict.
//!
//! A choice's **regret** in a phase is by how much fewer messages a second it sent than the best fixed choice of that
//! phase. Over the whole it is by how much the geometric mean of its rates is behind that of the best single fixed
//! choice, each rate as a share of the best fixed one of its phase. Below 0 it is ahead.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warikomi_measure::layout::{Better, Column, Layout, Object, Only, Unit, View, percent};
use warikomi_measure::{Machine, RunResult, TargetInfo, TimeBase, table};
use warikomi_protocol::answers::Sent;

use super::super::fitted;
use super::super::made::Transmitted;
use super::super::options::Options;
use super::choice::Run;
use super::load::Load;
use crate::cells::{list, number, text};

/// An adaptive driver's rate is to be behind the best fixed choice of a phase by no more than this.
pub const ALLOWED_REGRET_SHARE: f64 = 0.05;
/// The name of all phases together.
const WHOLE: &str = "all";

/// What one choice did in one phase, or in all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MixedRow {
    /// The phase as it was written; `all` for the whole load.
    pub phase: String,
    /// Buffers.
    pub buffers: String,
    /// Completion strategy.
    pub completion: String,
    /// Bounce buffer.
    pub bounce: String,
    /// It is one and the same choice whatever happens.
    pub fixed: bool,
    /// Messages in a second.
    pub pps: Option<f64>,
    /// Bits of their payload in a second.
    pub bps: Option<f64>,
    /// By how much the rate is behind the best fixed choice: of this phase, or of the whole.
    pub regret_share: Option<f64>,
    /// The share of the time (0 to 1) that sending and receiving took of the processor, the application's computing
    /// among it; the mean of the phases over the whole.
    pub cpu_share: Option<f64>,
    /// How long packets were in the driver, and their buffers held, in microseconds: half no longer.
    pub held_p50_us: Option<f64>,
    /// 99 of 100 no longer.
    pub held_p99_us: Option<f64>,
    /// Interrupts, for each message.
    pub interrupts_per_packet: Option<f64>,
    /// How often the device was asked what it has sent, for each message.
    pub asked_per_packet: Option<f64>,
    /// Bytes copied into bounce buffers, for each message.
    pub bounced_bytes_per_packet: Option<f64>,
    /// Frames received in a second.
    pub received_pps: Option<f64>,
    /// Frames that were not received, because there was no buffer for them.
    pub receive_missing: Option<u64>,
    /// It came to a dead-lock, in this phase or before it.
    pub dead_locked: bool,
}

/// What came of one kind of buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The buffers.
    pub buffers: String,
    /// The completion strategy that is judged.
    pub completion: String,
    /// Its greatest regret in a phase, and in which.
    pub regret_most_share: f64,
    /// See there.
    pub regret_most_phase: String,
    /// What is allowed.
    pub regret_allowed_share: f64,
    /// The best fixed choice over the whole, of those that came to no dead-lock; absent if all did.
    pub best_fixed: Option<String>,
    /// By how much the judged strategy is ahead of that.
    pub ahead_share: Option<f64>,
    /// Its regret is allowed in each phase, and over the whole it is ahead of each fixed choice.
    pub holds: bool,
}

/// The run of a phase of which the rate is the median; of what came to a dead-lock before its measured rounds, that of
/// the first round.
fn median<'a>(run: &'a Run, load: &Load, phase: usize) -> Option<&'a Sent> {
    let count = load.phases.len();
    let all = run.outcome.sent.phases.iter().skip(phase).step_by(count);
    let mut sound: Vec<&Sent> = all.filter(|sent| !sent.dead_locked && sent.took_ns > 0).collect();
    if sound.len() > 1 {
        sound.remove(0);
    }
    sound.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    sound.get(sound.len().saturating_sub(1) / 2).copied()
}

fn rate(sent: &Sent) -> f64 {
    sent.sent as f64 * 1e9 / sent.took_ns.max(1) as f64
}

fn row_of(run: &Run, load: &Load, phase: usize) -> MixedRow {
    let (buffers, completion, bounce) = run.choice;
    let row = MixedRow {
        phase: load.phases[phase].to_string(),
        buffers: buffers.to_string(),
        completion: completion.to_string(),
        bounce: bounce.to_string(),
        fixed: completion.is_fixed(),
        ..MixedRow::default()
    };
    let Some(sent) = median(run, load, phase) else { return MixedRow { dead_locked: true, ..row } };
    let per_packet = |what: u64| (sent.sent > 0).then(|| what as f64 / sent.sent as f64);
    let held = |at: usize| sent.wait_ns.map(|waits| waits[at] as f64 / 1e3);
    let in_a_second = |what: f64| what * 1e9 / sent.took_ns as f64;
    let receives = load.receive_interval.is_some();
    MixedRow {
        pps: Some(rate(sent)),
        bps: Some(in_a_second(sent.sent_bytes as f64 * 8.0)),
        cpu_share: Some(sent.busy_ns as f64 / sent.took_ns as f64),
        held_p50_us: held(0),
        held_p99_us: held(1),
        interrupts_per_packet: per_packet(sent.interrupts),
        asked_per_packet: per_packet(sent.asked),
        bounced_bytes_per_packet: per_packet(sent.bounced_bytes),
        received_pps: receives.then(|| in_a_second(sent.received as f64)),
        receive_missing: receives.then_some(sent.receive_missing),
        ..row
    }
}

/// The row of the whole, of those of its phases with their regrets; without a rate, because phases have different ones.
fn whole(rows: &[MixedRow], best: &[f64]) -> (MixedRow, Option<f64>) {
    let first = rows.first().cloned().unwrap_or_default();
    let MixedRow { buffers, completion, bounce, fixed, .. } = first;
    let row = MixedRow {
        phase: WHOLE.to_owned(),
        buffers,
        completion,
        bounce,
        fixed,
        ..MixedRow::default()
    };
    if rows.iter().any(|row| row.dead_locked) {
        return (MixedRow { dead_locked: true, ..row }, None);
    }
    let mean = |of: &dyn Fn(&MixedRow) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
    let known = rows.iter().zip(best).filter(|(_, best)| **best > 0.0);
    let shares: Vec<f64> = known.map(|(row, best)| (row.pps.unwrap_or(0.0) / best).ln()).collect();
    let score = (shares.iter().sum::<f64>() / shares.len().max(1) as f64).exp();
    let missing = rows.iter().filter_map(|row| row.receive_missing).reduce(|a, b| a + b);
    let row = MixedRow {
        cpu_share: Some(mean(&|row| row.cpu_share.unwrap_or(0.0))),
        receive_missing: missing,
        ..row
    };
    (row, Some(score))
}

/// The rows of all choices with one kind of buffers, and the verdict.
fn judged(runs: &[&Run], load: &Load) -> (Vec<MixedRow>, Option<Verdict>) {
    let phases = 0..load.phases.len();
    let mut all: Vec<Vec<MixedRow>> = runs
        .iter()
        .map(|run| phases.clone().map(|phase| row_of(run, load, phase)).collect())
        .collect();
    let best: Vec<f64> = phases
        .map(|phase| {
            let fixed = all.iter().map(|rows| &rows[phase]).filter(|row| row.fixed);
            fixed.filter_map(|row| row.pps).fold(0.0, f64::max)
        })
        .collect();
    for row in all.iter_mut().flat_map(|rows| rows.iter_mut().zip(&best)) {
        let (row, &best) = row;
        row.regret_share = row.pps.filter(|_| best > 0.0).map(|pps| 1.0 - pps / best);
    }
    let mut wholes: Vec<(MixedRow, Option<f64>)> =
        all.iter().map(|rows| whole(rows, &best)).collect();
    let fixed = wholes.iter().filter(|(row, _)| row.fixed);
    let fixed = fixed.filter_map(|(row, score)| Some(((*score)?, way(row))));
    let best_fixed = fixed.max_by(|a, b| a.0.total_cmp(&b.0));
    for (row, score) in &mut wholes {
        let behind = |(best, _): &(f64, String)| score.map(|score| 1.0 - score / best);
        row.regret_share = best_fixed.as_ref().and_then(behind);
    }
    let verdict = all
        .last()
        .zip(wholes.last())
        .and_then(|(rows, (whole, _))| verdict(rows, whole, best_fixed.map(|(_, name)| name)));
    let rows = all.into_iter().zip(wholes);
    (rows.flat_map(|(rows, (whole, _))| rows.into_iter().chain([whole])).collect(), verdict)
}

fn way(row: &MixedRow) -> String {
    format!("{}, bounce {}", row.completion, row.bounce)
}

/// The verdict on what adapts itself.
fn verdict(rows: &[MixedRow], whole: &MixedRow, best_fixed: Option<String>) -> Option<Verdict> {
    // Where no fixed choice came through there is nothing to regret.
    let regret = |row: &MixedRow| match row.pps {
        Some(_) => row.regret_share.unwrap_or(0.0),
        None => 1.0,
    };
    let most = rows.iter().max_by(|a, b| regret(a).total_cmp(&regret(b)))?;
    let ahead_share = whole.regret_share.map(|behind| -behind);
    // Where every fixed choice came to a dead-lock, whoever did not is ahead of all.
    let ahead = match best_fixed {
        Some(_) => ahead_share.is_some_and(|ahead| ahead > 0.0),
        None => !whole.dead_locked,
    };
    Some(Verdict {
        buffers: whole.buffers.clone(),
        completion: whole.completion.clone(),
        regret_most_share: regret(most),
        regret_most_phase: most.phase.clone(),
        regret_allowed_share: ALLOWED_REGRET_SHARE,
        best_fixed,
        ahead_share,
        holds: regret(most) <= ALLOWED_REGRET_SHARE && ahead && !whole.dead_locked,
    })
}

/// The result of all runs.
pub(super) fn found(
    options: &Options,
    load: &Load,
    time_base: TimeBase,
    (target, machine): (TargetInfo, Machine),
    runs: &[Run],
) -> Transmitted {
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for &buffers in &options.buffers {
        let of_buffers: Vec<&Run> = runs.iter().filter(|run| run.choice.0 == buffers).collect();
        let (of_buffers, verdict) = judged(&of_buffers, load);
        rows.extend(of_buffers);
        verdicts.extend(verdict);
    }
    let mut plan = options.plan_of_result();
    plan["mixed"] = json!({
        "phases": load.phases.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "phase_ms": load.phase.as_secs() * 1e3,
        "rounds": load.rounds,
        "receive_interval_ns": load.receive_interval.map(|interval| interval.as_ns()),
    });
    let mut result = table("transmit", time_base, machine, target, &plan, &rows);
    result.figures.insert("verdicts".into(), json!(verdicts));
    fitted::note(&mut result, options.nic.bus.as_ref(), None);
    Transmitted { result, rows: Vec::new(), repetitions: Vec::new() }
}

/// Describes the result of a mixed load.
pub(in super::super) fn describe(result: &mut RunResult) {
    let mut layout = Layout { columns: columns(), ..Layout::default() };
    let rows = result.rows.as_deref().unwrap_or_default();
    let mut kinds: Vec<&str> = Vec::new();
    for row in rows {
        let buffers = text(row, "buffers");
        if !kinds.contains(&buffers) && kinds.len() < MAX_KINDS {
            kinds.push(buffers);
        }
    }
    for buffers in kinds {
        let view = |title: &str, columns: &[&str], across: &[&str]| View {
            title: format!("{buffers}, {title}"),
            columns: columns.iter().map(|&key| key.to_owned()).collect(),
            across: across.iter().map(|&key| key.to_owned()).collect(),
            only: vec![Only::any("buffers", [buffers])],
            ..View::default()
        };
        let way = ["completion", "bounce"];
        layout.views.push(view("Mbit/s", &["phase", "bps"], &way));
        layout.views.push(view("behind the best fixed choice", &["phase", "regret_share"], &way));
        layout.views.push(view("CPU", &["phase", "cpu_share"], &way));
        layout.views.push(view("buffers held, median", &["phase", "held_p50_us"], &way));
    }
    if let Some(last) = layout.views.last_mut() {
        last.notes.push(
            "behind: of messages a second, as a share of the fixed choice that is best in that phase; of all, by the \
             geometric mean over the phases, against the best single fixed choice; below 0 it is ahead. CPU: sending, \
             receiving, and what the application computes. Held: from the driver's hand to its being freed"
                .to_owned(),
        );
    }
    for verdict in list(&result.figures, "verdicts") {
        layout.say("verdict", verdict_text(verdict));
    }
    result.layout = layout;
}

/// The most kinds of buffers that are shown.
const MAX_KINDS: usize = 8;

fn verdict_text(verdict: &Object) -> String {
    let share = |key: &str| number(verdict, key).unwrap_or_default();
    let completion = text(verdict, "completion");
    let mut said = format!(
        "with {}, {completion} is at most {} behind the best fixed choice of a phase ({}; up to {} was allowed)",
        text(verdict, "buffers"),
        percent(share("regret_most_share").max(0.0)),
        text(verdict, "regret_most_phase"),
        percent(share("regret_allowed_share")),
    );
    said += &match (text(verdict, "best_fixed"), number(verdict, "ahead_share")) {
        ("", _) => "; every fixed choice came to a dead-lock".to_owned(),
        (best, Some(ahead)) => {
            format!(
                "; over the whole {} against {best}, the best of them",
                Unit::Change.show(ahead)
            )
        }
        (_, None) => "; it came to a dead-lock".to_owned(),
    };
    let holds = verdict.get("holds").and_then(Value::as_bool) == Some(true);
    said + if holds {
        ": better than any one fixed choice"
    } else {
        ": not better than any one fixed choice"
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::parameter("phase", "phase"),
        Column::parameter("buffers", "buffers"),
        Column::parameter("completion", "completion"),
        Column::parameter("bounce", "bounce buffer").word("none", "").says("bounce {}"),
        Column::parameter("fixed", "fixed"),
        Column::figure("bps", "Mbit/s")
            .unit(Unit::Mbps)
            .better(Better::More)
            .instead("dead_locked", "dead-lock"),
        Column::figure("pps", "packets/s").better(Better::More),
        Column::figure("regret_share", "behind the best fixed choice")
            .head("behind")
            .unit(Unit::Change)
            .better(Better::Less)
            .instead("dead_locked", "dead-lock"),
        Column::figure("cpu_share", "CPU").better(Better::Less),
        Column::figure("held_p50_us", "buffers held p50").head("held p50").better(Better::Less),
        Column::figure("held_p99_us", "buffers held p99").head("p99").better(Better::Less),
        Column::figure("interrupts_per_packet", "interrupts a packet").head("intr"),
        Column::figure("asked_per_packet", "device asked, a packet").head("asked"),
        Column::figure("bounced_bytes_per_packet", "copied bytes a packet")
            .head("copied")
            .unit(Unit::Count),
        Column::figure("received_pps", "received/s"),
        Column::figure("receive_missing", "not received").alarm(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Span;
    use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
    use warikomi_stack::buffers::BufferKind;

    use super::super::super::row::Outcome;

    fn load() -> Load {
        Load {
            phases: ["64", "4096"].map(|text| text.parse().unwrap()).to_vec(),
            phase: Span::from_ms(1),
            rounds: 1,
            receive_interval: None,
        }
    }

    /// Messages in a millisecond of each phase, the first round's first; a dead-lock where there are none.
    fn run(completion: Completion, messages: &[u64]) -> Run {
        let phase = |&sent: &u64| Sent {
            sent,
            took_ns: 1_000_000,
            busy_ns: 500_000,
            dead_locked: sent == 0,
            ..Sent::default()
        };
        let phases: Vec<Sent> = messages.iter().map(phase).collect();
        let sent = Sent { phases, ..Sent::default() };
        let outcome = Outcome { sent, segments_per_message: None, digest: None };
        Run { choice: (BufferKind::Contiguous, completion, Bounce::None), outcome }
    }

    fn watching(messages: &[u64]) -> Run {
        run(Completion::AdaptiveWatching(Thresholds::default()), messages)
    }

    fn verdict_of(runs: &[Run]) -> (Vec<MixedRow>, Verdict) {
        let (rows, verdict) = judged(&runs.iter().collect::<Vec<_>>(), &load());
        (rows, verdict.unwrap())
    }

    #[test]
    fn who_is_close_to_the_best_in_each_phase_is_ahead_of_each_over_the_whole() {
        let (rows, verdict) = verdict_of(&[
            run(Completion::Interrupt, &[1, 1, 100, 80]),
            run(Completion::InterruptFree, &[1, 1, 80, 100]),
            watching(&[1, 1, 99, 97]),
        ]);
        assert_eq!(rows.len(), 9);
        assert!(verdict.holds, "{verdict:?}");
        assert!((verdict.regret_most_share - 0.03).abs() < 1e-9);
        assert_eq!(verdict.regret_most_phase, "4096");
        let expected = (0.99f64 * 0.97 / 0.8).sqrt() - 1.0;
        assert!((verdict.ahead_share.unwrap() - expected).abs() < 1e-9, "{verdict:?}");
        assert_eq!(rows[0].regret_share, Some(0.0));
        assert!((rows[1].regret_share.unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn who_regrets_too_much_or_is_behind_one_fixed_choice_is_told_so() {
        let fixed = || run(Completion::Interrupt, &[1, 1, 100, 100]);
        let (_, verdict) = verdict_of(&[fixed(), watching(&[1, 1, 99, 99])]);
        assert!(!verdict.holds && verdict.ahead_share.unwrap() < 0.0, "{verdict:?}");
        let (_, verdict) = verdict_of(&[fixed(), watching(&[1, 1, 90, 200])]);
        assert!(!verdict.holds && verdict.regret_most_share > 0.09, "{verdict:?}");
        let (_, verdict) = verdict_of(&[fixed(), watching(&[1, 0])]);
        assert!(!verdict.holds && verdict.ahead_share.is_none(), "{verdict:?}");
    }

    #[test]
    fn a_dead_lock_counts_where_it_was_and_not_against_the_phases_before() {
        let (rows, verdict) =
            verdict_of(&[run(Completion::InterruptFree, &[100, 0]), watching(&[1, 1, 96, 50])]);
        assert_eq!((rows[0].pps, rows[0].dead_locked), (Some(100_000.0), false));
        assert!(rows[1].dead_locked && rows[2].dead_locked);
        assert!((verdict.regret_most_share - 0.04).abs() < 1e-9);
        assert!(verdict.holds && verdict.best_fixed.is_none(), "{verdict:?}");
    }
}
