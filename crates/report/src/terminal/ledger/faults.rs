//! What was made to go wrong, and what the driver did.

use warikomi_measure::layout::{count, time};
use warikomi_measure::{Evidence, FaultFinding, FaultReport, Verdict};

use super::super::table::Page;

/// Lines of the kernel's console that are shown; the result has more.
const CONSOLE_LINES: usize = 6;

/// A row for each fault, and below them what the verdicts stand on.
pub(super) fn section(page: &mut Page, report: &FaultReport) {
    let rows: Vec<_> = report.findings.iter().map(row).collect();
    page.table(&["Fault", "times", "first at", "accepted after", "driver"], &rows);
    if report.findings.iter().any(|finding| finding.injected > 0) {
        evidence(page, &report.evidence);
    }
    if report.findings.iter().any(|finding| finding.injected == 0) {
        page.paragraph("  ", "A fault that was not injected met no occasion while the run lasted.");
    }
}

fn row(finding: &FaultFinding) -> (bool, Vec<String>) {
    let after = match (finding.packets_after, finding.accepted_after) {
        (Some(packets), Some(accepted)) => format!("{} of {}", count(accepted), count(packets)),
        _ => String::new(),
    };
    let bad = matches!(finding.verdict, Verdict::Hung | Verdict::Oopsed);
    let cells = vec![
        finding.fault.clone(),
        count(finding.injected),
        finding.first_ns.map_or(String::new(), time),
        after,
        finding.verdict.words().to_owned(),
    ];
    (bad, cells)
}

fn evidence(page: &mut Page, evidence: &Evidence) {
    let mut facts = Vec::new();
    if let Some(ended) = &evidence.ended {
        facts.push(format!("the run ended early: {ended}"));
    }
    if evidence.probe_packets > 0 {
        facts.push(format!(
            "afterwards, without faults, the driver accepted {} of {} packets",
            count(evidence.probe_accepted),
            count(evidence.probe_packets)
        ));
    }
    facts.push(format!(
        "of the plan's packets the faults hit {}, and {} more were not accepted",
        count(evidence.hit_packets),
        count(evidence.lost_packets)
    ));
    match evidence.carrier {
        Some(true) => facts.push("the driver says that its link is up".to_owned()),
        Some(false) => facts.push("the driver says that its link is down".to_owned()),
        None => {}
    }
    if evidence.tainted {
        facts.push("the kernel has marked itself tainted by a warning or an oops".to_owned());
    }
    page.paragraph("  evidence: ", &format!("{}.", facts.join("; ")));
    let shown = evidence.console.len().saturating_sub(CONSOLE_LINES);
    let lines: Vec<&str> = match evidence.alarm() {
        // What says that something is wrong, and what comes right behind it.
        Some(alarm) => {
            let from = evidence.console.iter().position(|line| line == alarm).unwrap_or(shown);
            evidence.console[from..].iter().take(CONSOLE_LINES).map(String::as_str).collect()
        }
        None => evidence.console[shown..].iter().map(String::as_str).collect(),
    };
    for line in lines {
        page.paragraph("  console: ", line);
    }
}
