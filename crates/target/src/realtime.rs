//! Real-time priority and locked memory, where they may be had: nothing that is not real-time itself then takes
//! the core of a thread that must not stop.
//!
//! A real-time thread that spins never gives its core up. The kernel sees to the others in one of two ways:
//! since Linux 6.12 a server of theirs takes 5% of a core on which one of them has waited for about a second;
//! before, every real-time thread was stopped for the last 50 ms of each second, whether anyone waited or not
//! (Documentation/scheduler/sched-rt-group.rst). That would be worse than no priority, so there is none then,
//! unless that was switched off.

use std::fs;
use std::io::{Error, Result};

use nix::libc;
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::unistd::{Pid, getpgid};
use thiserror::Error;

/// Before all that is not real-time; behind what the system itself runs so.
pub const PRIORITY: u32 = 1;

/// Why there is no real-time priority.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NoRealtime {
    /// The scheduler would stop us.
    #[error(
        "this kernel stops real-time threads for a part of each second; \
         sysctl kernel.sched_rt_runtime_us=-1 ends that"
    )]
    Throttled,
    /// We may not.
    #[error("not permitted; it takes CAP_SYS_NICE, or `ulimit -r 1`")]
    NotPermitted,
}

/// Real-time priority of the calling thread and maybe of a group of processes; dropping it gives that of the thread
/// back.
#[derive(Debug)]
pub struct Realtime {
    lowered_again: bool,
    memory_locked: bool,
}

impl Realtime {
    /// Of the calling thread, not of what it starts; and of every process of this group, with all that they start:
    /// the leader must be a child of ours.
    pub fn take(group: Option<u32>) -> std::result::Result<Realtime, NoRealtime> {
        if is_throttled() {
            return Err(NoRealtime::Throttled);
        }
        // SAFETY: takes numbers only, and returns one.
        #[expect(unsafe_code, reason = "no library has the call without")]
        let before = unsafe { libc::sched_getscheduler(0) };
        let lowered_again = before == libc::SCHED_OTHER;
        if lowered_again {
            set_scheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
                .map_err(|_| NoRealtime::NotPermitted)?;
        }
        for id in group.map(members).unwrap_or_default() {
            // One that has ended needs none.
            let _ = set_scheduler(id, libc::SCHED_FIFO, PRIORITY);
        }
        // As it is touched: all of the program and of every stack would be half as much again.
        let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
        let memory_locked = mlockall(MlockAllFlags::MCL_CURRENT | on_fault).is_ok();
        Ok(Realtime { lowered_again, memory_locked })
    }

    /// Whether what is in our memory stays there.
    pub fn is_memory_locked(&self) -> bool {
        self.memory_locked
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        if self.lowered_again {
            let _ = set_scheduler(0, libc::SCHED_OTHER, 0);
        }
        if self.memory_locked {
            let _ = munlockall();
        }
    }
}

/// Gives a process, or with 0 the calling thread, real-time priority; what it starts has none.
pub fn claim(id: u32, priority: u32) -> Result<()> {
    let id = id.try_into().map_err(|_| Error::from_raw_os_error(libc::ESRCH))?;
    set_scheduler(id, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// The processes of a group, by its leader's id.
fn members(leader: u32) -> Vec<libc::pid_t> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|&id| {
        // Threads of the system's kernel are of group 0.
        getpgid(Some(Pid::from_raw(id))).is_ok_and(|group| group.as_raw().unsigned_abs() == leader)
    })
    .collect()
}

fn set_scheduler(id: libc::pid_t, policy: libc::c_int, priority: u32) -> Result<()> {
    let parameter = libc::sched_param { sched_priority: priority as libc::c_int };
    // SAFETY: the parameter outlives the call, which reads it and keeps nothing.
    #[expect(unsafe_code, reason = "no library has the call without")]
    let failed = unsafe { libc::sched_setscheduler(id, policy, &raw const parameter) };
    if failed == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn is_throttled() -> bool {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    stops_realtime(
        &text("/proc/sys/kernel/osrelease"),
        &text("/proc/sys/kernel/sched_rt_runtime_us"),
    )
}

/// Whether a kernel of this release stops real-time threads that have run for this part of a second.
fn stops_realtime(release: &str, runtime_us: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    runtime_us.trim() != "-1" && version < (6, 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn old_kernels_stop_real_time_threads_unless_they_are_told_not_to() {
        assert!(stops_realtime("6.1.0-44-amd64\n", "950000\n"));
        assert!(!stops_realtime("6.1.0-44-amd64\n", "-1\n"));
        assert!(!stops_realtime("6.12.1\n", "950000\n"));
        assert!(!stops_realtime("7.2.0", "950000"));
        assert!(stops_realtime("nonsense", ""), "in doubt they do");
    }

    #[test]
    fn the_thread_has_it_while_it_is_held_and_its_children_never() {
        let policy = |of: &str| {
            let stat = fs::read_to_string(format!("/proc/{of}/stat")).unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            fields.split_whitespace().nth(41 - 3).unwrap().parse::<i32>().unwrap()
        };
        let before = policy("thread-self");
        match Realtime::take(None) {
            Err(why) => assert_eq!(policy("thread-self"), before, "{why}"),
            Ok(realtime) => {
                assert_eq!(policy("thread-self"), libc::SCHED_FIFO);
                let mut command = std::process::Command::new("sleep");
                let mut child = command.arg("10").process_group(0).spawn().unwrap();
                assert_eq!(policy(&child.id().to_string()), libc::SCHED_OTHER);
                let with_child = Realtime::take(Some(child.id())).unwrap();
                assert_eq!(policy(&child.id().to_string()), libc::SCHED_FIFO);
                drop(with_child);
                assert_eq!(policy("thread-self"), libc::SCHED_FIFO, "the first is still held");
                drop(realtime);
                assert_eq!(policy("thread-self"), before);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }
}
