//! What was made to go wrong, and what the driver did.

use serde::{Deserialize, Serialize};

/// What a driver did about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The fault never struck.
    NotInjected,
    /// The driver takes frames as before, and no packet was lost but those that a fault hit.
    Recovered,
    /// The driver takes frames as before, and packets were lost besides those that a fault hit.
    LostPackets,
    /// The driver does not take frames any more, or not all.
    Hung,
    /// Its kernel said that something is badly wrong (oops, BUG, WARNING), or died.
    Oopsed,
}

impl Verdict {
    /// The verdict in words, for a table.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::NotInjected => "not injected",
            Verdict::Recovered => "recovered",
            Verdict::LostPackets => "lost packets",
            Verdict::Hung => "hung",
            Verdict::Oopsed => "oopsed",
        }
    }
}

/// What became of one fault of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultFinding {
    /// The fault, as the plan has it.
    pub fault: String,
    /// How often it was injected.
    pub injected: u64,
    /// Time of the first, in nanoseconds since the first deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<f64>,
    /// Time of the last, in nanoseconds since the first deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<f64>,
    /// Packets of the plan that were injected after the last time; absent where times are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_after: Option<u64>,
    /// Of these: accepted by the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_after: Option<u64>,
    /// What the driver did. Of several faults in one run the driver's state cannot be told apart: all
    /// that struck have the same verdict.
    pub verdict: Verdict,
}

/// What a verdict stands on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Packets injected after the run and without faults, to see whether the driver takes them.
    pub probe_packets: u64,
    /// Of these: accepted by the driver.
    pub probe_accepted: u64,
    /// Packets of the plan that faults themselves kept from the driver.
    pub hit_packets: u64,
    /// Other packets of the plan that were injected and that the driver did not accept.
    pub lost_packets: u64,
    /// Whether the driver says, after the run, that it has a link; absent if it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<bool>,
    /// The kernel has marked itself tainted by a warning or an oops.
    pub tainted: bool,
    /// The kernel is dead.
    pub kernel_died: bool,
    /// Why the run ended before its time, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What the kernel has printed since the run began: from where it says that something is badly
    /// wrong, or else the last lines.
    pub console: Vec<String>,
}

impl Evidence {
    /// What the driver did, by this evidence.
    pub fn verdict(&self) -> Verdict {
        if self.tainted || self.kernel_died || self.alarm().is_some() {
            Verdict::Oopsed
        } else if self.ended.is_some() || self.probe_accepted < self.probe_packets {
            Verdict::Hung
        } else if self.lost_packets > 0 {
            Verdict::LostPackets
        } else {
            Verdict::Recovered
        }
    }

    /// The first line of the console that says that something is badly wrong.
    pub fn alarm(&self) -> Option<&str> {
        self.console.iter().map(String::as_str).find(|line| Evidence::is_alarming(line))
    }

    /// Whether a line of a kernel's console says that something is badly wrong.
    pub fn is_alarming(line: &str) -> bool {
        const SIGNS: [&str; 5] = ["Oops", "BUG:", "kernel BUG at", "WARNING:", "Kernel panic"];
        SIGNS.iter().any(|sign| line.contains(sign))
    }
}

/// The faults of a run, and what followed from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Every fault of the plan, in its order.
    pub findings: Vec<FaultFinding>,
    /// What their verdicts stand on.
    pub evidence: Evidence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_needs_its_evidence() {
        let fine = Evidence { probe_packets: 64, probe_accepted: 64, ..Evidence::default() };
        assert_eq!(fine.verdict(), Verdict::Recovered);
        let lost = Evidence { lost_packets: 1, ..fine.clone() };
        assert_eq!(lost.verdict(), Verdict::LostPackets);
        let hung = Evidence { probe_accepted: 63, ..lost };
        assert_eq!(hung.verdict(), Verdict::Hung);
        let silent = Evidence { ended: Some("no reply".into()), ..fine.clone() };
        assert_eq!(silent.verdict(), Verdict::Hung);
        let dead = Evidence { kernel_died: true, ..silent };
        assert_eq!(dead.verdict(), Verdict::Oopsed);
        let console = vec!["eth0: link down".into(), "[ 1.0] WARNING: CPU: 0 PID: 1".into()];
        let warned = Evidence { console, ..fine.clone() };
        assert_eq!(warned.verdict(), Verdict::Oopsed);
        assert!(warned.alarm().unwrap().contains("CPU: 0"));
        assert_eq!(Evidence { tainted: true, ..fine }.verdict(), Verdict::Oopsed);
    }
}
