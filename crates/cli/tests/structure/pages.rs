//! What the pages say of the tree: their paths and links lead somewhere, and the tables of ARCHITECTURE.md are
//! those of the workspace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

use crate::LAYERS;

/// Parts of a path that stand for one of the reader's own.
const PLACEHOLDERS: &[&str] = &["NAME", "DIR", "CRATE", "PATH", "RUN", "FILE", "*", "…", "$"];

/// Files of the tree end so. Other names in a page may be of files that a run makes.
const ENDINGS: &[&str] = &[".rs", ".md", ".config", ".h", ".c"];

pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate is in the workspace")
}

/// A page, with its path from the root.
pub(crate) struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    pub(crate) fn read(path: &Path) -> Page {
        let text = fs::read_to_string(root().join(path));
        Page { path: path.to_owned(), text: text.expect("a page can be read") }
    }

    /// Its lines but for those of examples and drawings.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.text.lines().filter(move |line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
    }

    /// Where its links lead.
    fn links(&self) -> impl Iterator<Item = &str> {
        let behind = self.lines().flat_map(|line| line.split("](").skip(1));
        behind.map(|rest| rest.split(')').next().unwrap_or_default())
    }

    /// The places in it that a link can name.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }

    /// The cells of the tables below a heading, row by row.
    pub(crate) fn rows(&self, heading: &str) -> Vec<Vec<&str>> {
        let below = self.lines().skip_while(|line| *line != heading).skip(1);
        let section = below.take_while(|line| !line.starts_with("## "));
        let rows = section.filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
        rows.map(|row| row.split('|').map(str::trim).collect()).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn pages() -> Vec<Page> {
    let tops = ["ARCHITECTURE.md", "HACKING.md", "README.md"].map(PathBuf::from);
    let docs = fs::read_dir(root().join("docs")).expect("there are docs");
    let docs = docs.map(|entry| Path::new("docs").join(entry.expect("it is read").file_name()));
    let docs = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    tops.into_iter().chain(docs).map(|path| Page::read(&path)).collect()
}

/// All files and directories below `at`, by their paths from the root.
pub(crate) fn tree(at: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(at).expect("a directory can be read") {
        let entry = entry.expect("a directory can be read");
        let path = entry.path();
        let inside = path.strip_prefix(root()).expect("it is below the root").to_owned();
        let built = ["target", ".git"].iter().any(|name| inside == Path::new(name));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !built {
            tree(&path, into);
        }
        into.push(inside);
    }
}

/// The words of a line that are paths of the tree.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`()[],;:'\"|{}".contains(c));
    let words = words.map(|word| word.trim_end_matches('.').trim_start_matches("../"));
    let words = words.map(|word| word.split('#').next().unwrap_or_default());
    words.filter(|word| {
        // An ending alone is what is left behind a list of names in braces.
        let own = word.starts_with('.') || PLACEHOLDERS.iter().any(|part| word.contains(part));
        let crates = word.starts_with("crates/");
        !own && (crates || ENDINGS.iter().any(|ending| word.ends_with(ending)))
    })
}

#[test]
fn every_path_that_a_page_names_is_there() {
    let mut all = Vec::new();
    tree(root(), &mut all);
    let mut named = 0;
    for page in pages() {
        for path in page.lines().flat_map(paths) {
            let there = all.iter().any(|known| known.ends_with(path));
            assert!(there, "{} names {path}, which is not there", page.path.display());
            named += 1;
        }
    }
    assert!(named > 100, "{named}");
}

#[test]
fn paths_are_found_in_text() {
    let found = |line| paths(line).collect::<Vec<_>>();
    assert_eq!(found("see `crates/a/b`, [c](../docs/c.md#d)."), ["crates/a/b", "docs/c.md"]);
    assert_eq!(found("`e.rs`: `crates/NAME/src/lib.rs`, result.json, and/or"), ["e.rs"]);
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let pages = pages();
    let mut followed = 0;
    for page in &pages {
        let ours = |link: &&str| !link.contains("://");
        for link in page.links().filter(ours) {
            let (to, place) = link.split_once('#').unwrap_or((link, ""));
            let said = format!("the link {link} of {}", page.path.display());
            let beside = root().join(&page.path).with_file_name(to);
            let path = if to.is_empty() { root().join(&page.path) } else { beside };
            let path = path.canonicalize().unwrap_or_else(|error| panic!("{said}: {error}"));
            let same =
                |other: &&Page| root().join(&other.path).canonicalize().ok() == Some(path.clone());
            if !place.is_empty() {
                let of = pages.iter().find(same).unwrap_or_else(|| panic!("{said}: no page"));
                assert!(of.anchors().contains(place), "{said}: there is no such heading");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed}");
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let page = Page::read(Path::new("docs/threat-model.md"));
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let sentence = |word: &&str| !word.contains(['/', '.']) && word.matches('_').count() > 2;
    let named: BTreeSet<&str> = quoted.filter(sentence).collect();
    assert!(named.len() > 10, "{named:?}");
    let mut files = Vec::new();
    tree(root(), &mut files);
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let sources: Vec<String> = files
        .iter()
        .map(|path| fs::read_to_string(root().join(path)).unwrap_or_default())
        .collect();
    for name in named {
        let function = format!("fn {name}(");
        assert!(sources.iter().any(|text| text.contains(&function)), "no test {name}");
    }
}

#[test]
fn the_table_of_crates_has_the_layers() {
    let page = Page::read(Path::new("ARCHITECTURE.md"));
    let rows = page.rows("## Crates and layers");
    let listed = rows.iter().filter_map(|row| Some((row[0].parse::<usize>().ok()?, row[1])));
    let listed: Vec<_> = listed.map(|(layer, name)| (layer, name.trim_matches('`'))).collect();
    let layers = LAYERS.iter().zip((1..=LAYERS.len()).rev());
    let held: Vec<_> =
        layers.flat_map(|(names, layer)| names.iter().map(move |name| (layer, *name))).collect();
    assert_eq!(listed, held);
}

#[test]
fn the_table_of_libraries_has_every_library() {
    let page = Page::read(Path::new("ARCHITECTURE.md"));
    let rows = page.rows("## Libraries");
    let listed: BTreeSet<&str> =
        rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata works here");
    let dependencies = metadata.packages.iter().flat_map(|package| &package.dependencies);
    let used: BTreeSet<&str> = dependencies
        .filter(|dependency| dependency.path.is_none())
        .map(|dependency| dependency.name.as_str())
        .collect();
    assert_eq!(listed, used);
}
