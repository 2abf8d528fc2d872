use std::fs;

use proptest::prelude::*;
use warikomi_measure::{Machine, Shard};
use warikomi_target::Interrupted;

use super::*;
use crate::journal::NewRun;
use crate::watch::Watch;

fn new_run(runs: &Path) -> NewRun {
    NewRun { runs: runs.to_owned(), name: "test".into(), now_s: 0, plan: "# plan".into() }
}

fn begin(runs: &Path) -> Watch {
    Watch::of_new_run(Interrupted::default(), Box::new(|_| ()), new_run(runs))
}

/// A run: a step that finds the cases, then a row for each; what it has made itself is noted.
fn rows(cases: u64, watch: &mut Watch, made: &mut Vec<u64>) -> Result<Vec<u64>, Error> {
    let cases: Vec<u64> = watch.step("cases", |_| Ok((0..cases).collect()))?;
    watch.each(&cases, u64::to_string, |case, _| {
        made.push(*case);
        Ok(case * case)
    })
}

/// Makes a shard of a run with this number of cases.
fn shard(runs: &Path, shard: &str, cases: u64) -> ShardDirectory {
    let mut watch = begin(runs).with_shard(Some(shard.parse().unwrap()));
    match rows(cases, &mut watch, &mut Vec::new()) {
        Err(Error::ShardMade(made)) => {
            ShardDirectory { path: watch.end().unwrap().path().to_owned(), made: *made }
        }
        other => panic!("a shard ends at its cases: {other:?}"),
    }
}

