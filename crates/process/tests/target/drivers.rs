//! Drivers that are no good, on nothing but the layout of the region.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use warikomi_clock::{Seed, read_tsc};
use warikomi_pci::Width;
use warikomi_pci::attach::layout::{self, bells, header, orders, report, state};
use warikomi_pci::attach::{Access, Operation, Space};
use warikomi_process::Program;
use warikomi_shared::{Producer, SharedWords, Words, receive};

/// How a driver behaves once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// As it should: answers orders, stamps interrupts, reads a register now and then.
    Good,
    /// Never says that it is ready.
    NeverReady,
    /// Ends at once.
    EndsAtOnce,
    /// Fails, and says why.
    Fails,
    /// Tries what is none of its business, says what came of it, and ends.
    Pries,
    /// Is ready, and then does nothing ever again, whatever it is told.
    Stalls,
    /// Is ready, and then closes its socket, but lives on.
    HangsUp,
    /// Is ready, and then writes anything anywhere in all that it shares for some time, and ends.
    Scribbles,
    /// The same with entries in the register ring and descriptors in memory that make sense one by one.
    Fuzzes,
}

const BEHAVIOURS: [Behaviour; 9] = [
    Behaviour::Good,
    Behaviour::NeverReady,
    Behaviour::EndsAtOnce,
    Behaviour::Fails,
    Behaviour::Pries,
    Behaviour::Stalls,
    Behaviour::HangsUp,
    Behaviour::Scribbles,
    Behaviour::Fuzzes,
];

const BEHAVIOUR: &str = "WARIKOMI_TEST_DRIVER";
const MILLISECONDS: &str = "WARIKOMI_TEST_DRIVER_MS";
const SEED: &str = "WARIKOMI_TEST_DRIVER_SEED";
const FILE: &str = "WARIKOMI_TEST_DRIVER_FILE";

/// This binary as such a driver.
pub(crate) fn program(behaviour: Behaviour) -> Program {
    Program {
        path: std::env::current_exe().unwrap(),
        arguments: ["--exact", "drivers::part", "--ignored", "--nocapture"].map(Into::into).into(),
        environment: vec![(BEHAVIOUR.into(), format!("{behaviour:?}").into())],
    }
}

/// One that misbehaves for so long, by this seed.
pub(crate) fn wild(behaviour: Behaviour, span: Duration, seed: Seed) -> Program {
    let mut program = program(behaviour);
    program.environment.push((MILLISECONDS.into(), span.as_millis().to_string().into()));
    program.environment.push((SEED.into(), seed.0.to_string().into()));
    program
}

/// One that tries to write this file, among others.
pub(crate) fn prying(file: &std::path::Path) -> Program {
    let mut program = program(Behaviour::Pries);
    program.environment.push((FILE.into(), file.into()));
    program
}

/// Becomes a driver if that is what this process was started for; otherwise tests nothing.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    let Ok(name) = std::env::var(BEHAVIOUR) else { return };
    let behaviour = BEHAVIOURS.into_iter().find(|known| format!("{known:?}") == name).unwrap();
    if behaviour == Behaviour::EndsAtOnce {
        eprintln!("nothing to do for me here");
        std::process::exit(3);
    }
    if behaviour == Behaviour::Pries {
        pry();
    }
    let mut driver = Driver::attach();
    match behaviour {
        Behaviour::Good => driver.work(),
        Behaviour::NeverReady => driver.until_alone(),
        Behaviour::EndsAtOnce | Behaviour::Pries => unreachable!("it has ended"),
        Behaviour::Fails => driver.fail("the cable tastes of oak"),
        Behaviour::Stalls => {
            driver.tell(report::STATE, state::READY);
            driver.until_alone();
        }
        Behaviour::HangsUp => {
            driver.tell(report::STATE, state::READY);
            // Its standard input is the only descriptor of its socket.
            driver.socket = None;
            nix::unistd::close(0).unwrap();
            std::thread::sleep(Duration::from_secs(1_000));
        }
        Behaviour::Scribbles | Behaviour::Fuzzes => {
            let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
            driver.tell(report::STATE, state::READY);
            // So that the start is over before the harm begins.
            std::thread::sleep(Duration::from_millis(50));
            let until = Instant::now() + Duration::from_millis(number(MILLISECONDS));
            driver.rage(until, number(SEED), behaviour == Behaviour::Fuzzes);
        }
    }
    std::process::exit(0);
}

