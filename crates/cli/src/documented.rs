//! That the command line takes every command that the documentation shows.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use crate::command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// How processes of a target greet each other: no command, and written as one.
const GREETINGS: &[&str] = &["warikomi driver 2", "warikomi part 1"];

/// The pages that a user reads.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("docs/ is there");
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let top = ["README.md", "HACKING.md", "ARCHITECTURE.md"].map(|name| root().join(name));
    docs.chain(top).filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// The commands that a page shows, in blocks of code and between backticks.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut block) = (Vec::new(), false);
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if block {
            let line = line.trim_start().trim_start_matches("$ ");
            found.extend(line.starts_with("warikomi ").then(|| line.to_owned()));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter(|span| span.starts_with("warikomi ")).map(str::to_owned));
        }
    }
    found
}

/// The words of a command, up to a comment or what only a shell knows; nothing if it has a placeholder.
fn words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for letter in command.chars() {
        match letter {
            '\'' | '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("one at least").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    let end = words
        .iter()
        .position(|word| ["#", "|", "&&", ">", "2>", "&", ";", "||"].contains(&word.as_str()));
    words.truncate(end.unwrap_or(words.len()));
    let is_placeholder = |word: &String| {
        let letters = word.chars().filter(|letter| letter.is_alphabetic()).count();
        word.contains("...")
            || word.contains('…')
            || word.contains(['[', ']', '$', '|'])
            || letters > 0
                && word.chars().all(|letter| letter.is_uppercase() || "_/,=-+:".contains(letter))
    };
    (!words.iter().any(is_placeholder)).then_some(words)
}

#[test]
fn every_command_in_the_documentation_is_taken() {
    let (mut tried, mut refused) = (0, Vec::new());
    for path in pages() {
        let page = fs::read_to_string(&path).expect("it can be read");
        for shown in commands(&page) {
            let Some(words) = words(&shown) else { continue };
            if GREETINGS.contains(&shown.as_str()) {
                continue;
            }
            tried += 1;
            let Err(error) = command(warikomi_lab::EXPERIMENTS).try_get_matches_from(&words) else {
                continue;
            };
            // A page may speak of a command without what it needs.
            let spoken_of = [
                ErrorKind::DisplayHelp,
                ErrorKind::DisplayVersion,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::MissingRequiredArgument,
                ErrorKind::MissingSubcommand,
            ];
            if !spoken_of.contains(&error.kind()) {
                refused.push(format!("{}: {shown}\n    {error}", path.display()));
            }
        }
    }
    assert!(tried > 100, "only {tried} commands were found: the pages are read wrongly");
    assert!(refused.is_empty(), "{} are refused:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn commands_are_found_with_their_words() {
    let page = "see `warikomi at 'read X'`\n```sh\n$ warikomi sweep --a \\\n  1   # why\nwarikomi y > z\n```\n`other`\n";
    let found: Vec<_> =
        commands(page).iter().map(|shown| words(shown).unwrap().join(" ")).collect();
    assert_eq!(found, ["warikomi at read X", "warikomi sweep --a 1", "warikomi y"]);
    assert!(words("warikomi report DIR").is_none() && words("warikomi run [PLAN]").is_none());
    assert!(words("warikomi receive --buffers 7MB").is_some());
}
