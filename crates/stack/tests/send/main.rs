//! The sender over real drivers and models: nothing is lost, everything comes back, and what dead-locks is
//! known to.

mod world;

use std::net::Ipv4Addr;

use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_stack::Station;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::{SendPlan, Step, Transport};

use world::{Disturbances, Ended, Random, run};

const STATION: Station =
    Station { mac: [2, 0, 0, 0, 0, 1], address: Ipv4Addr::new(10, 9, 0, 1), prefix_bits: 24 };
const DESTINATION: ([u8; 6], Ipv4Addr, u16) =
    ([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 9, 0, 2), 5_001);

const SEED: &str = "WARIKOMI_TEST_SEED";
const BUFFERS: [BufferKind; 3] = [
    BufferKind::Mbuf { cluster_bytes: 2_048 },
    BufferKind::Mbuf { cluster_bytes: 4_096 },
    BufferKind::Contiguous,
];

fn completions() -> [Completion; 4] {
    ["interrupt", "interrupt-free", "adaptive-published", "adaptive"]
        .map(|name| name.parse().unwrap())
}

fn bounces() -> [Bounce; 4] {
    ["none", "3", "all", "auto"].map(|name| name.parse().unwrap())
}

/// The models that a user-space driver of ours drives, and that send each of these messages in one frame. Those of the
/// RTL8139 are shorter, and its driver copies what it sends.
fn models() -> impl Iterator<Item = &'static str> {
    let names = warikomi_nic::MODELS.iter().map(|info| info.name);
    names.filter(|name| *name != "rtl8139" && warikomi_driver::by_name(name).is_some())
}

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
        send_buffer_bytes: 1 << 20,
        mtu_bytes: 65_535,
        run_id: 0xbeef,
        mixed: None,
    }
}

/// Every message has gone, whole, once and in order, and every buffer came back.
fn assert_all_sent(plan: &SendPlan, ended: &Ended, case: &str) {
    let Ended { step, sent, seen } = ended;
    assert_eq!(seen.wrong, None, "{case}");
    assert_eq!(*step, Step::Finished, "{case}: {sent:?}");
    // At a pace, some of the warm-up may have been dropped, too.
    let least = if plan.interval_ps == 0 { sent.sent + plan.warmup } else { sent.sent };
    let possible = least..=sent.sent + plan.warmup;
    assert!(possible.contains(&seen.messages), "{case}: {} came, {sent:?}", seen.messages);
    assert_eq!(sent.sent + sent.socket_drops, plan.count, "{case}: {sent:?}");
    assert!(sent.pools_full && !sent.dead_locked && sent.errors == 0, "{case}: {sent:?}");
}

/// Messages of these sizes arrive with all buffers, completions and bounces.
fn all_arrive(model: &str, sizes_bytes: &[u32]) {
    let bytes: u64 = sizes_bytes.iter().map(|&size| u64::from(size)).sum();
    let sizes = sizes_bytes.len() as u64;
    for buffers in BUFFERS {
        for completion in completions() {
            for bounce in bounces() {
                let plan = SendPlan { warmup: sizes, ..plan(sizes_bytes, 20 * sizes) };
                let plan = SendPlan { buffers, completion, bounce, ..plan };
                let case = format!("{model}, {buffers}, {completion}, {bounce}");
                let ended = run(model, &plan, Disturbances::NONE, 1);
                assert_all_sent(&plan, &ended, &case);
                assert_eq!(ended.sent.sent_bytes, 20 * bytes, "{case}");
                assert_eq!(ended.sent.copied_bytes, 20 * bytes, "{case}");
                // 8 bytes of UDP's header and 20 of IP's besides, in each.
                assert_eq!(ended.sent.summed_bytes, 20 * (bytes + sizes * 28), "{case}");
                assert_eq!(ended.sent.buffers_freed, ended.sent.buffers_taken, "{case}");
                assert!(ended.sent.busy_ns <= ended.sent.took_ns, "{case}: {:?}", ended.sent);
            }
        }
    }
}

#[test]
fn every_message_arrives_whole_and_in_order_with_all_buffers_completions_and_bounces() {
    for model in models() {
        all_arrive(model, &[16, 168, 169, 212, 213, 1_472, 2_048, 4_096, 9_000]);
    }
}

#[test]
fn a_card_of_short_frames_sends_every_message_that_fits_into_one() {
    all_arrive("rtl8139", &[16, 168, 169, 212, 213, 1_472]);
}

/// What a device does that answers late: with a send buffer that is full before it, interrupt-free has
/// nobody who would free anything.
fn slow() -> Disturbances {
    Disturbances { posted_ns: 0, stall_in: 1, stall_ns: 50_000 }
}

