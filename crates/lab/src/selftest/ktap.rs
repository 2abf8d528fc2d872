//! What a test of the kernel says: KTAP (Documentation/dev-tools/ktap.rst), or one of the two forms that shell scripts
//! have which are older than it. It comes from a guest and is believed in nothing: every text is cut.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use warikomi_protocol::answers::ProgramEnd;

/// Bytes of a case's name, and of what is said of it, at most.
const NAME_BYTES: usize = 200;
const SAID_BYTES: usize = 600;
/// Bytes of a line at most.
const LINE_BYTES: usize = 4 * SAID_BYTES;
/// The case that stands for all of a program.
const WHOLE: &str = "the test as a whole";
/// What a test returns that could not be tried (tools/testing/selftests/kselftest.h).
const SKIPPED: i32 = 4;
/// Cases of a program at most.
pub(super) const MOST_CASES: usize = 2_000;

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should.
    Passed,
    /// It did not.
    Failed,
    /// It was not tried, because something that it needs is not there.
    Skipped,
    /// It failed as it was known to: the test itself says that this device cannot pass it (XFAIL).
    Expected,
}

/// One case of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the test said of it; empty if nothing.
    pub said: String,
}

impl Case {
    /// Of a test as a whole that failed; of what was said, the end counts.
    pub(super) fn of_program(what: &str, said: &str) -> Case {
        let begin = said.len().saturating_sub(SAID_BYTES - NAME_BYTES);
        let end = &said[said.ceil_char_boundary(begin)..];
        case(WHOLE, Outcome::Failed, &format!("{what}; {}", end.trim()))
    }
}

/// What a program says, line by line.
#[derive(Debug, Default)]
pub struct Said {
    cases: Vec<Case>,
    /// Cases that were announced.
    planned: Option<usize>,
    /// What was said since the last result.
    before: String,
    /// Whether the last line was a result behind which stands what is wrong.
    says_why: bool,
    /// A line that has not ended, and whether what follows of it is left out.
    unfinished: String,
    is_too_long: bool,
}

/// The forms of a result: what a line begins with, and what follows of it.
const OLD: [(&str, Outcome); 4] = [
    ("PASS: ", Outcome::Passed),
    ("FAIL: ", Outcome::Failed),
    ("SKIP: ", Outcome::Skipped),
    ("XFAIL: ", Outcome::Expected),
];

/// How net/forwarding/lib.sh ends a line, which begins with `TEST: `.
const BRACKETS: [(&str, Outcome); 4] = [
    ("[ OK ]", Outcome::Passed),
    ("[FAIL]", Outcome::Failed),
    ("[SKIP]", Outcome::Skipped),
    ("[XFAIL]", Outcome::Expected),
];

impl Said {
    /// Takes what has come; gives the number of cases that are known then.
    pub fn push(&mut self, text: &str) -> usize {
        for part in text.split_inclusive('\n') {
            if !self.is_too_long {
                let fits = cut(part, LINE_BYTES - self.unfinished.len());
                self.unfinished.push_str(fits);
                self.is_too_long = fits.len() < part.len();
            }
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.unfinished);
                self.is_too_long = false;
                self.take_line(line.trim_end());
            }
        }
        self.cases.len()
    }

    /// The cases, and how many were announced.
    pub fn end(mut self) -> (Vec<Case>, Option<usize>, String) {
        let line = std::mem::take(&mut self.unfinished);
        self.take_line(line.trim_end());
        (self.cases, self.planned, self.before)
    }

    fn take_line(&mut self, line: &str) {
        if let Some(planned) = line.strip_prefix("1..").and_then(|count| count.parse().ok()) {
            self.planned = Some(planned);
        } else if let Some(case) = ktap(line).or_else(|| old(line)) {
            self.add(case);
        } else if let Some(case) = brackets(line) {
            self.add(case);
            self.says_why = true;
        } else if let (Some(why), true) = (line.strip_prefix('\t'), self.says_why) {
            self.explain(why.trim());
        } else if !line.starts_with("KTAP version") && !line.starts_with("TAP version") {
            let line = line.strip_prefix('#').unwrap_or(line).trim();
            self.keep(line);
        }
    }

    /// Of what was said before a result, the last is what counts.
    fn keep(&mut self, line: &str) {
        self.says_why = false;
        if line.is_empty() {
            return;
        }
        if !self.before.is_empty() {
            self.before.push('\n');
        }
        self.before.push_str(cut(line, SAID_BYTES));
        while self.before.len() > SAID_BYTES {
            let rest = self.before.split_once('\n').map(|(_, rest)| rest.to_owned());
            self.before = rest.unwrap_or_default();
        }
    }

    /// Adds to what was said before the last result, which may be about something else.
    fn explain(&mut self, why: &str) {
        self.says_why = false;
        let Some(case) = self.cases.last_mut() else { return };
        let why = cut(why, SAID_BYTES);
        if case.said.len() + 1 + why.len() > SAID_BYTES {
            case.said.clear();
        }
        if !case.said.is_empty() {
            case.said.push('\n');
        }
        case.said.push_str(why);
    }

    fn add(&mut self, mut case: Case) {
        self.says_why = false;
        let before = std::mem::take(&mut self.before);
        if case.said.is_empty() && case.outcome != Outcome::Passed {
            case.said = before;
        }
        if self.cases.len() < MOST_CASES {
            self.cases.push(case);
        }
    }
}

