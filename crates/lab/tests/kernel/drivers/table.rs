//! The table of docs/fidelity.md: which paths each driver has gone, on which kernels.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use warikomi_testbench::MarkedPart;

use super::{COLUMNS, Column, Pair};
use crate::bring::image;

/// Names the file that cells are noted in when they pass.
const CELLS: &str = "WARIKOMI_CELLS";
/// Says that the table is to be written from that file.
const UPDATE: &str = "UPDATE_FIDELITY";
const TABLE: MarkedPart = MarkedPart::new(
    "fidelity.md",
    ["<!-- cells: scripts/fidelity writes them -->\n", "<!-- end of cells -->\n"],
);

/// Every path, in the order of the table, and what is tried.
const PATHS: &[(&str, &str)] = &[
    ("probe", "bound: address, class, device, speed, kind of interrupt"),
    ("link_flap", "the cable is pulled and plugged, at another speed"),
    ("receive", "3,500 frames of 60 to 1,514 bytes"),
    ("transmit", "4,000 frames of 60 and 1,514 bytes"),
    ("jumbo", "the longest frames that driver and card take"),
    ("vlan", "a tag goes out"),
    ("segmentation", "TCP is cut and checksummed by the card"),
    ("statistics", "the kernel's counts and the card's are the ledger's"),
    (
        "self_test",
        "the driver tests its card: registers, EEPROM, interrupt, loopback, link (`ethtool -t`)",
    ),
    ("overrun", "100,000 frames at once, counted to the frame"),
    ("reload", "the module is replaced, idle and busy"),
    ("suspend", "the card is put to sleep, and woken"),
    ("unbind", "the driver leaves its card under traffic, and takes it again"),
];

/// Notes that a cell is green.
pub(super) fn passed(pair: &Pair, path: &str) {
    let Some(file) = std::env::var_os(CELLS) else { return };
    let line = format!("{} {} {path}\n", image().info().version, pair.model);
    let file = OpenOptions::new().create(true).append(true).open(file);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of cells");
}

/// A kernel's version, a card, a path.
type Cells = BTreeSet<(String, String, String)>;

fn read_cells() -> Cells {
    let file = std::env::var_os(CELLS).expect("a file of cells");
    let text = fs::read_to_string(file).expect("the list of cells");
    let mut cells = Cells::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[version, model, path] = &words[..] else { panic!("no cell: {line}") };
        cells.insert((version.to_owned(), model.to_owned(), path.to_owned()));
    }
    cells
}

/// Versions as numbers, so that 6.12 comes behind 6.1.
fn order(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// `6.12` of `6.12.117`.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn render(cells: &Cells) -> String {
    let versions: BTreeSet<&String> = cells.iter().map(|(version, ..)| version).collect();
    let mut versions: Vec<&String> = versions.into_iter().collect();
    versions.sort_by_key(|version| order(version));
    let kernels = versions.iter().map(|version| version.as_str()).collect::<Vec<_>>().join(", ");
    let mut text = format!("\nKernels: {kernels}.\n\n| path |");
    for Column { pair, .. } in COLUMNS {
        let _ = write!(text, " `{}`, {} |", pair.model, pair.driver);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(COLUMNS.len()));
    let mut notes: Vec<&str> = Vec::new();
    for (path, what) in PATHS {
        let _ = write!(text, "\n| **{path}**: {what} |");
        for Column { pair, without, .. } in COLUMNS {
            if let Some((_, why)) = without.iter().find(|(absent, _)| absent == path) {
                let known = notes.iter().position(|note| note == why);
                let number = known.unwrap_or_else(|| {
                    notes.push(why);
                    notes.len() - 1
                });
                let _ = write!(text, " not there ({}) |", number + 1);
                continue;
            }
            let cell = |version: &&&String| {
                cells.contains(&((**version).clone(), pair.model.into(), (*path).into()))
            };
            let green: Vec<String> = versions.iter().filter(cell).map(|v| short(v)).collect();
            let _ = write!(text, " {} |", green.join(" "));
        }
    }
    text.push_str("\n\n");
    for (number, why) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. {why}", number + 1);
    }
    text.push('\n');
    text
}

#[test]
fn the_table_in_the_docs_has_a_row_for_each_path_and_no_empty_cell() {
    if std::env::var_os(UPDATE).is_some() {
        return TABLE.replace(&render(&read_cells()));
    }
    let table = TABLE.text();
    for Column { pair, tried, without } in COLUMNS {
        assert!(table.contains(&format!("`{}`, {}", pair.model, pair.driver)), "{pair:?}");
        let known =
            |path: &str| tried.contains(&path) ^ without.iter().any(|(absent, _)| *absent == path);
        assert!(PATHS.iter().all(|(path, _)| known(path)), "{pair:?} is tried, or has a reason");
    }
    for (path, _) in PATHS {
        let row = table.lines().find(|line| line.starts_with(&format!("| **{path}**")));
        let cells: Vec<&str> = row.expect(path).trim_matches('|').split('|').skip(1).collect();
        assert_eq!(cells.len(), COLUMNS.len(), "{path}");
        let all = cells.iter().all(|cell| !cell.trim().is_empty());
        assert!(all, "{path} is not green everywhere: {cells:?}");
    }
}
