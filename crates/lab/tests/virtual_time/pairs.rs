//! Two interrupts at two places: a bug that shows only with both, and pairs that are explored in shards.

use std::fs;
use std::path::Path;

use serde_json::Value;
use warikomi_lab::at::At;
use warikomi_lab::explore::Explore;
use warikomi_lab::{Conclusion, Error, Experiment, NewRun, ShardDirectory, Watch};
use warikomi_measure::layout::Object;
use warikomi_measure::{RunDirectory, TimeBase};
use warikomi_target::Interrupted;
use warikomi_testbench::LOOKS_ONCE;

use crate::copies::Changes;
use crate::{on, on_image, planted_image};

/// The mask is open while a poll looks at the rings, and the handler leaves what comes meanwhile to the poll, which looks
/// once more if a frame was among it. If one comes during that look, too, the handler goes on leaving all to a poll that
/// has ended. The shape: `if` where it must be `while`. One interrupt alone never shows it: there is a second look
/// only if the first was interrupted, and the second ends well unless it is interrupted, too.
pub(crate) const CHANGES: Changes = &[
    ("	u32 irq_mask;\n	int irq;\n", "	u32 irq_mask;\n	bool looks;\n	bool noted;\n	int irq;\n"),
    (
        "	rtl_irq_disable(tp);\n	napi_schedule(&tp->napi);\nout:\n",
        "	if (tp->looks) {
		if (status & RxOK)
			tp->noted = true;
		goto out;
	}
	rtl_irq_disable(tp);
	napi_schedule(&tp->napi);
out:
",
    ),
    (
        "	int work_done;

	rtl_tx(dev, tp, budget);

	work_done = rtl_rx(dev, tp, budget);

	if (work",
        "	unsigned long flags;
	int work_done;

	tp->noted = false;
	tp->looks = true;
	rtl_irq_enable(tp);
	rtl_tx(dev, tp, budget);

	work_done = rtl_rx(dev, tp, budget);

	local_irq_save(flags);
	tp->looks = tp->noted;
	local_irq_restore(flags);
	if (tp->looks) {
		tp->noted = false;
		rtl_tx(dev, tp, budget);
		work_done += rtl_rx(dev, tp, budget - work_done);
		local_irq_save(flags);
		tp->looks = tp->noted;
		local_irq_restore(flags);
	}

	if (work",
    ),
];

const COPY: [&str; 6] = ["--driver", LOOKS_ONCE, "--model", "rtl8168", "--operation", "ping"];

/// What is explored of the copy: its poll and, functions of their own here, what looks at the rings.
const FUNCTIONS: [&str; 6] =
    ["--function", "rtl8169_poll", "--function", "rtl_rx", "--function", "rtl_tx"];

fn explored(flags: &[&[&str]]) -> Conclusion {
    let explore = on::<Explore>(planted_image(), &flags.concat());
    explore.run(&mut Watch::unobserved()).unwrap_or_else(|error| panic!("{error}"))
}

fn findings(conclusion: &Conclusion) -> &[Value] {
    let findings = conclusion.result.figures.get("findings").and_then(Value::as_array);
    findings.map(Vec::as_slice).unwrap_or_default()
}

/// The last row, which is that of all places.
fn all(conclusion: &Conclusion) -> &Object {
    conclusion.result.rows.as_ref().and_then(|rows| rows.last()).unwrap()
}

#[test]
fn a_bug_that_no_single_interrupt_shows_is_found_by_two() {
    let alone = explored(&[&COPY, &FUNCTIONS]);
    assert!(alone.failed.is_none(), "{:#?}", findings(&alone));
    let count = |key: &str| all(&alone)[key].as_u64().unwrap();
    assert!(count("reached") > 150 && count("at_once") > 100, "{:?}", all(&alone));

    let poll = ["--function", "rtl8169_poll", "--pairs", "--stop-after", "1"];
    let pairs = explored(&[&COPY, &poll]);
    assert!(matches!(pairs.failed, Some(Error::Found { places: 1 })));
    let [found] = findings(&pairs) else { panic!("{:#?}", findings(&pairs)) };
    assert_eq!(found["verdict"], "hung", "{found:#?}");
    let [place, then] = ["place", "then"].map(|key| found[key].as_str().unwrap());
    assert!(found["command"].as_str().unwrap().contains(&format!("--then '{then}'")), "{found}");

    // Once more by both, and by each alone.
    let verdict = |place: &str, flags: &[&str]| {
        let at = on::<At>(planted_image(), &[&[place], &COPY[..], flags].concat());
        at.run(&mut Watch::unobserved()).unwrap().result.rows.unwrap()[0]["verdict"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(verdict(place, &["--then", then]), "hung");
    assert_eq!(verdict(place, &[]), "accounted");
    // To the second look it does not come without a first interrupt.
    assert_eq!(verdict(then, &[]), "not reached");
}

fn new_run(runs: &Path) -> NewRun {
    NewRun { runs: runs.to_owned(), name: "explore".into(), now_s: 0, plan: "# plan".into() }
}

/// Pairs of the unmodified driver's handler.
fn pairs_of_the_handler(watch: &mut Watch) -> Result<Conclusion, Error> {
    let flags = ["--function", "rtl8169_interrupt", "--pairs", "--operation", "ping"];
    on_image::<Explore>(&flags).run(watch)
}

/// Makes a shard of them.
fn shard(runs: &Path, number: &str) -> ShardDirectory {
    let watch = Watch::of_new_run(Interrupted::default(), Box::new(|_| ()), new_run(runs));
    let mut watch = watch.with_shard(Some(number.parse().unwrap()));
    match pairs_of_the_handler(&mut watch) {
        Err(Error::ShardMade(made)) => {
            ShardDirectory { path: watch.end().unwrap().path().to_owned(), made: *made }
        }
        other => panic!("a shard ends at its cases: {:?}", other.err()),
    }
}

/// Every place with all that is known of it.
fn places(conclusion: Conclusion, runs: &Path) -> String {
    let directory = RunDirectory::create(runs, 1, "explore").unwrap();
    conclusion.keep(&directory).unwrap();
    fs::read_to_string(directory.path().join("places.csv")).unwrap()
}

#[test]
fn shards_of_pairs_make_the_very_result_of_the_whole_run() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path();
    let shards = ["2/3", "1/3", "3/3"].map(|number| shard(runs, number));
    let show = Box::new(|_: warikomi_lab::Progress<'_>| ());
    let merged = Watch::of_merged_run(Interrupted::default(), show, new_run(runs), shards.to_vec());
    let merged = pairs_of_the_handler(&mut merged.unwrap()).unwrap();
    let whole = pairs_of_the_handler(&mut Watch::unobserved()).unwrap();

    assert_eq!(merged.result.time_base, TimeBase::Virtual);
    assert_eq!(merged.result.rows, whole.result.rows);
    assert_eq!(merged.result.target, whole.result.target);
    let figures = |conclusion: &Conclusion| {
        let mut figures = conclusion.result.figures.clone();
        figures.remove("trials_per_second").expect("it is real time");
        figures
    };
    assert_eq!(figures(&merged), figures(&whole));
    assert!(all(&whole)["reached"].as_u64().unwrap() > 100, "{:?}", all(&whole));
    assert_eq!(places(merged, runs), places(whole, runs));
}

#[test]
fn shards_do_not_stop_after_what_others_find() {
    let runs = tempfile::tempdir().unwrap();
    let watch = Watch::of_new_run(Interrupted::default(), Box::new(|_| ()), new_run(runs.path()));
    let mut watch = watch.with_shard(Some("1/2".parse().unwrap()));
    let flags = ["--function", "rtl8169_interrupt", "--stop-after", "1"];
    let error = on_image::<Explore>(&flags).run(&mut watch).err().unwrap().to_string();
    assert!(error.contains("--stop-after"), "{error}");
}
