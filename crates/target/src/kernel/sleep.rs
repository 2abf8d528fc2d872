//! Whether the guest's kernel is executing.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Looks at a process from outside.
pub(super) struct SleepWatch {
    /// `/proc/PID/stat`, kept open: opening it anew would cost more than reading it.
    stat: File,
}

impl SleepWatch {
    /// Watches the process with this id.
    pub(super) fn of(process_id: u32) -> std::io::Result<Self> {
        File::open(format!("/proc/{process_id}/stat")).map(SleepWatch::from)
    }

    /// Whether the process sleeps: the guest is idle, or its user code runs (in another process)
    /// while the kernel waits for it. Either way the kernel is not half-way through anything. Takes
    /// some microseconds.
    pub(super) fn sleeps(&self) -> bool {
        let mut text = [0; 256];
        let read = self.stat.read_at(&mut text, 0).unwrap_or(0);
        // The state follows the name, which is in brackets and may hold brackets itself.
        let end_of_name = text[..read].iter().rposition(|&byte| byte == b')');
        end_of_name.and_then(|at| text.get(at + 2)) == Some(&b'S')
    }
}

impl From<File> for SleepWatch {
    fn from(stat: File) -> Self {
        SleepWatch { stat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn tells_a_process_that_sleeps_from_one_that_runs() {
        let mut asleep = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
        let watch = SleepWatch::of(asleep.id()).unwrap();
        let begun = Instant::now();
        while !watch.sleeps() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it never slept");
        }
        asleep.kill().unwrap();
        asleep.wait().unwrap();
        assert!(!watch.sleeps(), "one that is gone does not sleep");
    }
}
