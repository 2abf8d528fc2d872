//! Drivers that try what is none of their business.

use warikomi_process::ProcessOptions;
use warikomi_target::sandbox::Confinement;

use crate::drivers::prying;
use crate::{error_of, running, try_start};

/// What such a driver says before it ends, and whether it has written its file.
fn said(confined: bool) -> (String, bool) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let error = error_of(try_start(ProcessOptions { confined, ..running(prying(&file)) }));
    (error.to_string(), file.exists())
}

#[test]
fn a_driver_opens_nothing_connects_to_nothing_and_signals_nothing() {
    let (said, written) = said(true);
    match Confinement::of_this_system(true) {
        Confinement::Whole => {
            for what in ["read", "write", "connect", "signal"] {
                assert!(said.contains(&format!("{what}: PermissionDenied")), "{what}: {said}");
            }
            assert!(!written);
        }
        Confinement::OlderLandlock => assert!(!written && !said.contains("read: done"), "{said}"),
        Confinement::NoLandlock | Confinement::Off => assert!(written, "{said}"),
    }
}

#[test]
fn without_a_sandbox_it_does_what_the_user_may() {
    let (said, written) = said(false);
    for what in ["read: done", "write: done", "signal: done", "connect: ConnectionRefused"] {
        assert!(said.contains(what), "{what}: {said}");
    }
    assert!(written);
}
