//! What a long run must not let grow.

use std::collections::BTreeMap;

use procfs::process::{FDInfo, FDTarget, Process, Status, all_processes};
use serde::{Deserialize, Serialize};

/// What there was after each run of a soak.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Growth {
    /// The row's name.
    pub(super) row: String,
    pub(super) usage: Vec<Usage>,
}

/// What the support side and the target's processes have at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Usage {
    /// Replacements so far.
    pub(super) replacements: u64,
    /// File descriptors of the support side.
    pub(super) support_descriptors: u64,
    /// Of these, files in memory.
    pub(super) support_memory_files: u64,
    /// Memory that the support side has, in KiB.
    pub(super) support_resident_kib: u64,
    /// Of this, shared memory.
    pub(super) support_shared_kib: u64,
    /// Mappings of the support side.
    pub(super) support_mappings: u64,
    /// Processes of the target, ended ones that were not collected among them.
    pub(super) target_processes: u64,
    /// Their file descriptors.
    pub(super) target_descriptors: u64,
    /// Memory that they have, shared memory counted in each, in KiB.
    pub(super) target_resident_kib: u64,
}

impl Usage {
    /// What there is now. What cannot be read counts as nothing.
    pub(super) fn now(replacements: u64) -> Usage {
        let mut usage = Usage { replacements, ..Usage::default() };
        if let Ok(own) = Process::myself() {
            let (resident, shared) = resident_kib(&own);
            let (descriptors, memory_files) = descriptors(&own);
            usage = Usage {
                support_descriptors: descriptors,
                support_memory_files: memory_files,
                support_resident_kib: resident,
                support_shared_kib: shared,
                support_mappings: own.maps().map_or(0, |maps| maps.len() as u64),
                ..usage
            };
        }
        for process in descendants(std::process::id()) {
            usage.target_processes += 1;
            usage.target_descriptors += descriptors(&process).0;
            usage.target_resident_kib += resident_kib(&process).0;
        }
        usage
    }
}

/// All of them, and of these files in memory.
fn descriptors(process: &Process) -> (u64, u64) {
    let in_memory = |info: &FDInfo| matches!(info.target, FDTarget::MemFD(_));
    process.fd().into_iter().flatten().fold((0, 0), |(all, memory), info| {
        (all + 1, memory + u64::from(info.is_ok_and(|info| in_memory(&info))))
    })
}

/// Resident memory, and of it what is shared.
fn resident_kib(process: &Process) -> (u64, u64) {
    let status = process.status().ok();
    let kib = |field: fn(&Status) -> Option<u64>| status.as_ref().and_then(field).unwrap_or(0);
    (kib(|status| status.vmrss), kib(|status| status.rssshmem))
}

/// All processes below this one.
fn descendants(of: u32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        if let Ok(stat) = process.stat() {
            children.entry(stat.ppid).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of.cast_signed()];
    while let Some(id) = next.pop() {
        let of_this = children.remove(&id).unwrap_or_default();
        next.extend(of_this.iter().map(Process::pid));
        found.extend(of_this);
    }
    found
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
        assert!(found.iter().any(|process| process.pid() == id.cast_signed()));
        assert!(after.target_processes > 0 && after.support_descriptors > 0);
        assert!(before.support_resident_kib > 0 && before.support_mappings > 0);
    }
}
