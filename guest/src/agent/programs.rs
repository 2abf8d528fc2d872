//! Programs of the host, below the tree that [`root`](super::root) makes.
//!
//! The agent starts itself, and that process goes below the tree and becomes the program: between a fork and that,
//! nothing may be done here but by `unsafe` code.

use std::collections::VecDeque;
use std::io::{PipeReader, Read, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, chdir, chroot};
use warikomi_protocol::answers::{Done, PROGRAM_PART_BYTES, ProgramEnd, ProgramSaid};
use warikomi_protocol::commands::{ProgramOutput, ProgramStart};

use super::error::{AgentError, Context, Result};
use super::root::ROOT;

/// The agent itself.
const OURSELVES: &str = "/proc/self/exe";
/// The argument by which it knows that it is to become a program.
const BECOME: &str = "become";

/// The most that is kept of a program's output, in bytes.
const MOST_OUTPUT_BYTES: u64 = 16 << 20;
/// How long a program's output is waited for when it has ended: one that it left behind may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How often a program that says nothing is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A program that this process is to become.
pub(super) struct Launch {
    directory: String,
    words: Vec<String>,
}

impl Launch {
    /// What the arguments of this process say; nothing if they are not such.
    pub(super) fn of_arguments() -> Option<Launch> {
        let mut arguments = std::env::args().skip(1);
        (arguments.next()? == BECOME).then_some(())?;
        let directory = arguments.next()?;
        let words: Vec<String> = arguments.collect();
        (!words.is_empty()).then_some(Launch { directory, words })
    }

    /// Returns only if it cannot.
    pub(super) fn become_it(self) -> ExitCode {
        let below = chroot(ROOT).and_then(|()| chdir(self.directory.as_str()));
        let error = match below {
            Ok(()) => Command::new(&self.words[0]).args(&self.words[1..]).exec(),
            Err(error) => error.into(),
        };
        eprintln!("warikomi-guest: cannot become {}: {error}", self.words[0]);
        ExitCode::from(127)
    }
}

/// The program that runs, if one does.
#[derive(Default)]
pub(super) struct Programs {
    running: Option<Running>,
}

struct Running {
    child: Child,
    output: Arc<Output>,
    started: Instant,
    limit: Duration,
    /// How it ended, and when.
    ended: Option<(ProgramEnd, Instant)>,
    timed_out: bool,
}

impl Programs {
    pub(super) fn start(&mut self, command: &ProgramStart) -> Result<Done> {
        if self.running.as_ref().is_some_and(|running| running.ended.is_none()) {
            return Err(AgentError::Other("a program runs already".into()));
        }
        if command.words.is_empty() {
            return Err(AgentError::Other("a program has a path".into()));
        }
        let (reader, writer) = pipe().context(|| "make a pipe".to_owned())?;
        let errors = writer.try_clone().context(|| "make a pipe".to_owned())?;
        let child = Command::new(OURSELVES)
            .arg(BECOME)
            .arg(&command.directory)
            .args(&command.words)
            .env_clear()
            .envs(command.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .context(|| format!("start {}", command.words[0]))?;
        let output = Arc::new(Output::with_room(command.output_bytes.min(MOST_OUTPUT_BYTES)));
        let theirs = output.clone();
        thread::spawn(move || theirs.keep_all_of(reader));
        self.running = Some(Running {
            child,
            output,
            started: Instant::now(),
            limit: Duration::from_millis(command.limit_ms),
            ended: None,
            timed_out: false,
        });
        Ok(Done {})
    }

    pub(super) fn said(&mut self, command: &ProgramOutput) -> Result<ProgramSaid> {
        let running = self.running.as_mut();
        let running = running.ok_or_else(|| AgentError::Other("no program runs".into()))?;
        let until = Instant::now() + Duration::from_millis(command.wait_ms);
        loop {
            running.look()?;
            let over = running.is_over();
            let text = running.output.take(over);
            if over && text.is_empty() {
                let mut end = running.ended.as_ref().map(|(end, _)| end.clone());
                if let Some(end) = &mut end {
                    end.dropped_bytes = running.output.lock().dropped;
                }
                return Ok(ProgramSaid { text, end });
            }
            if !text.is_empty() || Instant::now() >= until {
                return Ok(ProgramSaid { text, end: None });
            }
            running.output.wait(LOOK);
        }
    }
}

impl Running {
    /// Whether it has ended, or must.
    fn look(&mut self) -> Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let took = self.started.elapsed();
        if took > self.limit && !self.timed_out {
            self.timed_out = true;
            // The group may have gone this moment.
            let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        }
        let status = self.child.try_wait().context(|| "wait for the program".to_owned())?;
        if let Some(status) = status {
            let end = ProgramEnd {
                code: status.code(),
                timed_out: self.timed_out,
                dropped_bytes: 0,
                took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            };
            self.ended = Some((end, Instant::now()));
        }
        Ok(())
    }

