//! A kernel that is confined, and one that is not.

use warikomi_session::{Session, SessionOptions};
use warikomi_target::sandbox::Confinement;

use crate::bring::{options, session, sink, try_session};

/// What the system says of a process.
fn status(id: u32, line: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.trim().to_owned()
}

fn says(session: &Session) -> String {
    session.info.settings["confined"].as_str().unwrap().to_owned()
}

#[test]
fn a_kernel_has_no_capabilities_and_the_result_says_how_far_it_is_confined() {
    let session = session("sink");
    let id = session.target.process_id();
    assert_eq!(status(id, "NoNewPrivs:"), "1");
    assert_eq!(status(id, "CapPrm:"), "0000000000000000");
    assert_eq!(says(&session), Confinement::of_this_system(true).to_string());
    session.stop().unwrap();
}

#[test]
fn a_kernel_opens_no_file_that_it_was_not_given() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("initramfs");
    std::fs::copy(options().initramfs, &copy).unwrap();
    let start = |confined| {
        let argument = format!("initrd={}", copy.display());
        let options = SessionOptions { confined, kernel_arguments: vec![argument], ..options() };
        try_session(&options, sink())
    };
    let session = start(false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(says(&session), "no (--no-sandbox)");
    session.stop().unwrap();
    let opened = start(true).is_ok();
    assert_eq!(opened, Confinement::of_this_system(true) == Confinement::NoLandlock);
}
