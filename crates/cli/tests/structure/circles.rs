//! No two files of a crate use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

use crate::imports::{Imports, imports};

/// Files that use each other in a circle, and the imports between them, as sentences.
struct Circle {
    files: Vec<PathBuf>,
    imports: Vec<String>,
}

fn circles(imports: &Imports) -> Vec<Circle> {
    let mut uses: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (user, used) in imports.keys() {
        uses.entry(user).or_default().push(used);
    }
    let reachable = |from: &Path| {
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        let mut left = vec![from];
        while let Some(file) = left.pop() {
            let used = uses.get(file).into_iter().flatten();
            left.extend(used.filter(|next| seen.insert(next.to_path_buf())));
        }
        seen
    };
    let reached: BTreeMap<&Path, _> = uses.keys().map(|file| (*file, reachable(file))).collect();
    let reaches =
        |one: &Path, other: &Path| reached.get(one).is_some_and(|all| all.contains(other));
    let mut found: Vec<Circle> = Vec::new();
    for &file in uses.keys().filter(|file| reaches(file, file)) {
        if found.iter().any(|circle| circle.files.iter().any(|known| known == file)) {
            continue;
        }
        let with = |other: &Path| reaches(file, other) && reaches(other, file);
        let files = uses.keys().filter(|other| with(other)).map(|other| other.to_path_buf());
        let within = imports.iter().filter(|((user, used), _)| with(user) && with(used));
        let said = |((user, used), names): (&(PathBuf, PathBuf), &BTreeSet<String>)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{} uses {} of {}", user.display(), names.join(", "), used.display())
        };
        found.push(Circle { files: files.collect(), imports: within.map(said).collect() });
    }
    found
}

#[test]
fn no_two_files_use_each_other_in_a_circle() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata works here");
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let roots: Vec<_> = targets
        .filter(|target| target.is_lib() || target.is_bin())
        .map(|target| target.src_path.as_std_path())
        .collect();
    assert!(roots.len() > 15, "{roots:?}");
    let read = |path: &Path| fs::read_to_string(path).ok();
    let found: Vec<Circle> = roots.iter().flat_map(|root| circles(&imports(root, &read))).collect();
    let said: Vec<_> = found
        .iter()
        .map(|circle| {
            format!("a circle of {} files:\n{}", circle.files.len(), circle.imports.join("\n"))
        })
        .collect();
    assert!(said.is_empty(), "{}", said.join("\n\n"));
}

/// How many files each circle of a crate has that is these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<usize> {
    let source = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new("src").join(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let found = circles(&imports(Path::new("src/lib.rs"), &source));
    found.iter().map(|circle| circle.files.len()).collect()
}

#[test]
fn a_circle_of_imports_is_found() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod c;");
    let straight = [root, ("a.rs", "use crate::b::B; pub struct A(B);")];
    let back = |code| [straight[0], straight[1], ("b.rs", "pub struct B;"), ("c.rs", code)];
    assert_eq!(circles_of(&back("use super::a::A; struct C(A);")), [0; 0]);
    let through_c = ("b.rs", "use super::c; pub struct B; pub fn b() { c::c() }");
    for code in [
        "use crate::a::A; pub fn c() { A::new() }",
        "pub fn c() { super::a::A::new() }",
        "pub fn c() { use super::a; a::A::new() }",
        "use super::a::*; pub fn c(a: A) {}",
        "pub fn c() { println!(\"{}\", super::a::A::new()) }",
    ] {
        let found = circles_of(&[straight[0], straight[1], through_c, ("c.rs", code)]);
        assert_eq!(found, [3], "{code}");
    }
}

#[test]
fn what_is_shown_to_others_belongs_to_the_file_that_defines_it() {
    let root = "mod a;\nmod b;\npub use a::A;";
    let files = |a, root| circles_of(&[("lib.rs", root), ("a.rs", a), ("b.rs", "pub struct B;")]);
    assert_eq!(files("use crate::b::B; pub struct A(B);", root), [0; 0]);
    let b_uses_a = [
        ("lib.rs", root),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use crate::A; pub struct B;"),
    ];
    assert_eq!(circles_of(&b_uses_a), [2]);
    let root_uses_a = "mod a;\nmod b;\npub use a::A;\npub struct Root(A);";
    assert_eq!(files("use crate::Root; pub struct A;", root_uses_a), [2]);
}

#[test]
fn tests_and_children_make_no_circle() {
    let files = [
        ("lib.rs", "mod a;\npub struct Root;\n#[cfg(test)] mod tests { use super::a::A; }"),
        ("a.rs", "use crate::Root; pub struct A(Root);\n#[cfg(test)] mod tests;"),
    ];
    assert_eq!(circles_of(&files), [0; 0]);
}
