//! What the compiler and clippy are told: one table for all crates, and `unsafe` where ARCHITECTURE.md lists it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cargo_metadata::MetadataCommand;

use crate::pages::{Page, root, tree};

/// How an attribute that permits it begins; in two, so that this file is none of those.
const PERMITS: &str = concat!("(unsafe", "_code");

#[test]
fn every_crate_has_the_lints_of_the_workspace_and_none_of_its_own() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata works here");
    assert!(metadata.packages.len() > 20);
    for package in &metadata.packages {
        let text = fs::read_to_string(&package.manifest_path).expect("a manifest can be read");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let inherited = toml::Table::from_iter([("workspace".to_owned(), true.into())]);
        assert_eq!(manifest.get("lints"), Some(&toml::Value::Table(inherited)), "{}", package.name);
    }
}

#[test]
fn unsafe_is_permitted_in_the_listed_files_alone_and_never_for_a_whole_file() {
    let page = Page::read(Path::new("ARCHITECTURE.md"));
    let rows = page.rows("## Errors and hostile input");
    let listed: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| row[0].split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    let mut files = Vec::new();
    tree(root(), &mut files);
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let mut permitted = BTreeSet::new();
    for path in files {
        let text = fs::read_to_string(root().join(&path)).expect("a source can be read");
        for line in text.lines().filter(|line| line.contains(PERMITS)) {
            assert!(line.trim_start().starts_with("#[expect"), "{}: {line}", path.display());
            permitted.insert(path.display().to_string());
        }
    }
    assert_eq!(permitted, listed);
}