/// What a driver says of each thing that it tried: done, or why not.
fn pry() -> ! {
    let say = |what: &str, tried: std::io::Result<()>| match tried {
        Ok(()) => eprintln!("{what}: done"),
        Err(error) => eprintln!("{what}: {:?}", error.kind()),
    };
    let file = std::env::var(FILE).unwrap();
    say("read", std::fs::read("/etc/passwd").map(drop));
    say("write", std::fs::write(file, "mine"));
    say("connect", std::net::TcpStream::connect("127.0.0.1:9").map(drop));
    let parent = nix::unistd::getppid();
    say("signal", nix::sys::signal::kill(parent, None).map_err(Into::into));
    std::process::exit(3);
}

struct Driver {
    socket: Option<OwnedFd>,
    words: SharedWords,
    /// What else it shares, as far as that can be mapped: DMA memory, and packet memory and the state area, if there are.
    others: Vec<SharedWords>,
    requests: Producer<SharedWords>,
    reads: u64,
}

impl Driver {
    fn attach() -> Driver {
        assert_eq!(std::env::var(layout::SOCKET_VARIABLE).as_deref(), Ok("0"));
        let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let (hello, mut files) = receive(&socket).unwrap();
        assert_eq!(hello, layout::HELLO);
        let region: std::fs::File = files.remove(0).into();
        let bytes = region.metadata().unwrap().len();
        let words = SharedWords::map(region, 0, bytes as usize).unwrap();
        assert_eq!(words.load(header::MAGIC, Acquire), layout::MAGIC);
        assert_eq!(words.load(header::WINDOW_BYTES, Acquire), bytes);
        let requests = Producer::new(words.clone(), layout::REQUESTS);
        let others = files.into_iter().map(std::fs::File::from).filter_map(|file| {
            let about = file.metadata().unwrap();
            about.is_file().then(|| SharedWords::map(file, 0, about.len() as usize).unwrap())
        });
        Driver { socket: Some(socket), words, others: others.collect(), requests, reads: 0 }
    }

    fn tell(&self, at: usize, value: u64) {
        self.words.store(at, value, Release);
    }

    fn access(&mut self, space: Space, offset: u32, width: Width, operation: Operation) {
        let entry = Access { space, offset, width, operation }.to_entry();
        while !self.requests.push(entry) {
            std::thread::yield_now();
        }
        self.requests.publish();
    }

    fn read(&mut self, space: Space, offset: u32, width: Width) -> u64 {
        self.reads += 1;
        self.access(space, offset, width, Operation::Read(self.reads));
        while self.words.load(bells::ANSWERED, Acquire) != self.reads {
            assert!(!self.is_alone(), "nobody answers");
            std::thread::yield_now();
        }
        self.words.load(bells::ANSWER, Relaxed)
    }

    /// Whether the support side is gone.
    fn is_alone(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let Some(socket) = &self.socket else { return true };
        matches!(recv(socket, &mut [0], RecvFlags::DONTWAIT), Ok((_, 0)))
    }

