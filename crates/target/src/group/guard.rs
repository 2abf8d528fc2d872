//! What ends a target's processes when we are gone, however we went.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::TargetError;

/// Waits for the end of its input, then ends every group that is on its list, which it has as its output, and cleans
/// up.
const SCRIPT: &str = r#"trap '' INT TERM HUP
read -r _
while read -r group; do
    [ -z "$group" ] || kill -KILL "-$group" 2>/dev/null
done <&1
[ -z "$1" ] || rm -rf -- "$1"
[ -z "$2" ] || rm -f -- "$2""#;

/// Characters of a line of the list.
const WIDTH: usize = 11;

/// The guard process; dropping it dismisses it.
pub struct Guard {
    /// Its input closes when we are gone.
    child: Child,
    roster: Roster,
}

impl Guard {
    /// A guard that removes a directory and a file once it has ended what is listed; an empty path is none.
    pub fn start(dir: &Path, file: &Path) -> Result<Guard, TargetError> {
        let cannot = TargetError::system("cannot make the list of the target's guard");
        let list = memfd_create("warikomi-guard", MemfdFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map(File::from);
        let (list, its_list) =
            list.and_then(|list| Ok((list.try_clone()?, list))).map_err(cannot)?;
        // A group of its own, so that Ctrl-C at a terminal does not reach it.
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "warikomi-guard"])
            .args([dir, file])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(its_list)
            .stderr(Stdio::null())
            .spawn()
            .map_err(TargetError::system("cannot start /bin/sh as the target's guard"))?;
        Ok(Guard { child, roster: Roster::new(list) })
    }

    /// Its list.
    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The groups of processes that a guard ends, each by its leader's number. It reads them when we are gone, and is not
/// woken before.
#[derive(Clone, Debug)]
pub struct Roster(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    file: File,
    taken: Vec<bool>,
}

impl Roster {
    fn new(file: File) -> Roster {
        Roster(Arc::new(Mutex::new(Lines { file, taken: Vec::new() })))
    }

    /// Lists a group; its line.
    pub(super) fn enter(&self, leader: Pid) -> usize {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = match lines.taken.iter().position(|&taken| !taken) {
            Some(free) => free,
            None => {
                lines.taken.push(true);
                lines.taken.len() - 1
            }
        };
        lines.taken[line] = true;
        lines.write(line, &leader.to_string());
        line
    }

    /// Takes a group off the list, whose number may become another's.
    pub(super) fn strike(&self, line: usize) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.write(line, "");
        lines.taken[line] = false;
    }
}

impl Lines {
    fn write(&self, line: usize, text: &str) {
        let text = format!("{text:>width$}\n", width = WIDTH - 1);
        // If it cannot be written, a SIGKILL to us may leave the group behind.
        let _ = self.file.write_all_at(text.as_bytes(), (line * WIDTH) as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").process_group(0).spawn().unwrap()
    }

    fn ends(child: &mut Child) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn the_guard_cleans_up_when_its_line_closes() {
        let dir = tempfile::tempdir().unwrap().keep();
        let (mut first, mut other, mut second) = (sleeper(), sleeper(), sleeper());
        let mut guard = Guard::start(&dir, &dir.join("nic")).unwrap();
        let enter = |child: &Child| guard.roster().enter(Pid::from_raw(child.id() as i32));
        let lines = [&first, &other, &second].map(enter);
        assert_eq!(lines, [0, 1, 2]);
        guard.roster().strike(1);
        drop(guard.child.stdin.take());
        assert!(ends(&mut first) && ends(&mut second) && ends(&mut guard.child));
        assert!(!dir.exists());
        assert_eq!(other.try_wait().unwrap(), None, "it was no longer listed");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_line_is_used_again() {
        let guard = Guard::start(Path::new(""), Path::new("")).unwrap();
        let roster = guard.roster();
        let enter = |number| roster.enter(Pid::from_raw(number));
        assert_eq!((enter(i32::MAX), enter(7)), (0, 1));
        roster.strike(0);
        assert_eq!((enter(12), enter(13)), (0, 2));
        let mut text = [0; 3 * WIDTH];
        roster.0.lock().unwrap().file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(str::from_utf8(&text).unwrap(), "        12\n         7\n        13\n");
    }
}
