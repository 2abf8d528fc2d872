//! Drivers in C, attached by `include/warikomi_driver.h`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;
use warikomi_lab::Error;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::{Seed, Span, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_lab::inject::{Application, inject};
use warikomi_process::Program;
use warikomi_session::{ProcessSessionOptions, SessionError};
use warikomi_target::TargetError;

use crate::{options, perfect, plan, started, try_start};

/// Longer than anything here takes, on however busy a machine.
const LONG_RUN_PACKETS: u64 = 10_000_000;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The flags that the header promises to be free of warnings with.
pub(crate) fn compile(source: &Path, directory: &Path) -> PathBuf {
    let program = directory.join("driver");
    let output = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(["-O2", "-I"])
        .arg(root().join("include"))
        .arg("-o")
        .args([&program, source])
        .output()
        .expect("a C compiler, cc, is needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn example(directory: &Path) -> PathBuf {
    compile(&root().join("examples/c/rtl8168.c"), directory)
}

fn attached(program: &Path, strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: program.display().to_string(),
        program: Program { path: program.to_owned(), ..Program::default() },
        ..options(strategy)
    }
}

#[test]
fn the_example_takes_every_packet_by_each_strategy_that_it_knows() {
    const COUNT: u64 = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let program = example(directory.path());
    let hybrid = Strategy::Hybrid { poll_time: Span::from_us(100) };
    let mut repeated = Vec::new();
    for strategy in [Strategy::Interrupt, Strategy::Poll, hybrid] {
        let mut session = started(&attached(&program, strategy));
        println!("{strategy}");
        let plan = plan(1_500, Span::from_us(20), COUNT);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        let totals = run.ledger.totals();
        assert_eq!((totals.injected, totals.unaccounted), (COUNT, 0), "{strategy}");
        assert_eq!((totals.lost, totals.no_descriptor), (0, 0), "{strategy}: {totals:?}");
        assert_eq!(totals.accepted, COUNT, "{strategy}: {totals:?}");
        let interrupts = run.result.interrupts.unwrap();
        match strategy {
            Strategy::Poll => assert_eq!(interrupts.raised, 0),
            Strategy::Interrupt => assert!(interrupts.raised > 0 && interrupts.handled > 0),
            _ => assert!(run.result.figures["driver_polls"].as_u64() > Some(0)),
        }
        session.stop().unwrap();
    }
}

#[test]
fn one_that_is_killed_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let program = example(directory.path());
    let seed = Seed(read_tsc());
    for round in 0..4 {
        let after = Duration::from_micros((seed.0 >> (round * 8)) % 50_000);
        println!("seed {seed:?}, round {round}: killed after {after:?}");
        let mut session = started(&attached(&program, Strategy::Interrupt));
        let id = Pid::from_raw(session.target.process_id() as i32);
        let killer = thread::spawn(move || {
            thread::sleep(after);
            kill(id, Signal::SIGKILL).unwrap();
        });
        let plan = plan(1_500, Span::from_us(20), LONG_RUN_PACKETS);
        let run = inject(&mut session, &plan, Application::default(), 1, &mut |_| ());
        killer.join().unwrap();
        let Err(Error::Target(error)) = run else { panic!("the driver was not missed") };
        assert!(matches!(error, TargetError::PartEnded { part: "driver", .. }), "{error}");
        assert!(error.to_string().contains("SIGKILL"), "{error}");
    }
}

#[test]
fn one_that_ends_at_once_is_an_error_with_what_it_printed() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("ends.c");
    let text = "#include \"warikomi_driver.h\"\n\
                int main(void)\n{\n    fputs(\"no card of mine\\n\", stderr);\n    return 7;\n}\n";
    std::fs::write(&source, text).unwrap();
    let program = compile(&source, directory.path());
    let error = match try_start(&attached(&program, Strategy::Poll)) {
        Err(SessionError::Target(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    };
    assert!(matches!(error, TargetError::PartEnded { part: "driver", .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("exit status: 7") && error.contains("no card of mine"), "{error}");
}

#[test]
fn one_that_nobody_attaches_says_how_it_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(example(directory.path())).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--target process") && said.contains("--driver"), "{said}");
}
