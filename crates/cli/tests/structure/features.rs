//! What is compiled once, for the command and for all tests. Cargo selects the features of a crate by what is built
//! together: if a test alone asked for one more of a crate that all of ours stand on, all of ours would be compiled
//! again for it, which is minutes of `make test`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What is built as one by `make build`, and by steps of `scripts/test`.
const COMMAND: &[&str] = &["--workspace", "--edges=normal,no-proc-macro"];
const TESTS: [&[&str]; 2] = [
    &["--package=warikomi-lab", "--edges=normal,dev,no-proc-macro"],
    &["--package=warikomi-cli", "--edges=normal,dev,no-proc-macro"],
];

/// The features that each crate is compiled with, by name and version.
fn features(selection: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix=none", "--no-dedupe", "--format={p}|{f}"])
        .args(selection)
        .output()
        .expect("cargo tree works here");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8(tree.stdout).unwrap().lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once('|').unwrap_or_else(|| panic!("{line:?}"));
        all.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    all
}

#[test]
fn tests_compile_nothing_again_that_the_command_is_made_of() {
    let command = features(COMMAND);
    assert!(command.keys().any(|package| package.starts_with("serde_json ")));
    for selection in TESTS {
        let tests = features(selection);
        let differs = command
            .iter()
            .filter_map(|(package, features)| Some((package, features, tests.get(package)?)))
            .filter(|(_, command, tests)| command != tests)
            .map(|(package, command, tests)| format!("{package}: {command:?} and {tests:?}"))
            .collect::<Vec<_>>();
        let none: [&str; 0] = [];
        assert_eq!(differs, none, "{selection:?}: ask for the same features in the workspace");
    }
}
