//! A process that sends: every frame is judged on the wire.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_driver::transmit::{Bounce, Completion};
use warikomi_inject::{NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_nic::NicOptions;
use warikomi_nic::bus::Bus;
use warikomi_process::programs::sender::dma_bytes;
use warikomi_protocol::answers::Sent;
use warikomi_protocol::commands::{self, Counters, PingAgent, Send};
use warikomi_session::{ProcessSessionOptions, Session};
use warikomi_stack::Topology;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::{SendPlan, Transport};
use warikomi_target::{Interrupted, TargetError};
use warikomi_wire::peer::Judged;
use warikomi_wire::peer::numbered::{Look, Numbered};

use crate::{along, program};

const MODELS: [&str; 2] = ["rtl8168", "oc48"];
/// More than any device of ours can have on its way.
/// Every device takes these messages whole.
const MTU_BYTES: u32 = 9_028;
const ROOMY_BYTES: u64 = 64 << 20;
/// Longer than anything here takes, on however busy a machine.
const TIMEOUT_MS: u64 = 60_000;

fn plan(sizes_bytes: &[u32], count: u64) -> SendPlan {
    SendPlan {
        sizes_bytes: sizes_bytes.to_vec(),
        block: 1,
        seed: 1,
        count,
        warmup: 0,
        interval_ps: 0,
        buffers: BufferKind::Contiguous,
        checksum: true,
        completion: Completion::Interrupt,
        bounce: Bounce::None,
        alignment_bytes: 1,
        transport: Transport::Udp,
        send_buffer_bytes: ROOMY_BYTES,
        mtu_bytes: MTU_BYTES,
        run_id: 0xbeef,
        mixed: None,
    }
}

/// Plans with all buffers, completions and bounces.
fn all_ways(plan: &SendPlan) -> Vec<SendPlan> {
    let mut plans = Vec::new();
    for buffers in ["mbuf-2k", "mbuf-4k", "contiguous"] {
        for completion in ["interrupt", "interrupt-free", "adaptive"] {
            for bounce in ["none", "3", "all", "auto", "dummy"] {
                plans.push(SendPlan {
                    buffers: buffers.parse().unwrap(),
                    completion: completion.parse().unwrap(),
                    bounce: bounce.parse().unwrap(),
                    ..plan.clone()
                });
            }
        }
    }
    plans
}

fn request(plan: &SendPlan) -> Send {
    plan.to_command(NETWORK_MAC, format!("{NETWORK_IP}:{UDP_PORT}"), TIMEOUT_MS)
}

/// Makes a request wrong.
type Change = fn(&mut Send);

struct Sending {
    session: Session,
    judge: Judged<Numbered>,
}

impl Sending {
    /// A sender that can carry these plans out.
    fn start(nic: NicOptions, plans: &[SendPlan]) -> Sending {
        Sending::with(nic, plans, &Interrupted::default())
    }

    fn with(nic: NicOptions, plans: &[SendPlan], interrupted: &Interrupted) -> Sending {
        let info = warikomi_driver::by_name(&nic.model).unwrap().info();
        let options = ProcessSessionOptions {
            driver: nic.model.clone(),
            program: program(&format!("driver {}", nic.model)),
            nic,
            dma_bytes: plans.iter().map(|plan| dma_bytes(info, plan)).max().unwrap(),
            ..along(Topology::Sender, Strategy::Interrupt)
        };
        let (sink, judge) = Numbered::sink();
        let session =
            Session::start_process(&options, Box::new(sink), interrupted, &mut |_| ()).unwrap();
        Sending { session, judge }
    }

    fn ask<C: commands::Command>(&mut self, command: C) -> Result<C::Answer, TargetError> {
        self.session.target.ask(command, Duration::from_millis(TIMEOUT_MS))
    }

    fn send(&mut self, plan: &SendPlan) -> Result<Sent, TargetError> {
        let look = if plan.bounce == Bounce::Dummy { Look::Head } else { Look::Whole };
        self.judge.lock().begin(plan.run_id, plan.warmup + plan.count, look);
        self.judge.lock().expect_checksums(plan.checksum);
        self.ask(request(plan))
    }

    /// Sends all of it, and insists that it came.
    fn send_all(&mut self, plan: &SendPlan) -> Sent {
        let case = format!("{plan:?}");
        let sent = self.send(plan).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!((sent.sent, sent.errors, sent.dead_locked), (plan.count, 0, false), "{case}");
        assert!(sent.pools_full, "{case}: {sent:?}");
        assert_eq!(
            self.judge.lock().seen().wrong(plan.warmup + plan.count),
            None,
            "{case}: {sent:?}"
        );
        sent
    }
}

#[test]
fn every_message_arrives_whole_and_in_order_with_all_buffers_completions_and_bounces() {
    for model in MODELS {
        let mixture = SendPlan { warmup: 20, ..plan(&[16, 213, 1_472, 4_096, 9_000], 300) };
        let plans = all_ways(&mixture);
        let mut sending = Sending::start(NicOptions::of(model), &plans);
        for (number, plan) in plans.iter().enumerate() {
            let checksum = number % 4 > 0;
            let plan = SendPlan { run_id: number as u32, checksum, ..plan.clone() };
            let sent = sending.send_all(&plan);
            assert_eq!(sent.buffers_freed, sent.buffers_taken, "{model}: {sent:?}");
            assert!(sent.busy_ns <= sent.took_ns && sent.took_ns > 0, "{model}: {sent:?}");
        }
        let counters = sending.ask(Counters { interface: None }).unwrap();
        let frames = 320 * plans.len() as u64;
        assert_eq!(counters.interface["tx_packets"], frames, "{model}");
        sending.session.stop().unwrap();
    }
}

/// A bus that takes a millisecond for each transfer, so that nothing else decides.
fn slow(model: &str) -> NicOptions {
    let bus = Bus {
        bytes_per_second: 1_000_000_000,
        descriptor_fetch: Span::ZERO,
        arbitration: Span::from_ms(1),
        burst_bytes: 4_096,
        wait: Span::ZERO,
        mapping: Span::ZERO,
    };
    NicOptions { bus: Some(bus), ..NicOptions::of(model) }
}

#[test]
fn a_small_send_buffer_locks_interrupt_free_up_and_makes_the_others_sleep() {
    for model in MODELS {
        let small = SendPlan { send_buffer_bytes: 4_096, ..plan(&[1_024], 50) };
        let mut sending = Sending::start(slow(model), std::slice::from_ref(&small));
        // As many messages that only four interruptions in a row, each time, could keep it going.
        let completion = Completion::InterruptFree;
        let sent = sending.send(&SendPlan { completion, count: 10_000, ..small.clone() }).unwrap();
        assert!(sent.dead_locked && !sent.pools_full, "{model}: {sent:?}");
        for completion in ["interrupt", "adaptive"] {
            let completion = completion.parse().unwrap();
            let sent = sending.send_all(&SendPlan { completion, ..small.clone() });
            assert!(sent.sleeps > 10 && sent.interrupts > 10, "{model}: {sent:?}");
            assert!(sent.busy_ns < sent.took_ns, "{model}: {sent:?}");
        }
        sending.session.stop().unwrap();
    }
}

#[test]
fn a_pace_is_kept() {
    for model in MODELS {
        let paced = SendPlan { interval_ps: 300_000_000, ..plan(&[64], 100) };
        let mut sending = Sending::start(NicOptions::of(model), std::slice::from_ref(&paced));
        for completion in ["interrupt", "interrupt-free", "adaptive"] {
            let completion = completion.parse().unwrap();
            let sent = sending.send_all(&SendPlan { completion, ..paced.clone() });
            assert!(sent.took_ns >= 99 * 300_000, "{model}: {sent:?}");
        }
        sending.session.stop().unwrap();
    }
}

#[test]
fn time_that_runs_out_is_an_error_that_says_how_far_it_came_and_no_end() {
    for model in MODELS {
        let long = SendPlan { send_buffer_bytes: 1 << 20, ..plan(&[1_024], 1_000_000_000) };
        let mut sending = Sending::start(slow(model), std::slice::from_ref(&long));
        let error = sending.ask(Send { timeout_ms: 100, ..request(&long) }).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, TargetError::Refused { .. }), "{text}");
        assert!(text.contains("timeout_ms") && text.contains("messages"), "{text}");
        // The device was started again, and sends for the next one.
        sending.send_all(&SendPlan { count: 20, run_id: 1, ..long });
        sending.session.stop().unwrap();
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_next_is_served() {
    let good = plan(&[64], 10);
    let mut sending = Sending::start(NicOptions::of("rtl8168"), std::slice::from_ref(&good));
    let wrong: [(Change, &str); 8] = [
        (|request| request.completion = "sometimes".to_owned(), "adaptive"),
        (
            |request| request.completion = "adaptive:80%,20%".to_owned(),
            "the first below the second",
        ),
        (|request| request.buffers = "mbuf:0".to_owned(), "a power of two"),
        (|request| request.sizes_bytes = vec![65_508], "16 to 65507 bytes"),
        (|request| request.mtu_bytes = 65_535, "68 to 16242 bytes"),
        (|request| request.send_buffer_bytes = 63, "64 to"),
        (|request| request.destination = "nowhere".to_owned(), "10.9.0.2:5001"),
        (|request| request.buffers = "mbuf:65536".to_owned(), "DMA memory"),
    ];
    for (change, says) in wrong {
        let mut request = request(&good);
        change(&mut request);
        let error = sending.ask(request).unwrap_err();
        assert!(matches!(error, TargetError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = sending.ask(commands::ReceiveStop {}).unwrap_err();
    assert!(matches!(error, TargetError::Refused { .. }), "{error}");
    sending.ask(PingAgent {}).unwrap();
    sending.send_all(&good);
    sending.session.stop().unwrap();
}

#[test]
fn a_sender_that_is_killed_is_missed() {
    let long = plan(&[64], 1_000_000_000_000);
    let mut sending = Sending::start(NicOptions::of("oc48"), std::slice::from_ref(&long));
    let id = Pid::from_raw(sending.session.target.process_id() as i32);
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        kill(id, Signal::SIGKILL).unwrap();
    });
    let error = sending.send(&long).unwrap_err();
    killer.join().unwrap();
    assert!(matches!(&error, TargetError::PartEnded { part: "driver", .. }), "{error}");
    assert!(error.to_string().contains("SIGKILL"), "{error}");
}

#[test]
fn a_sender_ends_with_its_session_while_it_sends() {
    let long = plan(&[64], 1_000_000_000_000);
    let interrupted = Interrupted::default();
    let mut sending =
        Sending::with(NicOptions::of("oc48"), std::slice::from_ref(&long), &interrupted);
    let id = sending.session.target.process_id();
    let handle = interrupted.clone();
    let interrupter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        handle.set();
    });
    let error = sending.send(&long).unwrap_err();
    interrupter.join().unwrap();
    assert!(matches!(error, TargetError::Interrupted), "{error}");
    sending.session.stop().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}
