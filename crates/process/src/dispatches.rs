//! How often a process has got the processor.

use std::path::Path;

/// The number since their start of all threads that it has, as the kernel counts it (Documentation/scheduler/sched-stats.rst,
/// `/proc/<pid>/schedstat`: the third number); `None` where it does not.
pub fn of(process_id: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{process_id}/task")).ok()?;
    // One may have ended since it was listed.
    let counts = threads.filter_map(|thread| of_thread(&thread.ok()?.path()));
    counts.reduce(|sum, count| sum + count)
}

fn of_thread(directory: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(directory.join("schedstat")).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn each_sleep_is_followed_by_another() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; sleep 0; read line"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let waits_for = |more_than: u64| loop {
            let found = of(child.id()).unwrap();
            if found > more_than {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let started = waits_for(0);
        child.stdin.as_ref().unwrap().write_all(b"go on\n").unwrap();
        assert!(waits_for(started) > started);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn every_thread_of_a_process_counts() {
        // The test's own thread is not the first one, which waits for it.
        let own = of_thread(Path::new("/proc/thread-self")).unwrap();
        assert!(of(std::process::id()).unwrap() > own);
    }

    #[test]
    fn what_is_not_there_has_none() {
        assert_eq!(of(u32::MAX), None);
    }
}
