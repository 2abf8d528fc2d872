//! That the help of every command says what is to be said, and as it is meant.

use clap::Command;

use crate::command;

/// Every command that help lists and that does something by itself, with its names before it.
fn commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), command(warikomi_lab::EXPERIMENTS))];
    while let Some((before, one)) = open.pop() {
        let name = format!("{before}{} ", one.get_name());
        let below = one.get_subcommands().filter(|below| !below.is_hide_set());
        open.extend(below.map(|below| (name.clone(), below.clone())));
        if !one.is_subcommand_required_set() {
            found.push((name.trim_end().to_owned(), one));
        }
    }
    found
}

/// What it is for is said in one line, and no more is to be said.
const SHORT: &[&str] = &["warikomi kernel list"];

#[test]
fn the_long_help_of_every_command_says_more_than_its_line_in_the_list() {
    let all = commands();
    assert!(all.len() > 20, "only {} commands were found", all.len());
    for (name, one) in all {
        let line = one.get_about().unwrap_or_else(|| panic!("{name} has no line")).to_string();
        assert!(!line.contains('\n'), "{name}: what the list says is one line: {line}");
        // What controls a service is told in the help of `live` itself.
        if SHORT.contains(&name.as_str()) || name.starts_with("warikomi live ") {
            continue;
        }
        let long = one.get_long_about().map(ToString::to_string).unwrap_or_default();
        assert!(long.len() > line.len(), "{name}: --help says no more than -h: {long}");
    }
}

#[test]
fn no_help_has_what_is_meant_for_the_source_alone() {
    for (name, mut one) in commands() {
        let help = one.render_long_help().to_string();
        for mark in ["\\[", "\\]", "[`", "](", "true, false"] {
            assert!(!help.contains(mark), "{name}: '{mark}' is in its help:\n{help}");
        }
    }
}

#[test]
fn a_switch_takes_on_and_off_and_the_words_of_older_plans() {
    let taken = |word: &str| {
        let line = ["warikomi", "inject", "--gro", word];
        command(warikomi_lab::EXPERIMENTS).try_get_matches_from(line).is_ok()
    };
    assert!(["on", "off", "ON", "true", "false", "0", "no"].into_iter().all(taken));
    assert!(!taken("maybe"));
}