fn merged(runs: &Path, shards: &[ShardDirectory]) -> Result<Watch, Error> {
    let show = Box::new(|_: crate::Progress<'_>| ());
    Watch::of_merged_run(Interrupted::default(), show, new_run(runs), shards.to_vec())
}

fn refused(shards: &[ShardDirectory]) -> String {
    let runs = tempfile::tempdir().unwrap();
    merged(runs.path(), shards).err().expect("they do not make a run").to_string()
}

/// Changes the steps of a shard.
fn change(shard: &ShardDirectory, change: impl Fn(&str) -> String) {
    let path = shard.path.join(STEPS);
    fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
}

#[test]
fn shards_make_the_run_that_one_makes() {
    let runs = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    let whole = rows(7, &mut begin(runs.path()), &mut made).unwrap();
    assert_eq!(made.len(), 7);
    // In any order.
    let shards = ["3/3", "1/3", "2/3"].map(|text| shard(runs.path(), text, 7));
    assert_eq!(shards.clone().map(|shard| shard.made.cases), [2, 3, 2]);
    let mut watch = merged(runs.path(), &shards).unwrap();
    let mut again = Vec::new();
    assert_eq!(rows(7, &mut watch, &mut again).unwrap(), whole);
    assert!(again.is_empty(), "{again:?}");
    let mut result = RunResult::new("test", TimeBase::Real, Machine::default());
    watch.note_shards(&mut result).unwrap();
    assert_eq!(result.shards.iter().map(|made| made.shard.number()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(result.shards.iter().all(|made| made.machine.kernel.is_some()), "where it was made");
    let directory = watch.end().unwrap();
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "plan.toml alone: {left:?}");
}

#[test]
fn cases_of_several_steps_are_put_together_by_their_cases() {
    let search = |watch: &mut Watch| {
        watch.each_of_steps(&[3u64, 1, 2], |steps, watch| {
            let made = (0..*steps).map(|step| watch.step(&format!("{steps} {step}"), |_| Ok(step)));
            made.sum::<Result<u64, Error>>()
        })
    };
    let runs = tempfile::tempdir().unwrap();
    let shards = ["1/2", "2/2"].map(|text| {
        let mut watch = begin(runs.path()).with_shard(Some(text.parse().unwrap()));
        let Err(Error::ShardMade(made)) = search(&mut watch) else { panic!("it is a shard") };
        ShardDirectory { path: watch.end().unwrap().path().to_owned(), made: *made }
    });
    let mut watch = merged(runs.path(), &shards).unwrap();
    assert_eq!(search(&mut watch).unwrap(), [3, 0, 1]);
}

#[test]
fn a_shard_that_is_missing_or_there_twice_is_named() {
    let runs = tempfile::tempdir().unwrap();
    let make = |text| shard(runs.path(), text, 5);
    let (first, second, third) = (make("1/4"), make("2/4"), make("3/4"));
    assert!(refused(&[first.clone(), third.clone()]).contains("missing: shards 2, 4 of 4"));
    assert!(refused(&[first.clone(), second.clone(), third]).contains("missing: shard 4 of 4"));
    let again = make("1/4");
    let said = refused(&[first.clone(), second, again.clone()]);
    let path = |shard: &ShardDirectory| shard.path.display().to_string();
    assert!(said.contains(&path(&first)) && said.contains(&path(&again)), "{said}");
    assert!(said.contains("so is"), "{said}");
    assert!(refused(&[]).contains("nothing to merge"));
}

#[test]
fn a_shard_of_another_run_is_named() {
    let runs = tempfile::tempdir().unwrap();
    let first = shard(runs.path(), "1/2", 5);
    for (other, expected) in [
        (shard(runs.path(), "2/3", 5), "one of 3 shards"),
        (shard(runs.path(), "2/2", 6), "a run of 6 cases"),
    ] {
        let said = refused(&[first.clone(), other.clone()]);
        let named = said.contains(&other.path.display().to_string());
        assert!(named && said.contains(expected), "{said}");
    }
    let other = shard(runs.path(), "2/2", 5);
    change(&other, |steps| steps.replacen("[0,1,2,3,4]", "[0,1,2,3,5]", 1));
    assert!(refused(&[first.clone(), other]).contains("before its cases"));
}

#[test]
fn shards_of_other_targets_are_told_apart() {
    let runs = tempfile::tempdir().unwrap();
    let on = |number: &str, kernel: &str, gro: bool| {
        let made = shard(runs.path(), number, 5);
        let seen = json!({ "target": {
            "kind": "kernel", "driver": "r8169", "model": "rtl8168", "kernel": kernel,
            "settings": { "gro": gro },
        }});
        change(&made, |steps| steps.replace("\"seen\":null", &format!("\"seen\":{seen}")));
        made
    };
    let first = on("1/2", "6.1", true);
    let said = refused(&[first.clone(), on("2/2", "6.12", true)]);
    assert!(said.contains("Linux 6.12") && said.contains("Linux 6.1)"), "{said}");
    let said = refused(&[first.clone(), on("2/2", "6.1", false)]);
    assert!(said.contains("gro of the target is false in it, and true"), "{said}");
    assert!(merged(runs.path(), &[first, on("2/2", "6.1", true)]).is_ok());
}

#[test]
fn steps_that_are_not_those_of_the_shard_are_refused() {
    let runs = tempfile::tempdir().unwrap();
    let make = |text| shard(runs.path(), text, 5);
    let first = make("1/2");
    let with = |how: &dyn Fn(&str) -> String| {
        let second = make("2/2");
        change(&second, how);
        refused(&[first.clone(), second])
    };
    let lines = |steps: &str, count| steps.split_inclusive('\n').take(count).collect::<String>();
    assert!(with(&|steps| lines(steps, 2)).contains("not those of all cases"));
    assert!(with(&|steps| steps.replace("\"case\":1", "\"case\":2")).contains("not those"));
    assert!(with(&|steps| steps.replace("\"case\":3,", "")).contains("not those"));
    assert!(with(&|steps| steps.trim_end().to_owned()).contains("cut off"));
    assert!(with(&|_| "nonsense\n".to_owned()).contains("line 1"));
    assert!(with(&|_| String::new()).contains("not those"));
    let second = make("2/2");
    fs::remove_file(second.path.join(STEPS)).unwrap();
    assert!(refused(&[first.clone(), second]).contains(STEPS));
    // A number of cases that no file has.
    let mut second = make("2/2");
    (second.made.cases, second.made.of_cases) = (u64::MAX / 2, u64::MAX);
    let mut other = first;
    other.made.of_cases = u64::MAX;
    assert!(refused(&[other, second]).contains("not those"));
}

#[test]
fn a_run_that_asks_for_other_steps_is_not_made_of_them() {
    let runs = tempfile::tempdir().unwrap();
    let shards = ["1/2", "2/2"].map(|text| shard(runs.path(), text, 4));
    let mut watch = merged(runs.path(), &shards).unwrap();
    let cases: Vec<u64> = watch.step("cases", |_| unreachable!()).unwrap();
    let mut result = RunResult::new("test", TimeBase::Real, Machine::default());
    let left_over = watch.note_shards(&mut result).unwrap_err();
    assert!(left_over.to_string().contains("begin anew"));
    let made =
        watch.each(&[&cases[..], &[9]].concat(), u64::to_string, |_, _| -> Result<u64, Error> {
            unreachable!()
        });
    let error = made.unwrap_err();
    assert!(error.to_string().contains("no shard has made the step '4 9'"), "{error}");
}

#[test]
fn there_are_no_more_shards_than_cases() {
    let runs = tempfile::tempdir().unwrap();
    let mut watch = begin(runs.path()).with_shard(Some("2/6".parse().unwrap()));
    let error = rows(5, &mut watch, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("2/6") && error.contains("5 cases"), "{error}");
}

#[test]
fn a_shard_that_the_user_stops_is_not_made() {
    let runs = tempfile::tempdir().unwrap();
    let mut watch = begin(runs.path()).with_shard(Some("1/2".parse().unwrap()));
    let made = watch.each(&[1, 2, 3], i32::to_string, |case, watch| {
        watch.interrupted.set();
        Ok(*case)
    });
    assert!(made.unwrap_err().is_interrupted());
}

#[test]
fn machines_that_differ_are_a_warning_in_real_time() {
    let on = |kernel: &str, shard: &str| MadeShard {
        shard: shard.parse().unwrap(),
        cases: 1,
        of_cases: 2,
        machine: Machine { kernel: Some(kernel.into()), ..Machine::default() },
    };
    let warned = |kernels: [&str; 2], time_base| {
        let mut result = RunResult::new("test", time_base, Machine::default());
        note(&[on(kernels[0], "1/2"), on(kernels[1], "2/2")], &mut result);
        describe(&mut result);
        assert_eq!(result.layout.tables[0].name, "shards");
        assert_eq!(RunResult::from_json(&result.to_json()).unwrap(), result);
        !result.warnings.is_empty()
    };
    assert!(warned(["6.1", "6.12"], TimeBase::Real));
    assert!(!warned(["6.1", "6.1"], TimeBase::Real));
    assert!(!warned(["6.1", "6.12"], TimeBase::Virtual));
}

proptest! {
    // Files of many runs.
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_number_of_shards_makes_the_same_run(cases in 1..20u64, of in 1..10u64) {
        let of = of.min(cases);
        let runs = tempfile::tempdir().unwrap();
        let shards: Vec<_> =
            (1..=of).map(|number| shard(runs.path(), &format!("{number}/{of}"), cases)).collect();
        let numbers = shards.iter().map(|shard| shard.made.shard).collect::<Vec<Shard>>();
        prop_assert!(numbers.is_sorted());
        let mut watch = merged(runs.path(), &shards).unwrap();
        let squares: Vec<u64> = (0..cases).map(|case| case * case).collect();
        prop_assert_eq!(rows(cases, &mut watch, &mut Vec::new()).unwrap(), squares);
    }
}
