//! `plan.toml`: the flags of a run, under the names that they have on the command line. Flags and plan have
//! one definition, so every run can be repeated with `warikomi run plan.toml`.
//!
//! The file names the experiment and has a table of flags. A value is what would be typed, with its unit;
//! several values are a list; a flag without a value is `true`. Defaults are written down, too, so that a
//! later version with other defaults repeats the same run.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use warikomi_measure::Shard;
use warikomi_shared::{check_directory, open_own, read_text};

/// Flags that say what is done with a run, and not what it is.
const NOT_PLANNED: &[&str] = &["help", "version", "runs", "json", "resume"];

/// The longest plan that is read, in bytes.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// What a run was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanFile {
    /// The subcommand.
    experiment: String,
    /// The version of Warikomi that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warikomi: Option<String>,
    /// Its flags by their long names, and its positional arguments by their own.
    #[serde(default)]
    flags: Table,
}

impl PlanFile {
    /// Of a command line that has been parsed. Paths become absolute, so that the plan can be run from
    /// anywhere.
    ///
    /// Nothing for a command that is no experiment.
    pub(crate) fn of(command: &Command, matches: &ArgMatches) -> Result<Option<PlanFile>> {
        let Some((name, given)) = matches.subcommand() else { return Ok(None) };
        let subcommand = find(command, name)?;
        if !is_experiment(&subcommand) {
            return Ok(None);
        }
        let mut flags = Table::new();
        for argument in planned(&subcommand) {
            if let Some(value) = value_of(argument, given)? {
                flags.insert(key(argument).to_owned(), value);
            }
        }
        let warikomi = Some(env!("CARGO_PKG_VERSION").to_owned());
        Ok(Some(PlanFile { experiment: name.to_owned(), warikomi, flags }))
    }

    /// Reads a plan, which may come from anywhere.
    pub(crate) fn read(path: &Path) -> Result<PlanFile> {
        PlanFile::read_from(path, File::open(path))
    }

    /// Reads the plan of a run that goes on: a file of this user, in a directory of this user.
    pub(crate) fn read_own(directory: &Path) -> Result<PlanFile> {
        let path = directory.join("plan.toml");
        let file =
            check_directory(directory).and_then(|()| open_own(&path, File::options().read(true)));
        PlanFile::read_from(&path, file)
    }

