//! The least support side that can serve drivers; the real one is `warikomi-target`'s.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_clock::{Span, TscClock, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_nic::{Frame, Nic, RxCounters};
use warikomi_pci::attach::layout::{self, bells, header, orders};
use warikomi_pci::attach::{Access, area};
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};
use warikomi_shared::{Bell, Consumer, SharedWords, Tally, Wakeup, Words, create_region, send};
use warikomi_wire::CountedSink;

pub(super) const DMA_BYTES: u64 = 1 << 20;
/// Longer than a busy machine can make anybody wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Event(File);

impl Wakeup for Event {
    fn wake(&self) {
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).unwrap();
    }
}

pub(super) struct Line {
    tally: Tally<SharedWords>,
    pub(super) bell: Bell<SharedWords, Event>,
    pub(super) sent: u64,
}

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        if let Interrupt::Msi(_) = interrupt {
            self.tally.add();
            self.bell.ring();
            self.sent += 1;
        }
    }
}

/// The place of one driver.
pub(super) struct Seat {
    pub(super) words: SharedWords,
    requests: Consumer<SharedWords>,
    pub(super) line: Line,
    pub(super) socket: Option<OwnedFd>,
}

pub(super) struct Support {
    pub(super) memory: SharedMemory,
    /// All drivers, by their generations, from 1 on.
    pub(super) seats: Vec<Seat>,
    /// The generation that is served.
    pub(super) served: usize,
    /// For drivers that follow one another, with the way.
    pub(super) state: Option<(SharedWords, File, u64)>,
    dma: File,
    pub(super) nic: Box<dyn Nic>,
    pub(super) clock: TscClock,
    strategy: Strategy,
}

pub(super) fn region() -> (File, SharedWords) {
    let file = create_region("warikomi-test", layout::WINDOW_BYTES).unwrap();
    let words = SharedWords::map(file.try_clone().unwrap(), 0, 0x2_0000).unwrap();
    for (at, value) in [
        (header::MAGIC, layout::MAGIC),
        (header::VERSION, layout::VERSION),
        (header::WINDOW_BYTES, layout::WINDOW_BYTES),
        (header::DMA_BYTES, DMA_BYTES),
        (header::DMA_BUS_ADDRESS, layout::DMA_BUS_ADDRESS),
        (header::REGISTER_BAR, 2),
        (header::TSC_HZ, 2_000_000_000),
    ] {
        words.store(at, value, Release);
    }
    (file, words)
}

pub(super) fn dma() -> File {
    create_region("warikomi-test", DMA_BYTES).unwrap()
}

pub(super) fn hand_over(files: &[&File], message: &[u8]) -> (OwnedFd, OwnedFd, File) {
    let kind = SocketType::SEQPACKET;
    let (near, far) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let wakeup = File::from(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap());
    let mut all = vec![files[0].as_fd(), wakeup.as_fd()];
    all.extend(files[1..].iter().map(|file| file.as_fd()));
    send(&near, message, &all).unwrap();
    (near, far, wakeup)
}

impl Support {
    /// A support side of drivers that follow one another in a way, if there is one.
    pub(super) fn of(strategy: Strategy, way: Option<u64>) -> Support {
        let dma = dma();
        let base = layout::DMA_BUS_ADDRESS;
        let memory = SharedMemory::from_file(base, dma.try_clone().unwrap(), 0, DMA_BYTES as usize);
        let options = warikomi_nic::NicOptions::of("rtl8168");
        let state = way.map(|way| {
            let file = create_region("warikomi-test", area::BYTES).unwrap();
            let bytes = area::BYTES as usize;
            (SharedWords::map(file.try_clone().unwrap(), 0, bytes).unwrap(), file, way)
        });
        Support {
            memory: memory.unwrap(),
            seats: Vec::new(),
            served: 1,
            state,
            dma,
            nic: warikomi_nic::build(&options, Box::new(CountedSink::new())).unwrap(),
            clock: TscClock::with_frequency(read_tsc(), 2e9),
            strategy,
        }
    }

    /// A support side of one driver, and the driver's end of its socket.
    pub(super) fn new(strategy: Strategy) -> (Support, OwnedFd) {
        let mut support = Support::of(strategy, None);
        let socket = support.seat(None);
        (support, socket)
    }

