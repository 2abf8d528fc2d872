//! The shards of a run, put together again: their steps become those of one run, in the order in which it would
//! have made them. Everything that could make the result another one is refused here: a shard that is missing or
//! there twice, one of another number of cases, one that lacks a case, or was made on another target.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warikomi_measure::layout::{Column, Source, Table, Unit};
use warikomi_measure::{MadeShard, RunResult, TargetInfo, TimeBase, Warning};

use crate::cells::object;
use crate::error::Error;
use crate::journal::{MAX_STEPS_BYTES, STEPS, Step, contents, read};

/// The directory of a shard that has ended.
#[derive(Clone, Debug)]
pub struct ShardDirectory {
    /// Its path.
    pub path: PathBuf,
    /// What its result says of it.
    pub made: MadeShard,
}

/// What a shard has kept.
struct Kept {
    path: PathBuf,
    /// Steps before the cases.
    before: Vec<Step<Value>>,
    cases: Vec<Step<Value>>,
}

/// All steps in order, and the shards in order.
pub(crate) fn join(
    mut shards: Vec<ShardDirectory>,
) -> Result<(Vec<Step<Value>>, Vec<MadeShard>), Error> {
    shards.sort_by_key(|directory| directory.made.shard);
    check(&shards)?;
    let mut left_bytes = MAX_STEPS_BYTES;
    let mut kept: Vec<Kept> = Vec::new();
    for directory in &shards {
        let next = keep(directory, &mut left_bytes)?;
        if let Some(first) = kept.first() {
            is_like(&next, first)?;
        }
        kept.push(next);
    }
    let mut cases: Vec<_> = kept.iter_mut().flat_map(|kept| kept.cases.drain(..)).collect();
    cases.sort_by_key(|step| step.case);
    let before = kept.into_iter().next().map_or(Vec::new(), |first| first.before);
    let made = shards.into_iter().map(|directory| directory.made).collect();
    Ok((before.into_iter().chain(cases).collect(), made))
}

fn no_merge(path: &Path, what: impl Into<String>) -> Error {
    Error::NoMerge { path: path.to_owned(), what: what.into() }
}

/// Checks that these shards, in order, are all of one run, each once.
fn check(shards: &[ShardDirectory]) -> Result<(), Error> {
    let Some(first) = shards.first() else {
        return Err(Error::impossible(
            "there is nothing to merge: name the directories of all shards",
        ));
    };
    let of = first.made.shard.of();
    for (before, next) in shards.iter().zip(&shards[1..]) {
        if next.made.shard == before.made.shard {
            let (shard, other) = (next.made.shard, before.path.display());
            return Err(no_merge(&next.path, format!("it is shard {shard}, and so is {other}")));
        }
    }
    for next in shards {
        let (other, path) = (next.made.shard.of(), first.path.display());
        if other != of {
            return Err(no_merge(
                &next.path,
                format!("it is one of {other} shards, and {path} one of {of}"),
            ));
        }
        let (cases, first_cases) = (next.made.of_cases, first.made.of_cases);
        if cases != first_cases {
            let what =
                format!("it is of a run of {cases} cases, and {path} of one of {first_cases}");
            return Err(no_merge(&next.path, what));
        }
    }
    let there = |number: &u32| shards.iter().any(|shard| shard.made.shard.number() == *number);
    let missing: Vec<u32> = (1..=of).filter(|number| !there(number)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::MissingShards { missing: listed(&missing), of }),
    }
}

/// Numbers of shards as text, the first few.
fn listed(numbers: &[u32]) -> String {
    const MOST: usize = 10;
    let named: Vec<_> = numbers.iter().take(MOST).map(u32::to_string).collect();
    let rest = numbers.len().saturating_sub(MOST);
    match named.as_slice() {
        [one] => format!("shard {one}"),
        _ if rest > 0 => format!("shards {} and {rest} more", named.join(", ")),
        several => format!("shards {}", several.join(", ")),
    }
}

/// Reads the steps of a shard, and checks that it has all of its cases and no other.
fn keep(directory: &ShardDirectory, left_bytes: &mut u64) -> Result<Kept, Error> {
    let ShardDirectory { path, made } = directory;
    let steps = path.join(STEPS);
    let text = File::open(&steps).and_then(|file| contents(file, *left_bytes));
    let text = text.map_err(|source| Error::Steps { path: steps, source })?;
    *left_bytes -= text.len() as u64;
    let (mut before, whole) = read(&text).map_err(|error| no_merge(path, error.to_string()))?;
    if whole < text.len() {
        return Err(no_merge(path, "its last step is cut off"));
    }
    let cases_begin = before.iter().position(|step| step.case.is_some()).unwrap_or(before.len());
    let cases = before.split_off(cases_begin);
    let mut numbers: Vec<Option<u64>> = cases.iter().map(|step| step.case).collect();
    numbers.dedup();
    let own = (0..made.of_cases).filter(|case| made.shard.has(*case)).map(Some);
    // Not longer than the file, whatever number of cases it claims.
    if made.cases != numbers.len() as u64 || !own.take(numbers.len() + 1).eq(numbers) {
        let what = format!("its steps are not those of all cases of shard {}", made.shard);
        return Err(no_merge(path, what));
    }
    Ok(Kept { path: path.clone(), before, cases })
}