    fn read_from(path: &Path, file: io::Result<File>) -> Result<PlanFile> {
        let text = file.and_then(|file| read_text(file, MAX_PLAN_BYTES));
        let text = text.with_context(|| format!("cannot read the plan {}", path.display()))?;
        PlanFile::from_toml(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of a plan.
    pub(crate) fn from_toml(text: &str) -> Result<PlanFile> {
        toml::from_str(text).context(
            "this is no plan; it has experiment = \"NAME\" and a table [flags] with the flags of that \
             experiment, as in count = 1000",
        )
    }

    /// The shard that it asks for; the plan is of the whole run afterwards.
    pub(crate) fn take_shard(&mut self) -> Result<Option<Shard>> {
        match self.flags.remove("shard") {
            Some(Value::String(text)) => Ok(Some(text.parse()?)),
            Some(_) => bail!("its shard is no text such as 2/4"),
            None => Ok(None),
        }
    }

    /// The first thing in which it differs from another plan.
    pub(crate) fn difference(&self, other: &PlanFile) -> Option<String> {
        let differs = |what: &str, own: &str, other: &str| {
            (own != other).then(|| format!("{what} is {own}, not {other}"))
        };
        let flag = |plan: &PlanFile, name: &str| {
            plan.flags.get(name).map_or("not given".to_owned(), Value::to_string)
        };
        let of_flag =
            |name: &String| differs(&format!("--{name}"), &flag(self, name), &flag(other, name));
        let mut names = self.flags.keys().chain(other.flags.keys());
        differs("the experiment", &self.experiment, &other.experiment)
            .or_else(|| names.find_map(of_flag))
    }

    /// The version of Warikomi that wrote it.
    pub(crate) fn version(&self) -> Option<&str> {
        self.warikomi.as_deref()
    }

    /// The subcommand that it is for.
    pub(crate) fn experiment(&self) -> &str {
        &self.experiment
    }

    /// As the file that [`read`](Self::read) reads.
    pub(crate) fn to_toml(&self) -> Result<String> {
        let text = toml::to_string(self).context("this plan cannot be written down")?;
        Ok(format!("# Run it again: warikomi run plan.toml\n{text}"))
    }

    /// The command line that it stands for. `given` are flags that take the place of the plan's.
    pub(crate) fn command_line(
        &self,
        command: &Command,
        given: &[OsString],
    ) -> Result<Vec<OsString>> {
        let subcommand = find(command, &self.experiment).ok().filter(is_experiment);
        let subcommand = subcommand.ok_or_else(|| no_experiment(command, &self.experiment))?;
        let replaced = replaced_by(&subcommand, given);
        let mut line = vec![command.get_name().into(), self.experiment.clone().into()];
        let mut positional = Vec::new();
        for (name, value) in &self.flags {
            let argument = planned(&subcommand).find(|argument| key(argument) == name);
            let argument = argument.ok_or_else(|| no_flag(&subcommand, name))?;
            if replaced.iter().any(|id| id == argument.get_id().as_str()) {
                continue;
            }
            let typed = typed(argument, value).with_context(|| format!("flag '{name}'"))?;
            if argument.is_positional() { &mut positional } else { &mut line }.extend(typed);
        }
        line.extend_from_slice(given);
        if !positional.is_empty() {
            line.push("--".into());
        }
        line.extend(positional);
        Ok(line)
    }
}

pub(crate) fn find(command: &Command, name: &str) -> Result<Command> {
    // A subcommand knows its defaults only once it has been built.
    let mut command = command.clone();
    command.build();
    command.find_subcommand(name).cloned().ok_or_else(|| anyhow!("there is no command '{name}'"))
}

/// Whether a subcommand is an experiment. They alone go on when they were stopped.
fn is_experiment(subcommand: &Command) -> bool {
    subcommand.get_arguments().any(|argument| argument.get_id() == "resume")
}

fn no_experiment(command: &Command, name: &str) -> anyhow::Error {
    let known: Vec<_> =
        command.get_subcommands().filter(|one| is_experiment(one)).map(Command::get_name).collect();
    anyhow!("there is no experiment '{name}'; there are: {}", known.join(", "))
}

fn planned(subcommand: &Command) -> impl Iterator<Item = &Arg> {
    subcommand.get_arguments().filter(|argument| !NOT_PLANNED.contains(&argument.get_id().as_str()))
}

fn key(argument: &Arg) -> &str {
    argument.get_long().unwrap_or(argument.get_id().as_str())
}

fn no_flag(subcommand: &Command, name: &str) -> anyhow::Error {
    let known: Vec<_> = planned(subcommand).map(key).collect();
    anyhow!("{} has no flag '{name}'; it has: {}", subcommand.get_name(), known.join(", "))
}

/// What was given for this argument, or stands for it by default; nothing if it has no value.
fn value_of(argument: &Arg, given: &ArgMatches) -> Result<Option<Value>> {
    let id = argument.get_id().as_str();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return Ok(given.get_flag(id).then_some(Value::Boolean(true)));
    }
    let Some(raw) = given.get_raw(id) else { return Ok(None) };
    let value = |text: &std::ffi::OsStr| {
        let text = text.to_str().ok_or_else(|| {
            anyhow!("--{} is not text in UTF-8, and cannot be kept in a plan", key(argument))
        })?;
        let path = is_path(argument, text).then(|| std::path::absolute(text)).transpose()?;
        let text = path.as_deref().and_then(Path::to_str).unwrap_or(text);
        // Numbers look like numbers, unless that would change them (007, 1e3).
        let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
        Ok(number.map_or_else(|| Value::String(text.to_owned()), Value::Integer))
    };
    let mut values = raw.map(value).collect::<Result<Vec<_>>>()?;
    let many = matches!(argument.get_action(), ArgAction::Append);
    Ok(match (many, values.len()) {
        (false, 1) => values.pop(),
        _ => Some(Value::Array(values)),
    })
}

/// Whether this value is a path: of an argument that takes nothing else, or of one that takes a name or a
/// path, which has a slash then.
fn is_path(argument: &Arg, text: &str) -> bool {
    let only_paths = ValueParser::path_buf().type_id() == argument.get_value_parser().type_id();
    let hinted = !matches!(argument.get_value_hint(), ValueHint::Unknown | ValueHint::Other);
    !text.is_empty() && (only_paths || hinted && text.contains('/'))
}

/// What would be typed for a value of the plan.
fn typed(argument: &Arg, value: &Value) -> Result<Vec<OsString>> {
    let with_value = |value: &Value| -> Result<OsString> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => bail!("a {} is no value of a flag; write it as text", other.type_str()),
        };
        let flag = argument.get_long().map(|long| format!("--{long}="));
        Ok(format!("{}{text}", flag.unwrap_or_default()).into())
    };
    let takes_none = matches!(argument.get_action(), ArgAction::SetTrue);
    match (value, takes_none) {
        (Value::Boolean(true), true) => Ok(vec![format!("--{}", key(argument)).into()]),
        (Value::Boolean(false), true) => Ok(Vec::new()),
        (_, true) => bail!("it has no value; write true or false"),
        (Value::Array(values), false) => values.iter().map(with_value).collect(),
        (one, false) => Ok(vec![with_value(one)?]),
    }
}

