//! A soak of a kernel: planted bugs are found, and drawn histories are right.

use clap::{Args, Command, FromArgMatches};
use serde_json::Value;
use warikomi_kernel::Image;
use warikomi_lab::at::At;
use warikomi_lab::soak::Soak;
use warikomi_lab::{Conclusion, Error, Experiment, Watch};

use crate::{image, on, planted_image};

fn soak(flags: &[&str]) -> Result<Conclusion, Error> {
    soak_on(image(), flags)
}

fn soak_on(image: &Image, flags: &[&str]) -> Result<Conclusion, Error> {
    let kernel = image.kernel();
    let flags = [flags, &["--kernel", kernel.to_str().unwrap()]].concat();
    let command = Soak::augment_args(Command::new(Soak::NAME).no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap_or_else(|error| panic!("{error}"));
    Soak::from_arg_matches(&matches).unwrap().run(&mut Watch::unobserved())
}

#[test]
fn histories_of_a_kernel_are_right_behind_bugs_that_were_found() {
    let conclusion = soak(&["--target", "kernel", "--seeds", "1..24"]).unwrap();
    assert!(conclusion.failed.is_none(), "{}", conclusion.failed.unwrap());
    let result = conclusion.result;
    let row = &result.rows.as_ref().unwrap()[0];
    assert_eq!((&row["target"], &row["histories"]), (&"kernel".into(), &24.into()));
    assert!(row["twice"].as_u64().unwrap() > 2, "{row:?}");
    assert!(row["delivered"].as_u64().unwrap() > 1_000, "{row:?}");
    let canaries = result.figures["canaries"].as_array().unwrap();
    let found_by = |bug: &str| {
        let canary = canaries.iter().find(|canary| canary["bug"] == bug).unwrap();
        canary["checkers"].as_str().unwrap().to_owned()
    };
    assert!(found_by("a card that loses a packet").contains("losses"));
    assert!(found_by("a card that doubles a packet").contains("ledger"));
    assert_eq!(found_by("a card that swaps two packets"), "order");
    assert!(found_by("a card that forgets an interrupt").contains("progress"));
    assert!(found_by("a card that forgets a descriptor").contains("progress"));
    for bug in [
        "a card that does not send a frame",
        "a card that sends a frame twice",
        "a card that sends two frames in the wrong order",
        "a card that changes a frame that it sends",
        "a card that puts a wrong checksum into a frame",
    ] {
        for bug in [bug, &format!("{bug}, of TCP")] {
            assert_eq!(found_by(bug), "sent", "{bug}");
        }
    }
    assert_eq!(found_by("a card that forgets the interrupt of what strikes at a place"), "strike");
    let drawn = result.figures["drawn"].as_array().unwrap();
    for what in ["receives", "sends", "strikes", "fault ", "senders ", "at an instruction"] {
        let is_it = |drawn: &Value| drawn["what"].as_str().unwrap().starts_with(what);
        assert!(drawn.iter().any(is_it), "{what}: {drawn:?}");
    }
}

#[test]
fn of_both_targets_both_are_tried() {
    // Seed 296 is a kernel's.
    let conclusion = soak(&["--seeds", "291..300"]).unwrap();
    assert!(conclusion.failed.is_none(), "{}", conclusion.failed.unwrap());
    let rows = conclusion.result.rows.unwrap();
    let targets: Vec<_> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
    assert_eq!(targets, ["kernel", "process"]);
}

/// The driver acknowledges what it has not looked at: what comes between its last look at the ring and that has no
/// interrupt.
pub(crate) const ACKNOWLEDGES_LATE: &str = "r8169_ack_late";

/// The driver leaves an interrupt to a poll that has completed: what comes between the opening of the mask and the end
/// of `rtl8169_poll` is not looked at.
const FLAG_LATE: &str = "r8169_flag_late";

/// Bugs that a soak must find without a hint.
pub(crate) const FOUND: [&str; 2] = [ACKNOWLEDGES_LATE, FLAG_LATE];

const IT: [&str; 4] = ["--driver", ACKNOWLEDGES_LATE, "--model", "rtl8168"];

#[test]
fn a_bug_in_a_driver_is_found_without_a_hint_and_its_history_made_shorter() {
    // A soak that began at seed 151 came to this one.
    let flags = ["--target", "kernel", "--seeds", "155..157", "--stop-after", "1", "--shrink"];
    let conclusion = soak_on(planted_image(), &[&flags[..], &IT].concat()).unwrap();
    let found = conclusion.result.figures["findings"].as_array().unwrap();
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&finding["seed"], &finding["checkers"]), (&155.into(), &"strike".into()));
    let said = conclusion.failed.unwrap().to_string();
    assert!(said.contains("1 of 1 histories are wrong; the first has seed 155"), "{said}");
    let kernel = planted_image().kernel();
    let history = format!(
        "warikomi at --virtual 'any access' --kernel {} {}",
        kernel.display(),
        IT.join(" ")
    );
    assert_eq!(finding["history"], history, "nothing is left that it does not need");

    let verdict = |driver: &[&str]| {
        let at = on::<At>(planted_image(), &[&["any access"], driver].concat());
        at.run(&mut Watch::unobserved()).unwrap().result.rows.unwrap()[0]["verdict"].clone()
    };
    assert_eq!(verdict(&IT), "hung");
    assert_eq!(verdict(&[]), "accounted");
}

#[test]
fn a_driver_that_hangs_before_its_place_is_reached_is_found() {
    let driver = ["--driver", FLAG_LATE, "--model", "rtl8168"];
    // The answer to the first packet hangs it, so it makes 7 accesses, and the unmodified one 14. Where the cable was
    // out, and packets may be lost, that packet is one which shows whether it works again.
    for (operation, nth) in [("ping", "10"), ("cable", "1000")] {
        let at = |driver: &[&str]| {
            let place = ["any access", "--nth", nth, "--operation", operation];
            let at = on::<At>(planted_image(), &[&place, driver].concat());
            let result = at.run(&mut Watch::unobserved()).unwrap().result;
            result.rows.unwrap()[0]["evidence"].as_str().unwrap_or_default().to_owned()
        };
        let hangs = at(&driver);
        assert!(hangs.contains("without a strike hung"), "{operation}: {hangs}");
        assert!(!at(&[]).contains("without a strike"), "{operation}: {}", at(&[]));
    }

    // A soak that began at seed 1 came to this one.
    let flags = ["--target", "kernel", "--seeds", "28..30", "--stop-after", "1"];
    let conclusion = soak_on(planted_image(), &[&flags[..], &driver].concat()).unwrap();
    let found = conclusion.result.figures["findings"].as_array().unwrap();
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding["checkers"], "strike");
}