    /// A seat for one driver more, and the driver's end of its socket.
    pub(super) fn seat(&mut self, store: Option<File>) -> OwnedFd {
        let (file, words) = region();
        let generation = self.seats.len() as u64 + 1;
        let mut files = vec![&file, &self.dma];
        if let Some((_, state, way)) = &self.state {
            let of_state = [(header::STATE_BYTES, area::BYTES), (header::WAY, *way)];
            for (at, value) in of_state.into_iter().chain([(header::GENERATION, generation)]) {
                words.store(at, value, Release);
            }
            files.push(state);
        }
        files.extend(&store);
        let (near, far, wakeup) = hand_over(&files, layout::HELLO);
        self.seats.push(Seat {
            requests: Consumer::new(words.clone(), layout::REQUESTS),
            line: Line {
                tally: Tally::new(words.clone(), bells::INTERRUPTS),
                bell: Bell::new(words.clone(), bells::SLEEPING, Event(wakeup)),
                sent: 0,
            },
            socket: Some(near),
            words,
        });
        let (before, strategy) = (self.served, self.strategy);
        self.served = generation as usize;
        self.order(strategy);
        self.served = before;
        far
    }

    pub(super) fn served(&mut self) -> &mut Seat {
        &mut self.seats[self.served - 1]
    }

    pub(super) fn order(&mut self, strategy: Strategy) {
        let [code, poll_ns, budget, ppm] = strategy.to_orders();
        for (at, value) in [
            (orders::POLL_NS, poll_ns),
            (orders::BUDGET, budget),
            (orders::CPU_BUDGET_PPM, ppm),
            (orders::BUFFERS, 64),
            (orders::BUFFER_BYTES, 2_048),
            (orders::STRATEGY, code),
        ] {
            self.served().words.store(at, value, Release);
        }
    }

    pub(super) fn with<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let now = self.clock.now();
        let line = &mut self.seats[self.served - 1].line;
        let mut host = Host { now, memory: &self.memory, interrupts: line, looks: None };
        call(&mut *self.nic, &mut host)
    }

    pub(super) fn poll(&mut self) {
        while let Some(entry) = self.served().requests.pop().unwrap() {
            let access = Access::from_entry(entry).unwrap();
            let answer = self.with(|nic, host| access.carry_out(nic, host));
            let seat = self.served();
            if let Some((number, value)) = answer {
                seat.words.store(bells::ANSWER, value, Relaxed);
                seat.words.store(bells::ANSWERED, number, Release);
            }
            seat.requests.release();
        }
        self.with(|nic, host| nic.poll(host));
    }

    /// Serves until `done`, and says what it waited for if that takes too long.
    pub(super) fn serve_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            self.poll();
            assert!(begun.elapsed() < PATIENCE, "waited in vain for: {what}");
            thread::yield_now();
        }
    }

    /// A word of the served driver's window.
    pub(super) fn report(&self, word: usize) -> u64 {
        self.seats[self.served - 1].words.load(word, Acquire)
    }

    pub(super) fn stop(&mut self) {
        let seat = self.served();
        seat.words.store(orders::STOP, 1, Release);
        seat.line.bell.ring();
    }

    pub(super) fn progress(&mut self) -> RxCounters {
        self.with(|nic, host| nic.rx_progress(host, usize::MAX))
    }

    /// Sends packets in bursts, as many as there is room for, with pauses that let a driver sleep.
    pub(super) fn inject(&mut self, packets: u64) {
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5], &[7; 86]].concat();
        for number in 0..packets {
            self.serve_until("room on the ring", |support| {
                support.with(|nic, host| nic.rx_free(host, 1)) > 0
            });
            self.with(|nic, host| nic.receive(host, Frame::new(&frame)));
            if number % 64 == 63 {
                let until = self.clock.now() + Span::from_us(number % 700);
                self.serve_until("the pause to end", |support| support.clock.now() >= until);
            }
        }
        self.serve_until("every packet to be taken", |support| {
            let counters = support.progress();
            counters.accepted == counters.on_ring
        });
    }
}
