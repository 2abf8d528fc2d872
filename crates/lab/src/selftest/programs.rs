//! Which tests there are in a tree, and what each wants to be run with.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::known;

/// Where tests of NICs are, below `tools/testing/selftests`: each directory has a Makefile that lists them.
const DIRECTORIES: [&str; 2] = ["drivers/net", "drivers/net/hw"];
/// A test of NICs among those of the stack.
const OF_THE_STACK: &str = "net/netdevice.sh";

/// Longer than the first line of a test.
const FIRST_LINE_BYTES: u64 = 256;

/// How the two cards are laid out for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// The second card is another host's, in a namespace of its own; both have addresses (README.rst in drivers/net).
    Endpoints,
    /// Both are there, without addresses; their names are the test's arguments (net/forwarding/lib.sh).
    Interfaces,
    /// The test looks for them itself.
    Alone,
}

/// A test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Below `tools/testing/selftests`.
    pub(super) path: String,
    pub(super) scene: Scene,
    /// What it is given to, if it is not executable itself.
    pub(super) interpreter: Vec<String>,
}

impl Program {
    fn of(path: String, selftests: &Path) -> Program {
        let interpreter = interpreter(&selftests.join(&path));
        let scene = match &path {
            path if path == OF_THE_STACK => Scene::Alone,
            path if path.ends_with(".py") => Scene::Endpoints,
            _ => Scene::Interfaces,
        };
        Program { path, scene, interpreter }
    }

    /// Its directory, and its name there.
    pub(super) fn place(&self) -> (&str, &str) {
        self.path.rsplit_once('/').unwrap_or(("", &self.path))
    }
}

/// The tests that are about a card, in the order of their names.
pub(super) fn programs(selftests: &Path) -> Vec<Program> {
    let mut found = Vec::new();
    for directory in DIRECTORIES {
        let makefile = selftests.join(directory).join("Makefile");
        let listed = listed(&fs::read_to_string(makefile).unwrap_or_default());
        found.extend(listed.iter().map(|name| format!("{directory}/{name}")));
    }
    found.push(OF_THE_STACK.to_owned());
    found.retain(|path| selftests.join(path).is_file() && known::not_about_a_card(path).is_none());
    found.sort();
    found.dedup();
    found.into_iter().map(|path| Program::of(path, selftests)).collect()
}

/// What the first line of a file that is not executable names, as kselftest's own runner (kselftest/runner.sh) takes it.
fn interpreter(file: &Path) -> Vec<String> {
    let Ok(file) = File::open(file) else { return Vec::new() };
    let executable =
        |file: &File| file.metadata().is_ok_and(|is| is.permissions().mode() & 0o111 != 0);
    let mut first = Vec::new();
    let read = BufReader::new(&file).take(FIRST_LINE_BYTES).read_until(b'\n', &mut first);
    match String::from_utf8_lossy(&first).strip_prefix("#!") {
        Some(words) if read.is_ok() && !executable(&file) => {
            words.split_whitespace().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// What a Makefile lists as `TEST_PROGS`.
fn listed(makefile: &str) -> Vec<String> {
    let joined = makefile.replace("\\\n", " ");
    let assigned = joined.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim_end_matches([':', '+', ' ', '\t']).trim();
        (name == "TEST_PROGS").then(|| value.split('#').next().unwrap_or_default())
    });
    let words = assigned.flat_map(str::split_whitespace);
    let plain = |word: &&str| {
        word.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
    };
    words.filter(plain).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "TEST_INCLUDES := $(wildcard lib/py/*.py) \\\n\t../x.sh\n\n\
        TEST_PROGS := \\\n\tping.py \\\n\tnetcons_basic.sh \\\n\tmissing.py \\\n# end of TEST_PROGS\n\n\
        TEST_PROGS += $(MORE) more.sh\ninclude ../../lib.mk\n";

    #[test]
    fn a_makefile_lists_tests_on_several_lines() {
        assert_eq!(listed(MAKEFILE), ["ping.py", "netcons_basic.sh", "missing.py", "more.sh"]);
    }

    #[test]
    fn tests_that_are_there_and_about_a_card_are_found_with_what_they_want() {
        let tree = tempfile::tempdir().unwrap();
        for path in ["drivers/net/ping.py", "drivers/net/netcons_basic.sh", OF_THE_STACK] {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let hw = tree.path().join("drivers/net/hw");
        fs::create_dir_all(&hw).unwrap();
        fs::write(hw.join("ethtool.sh"), "").unwrap();
        fs::write(hw.join("Makefile"), "TEST_PROGS = ethtool.sh\n").unwrap();
        fs::write(tree.path().join("drivers/net/Makefile"), MAKEFILE).unwrap();
        let found = programs(tree.path());
        let found: Vec<_> =
            found.iter().map(|program| (program.path.as_str(), program.scene)).collect();
        let expected = [
            ("drivers/net/hw/ethtool.sh", Scene::Interfaces),
            ("drivers/net/ping.py", Scene::Endpoints),
            ("net/netdevice.sh", Scene::Alone),
        ];
        assert_eq!(found, expected);
        let of_the_stack = Program::of(OF_THE_STACK.into(), tree.path());
        assert_eq!(of_the_stack.place(), ("net", "netdevice.sh"));
    }

    #[test]
    fn a_test_that_is_not_executable_is_given_to_what_its_first_line_names() {
        let tree = tempfile::tempdir().unwrap();
        let test = tree.path().join("a.py");
        fs::write(&test, "#!/usr/bin/env python3\nimport os\n").unwrap();
        assert_eq!(interpreter(&test), ["/usr/bin/env", "python3"]);
        fs::set_permissions(&test, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(interpreter(&test).is_empty());
        fs::write(tree.path().join("b"), "import os\n").unwrap();
        assert!(interpreter(&tree.path().join("b")).is_empty());
        assert!(interpreter(&tree.path().join("missing")).is_empty());
    }
}
