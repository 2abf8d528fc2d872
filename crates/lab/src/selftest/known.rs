//! Why a test may fail: written down, once, for every case that does.

use std::fmt;

use serde::{Deserialize, Serialize};
use warikomi_session::is_version;

use super::ktap::Case;

/// Who lacks what a test wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lacks {
    /// The driver, on the real card as well.
    Driver,
    /// This version of the kernel, or the kernel as a process.
    Kernel,
    /// Our card: a bug of ours.
    Model,
    /// A program of this machine that the test runs.
    Tool,
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lacks::Driver => "the driver",
            Lacks::Kernel => "the kernel",
            Lacks::Model => "our card (a bug of ours)",
            Lacks::Tool => "a program of this machine",
        })
    }
}

/// A reason, and which failures it explains.
pub(super) struct Known {
    /// Drivers; all if there are none.
    drivers: &'static [&'static str],
    /// What the kernel's release starts with.
    kernel: &'static str,
    /// The test.
    program: &'static str,
    /// What the case's name ends with.
    case: &'static str,
    /// What the test says of it holds this.
    says: &'static str,
    pub(super) lacks: Lacks,
    pub(super) why: &'static str,
}

/// A reason that holds of all drivers and kernels unless it says otherwise.
const OF_ALL: Known = Known {
    drivers: &[],
    kernel: "",
    program: "",
    case: "",
    says: "",
    lacks: Lacks::Driver,
    why: "",
};

const KNOWN: &[Known] = &[
    Known {
        kernel: "6.12",
        program: "drivers/net/hw/csum.py",
        says: "no attribute 'remote_ifname'",
        lacks: Lacks::Kernel,
        why: "the test asks its library for remote_ifname, which that of this version does not have",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/devlink_port_split.py",
        says: "Failed to connect to devlink",
        why: "none of the drivers has devlink, so the kernel is built without it",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/rss_ctx.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: "this ethtool does not say as JSON what the test asks",
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/hw/rss_ctx.py",
        case: "test_rss_resize",
        says: "Operation not supported",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/queues.py",
        case: "addremove_queues",
        says: "Operation not supported",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/queues.py",
        case: "addremove_queues",
        says: "invalid value '-1'",
        lacks: Lacks::Kernel,
        why: "a kernel for one processor gives the driver one queue, and the test takes one away",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/queues.py",
        case: "get_queues",
        says: "!= 0",
        lacks: Lacks::Kernel,
        why: "a kernel for one processor has no receive queues in /sys, with which the test compares",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/stats.py",
        case: "check_pause",
        says: "driver does not report stats",
        why: "the driver sets pause frames and does not count them for ethtool",
        ..OF_ALL
    },
    Known {
        drivers: &["r8169"],
        program: "net/netdevice.sh",
        case: "segmentation",
        why: NO_SCATTER,
        ..OF_ALL
    },
    Known {
        drivers: &["r8169"],
        program: "net/netdevice.sh",
        case: "segmentation-offload",
        why: NO_SCATTER,
        ..OF_ALL
    },
    Known {
        drivers: &["8139too"],
        program: "net/netdevice.sh",
        case: "Failed to turn on feature: tcp-segmentation-offload",
        why: "neither driver nor card segments",
        ..OF_ALL
    },
    Known {
        drivers: &["e1000e", "igb"],
        program: "net/netdevice.sh",
        case: "Failed to turn off feature: tx-vlan-offload",
        why: "the driver has its card put tags in whenever it takes them off, and sets this back",
        ..OF_ALL
    },
    Known {
        drivers: &["8139too"],
        program: "drivers/net/hw/ethtool.sh",
        says: "it did not end in time",
        why: NEVER_UP,
        ..OF_ALL
    },
    Known {
        drivers: &["8139too"],
        program: "drivers/net/hw/ethtool_rmon.sh",
        says: "it did not end in time",
        why: NEVER_UP,
        ..OF_ALL
    },
    Known {
        program: EXTENDED,
        case: "during force mode",
        says: "error in configuration",
        why: "without a link the duplex mode is not known, and a speed is refused that comes without one",
        ..OF_ALL
    },
    Known {
        drivers: &["8139too", "8139cp"],
        program: EXTENDED,
        says: "Expected \"Autoneg\", got \"Link detected: yes\"",
        why: "the driver leaves the PHY of an interface on that is down, so the other card has a link",
        ..OF_ALL
    },
    Known {
        program: EXTENDED,
        says: "Expected \"Autoneg\", got \"Link detected: no\"",
        why: NO_EXTENDED_STATE,
        ..OF_ALL
    },
    Known {
        program: EXTENDED,
        says: "Expected \"No cable\", got \"Link detected: no\"",
        why: NO_EXTENDED_STATE,
        ..OF_ALL
    },
];

const NEVER_UP: &str = "Linux calls an interface of this driver unknown, not up, until its link has gone once, and the \
    test waits";
const EXTENDED: &str = "drivers/net/hw/ethtool_extended_state.sh";
const NO_EXTENDED_STATE: &str = "the driver does not tell why there is no link";

/// Drivers whose number of queues cannot be set.
const NO_CHANNELS: &[&str] = &["r8169", "8139too", "8139cp", "e1000e"];
const NOT_SET: &str = "the driver does not tell its number of queues, and does not set it";
const NO_SCATTER: &str =
    "the driver begins without scatter-gather, to which the test has gone back when it comes here";

/// Tests that are about no card, and what they are about.
const NOT_ABOUT_A_CARD: &[(&str, &str)] =
    &[("drivers/net/netcons_basic.sh", "netconsole on netdevsim")];

/// What this test is about, if that is no card.
pub(super) fn not_about_a_card(program: &str) -> Option<&'static str> {
    let (_, what) = NOT_ABOUT_A_CARD.iter().find(|(path, _)| *path == program)?;
    Some(what)
}

/// Why a case of this test does not pass with this driver in this kernel, if that is known.
pub(super) fn reason(
    driver: &str,
    release: &str,
    program: &str,
    case: &Case,
) -> Option<&'static Known> {
    KNOWN.iter().find(|known| {
        (known.drivers.is_empty() || known.drivers.contains(&driver))
            && (known.kernel.is_empty() || is_version(release, known.kernel))
            && known.program == program
            && case.name.ends_with(known.case)
            && case.said.contains(known.says)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_says_what_and_for_which_test() {
        for known in KNOWN {
            assert!(known.why.len() > 10, "{}", known.program);
            assert!(known.program.contains('/') && !known.why.ends_with('.'));
            let says_which = known.case.len() + known.says.len() > 0;
            assert!(says_which, "{}", known.why);
        }
    }
}