#[test]
fn a_send_buffer_that_is_full_before_the_device_locks_interrupt_free_up_and_nobody_else() {
    for model in models() {
        for buffers in BUFFERS {
            for interval_ps in [0, 1_000] {
                for completion in completions() {
                    let plan = SendPlan { send_buffer_bytes: 4_096, ..plan(&[1_024], 500) };
                    let plan = SendPlan { completion, buffers, interval_ps, ..plan };
                    let case = format!("{model}, {buffers}, {completion}, {interval_ps} ps");
                    let ended = run(model, &plan, slow(), 2);
                    if completion != Completion::InterruptFree {
                        assert_all_sent(&plan, &ended, &case);
                        continue;
                    }
                    let Ended { step, sent, seen } = ended;
                    assert_eq!(step, Step::DeadLocked, "{case}: {sent:?}");
                    assert!(sent.dead_locked && !sent.pools_full, "{case}: {sent:?}");
                    assert_eq!((sent.sent, seen.wrong), (0, None), "{case}: {sent:?}");
                }
            }
        }
    }
}

#[test]
fn adaptive_never_locks_up_however_its_thresholds_and_the_messages_lie() {
    for model in models() {
        // One message fills the buffer, and leaves more free than the threshold asks for.
        for (size, send_buffer_bytes) in [(4_096, 4_096), (4_096, 8_000), (9_000, 12_000), (16, 16)]
        {
            for (low, high) in [(1, 2), (25, 50), (99, 100)] {
                let completion = Completion::Adaptive(Thresholds::new(low, high).unwrap());
                let plan = SendPlan { completion, send_buffer_bytes, ..plan(&[size], 200) };
                let case = format!("{model}, {size} of {send_buffer_bytes} bytes, {completion}");
                assert_all_sent(&plan, &run(model, &plan, slow(), 3), &case);
            }
        }
    }
}

#[test]
fn a_pace_is_kept_and_a_full_socket_drops() {
    for model in models() {
        let paced = SendPlan { interval_ps: 50_000_000, ..plan(&[64], 100) };
        let ended = run(model, &paced, Disturbances::NONE, 4);
        assert_all_sent(&paced, &ended, model);
        let sent = ended.sent;
        assert!(sent.took_ns >= 99 * 50_000, "{model}: {sent:?}");
        assert!(sent.busy_ns < sent.took_ns / 4, "{model} was idle most of the time: {sent:?}");
        assert_eq!(sent.socket_drops, 0, "{model}");
        let fast = SendPlan { interval_ps: 1, send_buffer_bytes: 256, ..plan(&[64], 500) };
        let ended = run(model, &fast, slow(), 4);
        assert_all_sent(&fast, &ended, model);
        assert!(ended.sent.socket_drops > 0, "{model}: {:?}", ended.sent);
    }
}

/// What each system does for a message: buffers taken and given back, buffers visited, bytes summed up.
#[test]
fn the_work_of_both_buffer_systems_is_counted_step_by_step() {
    let work = |buffers, size, checksum| {
        let plan = SendPlan { buffers, checksum, warmup: 30, ..plan(&[size], 100) };
        let ended = run("oc48", &plan, Disturbances::NONE, 8);
        assert_all_sent(&plan, &ended, &format!("{buffers} {size}"));
        let sent = ended.sent;
        let all = [sent.buffers_taken, sent.buffers_visited, sent.summed_bytes, sent.buffers_freed];
        all.map(|all| all as f64 / 100.0)
    };
    let [small, large, contiguous] = BUFFERS;
    // One mbuf: UDP, IP and the driver each look at it.
    assert_eq!(work(small, 64, true), [1.0, 3.0, 92.0, 1.0]);
    assert_eq!(work(small, 64, false), [1.0, 2.0, 20.0, 1.0]);
    // Headers, 8 mbufs with clusters: UDP and the driver walk all nine, IP sees the first.
    assert_eq!(work(small, 16_384, true), [17.0, 19.0, 16_412.0, 17.0]);
    assert_eq!(work(large, 16_384, true), [9.0, 11.0, 16_412.0, 9.0]);
    assert_eq!(work(contiguous, 16_384, true), [1.0, 1.0, 16_412.0, 1.0]);
    assert_eq!(work(contiguous, 16_384, false), [1.0, 1.0, 20.0, 1.0]);
}

/// A card that takes DMA only where it is aligned forces copies: of headers and of short rests, but of whole contiguous
/// packets, whose headers begin at an address that ends in 6.
#[test]
fn what_is_not_aligned_is_copied_and_arrives_whole() {
    let copied = |buffers, bounce, size, alignment_bytes| {
        let plan = SendPlan { buffers, bounce, alignment_bytes, warmup: 30, ..plan(&[size], 100) };
        let case = format!("{buffers} {bounce} {size} aligned to {alignment_bytes}");
        let ended = run("oc48", &plan, Disturbances::NONE, 9);
        assert_all_sent(&plan, &ended, &case);
        ended.sent.aligned_bytes as f64 / 100.0
    };
    let [small, _, contiguous] = BUFFERS;
    for alignment in [1, 2] {
        assert_eq!(copied(small, Bounce::None, 16_384, alignment), 0.0);
        assert_eq!(copied(contiguous, Bounce::None, 16_384, alignment), 0.0);
    }
    for alignment in [4, 8, 64] {
        assert_eq!(copied(small, Bounce::None, 16_384, alignment), 42.0, "headers only");
        assert_eq!(copied(contiguous, Bounce::None, 16_384, alignment), 16_426.0);
        assert_eq!(copied(small, Bounce::First(3), 16_384, alignment), 0.0);
    }
    // Headers, and a rest in a small mbuf, which begins behind a header of 20 bytes.
    assert_eq!(copied(small, Bounce::None, 2_148, 4), 42.0);
    assert_eq!(copied(small, Bounce::None, 2_148, 8), 42.0 + 100.0);
}

