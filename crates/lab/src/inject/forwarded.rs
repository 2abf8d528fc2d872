//! Packets that the guest's kernel forwards to a second card: what of them leaves there, and what the guest counts on
//! their way.

use std::collections::BTreeMap;
use std::time::Duration;

use warikomi_inject::{Addresses, Departed, Plan, PlanError};
use warikomi_measure::{Delivery, Ledger, RunResult, Warning};
use warikomi_protocol::commands::Counters;
use warikomi_session::{Exit, Session};
use warikomi_target::{Target, TargetError};

use super::counts::READS_MAY_TAKE;
use super::remarks;
use super::spin::AFTER_AT_MOST;

/// Nothing more leaves when nothing has for this long.
const QUIET: Duration = Duration::from_millis(30);

/// What the guest's kernel counts behind the first driver, and the names that it has in a result.
const OF_PROTOCOLS: [(&str, &str); 7] = [
    ("IpForwDatagrams", "ip_forwarded"),
    ("IpInHdrErrors", "ip_header_errors"),
    ("IpInAddrErrors", "ip_address_errors"),
    ("IpInDiscards", "ip_discarded"),
    ("IpOutDiscards", "ip_discarded_sending"),
    ("IpOutNoRoutes", "ip_without_route"),
    ("IpFragFails", "ip_too_long"),
];

/// What the second driver counts.
const OF_DRIVER: [(&str, &str); 3] = [
    ("tx_packets", "second_driver_sent"),
    ("tx_dropped", "second_driver_dropped"),
    ("tx_errors", "second_driver_errors"),
];

/// What the guest counts of packets that it forwards, by the names in a result.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted(BTreeMap<&'static str, u64>);

impl Counted {
    /// Asks for it; nothing if no packets are forwarded.
    pub(super) fn ask(session: &mut Session) -> Result<Counted, TargetError> {
        let Some(exit) = &session.exit else { return Ok(Counted::default()) };
        let ask = Counters { interface: Some(exit.interface.clone()) };
        let counters = session.target.ask(ask, READS_MAY_TAKE)?;
        let of = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
        let protocols = OF_PROTOCOLS.map(|(name, figure)| (figure, of(&counters.protocol, name)));
        let driver = OF_DRIVER.map(|(name, figure)| (figure, of(&counters.interface, name)));
        let backlog = [("backlog_dropped", counters.softnet_dropped)];
        Ok(Counted(protocols.into_iter().chain(driver).chain(backlog).collect()))
    }

    /// What has been counted since `before`.
    pub(super) fn since(&self, before: &Counted) -> Counted {
        let then = |name| before.0.get(name).copied().unwrap_or(0);
        let counts = self.0.iter().map(|(name, count)| (*name, count.saturating_sub(then(name))));
        Counted(counts.collect())
    }

    /// What is not 0, in words.
    fn in_words(&self) -> String {
        let counts = self.0.iter().filter(|(_, count)| **count > 0);
        let words: Vec<_> = counts.map(|(name, count)| format!("{name} {count}")).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// What came of packets on their way from driver to driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    pub(super) departed: Departed,
    /// What the guest counted meanwhile; nothing if it died.
    pub(super) counted: Option<Counted>,
}

/// Where packets of a session are addressed to, whose first card has this hardware address.
pub(super) fn addresses(exit: Option<&Exit>, first_card: [u8; 6]) -> Addresses {
    match exit {
        Some(exit) => exit.forwarding.addresses(first_card),
        None => Addresses::to_guest(first_card),
    }
}

/// From now on packets of this run are expected at the second card's wire.
pub(super) fn begin(
    exit: &Exit,
    plan: &Plan,
    (addresses, second_card): (&Addresses, [u8; 6]),
    run_id: u32,
) -> Result<(), PlanError> {
    let way = (exit.forwarding, addresses, second_card);
    let keep_times = plan.count <= Ledger::DETAILED_ROWS;
    exit.departures.lock().begin(plan, way, run_id, keep_times)
}

/// Waits until nothing more leaves.
pub(super) fn wait_until_quiet(
    target: &mut dyn Target,
    exit: &Exit,
    doubts: &mut Vec<Warning>,
) -> Result<(), TargetError> {
    let mut seen = exit.departures.lock().seen();
    for _ in 0..AFTER_AT_MOST.as_millis() / QUIET.as_millis() {
        target.serve_for(QUIET)?;
        let now = exit.departures.lock().seen();
        if std::mem::replace(&mut seen, now) == now {
            return Ok(());
        }
    }
    doubts.push(remarks::never_quiet(AFTER_AT_MOST));
    Ok(())
}

/// Tells the ledger what has left.
pub(super) fn deliver(exit: &Exit, ledger: &mut Ledger) -> Departed {
    let departures = exit.departures.lock();
    for (first, at) in departures.packets() {
        // Where times are not kept, the ledger keeps none either.
        let at = at.unwrap_or(warikomi_clock::Time::ZERO);
        ledger.delivered(Delivery { first, count: 1, at });
    }
    let seen = departures.seen();
    ledger.delivered_again(seen.again);
    seen
}

/// Puts it into a result that has its ledger.
pub(super) fn put(passage: &Passage, ledger: &Ledger, result: &mut RunResult) {
    let Passage { departed, counted } = passage;
    result.transit_ns = ledger.delivery_times();
    let mut put = |name: &str, count: u64| result.figures.insert(name.to_owned(), count.into());
    put("departed_altered", departed.altered);
    put("departed_of_others", departed.others);
    for (name, count) in counted.iter().flat_map(|counted| &counted.0) {
        put(name, *count);
    }
    let lost = ledger.totals().lost_in_stack;
    if lost > 0 {
        let counted = counted.as_ref().map_or("what is not known".to_owned(), Counted::in_words);
        result.warnings.push(remarks::lost_between_drivers(lost, &counted));
    }
    if departed.altered > 0 {
        result.warnings.push(remarks::altered(departed.altered));
    }
}
