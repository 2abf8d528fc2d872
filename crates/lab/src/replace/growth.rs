//! What a long run must not let grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// What the support side and the target's processes have at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Replacements so far.
    pub replacements: u64,
    /// File descriptors of the support side.
    pub support_descriptors: u64,
    /// Of these, files in memory.
    pub support_memory_files: u64,
    /// Memory that the support side has, in KiB.
    pub support_resident_kib: u64,
    /// Of this, shared memory.
    pub support_shared_kib: u64,
    /// Mappings of the support side.
    pub support_mappings: u64,
    /// Processes of the target, ended ones that were not collected among them.
    pub target_processes: u64,
    /// Their file descriptors.
    pub target_descriptors: u64,
    /// Memory that they have, shared memory counted in each, in KiB.
    pub target_resident_kib: u64,
}

impl Usage {
    /// What there is now. What cannot be read counts as nothing.
    pub(super) fn now(replacements: u64) -> Usage {
        let own = Path::new("/proc/self");
        let (resident, shared) = resident_kib(own);
        let (descriptors, memory_files) = descriptors(own);
        let mut usage = Usage {
            replacements,
            support_descriptors: descriptors,
            support_memory_files: memory_files,
            support_resident_kib: resident,
            support_shared_kib: shared,
            support_mappings: fs::read_to_string(own.join("maps")).map_or(0, |maps| lines(&maps)),
            ..Usage::default()
        };
        for id in descendants(std::process::id()) {
            let process = Path::new("/proc").join(id.to_string());
            usage.target_processes += 1;
            usage.target_descriptors += self::descriptors(&process).0;
            usage.target_resident_kib += resident_kib(&process).0;
        }
        usage
    }
}

fn lines(text: &str) -> u64 {
    text.lines().count() as u64
}

/// All of them, and of these files in memory.
fn descriptors(process: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return (0, 0) };
    let in_memory = |target: &Path| target.to_string_lossy().starts_with("/memfd:");
    let targets = entries.flatten().map(|entry| fs::read_link(entry.path()));
    targets.fold((0, 0), |(all, memory), target| {
        (all + 1, memory + u64::from(target.is_ok_and(|target| in_memory(&target))))
    })
}

/// Resident memory, and of it what is shared.
fn resident_kib(process: &Path) -> (u64, u64) {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    (kib("VmRSS:").unwrap_or(0), kib("RssShmem:").unwrap_or(0))
}

/// All processes below this one.
fn descendants(of: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for id in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found: Vec<u32> = Vec::new();
    let mut next = vec![of];
    while let Some(id) = next.pop() {
        let of_this = children.remove(&id).unwrap_or_default();
        found.extend(&of_this);
        next.extend(of_this);
    }
    found
}

/// The parent in a process's `stat`: behind its name, which may hold anything, and its state.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_descriptor_and_a_child_more_are_seen() {
        let before = Usage::now(0);
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let found = descendants(std::process::id());
        let after = Usage::now(0);
        drop(child.stdin.take());
        let id = child.id();
        child.wait().unwrap();
        assert!(found.contains(&id));
        assert!(after.target_processes > 0 && after.support_descriptors > 0);
        assert!(before.support_resident_kib > 0 && before.support_mappings > 0);
    }

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(parent("7 (a) S 9 (b) R 3 1"), Some(3));
        assert_eq!((parent(""), parent("7 (x)"), parent("7 (x) S -1")), (None, None, None));
    }
}
