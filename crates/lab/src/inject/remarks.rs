//! What the two ends of the guest say against a result.

use std::time::Duration;

use warikomi_measure::{FaultReport, Warning};
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_target::TargetCounters;

fn warning(what: String, hint: &str) -> Warning {
    Warning { what, hint: hint.to_owned() }
}

/// About the application that received.
pub(super) fn application(received: &ReceiveTotals) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if received.saturated {
        warnings.push(warning(
            format!(
                "the application in the guest was saturated: {} of its {} batches came back full, \
                 and its socket dropped {} packets",
                received.full_batches, received.batches, received.socket_drops
            ),
            "take the driver's success as the driver's; for the application, lengthen the \
             interval or give it a larger --socket-buffer",
        ));
    }
    if received.unrecorded > 0 {
        warnings.push(warning(
            format!(
                "{} packets that the application received are not recorded one by one, and count \
                 as lost behind the driver",
                received.unrecorded
            ),
            "plan fewer packets",
        ));
    }
    if let Some(failure) = received.failed {
        warnings.push(warning(
            format!("the application stopped receiving early (errno {})", failure.errno),
            "repeat; if it happens again, it is a bug in Warikomi",
        ));
    }
    warnings
}

/// About arrivals that are not as they were asked for.
pub(super) fn fitted_arrivals() -> Warning {
    warning(
        "arrivals are fitted to what was published of a real NIC's intervals: off by up to 2 us, and seldom by up to \
         4 s; how seldom was not published"
            .to_owned(),
        "take no figure of this run for one of exact intervals; for these leave --arrival out",
    )
}

/// About the driver's counts and the NIC's, between which frames came however often they were taken.
pub(super) fn never_at_rest() -> Warning {
    warning(
        "the driver's counts and the NIC's are not of one moment, because frames came between the two all \
         the time: they were not held against each other"
            .to_owned(),
        "keep others from sending to the target before and after the packets (see --wire), and repeat",
    )
}

/// About a target in which nothing can be asked.
pub(super) fn nothing_to_ask() -> Warning {
    warning(
        "nothing in this target can be asked: what its driver counts and what an application received is not known"
            .to_owned(),
        "compare `ip -s link` in the guest, before and after, with the packets that were accepted",
    )
}

/// About packets that the first driver took and that did not leave the second card.
pub(super) fn lost_between_drivers(packets: u64, counted: &str) -> Warning {
    warning(
        format!(
            "{packets} packets that the first driver took have not left the second card; the guest counted meanwhile: \
             {counted}"
        ),
        "what IP has forwarded and the second driver has not sent was dropped at its queue: full, or without a carrier; \
         lengthen the interval, or look at the second card's cable",
    )
}

/// About packets in which more was changed than forwarding must change.
pub(super) fn altered(packets: u64) -> Warning {
    warning(
        format!(
            "{packets} packets left the second card altered, and count as lost behind the driver"
        ),
        "record what leaves with --second-wire pcap:FILE, and look at it",
    )
}

/// About an application that was not waited for any longer.
pub(super) fn never_quiet(within: Duration) -> Warning {
    warning(
        format!(
            "packets still reached their destination {} s after the last was injected; what came later \
             counts as lost behind the driver",
            within.as_secs()
        ),
        "plan fewer packets, or a longer interval",
    )
}

/// About a kernel that gave up waiting for its NIC, which is no driver's doing (arch/um,
/// um_pci_send_cmd).
pub(super) fn unanswered(report: &FaultReport) -> Option<Warning> {
    let line = report.evidence.console.iter().find(|line| line.contains("virt-pci delay"))?;
    Some(warning(
        format!("the guest's kernel gave up waiting for an answer of its NIC: {line}"),
        "do not take this verdict for the driver's: something kept the support side from its core; \
         stop what else runs, and repeat",
    ))
}

/// About the way of interrupts and accesses: during the run, and since the target's start.
pub(super) fn target(counters: &TargetCounters, so_far: &TargetCounters) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut say = |count: u64, what: &str, hint: &str| {
        if count > 0 {
            warnings.push(warning(format!("{count} {what}"), hint));
        }
    };
    say(
        counters.interrupts_delayed,
        "interrupts had to wait, for a free buffer or for a moment at which the driver was not \
         transmitting",
        "lengthen the interval, or keep the guest from sending meanwhile",
    );
    say(
        counters.interrupts_dropped,
        "interrupts were lost, because the guest left hundreds of them unread",
        "look at the guest's console: its kernel may hang",
    );
    say(
        counters.intx_undeliverable,
        "interrupts went to the INTx wire, which this target does not have",
        "let the driver use MSI",
    );
    say(
        counters.malformed,
        "accesses to the device made no sense and were dropped",
        "look at the driver, or at its kernel's virtio drivers",
    );
    say(
        counters.corrupt_rings,
        "times the count of the register ring made no sense, and what was in the ring was skipped",
        "look for what writes to the driver's region out of turn",
    );
    say(
        counters.bad_stamps,
        "times of the driver's interrupt handler are missing, or made no sense",
        "leave the driver its core; if it is your own, stamp every interrupt before counting it",
    );
    say(
        so_far.disguised_fills,
        "fills of the NIC's memory (memset_io) came as configuration writes, and were taken for \
         fills",
        "nothing; it is a defect of this kernel's virt-pci",
    );
    warnings
}
