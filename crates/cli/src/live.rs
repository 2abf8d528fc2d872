//! `warikomi live`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::Value;
use warikomi_clock::Span;
use warikomi_live::service::{
    self, Client, EchoReport, Options, ReplacementReport, Request, StatusReport,
};
use warikomi_live::{Policy, Program, Way};
use warikomi_target::Interrupted;

use warikomi_session::flags::program;
use warikomi_session::{OwnParts, TargetArguments};

/// Run a service whose driver is replaced while it goes on
///
/// The service echoes: TCP and UDP, port 7, on 10.9.0.1. It is a NIC, a driver process, a stack and the echo
/// application above it, each a process of its own, under a supervisor that watches the driver, which can be replaced,
/// upgraded and killed. At the other end of the cable a client sends numbered messages all the time, and checks that
/// each comes back once and in order. What happens is printed, a line each.
///
/// The commands below control a running service by its control socket, which is this user's alone.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    ask: Option<Ask>,
    #[command(flatten)]
    serve: ServeArguments,
    /// The control socket [default: in the user's runtime directory]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warikomi live
      A service with the driver rtl8168; it runs until Ctrl-C, or 'warikomi live stop'.
  warikomi live replace --driver ./my-driver
      In another terminal: its driver is replaced while it goes on.
  warikomi live rollback
      And back to the one before.
  warikomi live metrics
      What it counts, for Prometheus.";

#[derive(Args)]
struct ServeArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// How drivers follow one another: shared-state, data-store or reload
    #[arg(long, value_name = "WAY", default_value = "shared-state")]
    way: Way,
    /// Ends by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
}

#[derive(Subcommand)]
enum Ask {
    /// How it goes
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace the driver, and wait until that is done
    Replace {
        /// The name of one of ours, or the path of a program
        #[arg(long, value_name = "NAME|PATH")]
        driver: String,
    },
    /// Go back to the driver that ran before
    Rollback,
    /// Print metrics in Prometheus's text format
    Metrics,
    /// End the service, and wait until all of it is gone
    Stop,
}

