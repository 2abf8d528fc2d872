//! When something goes wrong: each way has its own error, in time, and nothing is left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use warikomi_protocol::commands::{Hang, Panic, PingAgent, PowerOff};
use warikomi_session::SessionError;
use warikomi_target::{CardId, TargetError};

use crate::bring::{bare_kernel, options, session, sink, try_session};

/// Processes of the kernel that was started with this id, itself included.
fn group_is_alive(id: u32) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or("");
        let mut fields = fields.split(' ');
        let (state, group) = (fields.next(), fields.nth(1));
        group == Some(&id.to_string()) && state != Some("Z")
    })
}

fn error_of<T>(result: Result<T, SessionError>) -> TargetError {
    match result {
        Ok(_) => panic!("this cannot have worked"),
        Err(SessionError::Target(error)) => error,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_panic_is_reported_with_its_message_and_the_console() {
    let mut session = session("sink");
    let id = session.target.process_id();
    session.target.ask(Panic {}, Duration::ZERO).ok();
    let begun = Instant::now();
    let error = session.target.serve_for(Duration::from_secs(5)).unwrap_err();
    let TargetError::Panicked { message, console } = &error else { panic!("{error}") };
    assert!(message.contains("sysrq triggered crash"), "{message}");
    assert!(console.0.len() > 3, "{console}");
    assert!(begun.elapsed() < Duration::from_secs(4));
    drop(session);
    assert!(!group_is_alive(id));
}

#[test]
fn a_guest_that_stops_answering_is_told_from_one_that_has_ended() {
    for busy in [false, true] {
        let mut session = session("sink");
        session.target.ask(Hang { busy }, Duration::ZERO).unwrap();
        let error = session.target.ask(PingAgent {}, Duration::ZERO).unwrap_err();
        assert!(matches!(error, TargetError::Silent { .. }), "{error}");
    }
    let mut target = bare_kernel();
    target.ask(PowerOff {}, Duration::ZERO).unwrap();
    let error = target.serve_for(Duration::from_secs(5)).unwrap_err();
    let ended = matches!(error, TargetError::Exited { .. } | TargetError::ConnectionLost { .. });
    assert!(ended, "{error}");
}

#[test]
fn stopping_leaves_no_process_and_no_file() {
    let session = session("sink");
    let id = session.target.process_id();
    assert!(group_is_alive(id));
    session.stop().unwrap();
    assert!(!group_is_alive(id));
}

#[test]
fn a_kernel_that_is_killed_is_an_error_and_no_more() {
    let mut session = session("sink");
    let id = nix::unistd::Pid::from_raw(session.target.process_id() as i32);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).unwrap();
    let error = session.target.serve_for(Duration::from_secs(5)).unwrap_err();
    assert!(matches!(error, TargetError::Exited { .. }), "{error}");
}

/// The file of a kernel's memory: the largest that it has open.
fn memory_file(id: u32) -> std::fs::File {
    let files = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten();
    let with_length = files.filter_map(|entry| {
        let about = std::fs::metadata(entry.path()).ok().filter(|about| about.is_file())?;
        Some((about.len(), entry.path()))
    });
    let (_, path) = with_length.max().unwrap();
    std::fs::File::options().write(true).open(path).unwrap()
}

#[test]
fn a_kernel_cannot_cut_its_memory_short_under_us() {
    let mut session = session("sink");
    let cut = memory_file(session.target.process_id()).set_len(4_096);
    assert!(cut.is_err(), "its file is not sealed");
    session.target.serve_for(Duration::from_millis(100)).unwrap();
    session.target.ask(PingAgent {}, Duration::ZERO).unwrap();
    session.stop().unwrap();
}

#[test]
fn a_driver_that_cannot_have_its_interrupt_is_an_error() {
    let mut options = options();
    options.kernel_arguments = vec!["pci=nomsi".into()];
    // Our bridge has INTx.
    options.bridge = false;
    let error = error_of(try_session(&options, sink()));
    let refused = matches!(
        error,
        TargetError::NotBound { .. } | TargetError::NoLink { .. } | TargetError::Refused { .. }
    );
    assert!(refused, "{error}");
}

#[test]
fn what_is_no_kernel_is_said_to_be_none() {
    let mut options = options();
    options.kernel = "/bin/true".into();
    let error = error_of(try_session(&options, sink()));
    assert!(matches!(error, TargetError::Exited { .. }), "{error}");
    options.kernel = "/etc/hostname".into();
    let error = error_of(try_session(&options, sink()));
    assert!(matches!(error, TargetError::CannotStart { .. }), "{error}");
}

#[test]
fn a_kernel_without_an_agent_is_an_error_with_its_console() {
    let mut options = options();
    let empty = tempfile::NamedTempFile::new().unwrap();
    options.initramfs = empty.path().to_owned();
    let error = error_of(try_session(&options, sink()));
    let told = matches!(error, TargetError::Panicked { .. } | TargetError::Exited { .. });
    assert!(told, "{error}");
}

#[test]
fn a_link_that_stays_down_is_an_error() {
    let mut target = bare_kernel();
    let (nic, mut host) = target.card(CardId::FIRST).unwrap();
    nic.set_link(&mut host, warikomi_nic::Link::Down);
    let error = warikomi_session::bring_up(&mut *target, &options()).unwrap_err();
    assert!(matches!(error, TargetError::NoLink { .. }), "{error}");
}

#[test]
fn the_targets_directory_goes_with_it() {
    let ours =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("warikomi-");
    let count = || std::fs::read_dir(Path::new("/dev/shm")).unwrap().flatten().filter(ours).count();
    let before = count();
    let session = session("sink");
    assert_eq!(count(), before + 1);
    drop(session);
    assert_eq!(count(), before);
}