/// The arguments that stand on a command line, and are not there by default.
pub(crate) fn given<'c>(
    subcommand: &'c Command,
    matches: &'c ArgMatches,
) -> impl Iterator<Item = &'c Arg> {
    subcommand.get_arguments().filter(|argument| {
        matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    })
}

/// The arguments of which `words` take the place: those in it, and those that exclude one in it.
fn replaced_by(subcommand: &Command, words: &[OsString]) -> Vec<String> {
    // What is wrong with them is said when all is parsed together.
    let lenient = subcommand.clone().no_binary_name(true).ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(words) else { return Vec::new() };
    let given: Vec<&Arg> = given(subcommand, &matches).collect();
    let excludes = |one: &Arg, other: &Arg| {
        subcommand.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
    };
    let replaced = |argument: &&Arg| {
        given.iter().any(|given| {
            given.get_id() == argument.get_id()
                || excludes(given, argument)
                || excludes(argument, given)
        })
    };
    subcommand.get_arguments().filter(replaced).map(|arg| arg.get_id().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        crate::command(warikomi_lab::EXPERIMENTS)
    }

    fn plan_of(line: &[&str]) -> PlanFile {
        let line = [&["warikomi"], line].concat();
        let matches = command().try_get_matches_from(line).unwrap();
        PlanFile::of(&command(), &matches).unwrap().unwrap()
    }

    /// The plan of the command line that a plan stands for.
    fn again(plan: &PlanFile, given: &[&str]) -> PlanFile {
        let read = PlanFile::from_toml(&plan.to_toml().unwrap()).unwrap();
        let given: Vec<OsString> = given.iter().map(OsString::from).collect();
        let line = read.command_line(&command(), &given).unwrap();
        let matches = command().try_get_matches_from(line).unwrap();
        PlanFile::of(&command(), &matches).unwrap().unwrap()
    }

    #[test]
    fn one_value_of_what_has_become_a_list_is_read_as_that() {
        let older = "experiment = \"receive\"\n[flags]\nload = \"0.25\"\ntarget = \"process\"\n";
        let line = PlanFile::from_toml(older).unwrap().command_line(&command(), &[]).unwrap();
        let matches = command().try_get_matches_from(line).unwrap();
        let today = PlanFile::of(&command(), &matches).unwrap().unwrap();
        assert_eq!(today.flags["load"].as_array().unwrap(), &[Value::from("0.25")]);
    }

    /// Each flag with a form of its own is in one of them; and one for each experiment that does not run without.
    const LINES: &[&[&str]] = &[
        &["inject"],
        &["inject", "--fault", "dma-error:at=1ms", "--fault", "link-flap:at=5ms,for=2ms"],
        &["inject", "--target", "process", "--strategy", "hybrid:140us", "--interval", "0"],
        &["inject", "--kernel", "/bin/true", "--driver-parameter", "a=b,c", "--gro", "off"],
        &["sweep", "--sizes", "60,1500", "--line-rate", "1G", "--curve", "4"],
        &["accuracy", "--no-smallest", "--interval", "200us"],
        &["accuracy", "--arrival", "fitted-real-nic", "--seed", "7", "--no-smallest"],
        &["cost", "--sizes", "4096"],
        &["receive", "--target", "process", "--virtual", "--polls", "100,140", "--load", "0.6"],
        &["receive", "--target", "process", "--stall", "100ms:every=1s:random", "--real-time"],
        &["receive", "--target", "process", "--claim", "line-doubled", "--whole-messages"],
        &["receive", "--target", "process", "--quota", "12.5%"],
        &["receive", "--target", "process", "--application", "/bin/true", "--own-compute"],
        &["receive", "--target", "process", "--load", "0.1,0.9"],
        &["receive", "--virtual", "--frame-cost", "3us", "--cpu-speed", "2"],
        &["round-trip", "--strategies", "hybrid,poll", "--polls", "5,100", "--delay", "2us"],
        &["replay", "trace.wkt", "--virtual", "--costs", "costs.toml", "--byte-cost", "150ps"],
        &["receive", "--buffers", "7MB,64KiB", "--calibration", "300ms", "--poisson"],
        &["transmit", "--completions", "interrupt,adaptive:10%,30%", "--mixture", "64x10,1472x5"],
        &["transmit", "--cards", "oc48,ge10", "--systems", "mbuf-2k,contiguous"],
        &["transmit", "--cards", "ge10", "--mtu", "1500", "--senders", "tcp", "--tso", "off,on"],
        &["transmit", "--mixed", "--phase", "64", "--phase", "64x10,1472x5/compute=5us"],
        &["transmit", "--mixed", "--completions", "interrupt,adaptive-watching:10%,30%"],
        &["transmit", "--mixed", "--receive-interval", "none", "--duration", "5ms"],
        &["transmit", "--mixture", "random", "--mixture", "random:64,1500", "--rate", "100M"],
        &["transmit", "--target", "kernel", "--interrupts", "napi,coalesce:100us/32"],
        &["transmit", "--both", "--costs", "fitted-bsd-2004", "--bus", "fitted-2004,wait=60ns"],
        &["replace", "--way", "shared-state", "--every", "20ms", "--count", "7", "--kill"],
        &["replace", "--target", "kernel"],
        &["record", "--export", "pcapng", "--count", "12"],
        &["replay", "--speed", "2", "a trace.wkt"],
        &["replay", "--virtual", "--until", "rtl_rx+0x1c", "--nth", "3", "--gdb", "a.wkt"],
        &["at", "--virtual", "rtl8169_poll", "--then", "read IntrStatus"],
        &["histories", "--faults", "--shard", "2/3"],
        &["histories", "--bursts", "2", "--without", "kill:1", "--without", "sends"],
        &["selftest", "--driver", "r8169,igb", "--only", "ping.py", "--limit", "60"],
        &["soak", "--for", "10min", "--seeds", "3,1000..", "--shrink"],
        &["at", "rtl8169_poll+0x10", "--nth", "3", "--deliver", "interrupt"],
        &["explore", "--function", "rtl8169_close", "--stop-after", "7"],
    ];

    #[test]
    fn every_experiment_stands_in_its_plan_with_every_flag() {
        let names: Vec<_> = warikomi_lab::EXPERIMENTS.iter().map(|entry| [entry.name]).collect();
        let alone = |name: &&[&str; 1]| {
            command().try_get_matches_from([&["warikomi"], &name[..]].concat()).is_ok()
        };
        for [name] in names.iter().filter(|name| !alone(name)) {
            assert!(LINES.iter().any(|line| line[0] == *name), "{name} has no line here");
        }
        let bare = names.iter().filter(alone).map(|name| &name[..]);
        for line in LINES.iter().copied().chain(bare) {
            let plan = plan_of(line);
            assert_eq!(again(&plan, &[]), plan, "{line:?}");
            for flag in line.iter().filter_map(|word| word.strip_prefix("--")) {
                assert!(plan.flags.contains_key(flag), "{flag}: {plan:?}");
            }
        }
    }

    #[test]
    fn the_name_of_several_loads_is_that_of_one() {
        let plan_of_loads = |flag| plan_of(&["receive", "--target", "process", flag, "0.1,0.9"]);
        assert_eq!(plan_of_loads("--loads"), plan_of_loads("--load"));
    }

    #[test]
    fn defaults_are_kept_and_where_it_is_kept_is_not() {
        let plan = plan_of(&["inject", "--json", "--runs", "elsewhere"]);
        let text = plan.to_toml().unwrap();
        assert!(text.contains("count = 1000") && text.contains("interval = \"38us\""), "{text}");
        assert!(!text.contains("json") && !text.contains("elsewhere"), "{text}");
    }

    #[test]
    fn paths_can_be_read_from_anywhere() {
        let here = std::env::current_dir().unwrap();
        let absolute = |name: &str| Value::String(here.join(name).to_str().unwrap().to_owned());
        assert_eq!(plan_of(&["replay", "a.wkt"]).flags["file"], absolute("a.wkt"));
        let plan = plan_of(&["inject", "--target", "process", "--driver", "dir/mine"]);
        assert_eq!(plan.flags["driver"], absolute("dir/mine"));
        assert_eq!(
            plan_of(&["inject", "--driver", "r8169"]).flags["driver"].as_str(),
            Some("r8169")
        );
    }

    #[test]
    fn flags_behind_a_plan_take_the_place_of_its_own_and_of_what_they_exclude() {
        let plan = plan_of(&["transmit", "--sizes", "64,128", "--interval", "10us"]);
        let other = again(&plan, &["--sizes", "1500", "--rate", "100M", "--both"]);
        assert_eq!(other.flags["sizes"], Value::Array(vec![Value::Integer(1_500)]));
        assert!(!other.flags.contains_key("interval") && other.flags.contains_key("both"));
        let replay = again(&plan_of(&["replay", "a.wkt"]), &["--expect-same"]);
        assert_eq!(replay.flags["expect-same"], Value::Boolean(true));
    }

    #[test]
    fn what_is_no_plan_is_refused_with_what_is() {
        let refused = |text: &str| {
            let plan = PlanFile::from_toml(text);
            let line = plan.and_then(|plan| plan.command_line(&command(), &[]));
            format!("{:#}", line.unwrap_err())
        };
        assert!(refused("size_bytes = 1500").contains("experiment ="));
        assert!(refused("experiment = \"live\"").contains("inject, sweep"));
        assert!(refused("experiment = \"inject\"\n[flags]\nsize_bytes = 1").contains("it has: "));
        assert!(
            refused("experiment = \"inject\"\n[flags]\nruns = \"x\"").contains("no flag 'runs'")
        );
        assert!(refused("experiment = \"inject\"\n[flags]\ncount = true").contains("as text"));
        assert!(refused("experiment = \"record\"\n[flags]\ncount = {}").contains("as text"));
        assert!(refused("experiment = \"replace\"\n[flags]\nkill = 1").contains("true or false"));
        let missing = PlanFile::read(Path::new("/nonexistent")).unwrap_err();
        assert!(missing.to_string().contains("cannot read the plan /nonexistent"));
        // Neither has a length that says how much there is to read.
        let endless = PlanFile::read(Path::new("/dev/zero")).unwrap_err();
        assert!(format!("{endless:#}").contains("more than 1048576 bytes"), "{endless:#}");
    }

    #[test]
    fn a_run_goes_on_with_a_plan_of_its_own_alone() {
        let (run, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plan = elsewhere.path().join("plan.toml");
        std::fs::write(&plan, "experiment = \"inject\"").unwrap();
        std::os::unix::fs::symlink(&plan, run.path().join("plan.toml")).unwrap();
        let refused = format!("{:#}", PlanFile::read_own(run.path()).unwrap_err());
        assert!(refused.contains("symbolic link"), "{refused}");
        assert!(PlanFile::read(&run.path().join("plan.toml")).is_ok());
        assert_eq!(PlanFile::read_own(elsewhere.path()).unwrap().experiment(), "inject");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_plan_or_an_error(text in ".*", value in ".*") {
            let _ = PlanFile::from_toml(&text);
            let flags = Table::from_iter([("size".to_owned(), Value::String(value))]);
            let plan = PlanFile { experiment: "inject".into(), warikomi: None, flags };
            let read = PlanFile::from_toml(&plan.to_toml().unwrap()).unwrap();
            proptest::prop_assert_eq!(&read, &plan);
            let line = read.command_line(&command(), &[]).unwrap();
            // Whatever the value is, it stays the value of its flag.
            proptest::prop_assert_eq!(line.len(), 3);
        }
    }
}
