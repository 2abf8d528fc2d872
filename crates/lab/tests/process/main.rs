//! Our own drivers in processes of their own, and every experiment on them.
//!
//! The driver's program is this very test binary, run again to be one test, [`part`].

mod experiments;
mod receive;

use serde_json::Map;
use warikomi_clock::{Span, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::inject::{Application, Injected, inject};
use warikomi_lab::{ProcessSessionOptions, Session};
use warikomi_nic::wire::CountedSink;
use warikomi_target::Interrupted;
use warikomi_target::process::{Above, Orders, Program};

const PART: &str = "WARIKOMI_TEST_PART";

/// Becomes the driver if that is what this process was started for; otherwise tests nothing.
#[test]
fn part() {
    if std::env::var_os(PART).is_some() {
        let code = warikomi_driver::run::main("rtl8168");
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

fn options(strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: "rtl8168".into(),
        program: Program {
            path: std::env::current_exe().unwrap(),
            arguments: ["--exact", "part", "--nocapture"].map(Into::into).into(),
            environment: vec![(PART.into(), "driver".into())],
        },
        model: "rtl8168".into(),
        orders: Orders { strategy, ..Orders::default() },
        settings: Map::new(),
        dma_bytes: 32 << 20,
    }
}

fn session(strategy: Strategy) -> Session {
    started(&options(strategy))
}

fn started(options: &ProcessSessionOptions) -> Session {
    let wire = Box::new(CountedSink::new());
    Session::start_process(options, Above::default(), wire, &Interrupted::default(), &mut |_| ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn plan(size_bytes: usize, interval: Span, count: u64) -> Plan {
    Plan { size_bytes, interval, count, receiver: Receiver::Driver, ..Plan::default() }
}

/// Carries a plan out and insists that every packet is accounted for. One that loses packets while
/// others have the cores is carried out again, some times: that says nothing about the driver or us.
fn injected(session: &mut Session, plan: &Plan) -> Injected {
    const ATTEMPTS: usize = 10;
    let mut attempt = || {
        let run_id = read_tsc() as u32;
        let injected = inject(session, plan, Application::default(), run_id, &mut |_| ()).unwrap();
        injected.check().unwrap();
        injected
    };
    for _ in 1..ATTEMPTS {
        let injected = attempt();
        let totals = injected.ledger.totals();
        if totals.no_descriptor == 0 || !injected.result.machine.was_disturbed() {
            return injected;
        }
    }
    attempt()
}
