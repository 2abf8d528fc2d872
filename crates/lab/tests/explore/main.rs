//! An interrupt at places in the driver of a real kernel, and at every one of them.
//!
//! The kernel is one that finds its own mistakes; the first test builds it, if it is not there. The tests need both
//! cores, so they run one at a time (`--test-threads=1`).

#[path = "../common/copies.rs"]
mod copies;
#[path = "../common/options.rs"]
mod options;
mod planted;
mod strict;

use std::collections::HashSet;

use clap::{Command, FromArgMatches};
use serde_json::Value;
use warikomi_lab::at::At;
use warikomi_lab::explore::Explore;
use warikomi_lab::strike::Verdict;
use warikomi_lab::{Conclusion, Error, Experiment, Watch, carry_out};
use warikomi_measure::layout::Object;

use planted::{BUGS, MARKED, image};

fn run<E: Experiment + FromArgMatches>(flags: &[&str]) -> Result<Conclusion, Error> {
    let command = E::augment_args(Command::new(E::NAME).no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap_or_else(|error| panic!("{error}"));
    carry_out(&E::from_arg_matches(&matches).unwrap(), &mut Watch::unobserved())
}

/// The same on the unmodified driver of the image that has the others beside it.
fn run_unmodified<E: Experiment + FromArgMatches>(flags: &[&str]) -> Result<Conclusion, Error> {
    let kernel = image().kernel();
    run::<E>(&[flags, &["--kernel", kernel.to_str().unwrap()]].concat())
}

fn rows(conclusion: &Conclusion) -> &[Object] {
    conclusion.result.rows.as_deref().unwrap()
}

fn text<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn frames(conclusion: &Conclusion, key: &str) -> Vec<String> {
    let of = conclusion.result.figures.get(key).and_then(Value::as_array);
    of.into_iter().flatten().map(|frame| frame["frame"].as_str().unwrap().to_owned()).collect()
}

/// `make test` runs this one before the others, and lets it build the kernel beside other tests.
#[test]
fn the_kernel_has_every_copy_of_the_driver() {
    let copies = planted::copies();
    let missing = copies::missing(image(), copies.iter().map(|(name, _)| *name));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_interrupt_strikes_at_the_very_instruction_where_they_are_on() {
    let flags = ["rtl8169_close", "--operation", "ip link set eth0 down"];
    let conclusion = run_unmodified::<At>(&flags).unwrap();
    let row = &rows(&conclusion)[0];
    assert_eq!(text(row, "verdict"), "accounted");
    assert!(text(row, "place").starts_with("rtl8169_close+0x0 at r8169_main.c:"), "{row:?}");
    assert_eq!(text(row, "handler"), text(row, "place"));
    assert_eq!(row["deferred"], false);
    let stack = frames(&conclusion, "stack");
    let has = |stack: &[String], name: &str| stack.iter().any(|frame| frame.contains(name));
    assert!(has(&stack, "__dev_close_many") && has(&stack, "handle_syscall"), "{stack:?}");
    let handler = frames(&conclusion, "handler_stack");
    assert!(
        has(&handler, "rtl8169_interrupt") && has(&handler, "rtl8169_close+0x0"),
        "{handler:?}"
    );
}

#[test]
fn an_interrupt_waits_where_they_are_off() {
    let conclusion = run_unmodified::<At>(&["rtl8169_interrupt"]).unwrap();
    let row = &rows(&conclusion)[0];
    assert_eq!(text(row, "verdict"), "accounted");
    assert!(text(row, "place").starts_with("rtl8169_interrupt+0x0"), "{row:?}");
    assert_eq!(row["deferred"], true, "{row:?}");
    assert!(!text(row, "handler").contains("rtl8169_interrupt"), "{row:?}");
}

#[test]
fn a_register_access_is_a_place_too() {
    let conclusion = run_unmodified::<At>(&["read IntrStatus"]).unwrap();
    let row = &rows(&conclusion)[0];
    assert_eq!(text(row, "verdict"), "accounted");
    assert!(text(row, "place").contains("rtl8169_interrupt"), "{row:?}");
}

#[test]
fn places_that_are_none_are_refused_with_what_is_near() {
    let error = |place: &str| run_unmodified::<At>(&[place]).err().unwrap().to_string();
    for (place, says) in [
        ("rtl8169_pol", "rtl8169_poll"),
        ("rtl_rx", "is inlined"),
        ("rtl8169_poll+2", "the nearest are at"),
        ("rtl8169_poll+0x100000", "its last instruction is"),
        ("r8169_main.c:1", "the nearest: r8169_main.c:"),
        ("nothing.c:1", "nothing.c"),
        ("read Nothing", "IntrStatus"),
    ] {
        let error = error(place);
        assert!(error.contains(says), "{place}: {error}");
    }
}

#[test]
fn a_place_counts_only_where_the_conditions_hold() {
    let run = |flags: &[&str]| {
        let conclusion = run_unmodified::<At>(flags).unwrap();
        let row = rows(&conclusion)[0].clone();
        (text(&row, "verdict").to_owned(), text(&row, "evidence").to_owned(), row)
    };
    // The handler shuts the mask and schedules the poll.
    let (verdict, ..) = run(&["rtl8169_interrupt", "--if", "napi=idle", "--if", "IntrStatus&1"]);
    assert_eq!(verdict, "accounted");
    let in_poll = ["rtl8169_poll", "--if", "mask=shut", "--if", "napi=scheduled", "--if", "0x3c=0"];
    assert_eq!(run(&in_poll).0, "accounted");
    for never in ["mask=open", "napi=idle", "IntrMask&0x21"] {
        let (verdict, evidence, _) = run(&["rtl8169_poll", "--if", never]);
        assert_eq!(verdict, "not reached", "{never}");
        assert!(evidence.contains("the conditions never held"), "{never}: {evidence}");
    }
    // Of all accesses of closing, those behind the first that is made with NAPI disabled.
    let down = ["--operation", "ip link set eth0 down", "--if", "napi=disabled"];
    let (verdict, _, row) = run(&[&["any access"], &down[..]].concat());
    assert_eq!(verdict, "accounted");
    assert!(text(&row, "place").contains("rtl8169_cleanup"), "{row:?}");
}

#[test]
fn conditions_that_cannot_be_are_refused_with_what_there_is() {
    for (condition, says) in [
        ("Nothing=1", "IntrStatus"),
        ("IntrMask=0x10000", "IntrMask of rtl8168 has 16 bits"),
        ("IntrMask&1=2", "never holds"),
    ] {
        let error = run_unmodified::<At>(&["rtl8169_poll", "--if", condition]).err().unwrap();
        assert!(error.to_string().contains(says), "{condition}: {error}");
    }
}

#[test]
fn what_strikes_may_be_the_cable_a_fault_or_a_call() {
    let struck = |flags: &[&str]| {
        let conclusion = run_unmodified::<At>(flags).unwrap();
        let row = rows(&conclusion)[0].clone();
        (row, frames(&conclusion, "handler_stack"))
    };
    let down = ["rtl8169_close", "--operation", "ip link set eth0 down", "--deliver", "link-down"];
    let (row, handler) = struck(&down);
    assert_eq!(text(&row, "verdict"), "accounted");
    assert!(handler.iter().any(|frame| frame.contains("rtl8169_close+0x0")), "{handler:?}");
    let up = ["rtl_open", "--operation", "ip link set eth0 up", "--deliver", "link-up"];
    assert_eq!(text(&struck(&up).0, "verdict"), "accounted");

    // Of what becomes of the driver with these, crates/lab/tests/kernel/faults.rs knows as well.
    for (fault, verdict) in [
        ("fault:dma-error", "hung"),
        ("fault:interrupt-dropped", "hung"),
        ("fault:interrupt-duplicated", "accounted"),
        ("fault:descriptor-crc", "accounted"),
        ("fault:link-flap", "accounted"),
    ] {
        for place in ["rtl8169_poll", "read IntrStatus"] {
            let (row, _) = struck(&[place, "--deliver", fault]);
            assert_eq!(text(&row, "verdict"), verdict, "{fault} at {place}: {row:?}");
        }
    }
    for (place, call) in
        [("rtl8169_poll", "ip link set eth0 down"), ("read IntrStatus", "ethtool -r eth0")]
    {
        let (row, handler) = struck(&[place, "--deliver", &format!("configure:{call}")]);
        assert_eq!(text(&row, "verdict"), "accounted", "{row:?}");
        assert_eq!(row["deferred"], true);
        assert!(text(&row, "handler").starts_with("dev_ioctl+0x0"), "{row:?}");
        assert!(handler.iter().any(|frame| frame.contains("handle_syscall")), "{handler:?}");
    }
}

#[test]
fn what_cannot_meet_an_operation_is_refused() {
    for (striking, operation, says) in [
        ("link-up", "ping", "while the cable is out"),
        ("configure:ip link set eth0 down", "ip link set eth0 up", "one call at a time"),
    ] {
        let flags = ["rtl8169_poll", "--deliver", striking, "--operation", operation];
        let error = run_unmodified::<At>(&flags).err().unwrap().to_string();
        assert!(error.contains(says), "{striking}: {error}");
    }
}

#[test]
fn places_that_the_source_names_are_struck_by_name_and_all_of_them() {
    image();
    let driver = ["--driver", MARKED, "--model", "rtl8168"];
    let at = run::<At>(&[&["here:completed", "--if", "napi=idle"], &driver[..]].concat()).unwrap();
    let row = &rows(&at)[0];
    assert_eq!(text(row, "verdict"), "accounted");
    assert!(text(row, "place").starts_with("rtl8169_poll+"), "{row:?}");
    let error = run::<At>(&[&["here:other"], &driver[..]].concat()).err().unwrap().to_string();
    assert!(error.ends_with("it gives: card_down, completed, taken"), "{error}");

    let all = run::<Explore>(&[&["--here"], &driver[..]].concat()).unwrap();
    assert!(all.failed.is_none(), "{:#?}", all.result.figures);
    let names: Vec<_> = rows(&all).iter().map(|row| text(row, "function")).collect();
    assert_eq!(names, ["here:card_down", "here:completed", "here:taken", "all"]);
    assert!(rows(&all).iter().all(|row| row["reached"] == row["places"]), "{:?}", rows(&all));

    let error = run_unmodified::<Explore>(&["--here"]).err().unwrap().to_string();
    assert!(error.contains("warikomi_here(NAME)"), "{error}");
}

#[test]
fn the_lines_of_the_source_are_counted_with_their_text() {
    let flags = ["--function", "rtl8169_interrupt", "--operation", "ping"];
    let conclusion = run_unmodified::<Explore>(&flags).unwrap();
    let lines = conclusion.result.figures["lines"].as_array().unwrap();
    let of = |key: &str| -> u64 { lines.iter().filter_map(|line| line[key].as_u64()).sum() };
    let all = rows(&conclusion).last().unwrap();
    assert_eq!(of("places"), all["places"].as_u64().unwrap());
    assert_eq!(of("reached"), all["reached"].as_u64().unwrap());
    let reads_status = |line: &&Value| line["text"] == "\t\treturn RTL_R16(tp, IntrStatus);";
    let line = lines.iter().find(reads_status).unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(line["file"], "realtek/r8169_main.c");
    assert_eq!(line["class"], "good");
}

#[test]
fn a_place_that_this_traffic_does_not_reach_is_said_to_be_so() {
    let conclusion = run_unmodified::<At>(&["rtl8169_close"]).unwrap();
    assert_eq!(text(&rows(&conclusion)[0], "verdict"), "not reached");
}

/// At each instruction of the packet path and of closing, with every packet accounted for.
#[test]
fn the_unmodified_driver_loses_nothing_wherever_an_interrupt_strikes() {
    let mut flags = vec!["--operation", "ping", "--operation", "ip link set eth0 down"];
    for function in ["rtl8169_interrupt", "rtl8169_poll", "rtl_rx", "rtl_tx", "rtl8169_close"] {
        flags.extend(["--function", function]);
    }
    let conclusion = run_unmodified::<Explore>(&flags).unwrap();
    let findings = conclusion.result.figures.get("findings");
    assert!(conclusion.failed.is_none(), "{findings:#?}");
    let all = rows(&conclusion).last().unwrap();
    let count = |key: &str| all[key].as_u64().unwrap();
    assert!(count("places") > 500 && count("reached") > count("places") / 3, "{all:?}");
    assert!(count("at_once") > 30 && count("handler_places") > 30, "{all:?}");
    assert_eq!(count("bad"), 0, "{all:?}");
}

#[test]
fn each_register_access_of_an_operation_is_struck_in_turn() {
    let conclusion = run_unmodified::<Explore>(&["--accesses", "--operation", "ping"]).unwrap();
    assert!(conclusion.failed.is_none(), "{:#?}", conclusion.result.figures);
    let row = &rows(&conclusion)[0];
    assert!(row["places"].as_u64().unwrap() >= 8, "{row:?}");
    // How many accesses a ping takes differs a little.
    assert!(2 * row["reached"].as_u64().unwrap() > row["places"].as_u64().unwrap(), "{row:?}");
}

/// Bugs that hang, or let go of, a kernel: a trial starts another one, and waits for the carrier.
const SLOW: [&str; 2] = ["r8169_cancel_sync", "r8169_open_early"];

#[test]
fn planted_bugs_are_found_with_the_place_named() {
    finds(|bug| !SLOW.contains(&bug));
}

#[test]
#[ignore = "minutes, of which `make test` has none to spare"]
fn planted_bugs_that_end_a_kernel_are_found_with_the_place_named() {
    finds(|bug| SLOW.contains(&bug));
}

/// Without a hint: all instructions of the functions that the traffic goes through.
fn finds(wanted: impl Fn(&str) -> bool) {
    for bug in BUGS.iter().filter(|bug| wanted(bug.name)) {
        let mut flags =
            vec!["--driver", bug.name, "--model", "rtl8168", "--operation", bug.operation];
        flags.extend(["--stop-after", "3"]);
        for function in ["rtl8169_interrupt", "rtl8169_poll", "rtl8169_start_xmit", "rtl8169_close"]
        {
            flags.extend(["--function", function]);
        }
        image();
        let conclusion =
            run::<Explore>(&flags).unwrap_or_else(|error| panic!("{}: {error}", bug.name));
        let findings = conclusion.result.figures.get("findings").and_then(Value::as_array);
        let findings = findings.map(Vec::as_slice).unwrap_or_default();
        let is_it = |finding: &&Value| {
            let verdict = finding["verdict"].as_str().unwrap();
            // In what the function calls it is as wrong: a reply is sent from within `napi_complete_done`.
            let stack = finding["stack"].as_array().into_iter().flatten();
            let mut place = stack.chain([&finding["place"]]).filter_map(Value::as_str);
            bug.verdicts.iter().any(|wanted| wanted.to_string() == verdict)
                && place.any(|place| place.starts_with(bug.function))
        };
        let found = findings.iter().find(is_it);
        let found = found.unwrap_or_else(|| panic!("{}: {findings:#?}", bug.name));
        let again = found["command"].as_str().unwrap();
        assert!(again.contains(bug.name) && again.starts_with("warikomi at"), "{again}");
    }
}

/// What strikes behind the last look at the ring and before the acknowledgement has its interrupt taken, at whatever
/// instruction in between.
#[test]
fn a_gap_is_found_at_each_of_its_instructions_each_time() {
    image();
    let flags = ["--driver", "r8169_ack_late", "--model", "rtl8168", "--operation", "ping"];
    // Places found each time that they were struck, and at all. Where a machine stops us, the packet that asks whether the driver
    // goes on may come into the gap itself, or another interrupt takes the driver out of it: a place outside is wrong now
    // and then, and one inside is right.
    let places = || {
        let function = ["--function", "rtl8169_poll"];
        let conclusion = run::<Explore>(&[&flags[..], &function].concat()).unwrap();
        let findings = conclusion.result.figures.get("findings").and_then(Value::as_array).cloned();
        let findings = findings.into_iter().flatten();
        let (mut each_time, mut at_all) = (Vec::new(), HashSet::new());
        for one in findings {
            let Some(place) = one["place"].as_str() else { continue };
            let (seen, tries) = one["confirmed"].as_str().unwrap().split_once(" of ").unwrap();
            at_all.insert(place.to_owned());
            if seen == tries {
                each_time.push(place.to_owned());
            }
        }
        (each_time, at_all)
    };
    let (found, found_at_all) = places();
    assert!(found.len() > 10, "{found:?}");
    let (second, second_at_all) = places();
    for (each_time, at_all) in [(&found, &second_at_all), (&second, &found_at_all)] {
        let gone: Vec<_> = each_time.iter().filter(|place| !at_all.contains(*place)).collect();
        assert!(gone.is_empty(), "{gone:?} of {found:?} and {second:?}");
    }
    // A target that hangs is followed by another one, which has loaded the driver to another address.
    let again = run::<At>(&[&[&*found[0]], &flags[..], &["--count", "3"]].concat()).unwrap();
    let times = rows(&again).iter().filter(|row| text(row, "verdict") != "accounted");
    assert_eq!(
        times.map(|row| row["times"].as_u64().unwrap()).sum::<u64>(),
        3,
        "{:?}",
        rows(&again)
    );
}

/// The completion of the first answer comes into the gap by itself, and the answers behind it wait.
#[test]
fn what_a_new_target_misses_by_itself_is_not_blamed_on_a_place() {
    let flags = ["rtl8169_poll+0x0", "--driver", "r8169_ack_late", "--model", "rtl8168"];
    image();
    let tried: Vec<_> = (0..10)
        .map(|_| {
            let conclusion = run::<At>(&[&flags[..], &["--operation", "ping"]].concat()).unwrap();
            let warnings = &conclusion.result.warnings;
            let missed = warnings.iter().any(|warning| warning.what.contains("nothing had struck"));
            (text(&rows(&conclusion)[0], "verdict").to_owned(), missed)
        })
        .collect();
    // Not all of them: whether a packet comes into the gap depends on times.
    assert!(tried.iter().filter(|(verdict, _)| verdict == "accounted").count() > 5, "{tried:?}");
    assert!(tried.iter().any(|(_, missed)| *missed), "{tried:?}");
}

#[test]
fn a_bug_is_found_by_a_pair_of_places_with_the_command_that_repeats_it() {
    image();
    let flags = ["--driver", "r8169_last_look", "--model", "rtl8168", "--operation", "ping"];
    // More than one: where a machine stops us a place is late besides.
    let pairs = ["--function", "rtl8169_poll", "--pairs", "--stop-after", "3"];
    let conclusion = run::<Explore>(&[&flags[..], &pairs].concat()).unwrap();
    let findings = conclusion.result.figures.get("findings").and_then(Value::as_array);
    let mut findings = findings.into_iter().flatten();
    let found = findings.find(|finding| finding["verdict"] == Verdict::Stuck.to_string());
    let found = found.unwrap_or_else(|| panic!("{:#?}", conclusion.result.figures));
    let again = found["command"].as_str().unwrap();
    assert!(again.contains(" --then 'rtl8169_poll+"), "{again}");
}

#[test]
fn a_second_interrupt_strikes_behind_the_first() {
    let flags = ["rtl8169_interrupt", "--then", "rtl8169_poll"];
    let row = rows(&run_unmodified::<At>(&flags).unwrap())[0].clone();
    assert_eq!(text(&row, "verdict"), "accounted");
    assert!(text(&row, "place").starts_with("rtl8169_poll+0x0"), "{row:?}");
    assert!(text(&row, "first").starts_with("rtl8169_interrupt+0x0"), "{row:?}");
    // What is not reached behind the first is said to be so, and not that the first was not.
    let flags = ["rtl8169_poll", "--then", "rtl8169_close"];
    let row = rows(&run_unmodified::<At>(&flags).unwrap())[0].clone();
    assert_eq!(text(&row, "verdict"), "not reached");
    assert!(text(&row, "evidence").starts_with("struck at the first place"), "{row:?}");
    let error = run_unmodified::<At>(&[&flags[..], &["--deliver", "link-down"]].concat());
    assert!(error.err().unwrap().to_string().contains("at two places"));
}

#[test]
fn an_exploration_keeps_to_its_conditions() {
    let flags = ["--function", "rtl8169_poll", "--operation", "ping", "--if"];
    let reached = |condition: &str| {
        let conclusion = run_unmodified::<Explore>(&[&flags[..], &[condition]].concat()).unwrap();
        rows(&conclusion).last().unwrap()["reached"].as_u64().unwrap()
    };
    let (shut, open) = (reached("mask=shut"), reached("mask=open"));
    assert!(shut > 5 * open.max(1), "{shut} with the mask shut, {open} with it open");
}
