//! Bugs of Linux that were put right between the versions of the distribution's packages: an old version has them, which
//! `scripts/test-long` builds and shows; the others have not.

use std::time::Duration;

use warikomi_protocol::commands::{Configure, Transmit, VlanAdd};
use warikomi_session::Session;
use warikomi_target::TargetError;

use crate::bring::{image, session};
use crate::release::release;

const VLAN: u16 = 5;

fn offload(session: &mut Session, name: &str, on: bool) {
    let change = Configure { offloads: [(name.to_owned(), on)].into(), ..Configure::report_only() };
    session.target.ask(change, Duration::ZERO).unwrap();
}

/// A VLAN whose interface was made while the card put no tags into frames has room for one header less than it makes,
/// once the card does and the tag stays in the header (CVE-2026-80925; Linux 6.1.192-1 and 6.12.111-1 of Debian).
#[test]
fn a_vlan_whose_card_learns_to_tag_does_not_end_the_kernel() {
    let mut session = session("responder");
    offload(&mut session, "txvlan", false);
    let address_cidr = "10.9.5.1/24".to_owned();
    let vlan = VlanAdd { interface: None, vlan: VLAN, address_cidr, header_with_tag: true };
    session.target.ask(vlan, Duration::ZERO).unwrap();
    offload(&mut session, "txvlan", true);
    // No one has that address: the question who has goes out.
    let datagrams = Transmit {
        count: 2,
        payload_bytes: 64,
        destination: "10.9.5.77:5001".to_owned(),
        run_id: 1,
        interval_us: 0,
        vlan: None,
        timeout_ms: 1_000,
    };
    let sent = session.target.ask(datagrams, Duration::from_secs(5));
    match release(&image()) {
        [6, 1, ..192] | [6, 12, ..111] => {
            assert!(matches!(sent, Err(TargetError::Panicked { .. })), "{sent:?}");
        }
        _ => {
            assert_eq!(sent.unwrap_or_else(|error| panic!("{error}")).sent, 2);
            session.stop().unwrap();
        }
    }
}
