//! What came of an interrupt at a place.

use std::fmt;

use serde::{Deserialize, Serialize};
use warikomi_measure::Warning;

/// What came of a strike, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The place was not tried: enough had been found before.
    NotTried,
    /// The place was not reached by this traffic.
    NotReached,
    /// Every packet is accounted for, and nothing was reported.
    Accounted,
    /// A packet was answered on its own, but late.
    Late,
    /// A packet was answered twice.
    Doubled,
    /// A packet was answered only when another came.
    Stuck,
    /// A packet was never answered.
    Lost,
    /// The driver takes nothing any longer, or an operation does not end.
    Hung,
    /// The kernel has warned.
    Warned,
    /// The kernel reports locks that can deadlock.
    LockReport,
    /// The kernel reports a wrong use of memory (KASAN).
    MemoryReport,
    /// The kernel has died.
    Oops,
}

/// Each verdict as it is written, and as a person reads it.
const TEXTS: [(Verdict, &str); 12] = [
    (Verdict::NotTried, "not tried"),
    (Verdict::NotReached, "not reached"),
    (Verdict::Accounted, "accounted"),
    (Verdict::Late, "late"),
    (Verdict::Doubled, "doubled"),
    (Verdict::Stuck, "stuck"),
    (Verdict::Lost, "lost"),
    (Verdict::Hung, "hung"),
    (Verdict::Warned, "kernel warning"),
    (Verdict::LockReport, "lock report"),
    (Verdict::MemoryReport, "memory report"),
    (Verdict::Oops, "oops"),
];

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = TEXTS.iter().find(|(verdict, _)| verdict == self);
        f.pad(known.map_or("", |(_, text)| text))
    }
}

impl Verdict {
    /// Whether something is wrong.
    pub fn is_bad(self) -> bool {
        self > Verdict::Accounted
    }

    /// Whether the target can be used no longer, or would report no more.
    pub(crate) fn spoils_the_target(self) -> bool {
        self >= Verdict::Hung
    }
}

/// What a kernel begins its reports with, and what they say (Linux lib/bug.c, kernel/locking/lockdep.c,
/// mm/kasan/report.c, kernel/panic.c, kernel/hung_task.c).
const REPORTS: [(&str, Verdict); 15] = [
    ("BUG: KASAN", Verdict::MemoryReport),
    ("possible circular locking", Verdict::LockReport),
    ("possible recursive locking", Verdict::LockReport),
    ("inconsistent lock state", Verdict::LockReport),
    ("possible irq lock inversion", Verdict::LockReport),
    ("irq-unsafe lock order detected", Verdict::LockReport),
    ("bad unlock balance", Verdict::LockReport),
    ("still held", Verdict::LockReport),
    ("invalid wait context", Verdict::LockReport),
    ("suspicious RCU usage", Verdict::LockReport),
    ("blocked for more than", Verdict::Hung),
    ("WARNING:", Verdict::Warned),
    ("BUG:", Verdict::Oops),
    ("general protection fault", Verdict::Oops),
    ("Kernel panic", Verdict::Oops),
];

/// The worst that a kernel's lines report, and the line that says so.
pub(crate) fn report_in(lines: &[String]) -> Option<(Verdict, &str)> {
    let of_line = |line: &'_ String| {
        let known = REPORTS.iter().find(|(begins, _)| line.contains(begins));
        known.map(|(_, verdict)| *verdict)
    };
    let reports = lines.iter().filter_map(|line| Some((of_line(line)?, line.as_str())));
    // Of several of one kind the first: those behind it may follow from it.
    reports.reduce(|worst, next| if next.0 > worst.0 { next } else { worst })
}

/// Said of a result whose driver has missed something by itself.
pub(crate) fn unanswering(targets: u64) -> Warning {
    let which = match targets {
        1 => "a target".to_owned(),
        many => format!("{many} targets"),
    };
    Warning {
        what: format!(
            "{which} did not answer what came first until more came, though nothing had struck"
        ),
        hint: "if it happens again, the driver loses an interrupt or a completion by itself".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_a_text_and_only_three_are_not_bad() {
        for (verdict, text) in TEXTS {
            assert_eq!(verdict.to_string(), text);
        }
        let bad = TEXTS.iter().filter(|(verdict, _)| verdict.is_bad()).count();
        assert_eq!(bad, TEXTS.len() - 3);
    }

    #[test]
    fn a_report_is_known_by_its_first_line() {
        let lines = |texts: &[&str]| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>();
        let quiet = lines(&["r8169 0000:00:00.0 eth0: Link is Up - 1Gbps/Full", ""]);
        assert_eq!(report_in(&quiet), None);
        let locks = lines(&[
            "WARNING: possible circular locking dependency detected",
            "WARNING: CPU: 0 PID: 1 at net/core/dev.c:1",
        ]);
        assert_eq!(report_in(&locks), Some((Verdict::LockReport, locks[0].as_str())));
        let both = lines(&["WARNING: CPU: 0 PID: 1", "BUG: KASAN: use-after-free in rtl_rx"]);
        assert_eq!(report_in(&both), Some((Verdict::MemoryReport, both[1].as_str())));
    }
}
