//! The digest of a run in virtual time: one seed is one history, and two histories are the same if their digests are.

use warikomi_measure::Ledger;
use warikomi_nic::InterruptRecord;
use warikomi_target::TargetCounters;

/// Of what became of each packet and when, of each interrupt, and of what the target did.
pub(super) fn digest(
    ledger: &Ledger,
    interrupts: &[InterruptRecord],
    counters: &TargetCounters,
) -> String {
    let mut digest = blake3::Hasher::new();
    for row in ledger.rows() {
        digest.update(format!("{row:?}\n").as_bytes());
    }
    for record in interrupts {
        digest.update(format!("{record:?}\n").as_bytes());
    }
    digest.update(format!("{counters:?}").as_bytes());
    digest.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Time;
    use warikomi_pci::Vector;

    #[test]
    fn another_time_of_a_handler_is_another_digest() {
        let of = |ps| {
            let (raised, handled) = (Time::ZERO, Time::from_ps(ps));
            let record = InterruptRecord { vector: Vector(0), raised, handled };
            digest(&Ledger::new(3), &[record], &TargetCounters::default())
        };
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }
}
