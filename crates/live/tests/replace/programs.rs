//! What runs in the processes: good drivers, drivers that are no good, and the application.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use warikomi_clock::read_tsc;
use warikomi_pci::attach::area::{self, BATON, OWNER};
use warikomi_pci::attach::layout::{self, header, orders, report, state, times};
use warikomi_process::{Program, programs};
use warikomi_shared::{SharedWords, receive};

const PART: &str = "WARIKOMI_TEST_PART";

/// How a driver is no good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Ends at once.
    EndsAtOnce,
    /// Is never warm.
    IsNeverWarm,
    /// Ends when it sees the baton.
    EndsWithBaton,
    /// Does nothing when it sees the baton.
    HangsWithBaton,
    /// Says that it cannot read what was left.
    Refuses,
    /// Accepts, and ends.
    EndsOnceAccepted,
    /// Accepts, and does nothing.
    HangsOnceAccepted,
    /// Says that it serves, and its loop stands still.
    NeverBeats,
    /// Says that it serves, and takes up no work.
    DoesNoWork,
    /// Accepts, writes nonsense over the state area, and ends.
    LeavesNonsense,
}

pub(crate) const ALL_BAD: [Bad; 10] = [
    Bad::EndsAtOnce,
    Bad::IsNeverWarm,
    Bad::EndsWithBaton,
    Bad::HangsWithBaton,
    Bad::Refuses,
    Bad::EndsOnceAccepted,
    Bad::HangsOnceAccepted,
    Bad::NeverBeats,
    Bad::DoesNoWork,
    Bad::LeavesNonsense,
];

fn program(name: &str) -> Program {
    Program {
        path: std::env::current_exe().unwrap(),
        arguments: ["--exact", "programs::part", "--ignored", "--nocapture"].map(Into::into).into(),
        environment: vec![(PART.into(), name.into())],
    }
}

/// The driver that works.
pub(crate) fn good() -> Program {
    program("driver")
}

/// Another program that works, too.
pub(crate) fn as_good() -> Program {
    let mut program = good();
    program.environment.push(("WARIKOMI_TEST_OTHER".into(), "1".into()));
    program
}

/// One that does not.
pub(crate) fn bad(how: Bad) -> Program {
    program(&format!("{how:?}"))
}

/// What is above a driver.
pub(crate) fn above(name: &str) -> Program {
    program(name)
}

/// Becomes a part if that is what this process was started for; otherwise tests nothing.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    let Ok(name) = std::env::var(PART) else { return };
    let ended = match name.as_str() {
        "driver" => programs::driver::main("rtl8168"),
        "application" => programs::application::main(),
        "store" => programs::store::main(),
        "store-client" => programs::store_client::main(),
        "starter" => programs::starter::main(),
        other => {
            let how = ALL_BAD.into_iter().find(|known| format!("{known:?}") == other);
            BadDriver::attach(how.unwrap()).live();
            Ok(())
        }
    };
    if let Err(error) = &ended {
        eprintln!("{name}: {error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}

/// A driver on nothing but the layout of window and state area.
struct BadDriver {
    how: Bad,
    words: SharedWords,
    area: SharedWords,
    generation: u64,
}

impl BadDriver {
    fn attach(how: Bad) -> BadDriver {
        if how == Bad::EndsAtOnce {
            eprintln!("nothing to do for me here");
            std::process::exit(3);
        }
        let (hello, mut files) = receive(std::io::stdin().as_fd()).unwrap();
        assert_eq!(hello, layout::HELLO);
        let map = |file: std::os::fd::OwnedFd, bytes: u64| {
            SharedWords::map(file.into(), 0, bytes as usize).unwrap()
        };
        // Window, pipe, DMA memory, packet memory, state area.
        let area = map(files.remove(4), area::BYTES);
        let words = map(files.remove(0), layout::WINDOW_BYTES);
        let generation = words[header::GENERATION].load(Acquire);
        BadDriver { how, words, area, generation }
    }

    fn tell(&self, at: usize, value: u64) {
        self.words[at].store(value, Release);
    }

    fn stamp(&self, which: usize) {
        self.tell(report::TIMES + which, read_tsc());
    }

    /// Until it is told to end, or killed, or nobody is there any more.
    fn hang(&self) {
        while self.words[orders::STOP].load(Acquire) == 0 && !self.is_alone() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_alone(&self) -> bool {
        let parent = nix::unistd::getppid();
        parent.as_raw() == 1
    }

    fn live(&self) {
        if self.how == Bad::IsNeverWarm {
            return self.hang();
        }
        self.tell(report::STATE, state::WARM);
        while self.area[BATON].load(Acquire) & 0xffff_ffff != self.generation {
            if self.words[orders::STOP].load(Acquire) != 0 || self.is_alone() {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        match self.how {
            Bad::EndsAtOnce | Bad::IsNeverWarm => unreachable!("it has not come so far"),
            Bad::EndsWithBaton => {}
            Bad::HangsWithBaton => self.hang(),
            Bad::Refuses => {
                let why = u64::from_le_bytes(*b"garbage!");
                self.tell(report::LAST_WORDS, why);
                self.tell(report::LAST_WORDS_LEN, 8);
                self.tell(report::STATE, state::FAILED);
            }
            _ => self.with_device(),
        }
    }

    fn with_device(&self) {
        self.area[OWNER].store(self.generation, Release);
        match self.how {
            Bad::EndsOnceAccepted => {}
            Bad::HangsOnceAccepted => self.hang(),
            Bad::LeavesNonsense => {
                let words = area::header::MAGIC..area::WORDS;
                let kept = [BATON, OWNER];
                for at in words.filter(|at| !kept.contains(at)) {
                    self.area[at].store(read_tsc().wrapping_mul(0x9e37_79b9_7f4a_7c15), Relaxed);
                }
            }
            _ => {
                self.stamp(times::SERVED);
                self.tell(report::LINK_MBPS, 1_000);
                self.tell(report::STATE, state::READY);
                let mut beats = 0;
                while self.words[orders::STOP].load(Acquire) == 0 && !self.is_alone() {
                    std::thread::sleep(Duration::from_millis(1));
                    beats += u64::from(self.how == Bad::DoesNoWork);
                    self.tell(report::HEARTBEAT, beats);
                }
            }
        }
    }
}
