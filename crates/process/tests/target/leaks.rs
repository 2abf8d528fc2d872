//! What a process has, to be compared with what it had.

use std::time::{Duration, Instant};

/// What this process holds of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holdings {
    descriptors: usize,
    children: usize,
    resident_kb: u64,
}

impl Holdings {
    pub(crate) fn now() -> Holdings {
        Holdings {
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            children: children(),
            resident_kb: resident_kb(),
        }
    }

    /// Panics if more is held than then; of memory a little is the allocator's.
    pub(crate) fn must_not_have_grown(&self) {
        let now = Holdings::now();
        assert_eq!((now.descriptors, now.children), (self.descriptors, self.children));
        let grown_kb = now.resident_kb.saturating_sub(self.resident_kb);
        assert!(grown_kb < 8 << 10, "memory grew by {grown_kb} KB");
    }
}

fn children() -> usize {
    let us = std::process::id().to_string();
    let of_us = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(us.as_str())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(of_us).count()
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Whether a process is there that has not ended.
pub(crate) fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').next().map(str::to_owned));
    matches!(state.as_deref(), Some(state) if !state.is_empty() && state != "Z" && state != "X")
}

/// Waits until a process is gone.
pub(crate) fn must_go(id: u32, within: Duration) {
    let deadline = Instant::now() + within;
    while is_alive(id) {
        assert!(Instant::now() < deadline, "the process {id} stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}
