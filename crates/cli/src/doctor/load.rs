//! Checks of what happens: they take time.

use std::collections::HashMap;
use std::time::Duration;

use procfs::process::all_processes;
use warikomi_clock::{Span, TscClock};
use warikomi_measure::{CpuTimes, Hiccups, Machine};
use warikomi_target::cores::{Cores, Pinned};

use super::finding::Finding;
use super::finding::Severity::Disturbs;

/// How long processes are watched.
const WATCH: Duration = Duration::from_millis(500);
/// A process that uses more than this of a core disturbs, in percent.
const BUSY_PERCENT: u64 = 3;
/// How long a core is spun on.
const SPIN: Span = Span::from_ms(1000);
/// Hiccups in a second that are to be expected of a quiet machine: its timer ticks.
const USUAL_HICCUPS: u64 = 300;
/// Stolen time that shows in figures, in percent.
const STOLEN_PERCENT: f64 = 0.1;

/// Processor time of every process, in clock ticks, with its name.
fn processor_times() -> HashMap<u32, (String, u64)> {
    let stats = all_processes().into_iter().flatten().flatten();
    stats
        .filter_map(|process| {
            let stat = process.stat().ok()?;
            let ticks = stat.utime.saturating_add(stat.stime);
            Some((u32::try_from(stat.pid).ok()?, (stat.comm, ticks)))
        })
        .collect()
}

pub(super) fn other_processes() -> Finding {
    const SUBJECT: &str = "other processes";
    const TICKS_PER_SECOND: u64 = 100;
    let before = processor_times();
    std::thread::sleep(WATCH);
    let watched_ticks = (WATCH.as_millis() as u64 * TICKS_PER_SECOND / 1000).max(1);
    let mut busy: Vec<(u64, String)> = processor_times()
        .into_iter()
        .filter(|(id, _)| *id != std::process::id())
        .filter_map(|(id, (name, ticks))| {
            let used = ticks.saturating_sub(before.get(&id).map_or(ticks, |(_, ticks)| *ticks));
            let percent = 100 * used / watched_ticks;
            (percent > BUSY_PERCENT).then(|| (percent, format!("{name} (pid {id}, {percent}%)")))
        })
        .collect();
    if busy.is_empty() {
        return Finding::good(SUBJECT, "none uses much of a core");
    }
    busy.sort_by(|a, b| b.cmp(a));
    let names: Vec<String> = busy.into_iter().take(5).map(|(_, name)| name).collect();
    Finding::bad(
        SUBJECT,
        Disturbs,
        names.join(", "),
        "they take time from both sides, in pieces of milliseconds",
        "stop them while you measure, or wait until they are done",
    )
}

pub(super) fn stolen_time() -> Finding {
    const SUBJECT: &str = "stolen time";
    let before = CpuTimes::read(&[]);
    std::thread::sleep(WATCH);
    let stolen = before
        .zip(CpuTimes::read(&[]))
        .and_then(|(before, after)| after.stolen_percent_since(&before));
    match stolen {
        Some(percent) if percent > STOLEN_PERCENT => Finding::bad(
            SUBJECT,
            Disturbs,
            format!("the host took {percent:.1}% of the cores' time just now"),
            "single packets are late by tens of microseconds to milliseconds",
            "repeat when the host is quiet; look at figures without hiccups",
        ),
        Some(percent) => Finding::good(SUBJECT, format!("{percent:.1}%")),
        None => Finding::good(SUBJECT, "not told by this system"),
    }
}

pub(super) fn hiccups() -> Finding {
    const SUBJECT: &str = "hiccups";
    let (Ok(clock), Ok(cores)) =
        (TscClock::calibrate(), Cores::choose(&Machine::read().isolated_cores))
    else {
        return Finding::good(SUBJECT, "not measured: no clock or no cores");
    };
    let pinned = Pinned::to(cores.support);
    let mut hiccups = Hiccups::default();
    let end = clock.now() + SPIN;
    loop {
        let now = clock.now();
        hiccups.pass(now);
        if now >= end {
            break;
        }
    }
    drop(pinned);
    let summary = hiccups.summary();
    let found = format!(
        "a loop on core {} stood still {} times in a second, {:.1} µs at the longest",
        cores.support,
        summary.count,
        summary.longest_ns / 1e3
    );
    if summary.count <= USUAL_HICCUPS && summary.longest_ns < 100_000.0 {
        return Finding::good(SUBJECT, found);
    }
    Finding::bad(
        SUBJECT,
        Disturbs,
        found,
        "packets due in such a moment go out late; they are counted and marked",
        "stop other work, isolate the core (isolcpus=, nohz_full=), or use a machine of your own",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let script = "printf 'a) (b) c' > /proc/self/comm; echo named; read line";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut named = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut named).unwrap();
        let found = processor_times().remove(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.map(|(name, _)| name).as_deref(), Some("a) (b) c"));
        let own = || processor_times().remove(&std::process::id()).unwrap().1;
        let begun = (own(), std::time::Instant::now());
        while own() == begun.0 {
            assert!(begun.1.elapsed().as_secs() < 60, "no processor time is seen");
        }
    }
}