    /// Whether it has ended, and said all that it will.
    fn is_over(&self) -> bool {
        let Some((_, when)) = &self.ended else { return false };
        self.output.lock().closed || when.elapsed() > LAST_WORDS
    }
}

/// What a program has said that was not taken yet.
struct Output {
    kept: Mutex<Kept>,
    news: Condvar,
}

struct Kept {
    bytes: VecDeque<u8>,
    /// Bytes that may still come; what is beyond is dropped.
    room: u64,
    dropped: u64,
    /// Nothing more can come.
    closed: bool,
}

impl Output {
    fn with_room(room: u64) -> Output {
        let kept = Kept { bytes: VecDeque::new(), room, dropped: 0, closed: false };
        Output { kept: Mutex::new(kept), news: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_all_of(&self, mut reader: PipeReader) {
        let mut buffer = [0; 4096];
        loop {
            match reader.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(count) if count > 0 => self.keep(&buffer[..count]),
                _ => break,
            }
        }
        self.lock().closed = true;
        self.news.notify_all();
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        let fits = bytes.len().min(usize::try_from(kept.room).unwrap_or(usize::MAX));
        kept.bytes.extend(&bytes[..fits]);
        kept.room -= fits as u64;
        kept.dropped += (bytes.len() - fits) as u64;
        self.news.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let kept = self.lock();
        drop(self.news.wait_timeout(kept, at_most));
    }

    /// The next part as text. Unless it is the last, it does not end within a character.
    fn take(&self, last: bool) -> String {
        let mut kept = self.lock();
        let count = kept.bytes.len().min(PROGRAM_PART_BYTES);
        let mut part: Vec<u8> = kept.bytes.drain(..count).collect();
        if !last || !kept.bytes.is_empty() {
            let begun = part.len() - unfinished_bytes(&part);
            for byte in part.drain(begun..).rev() {
                kept.bytes.push_front(byte);
            }
        }
        String::from_utf8_lossy(&part).into_owned()
    }
}

/// Bytes at the end that begin a character of UTF-8 and do not end it.
fn unfinished_bytes(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 != 0x80);
    let Some(after) = last else { return 0 };
    let has = after + 1;
    let needs = match bytes[bytes.len() - has] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if needs > has { has } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_out_whole_and_what_is_too_much_is_counted() {
        let output = Output::with_room(10);
        output.keep("grün".as_bytes());
        assert_eq!(output.take(false), "grün");
        output.keep(b"123456789");
        assert_eq!((output.take(true), output.lock().dropped), ("12345".to_owned(), 4));
        assert_eq!(output.take(true), "");
    }

    #[test]
    fn a_character_that_is_not_whole_waits_for_its_rest() {
        let output = Output::with_room(100);
        let text = "a€€b𝄞€";
        for byte in text.as_bytes() {
            output.keep(&[*byte]);
            assert!(!output.take(false).contains('\u{fffd}'));
        }
        output.keep(&"€".as_bytes()[..2]);
        assert_eq!(output.take(false), "");
        assert_eq!(output.take(true), "\u{fffd}");
        output.keep(&[0xff, 0xff]);
        assert_eq!(output.take(false), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_part_is_no_longer_than_an_answer_may_be() {
        let output = Output::with_room(1 << 20);
        output.keep(&vec![b'x'; PROGRAM_PART_BYTES + 5]);
        assert_eq!(output.take(true).len(), PROGRAM_PART_BYTES);
        assert_eq!(output.take(true).len(), 5);
    }
}