    fn until_alone(&self) {
        while !self.is_alone() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn work(&mut self) {
        assert_eq!(self.read(Space::Config, 0, Width::B4), 0x8168_10ec);
        self.access(Space::Config, 4, Width::B2, Operation::Write(0x0406));
        self.tell(report::LINK_MBPS, 1_000);
        self.tell(report::STATE, state::READY);
        let (mut handled, mut beats) = (0, 0);
        while self.words.load(orders::STOP, Acquire) == 0 && !self.is_alone() {
            while self.words.load(bells::INTERRUPTS, Acquire) != handled {
                let at = layout::STAMPS + handled as usize % layout::STAMPS_CAPACITY;
                self.tell(at, read_tsc());
                handled += 1;
                self.tell(bells::STAMPED, handled);
                self.tell(report::INTERRUPTS, handled);
            }
            beats += 1;
            self.tell(report::HEARTBEAT, beats);
            // The multicast filter: it gives back what was written.
            self.access(Space::Bar(2), 8, Width::B4, Operation::Write(beats));
            assert_eq!(self.read(Space::Bar(2), 8, Width::B4), beats & 0xffff_ffff);
            std::thread::yield_now();
        }
        self.tell(report::STATE, state::STOPPED);
    }

    fn fail(&self, why: &str) {
        for (at, bytes) in why.as_bytes().chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.tell(report::LAST_WORDS + at, u64::from_le_bytes(word));
        }
        self.tell(report::LAST_WORDS_LEN, why.len() as u64);
        self.tell(report::STATE, state::FAILED);
        self.until_alone();
    }

    /// Writes anything anywhere, and prints it. `sensible` writes also entries and descriptors that make sense, so that
    /// the device itself is set to work on memory full of nonsense.
    fn rage(&mut self, until: Instant, seed: u64, sensible: bool) {
        let mut state = seed | 1;
        let mut random = move || {
            // xorshift64: fast, and good enough for harm.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let spaces = [Space::Config, Space::Bar(2), Space::Bar(0)];
        let widths = [Width::B1, Width::B2, Width::B4, Width::B8];
        while Instant::now() < until {
            std::thread::yield_now();
            if sensible {
                // On a busy machine the other side sees only what a round leaves behind. So it may first find its place
                // in the ring again, and then some of the entries that are there.
                std::thread::sleep(Duration::from_micros(200));
                let tail = self.words.load(bells::REQUESTS_TAIL, Relaxed);
                let head = tail.wrapping_add(1 + random() % 512);
                self.words.store(bells::REQUESTS_HEAD, head, Release);
                std::thread::sleep(Duration::from_micros(200));
            }
            if random() % 16 == 0 {
                eprintln!("{}", "\u{1b}[31m".repeat(1_000));
            }
            for other in &self.others {
                for _ in 0..1_024 {
                    // Half of them at the beginning, where rings, batons and counts are.
                    let most = if random() % 2 == 0 { 4_096 } else { usize::MAX };
                    let at = random() as usize % other.len().min(most);
                    let value = random();
                    other.store(at, value, Relaxed);
                    if sensible && at + 1 < other.len() {
                        let address = [layout::DMA_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS];
                        let address = address[value as usize % 2] + random() % 0x10_0000;
                        // A descriptor of an rtl8168 that is the card's (OWN), of any length.
                        other.store(at & !1, value & 0x7fff_ffff | 1 << 31, Relaxed);
                        other.store(at | 1, address, Relaxed);
                    }
                }
            }
            for _ in 0..4_096 {
                let (at, value) = (random() as usize % self.words.len(), random());
                self.words.store(at, value, Relaxed);
                if random() % 8 == 0 {
                    self.words.store(512 + at % 128, value, Relaxed);
                }
                if sensible && random() % 4 == 0 {
                    let (place, width) = (random() as usize, widths[value as usize % 4]);
                    let offset = random() as u32 % 256;
                    let operation = match random() % 3 {
                        0 => Operation::Read(value),
                        1 => Operation::Write(value),
                        // Addresses that there are, for rings and buffers.
                        _ => Operation::Write(layout::DMA_BUS_ADDRESS + value % 0x10_0000),
                    };
                    let access = Access { space: spaces[place % 3], offset, width, operation };
                    let slot = layout::REQUESTS.entries + 2 * (place % layout::REQUESTS.capacity);
                    let [first, second] = access.to_entry();
                    self.words.store(slot, first, Relaxed);
                    self.words.store(slot + 1, second, Relaxed);
                    let tail = self.words.load(bells::REQUESTS_TAIL, Relaxed);
                    self.words.store(bells::REQUESTS_HEAD, tail.wrapping_add(value % 513), Release);
                }
            }
        }
    }
}