#[test]
fn the_warm_up_is_sent_but_not_counted() {
    for model in models() {
        let plan = SendPlan { warmup: 300, ..plan(&[64], 100) };
        let ended = run(model, &plan, Disturbances::NONE, 5);
        assert_all_sent(&plan, &ended, model);
        let Ended { sent, seen, .. } = ended;
        assert_eq!((seen.messages, sent.planned, sent.sent), (400, 100, 100), "{model}");
        assert_eq!((sent.transfers, sent.copied_bytes), (100, 6_400), "{model}: {sent:?}");
    }
}

/// Any plan, for a device with disturbances.
fn any(random: &mut Random, count: u64) -> (SendPlan, Disturbances) {
    const SIZES: [u32; 11] = [16, 64, 168, 169, 212, 213, 1_472, 2_048, 4_096, 9_000, 16_000];
    let mut sizes: Vec<u32> = SIZES.to_vec();
    sizes.retain(|_| random.below(2) == 0);
    sizes.push(16 + random.below(3_000) as u32);
    let largest = u64::from(*sizes.iter().max().unwrap());
    let more = 1 << (10 + random.below(11));
    let low = 1 + random.below(98) as u8;
    let high = low + 1 + random.below(u64::from(100 - low)) as u8;
    let completion = match random.below(5) {
        0 => Completion::Interrupt,
        1 => Completion::InterruptFree,
        2 => Completion::AdaptivePublished(Thresholds::new(low, high).unwrap()),
        3 => Completion::AdaptiveWatching(Thresholds::new(low, high).unwrap()),
        _ => Completion::Adaptive(Thresholds::new(low, high).unwrap()),
    };
    let bounce = bounces()[random.below(4) as usize];
    let plan = SendPlan {
        block: random.below(50),
        seed: random.below(u64::MAX),
        warmup: random.below(count / 10 + 1),
        interval_ps: if random.below(4) == 0 { random.below(2_000_000) } else { 0 },
        buffers: BUFFERS[random.below(3) as usize],
        checksum: random.below(4) > 0,
        bounce,
        alignment_bytes: if bounce == Bounce::Auto { 1 } else { 1 << random.below(7) },
        completion,
        send_buffer_bytes: largest + random.below(more),
        ..plan(&sizes, count)
    };
    let disturbances = Disturbances {
        posted_ns: random.below(5_000),
        stall_in: random.below(200),
        stall_ns: 1 + random.below(100_000),
    };
    (plan, disturbances)
}

/// Random plans, until so many messages were sent.
fn stress(messages: u64, each: u64) {
    let given = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap());
    let first: u64 = given.unwrap_or_else(warikomi_clock::read_tsc) | 1;
    println!("{SEED}={first}");
    let mut random = Random(first);
    let models: Vec<_> = models().collect();
    let mut left = messages;
    while left > 0 {
        let (plan, disturbances) = any(&mut random, each.min(left));
        let model = models[random.below(models.len() as u64) as usize];
        let seed = random.below(u64::MAX);
        let case = format!("{SEED}={first}: {model}, {plan:?}, {disturbances:?}, seed {seed}");
        let ended = run(model, &plan, disturbances, seed);
        // A dead-lock of interrupt-free is none of a driver's faults; what went out must be right.
        if plan.completion == Completion::InterruptFree && ended.step == Step::DeadLocked {
            assert_eq!(ended.seen.wrong, None, "{case}");
            left = left.saturating_sub(ended.seen.messages.max(1));
            continue;
        }
        assert_all_sent(&plan, &ended, &case);
        left = left.saturating_sub(plan.count);
    }
}

/// A million messages: some seconds.
#[test]
fn random_sizes_stalls_and_strategies_lose_nothing() {
    stress(1_000_000, 5_000);
}

/// The device always has as many packets as it takes, and everything in turn.
#[test]
fn a_device_that_is_full_all_the_time_gets_what_was_sent() {
    for model in models() {
        for bounce in bounces() {
            let plan = SendPlan { bounce, buffers: BUFFERS[0], ..plan(&[1_024], 10_000) };
            let plan = SendPlan { completion: "adaptive".parse().unwrap(), ..plan };
            let ended = run(model, &plan, Disturbances::NONE, 6);
            assert_all_sent(&plan, &ended, &format!("{model}, {bounce}"));
        }
    }
}
