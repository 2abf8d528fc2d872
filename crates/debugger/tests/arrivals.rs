//! How often a process comes by a breakpoint: once for each time that it is told to.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_debugger::{Code, Stop, Tracee};

/// Comes by once for each byte that it is given, and gives one back behind it. The first byte that it writes says that it
/// runs: who spawns a process goes on before the kernel has mapped the new program.
const SOURCE: &str = r#"
#include <signal.h>
#include <unistd.h>

static char filled[1000];
static volatile int handled;

static void handle(int signal) { handled += signal; }

__attribute__((naked)) void fill(void *to, long count)
{
    __asm__("mov %rsi, %rcx; xor %eax, %eax; rep stosb; ret");
}

int main(void)
{
    char byte = 0;
    signal(SIGWINCH, handle);
    if (write(1, &byte, 1) != 1)
        return 1;
    while (read(0, &byte, 1) == 1) {
        fill(filled, sizeof filled);
        if (write(1, &byte, 1) != 1)
            break;
    }
    return handled == 0;
}
"#;

const LONGEST: Duration = Duration::from_secs(20);

struct Debugged {
    child: Child,
    given: ChildStdin,
    back: Receiver<u8>,
    tracee: Tracee,
    /// The instructions of `fill`; the third repeats itself.
    fill: Vec<u64>,
}

impl Debugged {
    fn start() -> Debugged {
        let directory = tempfile::tempdir().unwrap();
        let (source, path) = (directory.path().join("a.c"), directory.path().join("a"));
        fs::write(&source, SOURCE).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O1", "-no-pie", "-Wall", "-Werror"]).arg(&source).arg("-o").arg(&path);
        assert!(cc.status().unwrap().success());
        let code = Code::of_program("a", &path).unwrap();
        let fill = code.functions().iter().find(|function| function.name == "fill").unwrap();
        let fill = code.instructions(fill);
        let (piped, null) = (Stdio::piped, Stdio::null);
        let mut child =
            Command::new(&path).stdin(piped()).stdout(piped()).stderr(null()).spawn().unwrap();
        let (given, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (to_us, back) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while out.read_exact(&mut byte).is_ok() && to_us.send(byte[0]).is_ok() {}
        });
        back.recv_timeout(LONGEST).expect("it runs");
        let tracee = Tracee::seize(child.id()).unwrap();
        Debugged { child, given, back, tracee, fill }
    }

    /// How often it stops at the breakpoint until it gives this byte back; a signal comes each time.
    fn count_stops(&mut self, byte: u8, address: u64, signal: Option<Signal>) -> u32 {
        self.given.write_all(&[byte]).unwrap();
        let (begun, mut count) = (Instant::now(), 0);
        loop {
            assert!(begun.elapsed() < LONGEST, "it does not come back");
            match self.tracee.poll().unwrap() {
                Some(Stop::Breakpoint(met)) => {
                    assert_eq!((met, self.tracee.registers().unwrap().pc), (address, address));
                    count += 1;
                    if let Some(signal) = signal {
                        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
                    }
                    self.tracee.resume().unwrap();
                }
                Some(_) => self.tracee.resume().unwrap(),
                None => {}
            }
            match self.back.try_recv() {
                Ok(back) => {
                    assert_eq!(back, byte);
                    return count;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => panic!("it has ended"),
            }
        }
    }
}

impl Drop for Debugged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A signal is taken before the instruction, to which the process then comes back.
#[test]
fn a_signal_that_comes_while_it_stands_there_is_no_second_arrival() {
    let mut debugged = Debugged::start();
    let address = debugged.fill[0];
    debugged.tracee.set_breakpoint(address).unwrap();
    for byte in 0..50 {
        assert_eq!(debugged.count_stops(byte, address, Some(Signal::SIGWINCH)), 1, "byte {byte}");
    }
    // And without one each time counts.
    for byte in 0..50 {
        assert_eq!(debugged.count_stops(byte, address, None), 1, "byte {byte}");
    }
}

#[test]
fn an_instruction_that_repeats_itself_is_one_arrival() {
    let mut debugged = Debugged::start();
    let address = debugged.fill[2];
    debugged.tracee.set_breakpoint(address).unwrap();
    for byte in 0..10 {
        assert_eq!(debugged.count_stops(byte, address, None), 1, "byte {byte}");
        assert_eq!(debugged.count_stops(byte, address, Some(Signal::SIGWINCH)), 1, "byte {byte}");
    }
}
