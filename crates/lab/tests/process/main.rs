//! Our own drivers in processes of their own, and every experiment on them.
//!
//! The parts' program is this very test binary, run again to be one test, [`part`].

mod c_driver;
mod c_live;
mod duo;
mod experiments;
mod killed;
mod own_application;
mod paths;
#[path = "../common/perfect.rs"]
mod perfect;
mod receive;
mod replace;
mod round_trip;
mod rtl8139;
mod send;
mod strategies;
mod strict;
mod transmit;

use serde_json::Map;
use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Plan, Receiver};
use warikomi_nic::NicOptions;
use warikomi_process::{Orders, Program, programs};
use warikomi_session::{PacketPath, ProcessSessionOptions, Session, SessionError};
use warikomi_stack::{Topology, Waiting};
use warikomi_target::Interrupted;
use warikomi_testbench::DUO;
use warikomi_wire::CountedSink;

use perfect::{injected, perfect};

const PART: &str = "WARIKOMI_TEST_PART";

/// Becomes a part if that is what this process was started for; otherwise tests nothing.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    let Ok(name) = std::env::var(PART) else { return };
    let ended = match name.as_str() {
        "driver" => programs::driver::main("rtl8168"),
        "driver duo" => programs::driver::main_with(DUO.driver()),
        "driver ge10" => programs::driver::main("ge10"),
        "driver oc48" => programs::driver::main("oc48"),
        "driver rtl8139" => programs::driver::main("rtl8139"),
        "driver rtl8168" => programs::driver::main("rtl8168"),
        "driver of version 1" => programs::driver::main_of_version("rtl8168", Some(1)),
        "stack" => programs::stack::main(),
        "application" => programs::application::main(),
        "own application" => own_application::main(),
        "store" => programs::store::main(),
        "store-client" => programs::store_client::main(),
        "starter" => programs::starter::main(),
        other => panic!("there is no part {other}"),
    };
    if let Err(error) = &ended {
        eprintln!("{name}: {error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}

/// This binary as the part of that name.
fn program(name: &str) -> Program {
    Program {
        path: std::env::current_exe().unwrap(),
        arguments: ["--exact", "part", "--ignored", "--nocapture"].map(Into::into).into(),
        environment: vec![(PART.into(), name.into())],
    }
}

/// A driver alone.
fn options(strategy: Strategy) -> ProcessSessionOptions {
    along(Topology::DriverAlone, strategy)
}

/// A driver, and what stands above it.
fn along(topology: Topology, strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: "rtl8168".into(),
        program: program("driver"),
        nic: NicOptions::of("rtl8168"),
        make_nic: warikomi_nic::build,
        orders: Orders { strategy, ..Orders::default() },
        settings: Map::new(),
        dma_bytes: 32 << 20,
        path: PacketPath {
            topology,
            waiting: Waiting::Hybrid { poll_ns: 0 },
            copy_out: false,
            tcp_port: None,
            program,
        },
        application: None,
        confined: true,
    }
}

/// The same with the driver and the card of that name.
fn along_with(topology: Topology, name: &'static str) -> ProcessSessionOptions {
    let driver = format!("driver {name}");
    ProcessSessionOptions {
        driver: name.into(),
        program: program(&driver),
        nic: NicOptions::of(name),
        ..along(topology, Strategy::Poll)
    }
}

fn session(strategy: Strategy) -> Session {
    started(&options(strategy))
}

fn started(options: &ProcessSessionOptions) -> Session {
    try_start(options).unwrap_or_else(|error| panic!("{error}"))
}

fn try_start(options: &ProcessSessionOptions) -> Result<Session, SessionError> {
    let wire = Box::new(CountedSink::new());
    Session::start_process(options, wire, &Interrupted::default(), &mut |_| ())
}

fn plan(size_bytes: usize, interval: Span, count: u64) -> Plan {
    Plan { size_bytes, interval, count, receiver: Receiver::Driver, ..Plan::default() }
}