/// Checks that two shards have the same steps before their cases, and the same target.
fn is_like(kept: &Kept, first: &Kept) -> Result<(), Error> {
    let path = first.path.display();
    let common = |kept: &Kept| -> Vec<_> {
        kept.before.iter().map(|step| (step.step.clone(), step.made.clone())).collect()
    };
    if common(kept) != common(first) {
        let what = format!("what it found out before its cases differs from {path}");
        return Err(no_merge(&kept.path, what));
    }
    let Some(asked) = targets(first).next() else { return Ok(()) };
    match targets(kept).chain(targets(first)).find_map(|target| difference(target, asked)) {
        Some(what) => Err(no_merge(&kept.path, format!("{what} in {path}"))),
        None => Ok(()),
    }
}

/// The targets that the cases of a shard were made on.
fn targets(kept: &Kept) -> impl Iterator<Item = &TargetInfo> {
    kept.cases.iter().filter_map(|step| step.seen.as_ref()).map(|seen| &seen.target)
}

/// In what a target differs from another.
fn difference(target: &TargetInfo, other: &TargetInfo) -> Option<String> {
    let words = |info: &TargetInfo| {
        let TargetInfo { kind, driver, model, kernel, .. } = info;
        let kernel = kernel.as_ref().map_or(String::new(), |kernel| format!(", Linux {kernel}"));
        format!("{driver} on {model} ({kind} target{kernel})")
    };
    let (own, others) = (words(target), words(other));
    if own != others {
        return Some(format!("a case of it was made on {own}, and one on {others}"));
    }
    let name = target
        .settings
        .keys()
        .chain(other.settings.keys())
        .find(|name| target.settings.get(*name) != other.settings.get(*name))?;
    let value =
        |info: &TargetInfo| info.settings.get(name).map_or("absent".into(), Value::to_string);
    Some(format!("{name} of the target is {} in it, and {}", value(target), value(other)))
}

/// Says in a result which shards it is of.
pub(crate) fn describe(result: &mut RunResult) {
    if let Some(made) = &result.shard {
        let MadeShard { shard, cases, of_cases, .. } = made;
        let text = format!(
            "{shard}, with {cases} of {of_cases} cases. Nothing is concluded from them; warikomi merge \
             with the directories of all {} shards makes the result.",
            shard.of()
        );
        result.layout.say("shard", text);
    }
    if !result.shards.is_empty() {
        result.layout.tables.push(table(&result.shards));
    }
}

/// The shards of a merged run, and the machine of each.
fn table(shards: &[MadeShard]) -> Table {
    let row = |made: &MadeShard| {
        let MadeShard { shard, cases, machine, .. } = made;
        object([
            ("shard", json!(shard)),
            ("cases", json!(cases)),
            ("processor", json!(machine.cpu_model)),
            ("cores", json!(machine.logical_cores)),
            ("kernel", json!(machine.kernel)),
            ("stolen_percent", json!(machine.stolen_percent)),
        ])
    };
    Table {
        name: "shards".to_owned(),
        title: "Merged from".to_owned(),
        source: Source::Here(shards.iter().map(row).collect()),
        columns: vec![
            Column::parameter("shard", "shard"),
            Column::figure("cases", "cases").unit(Unit::Count),
            Column::parameter("processor", "processor"),
            Column::parameter("cores", "cores").wide(),
            Column::parameter("kernel", "kernel").wide(),
            Column::figure("stolen_percent", "time stolen by the host").head("stolen").wide(),
        ],
        ..Table::default()
    }
}

/// Notes in a result which shards it is merged from, and warns if figures of some cannot be compared with those
/// of others.
pub(crate) fn note(shards: &[MadeShard], result: &mut RunResult) {
    result.shards = shards.to_vec();
    if result.time_base == TimeBase::Real && !on_one_kind(shards) {
        result.warnings.push(Warning {
            what: "the shards were made on different machines, so figures of cases of different shards \
                   cannot be compared with each other"
                .to_owned(),
            hint: "make all shards on machines of one kind; shards in result.json says what each was made on"
                .to_owned(),
        });
    }
}

fn on_one_kind(shards: &[MadeShard]) -> bool {
    shards.iter().all(|made| made.on_same_machine(&shards[0]))
}

#[cfg(test)]
mod tests;