/// What failed without a result that says so: a program that ended too soon, or did not end.
pub(super) fn unsaid(
    end: &ProgramEnd,
    cases: &[Case],
    planned: Option<usize>,
    rest: &str,
) -> Option<Case> {
    let fails = |case: &Case| case.outcome == Outcome::Failed;
    let what = match end.code {
        _ if end.timed_out => "it did not end in time".to_owned(),
        None => "a signal ended it".to_owned(),
        _ if planned.is_some_and(|planned| planned > cases.len()) => {
            format!("{} of its cases have no result", planned.unwrap_or_default() - cases.len())
        }
        Some(SKIPPED) if cases.is_empty() => {
            return Some(case(WHOLE, Outcome::Skipped, rest));
        }
        // One that failed has said so.
        Some(0 | SKIPPED) if !cases.is_empty() => return None,
        Some(_) if cases.iter().any(fails) => return None,
        Some(0) => "it has no result".to_owned(),
        Some(code) => format!("it returned {code}"),
    };
    Some(Case::of_program(&what, rest))
}

/// `ok 1 name`, `not ok 2 - name # SKIP why`. What is indented belongs to a result that follows it.
fn ktap(line: &str) -> Option<Case> {
    let (ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u64>().ok()?;
    let (name, directive) = match rest.split_once('#') {
        Some((name, directive)) => (name, directive.trim()),
        None => (rest, ""),
    };
    let name = name.trim().trim_start_matches("- ");
    let (word, why) = directive.split_once(' ').unwrap_or((directive, ""));
    let outcome = match word.to_ascii_uppercase().as_str() {
        "SKIP" => Outcome::Skipped,
        "XFAIL" | "TODO" => Outcome::Expected,
        _ if ok => Outcome::Passed,
        _ => Outcome::Failed,
    };
    let said = match outcome {
        Outcome::Skipped | Outcome::Expected => why,
        Outcome::Passed | Outcome::Failed => directive,
    };
    Some(case(name, outcome, said))
}

/// `PASS: eth0: set interface up`, as net/netdevice.sh says it.
fn old(line: &str) -> Option<Case> {
    let (begin, outcome) = OLD.into_iter().find(|(begin, _)| line.starts_with(begin))?;
    Some(case(&line[begin.len()..], outcome, ""))
}

/// `TEST: name    [ OK ]`, as net/forwarding/lib.sh says it.
fn brackets(line: &str) -> Option<Case> {
    let rest = line.strip_prefix("TEST: ")?;
    let (end, outcome) = BRACKETS.into_iter().find(|(end, _)| rest.ends_with(end))?;
    Some(case(&rest[..rest.len() - end.len()], outcome, ""))
}

fn case(name: &str, outcome: Outcome, said: &str) -> Case {
    let name = cut(name.trim(), NAME_BYTES).to_owned();
    Case { name, outcome, said: cut(said.trim(), SAID_BYTES).to_owned() }
}

/// The beginning of a text, no longer than that.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The results of a program, as they are written.
pub(super) struct Program<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its cases.
    pub(super) cases: &'a [Case],
    /// Why each that failed may, if that is known.
    pub(super) known: &'a dyn Fn(&Case) -> Option<String>,
}

/// Writes KTAP: a result for each program, and its cases indented before it.
pub(super) fn write(out: &mut dyn Write, about: &str, programs: &[Program<'_>]) -> io::Result<()> {
    writeln!(out, "KTAP version 1\n# {about}\n1..{}", programs.len())?;
    for (number, Program { name, cases, known }) in (1..).zip(programs) {
        writeln!(out, "    KTAP version 1\n    1..{}", cases.len())?;
        for (number, case) in (1..).zip(*cases) {
            let why = known(case);
            for line in case.said.lines() {
                writeln!(out, "    # {line}")?;
            }
            let said = case.said.lines().last().unwrap_or_default();
            let (result, directive) = match (case.outcome, why) {
                (Outcome::Passed, _) => ("ok", String::new()),
                (Outcome::Failed, Some(why)) => ("not ok", format!(" # XFAIL {why}")),
                (Outcome::Failed, None) => ("not ok", String::new()),
                (Outcome::Skipped, why) => {
                    ("ok", format!(" # SKIP {}", why.as_deref().unwrap_or(said)))
                }
                (Outcome::Expected, why) => {
                    ("ok", format!(" # XFAIL {}", why.as_deref().unwrap_or(said)))
                }
            };
            writeln!(out, "    {result} {number} {}{directive}", case.name.replace('#', " "))?;
        }
        let failed = |case: &Case| case.outcome == Outcome::Failed && known(case).is_none();
        let result = if cases.iter().any(failed) { "not ok" } else { "ok" };
        writeln!(out, "{result} {number} {name}")?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "ktap_tests.rs"]
mod tests;
