//! What an interrupt takes passes before its handler runs; and none is lost with what is written over.

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use warikomi_clock::{Clock, Span, Time, VirtualClock};
use warikomi_lab::record::{Record, TRACE};
use warikomi_measure::RunDirectory;
use warikomi_nic::{Frame, Nic, NicOptions, RxOutcome};
use warikomi_pci::{Host, Interrupt, Width};
use warikomi_protocol::commands::{LoadDriver, ReadFile};
use warikomi_target::kernel::{Attachment, GuestCosts, KernelTarget, LaunchOptions};
use warikomi_target::{CardId, Interrupted, Target};
use warikomi_testbench::cards::duo;
use warikomi_trace::{EventKind, Reader};
use warikomi_wire::WireKind;

use crate::{image, try_run};

const COST: Span = Span::from_ns(2_345);

/// How long after each interrupt of a frame that has come the driver's next access is, and of which kind it was.
fn first_accesses(flags: &[&str]) -> Vec<(Span, Interrupt)> {
    let usual = ["--count", "50", "--interval", "50us", "--interrupt-cost", "2345ns"];
    let recording = try_run::<Record>(&[&usual[..], flags].concat());
    let recording = recording.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(folder.path(), 1, "record").unwrap();
    recording.keep(&directory).unwrap();
    let trace = File::open(directory.path().join(TRACE)).unwrap();

    let (mut arrived, mut waits, mut found) = (Time::ZERO, None, Vec::new());
    for event in Reader::new(BufReader::new(trace)).unwrap() {
        let event = event.unwrap();
        match event.what {
            EventKind::Arrived { .. } => arrived = event.at,
            EventKind::Interrupt(Interrupt::Intx(false), _) => {}
            EventKind::Interrupt(interrupt, _) if event.at == arrived => {
                waits = Some((event.at, interrupt));
            }
            EventKind::Read(..) | EventKind::Write(..) => {
                let since = waits.take();
                found.extend(since.map(|(at, interrupt)| (event.at.since(at), interrupt)));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_handler_begins_when_what_a_message_takes_has_passed() {
    let found = first_accesses(&[]);
    assert!(found.len() > 40, "{found:?}");
    for (after, interrupt) in found {
        assert!(matches!(interrupt, Interrupt::Msi(_)));
        assert_eq!(after, COST);
    }
}

#[test]
fn so_it_does_by_a_level() {
    let found = first_accesses(&["--model", "rtl8139", "--driver", "8139too"]);
    assert!(found.len() > 40, "{found:?}");
    for (after, interrupt) in found {
        assert_eq!((after, interrupt), (COST, Interrupt::Intx(true)));
    }
}

/// A kernel with the test card duo (`warikomi_testbench::cards::duo`), in whose driver each of two vectors counts.
struct Duo(Box<dyn Target>);

const STATUS0: u64 = 0x20;
const STATUS_ALL: u64 = 0x3f;

impl Duo {
    fn start() -> Duo {
        let launch = LaunchOptions {
            kernel: image().kernel(),
            initramfs: image().initramfs(),
            memory_mb: 256,
            core: None,
            socket: None,
            extra_arguments: vec![],
            attachment: Attachment::InStep(GuestCosts::default()),
            shared_core: true,
            preload: warikomi_kernel::PRELOAD,
            seed: Some(1),
            reads: vec![],
            confined: true,
        };
        let sink = "sink".parse::<WireKind>().unwrap().build().unwrap();
        let nics = vec![duo::make(&NicOptions::of("duo"), sink).unwrap()];
        let clock = Clock::Virtual(VirtualClock::at_zero());
        let started = KernelTarget::start(&launch, nics, clock, Interrupted::default());
        let (target, _) = started.unwrap_or_else(|error| panic!("{error}"));
        let mut duo = Duo(Box::new(target));
        let load = LoadDriver { name: "warikomi_vectors".into(), params: vec![] };
        duo.0.ask(load, Duration::from_secs(5)).unwrap_or_else(|error| panic!("{error}"));
        duo.serve();
        duo
    }

    fn serve(&mut self) {
        self.0.serve_for(Duration::from_millis(1)).unwrap();
    }

    fn card<R>(&mut self, act: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let (nic, mut host) = self.0.card(CardId::FIRST).unwrap();
        act(nic, &mut host)
    }

    /// Gives it a frame for which there is no descriptor: the vector of its flow rises, unless it is high.
    fn raise(&mut self, flow: &[u8]) {
        let got = self.card(|nic, host| nic.receive(host, Frame::new(flow)));
        assert_eq!(got.outcome, RxOutcome::NoDescriptor);
    }

    /// How often the handler of each vector has run.
    fn counts(&mut self) -> [u64; 2] {
        let path = "/sys/bus/pci/devices/0000:01:00.0/counts".into();
        let read = self.0.ask(ReadFile { path }, Duration::from_secs(5)).unwrap().text;
        let mut counts = read.split_whitespace().map(|count| count.parse().unwrap());
        [0, 1].map(|_| counts.next().unwrap())
    }
}

#[test]
fn a_vector_whose_only_message_was_written_over_has_its_turn() {
    let mut duo = Duo::start();
    let flows = [0, 1].map(|queue| {
        let port =
            duo::port_of(queue, |frame| duo.card(|nic, host| nic.receive(host, frame).queue));
        duo.serve();
        duo::datagram(port)
    });
    // Were it by their numbers, the first messages would be as good as any.
    for _ in 0..5 {
        duo.raise(&flows[0]);
        duo.serve();
    }
    let [first, second] = duo.counts();

    // The guest stands still meanwhile, and the bridge keeps 1,023.
    duo.raise(&flows[1]);
    for _ in 0..1_024 {
        duo.card(|nic, host| nic.bar_write(host, 0, STATUS0, Width::B4, STATUS_ALL));
        duo.raise(&flows[0]);
    }
    duo.serve();
    assert_eq!(duo.counts(), [first + 1_023 + 1, second + 1]);
    duo.0.stop().unwrap();
}
