//! An application of a user's own in Rust, above a driver.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_protocol::commands::ReceiveStatus;
use warikomi_session::ProcessSessionOptions;
use warikomi_stack::{POLL_VARIABLE, StackError, Topology, Vi, poll_time};
use warikomi_target::TargetError;

use crate::{along, injected, plan, program, started};

/// Polls for as long as it was told, then waits.
pub(crate) fn main() -> Result<(), StackError> {
    let mut vi = Vi::connect()?;
    for token in 0..vi.buffers() {
        vi.post(token);
    }
    assert_eq!(poll_time(), Duration::from_micros(50));
    loop {
        // Nothing comes when a neighbour ends: that is an error, and the end.
        if let Some(slice) = vi.recv_hybrid(poll_time(), None)? {
            assert_eq!(vi.bytes(&slice).unwrap().len(), 1_500);
            vi.post(slice.token);
        }
    }
}

fn options() -> ProcessSessionOptions {
    let mut own = program("own application");
    own.environment.push((POLL_VARIABLE.into(), "50000".into()));
    let strategy = Strategy::Hybrid { poll_time: Span::from_us(50) };
    ProcessSessionOptions { application: Some(own), ..along(Topology::Application, strategy) }
}

#[test]
fn an_application_of_a_users_own_says_by_its_library_what_it_has_received() {
    let mut session = started(&options());
    let asked = plan(1_500, Span::from_us(100), 2_000);
    let run = injected(&mut session, &asked);
    let totals = run.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted, totals.lost), (2_000, 0, 0), "{totals:?}");
    session.target.serve_for(Duration::from_millis(50)).unwrap();
    let said = session.target.ask(ReceiveStatus {}, Duration::ZERO).unwrap();
    // What has come before the run is that of the warm-up.
    let warmup = asked.warmup.count;
    assert!((totals.accepted..=totals.accepted + warmup).contains(&said.datagrams), "{said:?}");
    assert_eq!(said.bytes, 1_500 * said.datagrams);
    session.stop().unwrap();
}

#[test]
fn it_is_asked_nothing_else() {
    let mut session = started(&options());
    assert!(!session.target.has_application(), "no numbers of packets can be had of it");
    let asked = warikomi_protocol::commands::ReceiveStop {};
    let refused = session.target.ask(asked, Duration::ZERO).unwrap_err();
    assert!(matches!(refused, TargetError::Refused { .. }), "{refused}");
    session.stop().unwrap();
}
