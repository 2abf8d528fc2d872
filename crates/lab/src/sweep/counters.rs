//! What a guest's kernel counts between its driver and its application, before and behind each cycle.
//!
//! The agent reads files of `/proc`; what stands in them is not believed: a number that is not there is absent.

use std::time::Duration;

use warikomi_protocol::commands::{Counters, ReadFile};
use warikomi_session::Session;
use warikomi_target::TargetError;

/// An answer may take this long beyond the usual.
const PATIENCE: Duration = Duration::from_secs(25);
/// The kernel's threads are the first processes; the one for soft interrupts is among these.
const KERNEL_THREADS: std::ops::RangeInclusive<u32> = 2..=64;
const SOFT_INTERRUPT_THREAD: &str = "ksoftirqd/0";

/// How many counts there are.
const COUNT: usize = 6;

/// Counts of one guest, or their growth over a cycle, in the order of [`NAMES`].
pub(super) type GuestCounts = [Option<u64>; COUNT];

/// What the counts mean.
pub(super) const NAMES: [&str; COUNT] = [
    "soft interrupts for reception",
    "soft interrupt out of its budget",
    "soft interrupt handed to ksoftirqd",
    "backlog overflow",
    "socket overflow",
    "context switches",
];

/// What was counted from `before` on.
fn since(now: &GuestCounts, before: &GuestCounts) -> GuestCounts {
    std::array::from_fn(|at| Some(now[at]?.saturating_sub(before[at]?)))
}

/// Reads them of one guest after the other.
#[derive(Default)]
pub(super) struct GuestCounters {
    /// The process that soft interrupts are handed to, where it was last found.
    thread: Option<u32>,
    /// It was looked for.
    searched: bool,
    before: Option<GuestCounts>,
}

impl GuestCounters {
    /// Notes them before a cycle. Only a kernel has any.
    pub(super) fn begin(&mut self, session: &mut Session) -> Result<(), TargetError> {
        self.before = if session.has_kernel() { Some(self.read(session)?) } else { None };
        Ok(())
    }

    /// What was counted since then.
    pub(super) fn end(&mut self, session: &mut Session) -> Result<GuestCounts, TargetError> {
        let Some(before) = self.before.take() else { return Ok(GuestCounts::default()) };
        Ok(since(&self.read(session)?, &before))
    }

    fn read(&mut self, session: &mut Session) -> Result<GuestCounts, TargetError> {
        let counters = session.target.ask(Counters { interface: None }, PATIENCE)?;
        let softirqs = file(session, "/proc/softirqs")?;
        let stat = file(session, "/proc/stat")?;
        Ok([
            sum_behind(&softirqs, "NET_RX:"),
            Some(counters.softnet_squeezed),
            self.thread_runs(session)?,
            Some(counters.softnet_dropped),
            counters.protocol.get("UdpRcvbufErrors").copied(),
            sum_behind(&stat, "ctxt "),
        ])
    }

    /// How often the thread for soft interrupts has left a processor.
    fn thread_runs(&mut self, session: &mut Session) -> Result<Option<u64>, TargetError> {
        let ids = match self.thread {
            Some(id) => id..=id,
            None if self.searched => return Ok(None),
            None => KERNEL_THREADS,
        };
        self.searched = true;
        for id in ids {
            let status = file(session, &format!("/proc/{id}/status"))?;
            if sum_of_thread(&status).is_some() {
                self.thread = Some(id);
                return Ok(sum_of_thread(&status));
            }
        }
        Ok(None)
    }
}

/// A file of the guest's; empty if it cannot be read.
fn file(session: &mut Session, path: &str) -> Result<String, TargetError> {
    match session.target.ask(ReadFile { path: path.to_owned() }, PATIENCE) {
        Ok(file) => Ok(file.text),
        Err(TargetError::Refused { .. }) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The sum of the numbers in the line that begins like this.
fn sum_behind(text: &str, beginning: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(beginning))?;
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let first = numbers.next()??;
    numbers.try_fold(first, |sum, number| sum.checked_add(number?))
}

/// Both kinds of switches away from the thread for soft interrupts; nothing if the status is of another process.
fn sum_of_thread(status: &str) -> Option<u64> {
    let name = status.lines().find_map(|line| line.strip_prefix("Name:"))?;
    let switches = sum_behind(status, "voluntary_ctxt_switches:");
    let forced = sum_behind(status, "nonvoluntary_ctxt_switches:");
    (name.trim() == SOFT_INTERRUPT_THREAD).then_some(switches?.checked_add(forced?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_their_lines_alone() {
        let softirqs = "                    CPU0       CPU1\n          HI:          1          2\n      \
            NET_TX:          7          8\n      NET_RX:        500         11\n";
        assert_eq!(sum_behind(softirqs, "NET_RX:"), Some(511));
        let stat = "cpu  1 2 3\nintr 5 6\nctxt 987654\nbtime 3\n";
        assert_eq!(sum_behind(stat, "ctxt "), Some(987_654));
        let status = "Name:\tksoftirqd/0\nState:\tS\nvoluntary_ctxt_switches:\t40\n\
            nonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(sum_of_thread(status), Some(42));
        assert_eq!(sum_of_thread(&status.replace("ksoftirqd/0", "kworker/0:1")), None);
    }

    #[test]
    fn what_makes_no_sense_is_absent() {
        for text in ["", "NET_RX:", "ctxt x", "ctxt 18446744073709551615 1", "Name:\tksoftirqd/0\n"]
        {
            let sum = sum_behind(text, "ctxt ");
            assert!(sum.is_none() && sum_of_thread(text).is_none(), "{text}");
        }
        let of = |value| [value; COUNT];
        assert_eq!(since(&of(Some(7)), &of(Some(5))), of(Some(2)));
        assert_eq!(since(&of(Some(3)), &of(Some(5))), of(Some(0)));
        assert_eq!(since(&of(Some(3)), &of(None)), of(None));
    }
}
