//! The reasons, and which one a failure has.

use warikomi_session::is_version;

use super::known::{Known, Lacks};
use super::ktap::Case;

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

/// Every reason; the first that fits is taken.
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
        drivers: &["8139too"],
        program: "drivers/net/hw/csum.py",
        case: "tx_udp_zero_checksum",
        says: "should be 0xFFFF, is 0x0",
        why: "the driver has skb_copy_and_csum_dev sum its packets up, which sends a sum of 0 as it is",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/devlink_port_split.py",
        says: "Failed to connect to devlink",
        why: NO_DEVLINK,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/rss_ctx.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
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
        kernel: "7.2",
        program: "drivers/net/hw/ethtool.sh",
        case: "force speed 10 vs. autoneg",
        says: "Invalid argument",
        lacks: Lacks::Kernel,
        why: "without a link the kernel's MII library tells no speed, and refuses a setting without one: a card whose \
            speed was forced does not negotiate again",
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
    Known {
        drivers: &["8139too"],
        program: "drivers/net/gro.py",
        says: "incorrect number of packets",
        why: "the driver hands its frames to netif_receive_skb, which merges none",
        ..OF_ALL
    },
    Known {
        drivers: &["8139too"],
        program: "drivers/net/gro.py",
        says: "mtu greater than device maximum",
        why: "the driver takes no packets of 4,096 bytes",
        ..OF_ALL
    },
    Known {
        drivers: &["8139cp"],
        program: "drivers/net/gro.py",
        case: "_large_max",
        says: "incorrect packet geometry",
        why: LONGER_THAN_THE_CARD_TAKES,
        ..OF_ALL
    },
    Known {
        drivers: &["8139cp"],
        program: "drivers/net/gro.py",
        case: "_large_rem",
        says: "incorrect number of packets",
        why: LONGER_THAN_THE_CARD_TAKES,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/gro.py",
        case: "_ipv4_data_lrg_1byte",
        says: "incorrect number of packets",
        lacks: Lacks::Kernel,
        why: "Linux merges no frame that is padded (inet_gro_receive), as this one of one byte is on Ethernet",
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/gro.py",
        says: "channels_get",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/devlink_rate_tc_bw.py",
        says: "Family 'devlink' not supported",
        why: NO_DEVLINK,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/shaper.py",
        says: "Family 'net-shaper' not supported",
        why: "none of the drivers shapes what it sends, so the kernel is built without that",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/irq.py",
        case: "check_irqs_reported",
        says: "Check failed 0 ",
        why: "the driver does not tell the interrupt of its NAPI instance",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/irq.py",
        says: "smp_affinity",
        lacks: Lacks::Kernel,
        why: ONE_PROCESSOR,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/nic_timestamp.py",
        says: "No such device",
        lacks: Lacks::Kernel,
        why: "the kernel for the tests is built without clocks of cards (PTP)",
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/hw/rss_api.py",
        case: "test_rxfh_nl_set_key",
        says: "KeyError: 'hkey'",
        why: NO_KEY,
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/hw/rss_api.py",
        says: "Invalid argument",
        why: "the driver lets the ports of UDP be counted in or out, and no other field",
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/hw/rss_api.py",
        case: "test_rss_ctx_ntf",
        says: "Operation not supported",
        why: "the driver has one RSS context",
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/hw/rss_api.py",
        says: "Operation not supported",
        why: NO_RSS,
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/hw/rss_flow_label.py",
        says: "Operation not supported",
        why: NO_RSS,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/rss_flow_label.py",
        says: "it returned 1",
        lacks: Lacks::Tool,
        why: "this ethtool does not know the flow label, so it refuses it in words that the test does not look for",
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/hw/toeplitz.py",
        says: "Operation not supported",
        why: NO_RSS,
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/hw/toeplitz.py",
        says: "RSS key not available",
        why: NO_KEY,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/toeplitz.py",
        says: "rps_sock_flow_entries",
        lacks: Lacks::Kernel,
        why: ONE_PROCESSOR,
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/hw/rss_drv.py",
        says: "channels_get",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/rss_drv.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/uso.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/xsk_reconfig.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/napi_threaded.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/napi_threaded.py",
        says: "napis",
        why: "the driver has one NAPI instance, and the test wants two",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/tso.py",
        says: "qstats_get",
        why: "the driver has no statistics of its queues, by which the test counts segments",
        ..OF_ALL
    },
    Known {
        drivers: &["e1000e"],
        program: "drivers/net/ping.py",
        says: "100% packet loss",
        why: "the driver starts its card and link anew when checksums are switched, and the test waits for half a second",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/ping.py",
        case: "_mb",
        says: "mtu greater than device maximum",
        why: NO_LONG_PACKETS,
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/ring_reconfig.py",
        says: "channels_get",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/ring_reconfig.py",
        case: "ringparam",
        says: "Operation not supported",
        why: "the driver does not set the length of its rings",
        ..OF_ALL
    },
    Known {
        drivers: &["igb", "e1000e"],
        program: "drivers/net/ring_reconfig.py",
        case: "ringparam",
        says: "ksft_eq(get[param], val)",
        why: "the driver makes a ring of its least length where a shorter one is asked for, and says so",
        ..OF_ALL
    },
    Known {
        drivers: &["8139too"],
        program: "drivers/net/napi_id.py",
        says: "napi ID is 0",
        why: "the driver does not tell of its frames which NAPI instance they come from",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/userns_devmem.py",
        says: "did not create userns",
        why: "the driver does not receive into the memory of another device; what the test fails of is that Linux \
            makes no user namespace in a changed root, which the tests have here",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/hw/nk_qlease.py",
        says: "Operation not supported",
        why: "the driver has no queue that it could lend to another interface",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/netpoll_basic.py",
        says: "ethtool: bad command line argument",
        lacks: Lacks::Tool,
        why: OLD_ETHTOOL,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/xdp.py",
        says: "failed to load object",
        lacks: Lacks::Kernel,
        why: "programs that call a function of the kernel need a compiler in it (BPF JIT), which User Mode Linux does \
            not have",
        ..OF_ALL
    },
    Known {
        program: "drivers/net/xdp.py",
        says: "mtu greater than device maximum",
        why: NO_LONG_PACKETS,
        ..OF_ALL
    },
    Known {
        program: "drivers/net/so_txtime.py",
        says: "exceeds variance (8000 us)",
        lacks: Lacks::Kernel,
        why: "a kernel that is a process among others may come later than the test allows",
        ..OF_ALL
    },
    Known {
        drivers: NO_CHANNELS,
        program: "drivers/net/stats.py",
        case: "procfs_downup_hammer",
        says: "channels_get",
        why: NOT_SET,
        ..OF_ALL
    },
    Known {
        drivers: &["igb"],
        program: "drivers/net/stats.py",
        case: "procfs_downup_hammer",
        says: "ksft_ge(new[k], old[k])",
        why: "the driver counts packets in its rings, and has others after the number of queues has changed",
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
const NO_DEVLINK: &str = "none of the drivers has devlink, so the kernel is built without it";
const OLD_ETHTOOL: &str = "this ethtool does not say as JSON what the test asks";
const ONE_PROCESSOR: &str =
    "a kernel for one processor does not spread packets or interrupts over several";
const NO_RSS: &str =
    "the driver does not tell how packets are spread over queues, and does not set it";
const NO_KEY: &str = "the driver does not tell the key of its hash";
const LONGER_THAN_THE_CARD_TAKES: &str = "the driver lets packets of 4,096 bytes be set, whose frames have 18 bytes more \
    than the card takes";
const NO_LONG_PACKETS: &str = "the driver takes no packets of 9,000 bytes";

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