pub(crate) fn run(arguments: &Arguments, interrupted: &Interrupted) -> Result<ExitCode> {
    let control = arguments.control.clone().unwrap_or_else(service::usual_control);
    match &arguments.ask {
        Some(ask) => ask.run(&control)?,
        None => arguments.serve.run(control, interrupted)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ServeArguments {
    fn run(&self, control: PathBuf, interrupted: &Interrupted) -> Result<()> {
        let mut session = self.target.prepare_live()?;
        session.path.program = above;
        let options = Options {
            session,
            policy: Policy::of(self.way),
            control,
            client: Client::default(),
            driver: |name| program(name).map_err(|error| error.to_string()),
            duration: self.duration,
        };
        let printer = Printer::start();
        let served = service::serve(&options, interrupted, &mut |line| printer.print(line));
        printer.end();
        Ok(served?)
    }
}

/// Prints lines in a thread of its own: a terminal that has been halted, or a pipe without a reader, must not
/// halt the service.
struct Printer {
    lines: SyncSender<String>,
    thread: JoinHandle<()>,
}

impl Printer {
    /// Lines that wait at most; what comes then is not printed.
    const MOST_LINES: usize = 1_000;
    /// How long the last ones may take.
    const LAST: Duration = Duration::from_secs(1);

    fn start() -> Printer {
        let (lines, waiting) = sync_channel::<String>(Self::MOST_LINES);
        let thread = std::thread::spawn(move || {
            for line in waiting {
                // The reader may have gone; the service goes on.
                let _ = writeln!(std::io::stdout(), "{line}");
            }
        });
        Printer { lines, thread }
    }

    fn print(&self, line: &str) {
        let _ = self.lines.try_send(line.to_owned());
    }

    fn end(self) {
        drop(self.lines);
        let until = Instant::now() + Self::LAST;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Above the driver: the stack, and the service in the application's place.
fn above(name: &str) -> Program {
    (OwnParts::OURSELVES.above)(if name == "application" { "echo" } else { name })
}

impl Ask {
    fn run(&self, control: &Path) -> Result<()> {
        let answer = service::ask(control, &self.request()?)?;
        match self {
            Ask::Status { json: true } => println!("{answer:#}"),
            Ask::Status { json: false } => print!("{}", status(&read(answer)?)),
            Ask::Replace { .. } | Ask::Rollback => println!("{}", replaced(&read(answer)?)),
            Ask::Metrics => print!("{}", read::<String>(answer)?),
            Ask::Stop => {}
        }
        Ok(())
    }

    fn request(&self) -> Result<Request> {
        Ok(match self {
            Ask::Status { .. } => Request::Status {},
            Ask::Replace { driver } => Request::Replace { driver: found(driver)? },
            Ask::Rollback => Request::Rollback {},
            Ask::Metrics => Request::Metrics {},
            Ask::Stop => Request::Stop {},
        })
    }
}

/// The driver as the service can find it, wherever it runs.
fn found(driver: &str) -> Result<String> {
    program(driver)?;
    if !driver.contains('/') {
        return Ok(driver.to_owned());
    }
    let path = std::fs::canonicalize(driver).with_context(|| format!("no driver {driver}"))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("the path {} is not UTF-8; rename it", path.display()))
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer)
        .context("what the service answers makes no sense; is it of another version?")
}

fn replaced(report: &ReplacementReport) -> String {
    let ReplacementReport { from, to, replace_us, outage_us, reset, .. } = report;
    let reset = if *reset { "; the device was reset" } else { "" };
    format!(
        "generation {to} follows {from} after {replace_us:.1} µs, {outage_us:.1} µs of them without a \
         driver{reset}"
    )
}

fn status(report: &StatusReport) -> String {
    let why = report.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let mut lines = vec![
        ("service", format!("{}{why}", report.service)),
        ("driver", format!("{}, generation {}", report.driver, report.generation)),
        ("process", format!("{}, for {:.1} s", report.process_id, report.running_for_s)),
        ("way to replace", report.way.clone()),
        ("before", report.before.clone().unwrap_or_else(|| "none".into())),
        ("kept ready", report.spare.map_or("none".into(), |spare| format!("generation {spare}"))),
        (
            "replaced",
            format!(
                "{} planned, {} recovered, {} rolled back, {} failures in a row",
                report.planned, report.recovered, report.rolled_back, report.failures_in_a_row
            ),
        ),
        (
            "frames",
            format!(
                "{} transmitted, {} received",
                report.transmitted_frames, report.received_frames
            ),
        ),
    ];
    lines.extend(echoes(&report.echo));
    if let Some(last) = &report.last {
        lines.push(("last", format!("{}: {}", last.kind, replaced(last))));
    }
    let line = |(name, value): (&str, String)| format!("{name:<15} {value}\n");
    lines.into_iter().map(line).collect()
}

fn echoes(echo: &EchoReport) -> [(&'static str, String); 2] {
    let EchoReport { tcp_connections, tcp_lost, tcp_sent_bytes, tcp_back_bytes, .. } = echo;
    let EchoReport { udp_sent, udp_back, udp_missing, udp_repeated, .. } = echo;
    let tcp = format!(
        "{tcp_sent_bytes} bytes sent, {tcp_back_bytes} back, {} of them wrong; {tcp_lost} of \
         {tcp_connections} connections lost",
        echo.tcp_wrong_bytes
    );
    let udp = format!(
        "{udp_sent} datagrams sent, {udp_back} back; {udp_missing} missing, {udp_repeated} repeated, {} \
         wrong; the longest took {:.1} µs",
        echo.udp_wrong, echo.longest_round_trip_us
    );
    [("echo, TCP", tcp), ("echo, UDP", udp)]
}
