//! Which instructions a source line was made into.

use std::collections::BTreeSet;

use crate::code::Code;

/// Instructions of one line that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRun {
    pub(crate) address: u64,
    pub(crate) line: u32,
}

impl Code {
    /// The source files that its code was made from, as the debug information names them.
    pub fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for function in self.functions() {
            let instructions = self.instructions(function);
            files.extend(instructions.into_iter().filter_map(|at| Some(self.line_at(at)?.0)));
        }
        files
    }

    /// The lines of a file that have code, in the order of addresses. A file is known by its name, with as much
    /// of its directory as is given.
    pub(crate) fn lines_of(&self, file: &str) -> Vec<LineRun> {
        let mut runs: Vec<LineRun> = Vec::new();
        for function in self.functions() {
            for address in self.instructions(function) {
                let is_of = |path: &str| path == file || path.ends_with(&format!("/{file}"));
                let line = self.line_at(address).filter(|(path, _)| is_of(path));
                let Some((_, line)) = line else { continue };
                if runs.last().is_none_or(|run| run.line != line) {
                    runs.push(LineRun { address, line });
                }
            }
        }
        runs
    }
}
