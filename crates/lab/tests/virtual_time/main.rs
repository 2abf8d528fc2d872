//! A real kernel in virtual time: exact by construction, and the same again.
//!
//! The kernel is one whose time can be virtual; the first test builds it, if it is not there. What it does does not
//! depend on how fast anything is, so these tests may run beside others. `make test` runs the tests of real time on the
//! same kernel (`WARIKOMI_TEST_VIRTUAL`), because each kernel more takes minutes.

#[path = "../common/copies.rs"]
mod copies;
mod interrupts;
mod known_bugs;
mod pairs;
mod places;
#[expect(dead_code, reason = "its other bugs are looked for in real time")]
#[path = "../explore/planted/mod.rs"]
mod planted;
#[path = "../common/release.rs"]
mod release;
mod soak;
mod traffic;

use std::sync::OnceLock;

use clap::{Command, FromArgMatches};
use serde_json::Value;
use warikomi_kernel::{BuildOptions, Cache, Image, Source, Wanted};
use warikomi_lab::accuracy::Accuracy;
use warikomi_lab::inject::Inject;
use warikomi_lab::{Conclusion, Error, Experiment, Watch, carry_out};
use warikomi_measure::TimeBase;
use warikomi_testbench::LOOKS_ONCE;

use copies::Changes;
use planted::{BUGS, DRIVER_VERSION};

/// The version to test with: the oldest of the distribution's, or the one that is named.
fn version() -> String {
    std::env::var("WARIKOMI_TEST_KERNEL").unwrap_or_else(|_| "6.1".to_owned())
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    if version() == DRIVER_VERSION {
        // One kernel is enough: the unmodified driver is in it, too.
        return planted_image();
    }
    IMAGE.get_or_init(|| {
        let source = Source::Distribution { version: Some(version()) };
        copies::image_with(options(source), &[])
    })
}

fn options(source: Source) -> BuildOptions {
    BuildOptions { source, virtual_time: true, ..BuildOptions::default() }
}

/// The kernel that has copies of the driver with a bug each beside the unmodified one.
fn planted_image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let source = Source::Distribution { version: Some(DRIVER_VERSION.into()) };
        copies::image_with(options(source), &planted_copies())
    })
}

/// The copies in it: their names, and in what they differ.
fn planted_copies() -> Vec<(&'static str, Changes)> {
    let soaked = soak::FOUND.iter().map(|name| {
        let bug = BUGS.iter().find(|bug| bug.name == *name).expect("a bug of this name");
        (bug.name, bug.changes)
    });
    soaked.chain([(LOOKS_ONCE, pairs::CHANGES)]).collect()
}

/// `make test` runs this one before the others, and lets it build the kernel beside other tests.
#[test]
fn the_kernel_has_every_copy_of_the_driver() {
    let names = planted_copies().into_iter().map(|(name, _)| name);
    assert!(copies::missing(planted_image(), names).is_empty());
}

fn try_run<E: Experiment + FromArgMatches>(flags: &[&str]) -> Result<Conclusion, Error> {
    carry_out(&on_image::<E>(flags), &mut Watch::unobserved())
}

fn on_image<E: Experiment + FromArgMatches>(flags: &[&str]) -> E {
    on::<E>(image(), flags)
}

fn on<E: Experiment + FromArgMatches>(image: &Image, flags: &[&str]) -> E {
    let kernel = image.kernel();
    let flags = [flags, &["--virtual", "--kernel", kernel.to_str().unwrap()]].concat();
    let command = E::augment_args(Command::new(E::NAME).no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap_or_else(|error| panic!("{error}"));
    E::from_arg_matches(&matches).unwrap()
}

fn inject(flags: &[&str]) -> Conclusion {
    let conclusion = try_run::<Inject>(flags).unwrap_or_else(|error| panic!("{error}"));
    assert!(conclusion.failed.is_none());
    assert_eq!(conclusion.result.time_base, TimeBase::Virtual);
    conclusion
}

fn digest(conclusion: &Conclusion) -> &str {
    conclusion.result.figures["digest"].as_str().unwrap()
}

#[test]
fn where_work_costs_nothing_every_interval_at_the_handler_is_the_one_asked_for() {
    let conclusion = inject(&["--interval", "38us", "--count", "1000"]);
    let ledger = conclusion.result.ledger.as_ref().unwrap();
    assert_eq!((ledger.accepted, ledger.delivered), (1_000, 1_000));
    let intervals = conclusion.result.intervals.as_ref().unwrap();
    for place in [&intervals.injected, &intervals.raised, &intervals.handler] {
        let interval = &place.as_ref().unwrap().all;
        assert_eq!((interval.count, interval.min, interval.max), (999, 38_000.0, 38_000.0));
    }
}

#[test]
fn one_seed_is_one_history_and_another_is_another() {
    let flags = |seed| {
        [
            "--arrival",
            "poisson",
            "--interval",
            "20us",
            "--count",
            "500",
            "--wire",
            "responder",
            "--seed",
            seed,
        ]
    };
    let [first, again, other] = ["7", "7", "8"].map(|seed| inject(&flags(seed)));
    assert_eq!(digest(&first), digest(&again));
    assert_ne!(digest(&first), digest(&other));
}

#[test]
fn declared_costs_are_what_an_interval_that_is_too_short_runs_into() {
    // An interrupt and its packet take longer than there is from one to the next: the driver takes several at once.
    let costs = ["--access-cost", "1us", "--interrupt-cost", "2us", "--frame-cost", "500ns"];
    let flags = ["--interval", "3us", "--count", "400"];
    let dear = inject(&[&flags[..], &costs].concat());
    let free = inject(&flags);
    let handled = |conclusion: &Conclusion| conclusion.result.interrupts.as_ref().unwrap().handled;
    assert_eq!(handled(&free), 400);
    assert!((50..300).contains(&handled(&dear)), "{}", handled(&dear));
    assert_eq!(dear.result.target.settings["access_cost_ns"], Value::from(1_000.0));
    assert_eq!(digest(&dear), digest(&inject(&[&flags[..], &costs].concat())));
}

#[test]
fn accuracy_finds_no_error() {
    let conclusion = try_run::<Accuracy>(&["--count", "200", "--no-smallest"]).unwrap();
    let handler = conclusion.result.intervals.as_ref().unwrap().handler.as_ref().unwrap();
    assert_eq!((handler.all.min, handler.all.max), (38_000.0, 38_000.0));
}

#[test]
fn a_kernel_whose_time_cannot_be_virtual_is_refused_before_its_card_is_attached() {
    let image = Cache::of_this_user().unwrap().find(&Wanted::default()).unwrap();
    let refused = on::<Inject>(&image, &[]).run(&mut Watch::unobserved());
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("warikomi kernel build --virtual"), "{error}");
}

#[test]
fn what_is_about_real_time_is_refused() {
    let error = try_run::<Inject>(&["--interrupt-delivery", "polled"]).err().unwrap().to_string();
    assert!(error.contains("--interrupt-delivery is about real time"), "{error}");
    let error = try_run::<Inject>(&["--target", "process"]).err().unwrap().to_string();
    assert!(error.contains("--virtual is for --target kernel"), "{error}");
    let error = try_run::<Inject>(&["--wire", "socket:a,b"]).err().unwrap().to_string();
    assert!(error.contains("does not run in virtual time"), "{error}");
}
