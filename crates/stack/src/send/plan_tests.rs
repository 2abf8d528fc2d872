use proptest::prelude::*;
use warikomi_driver::transmit::Thresholds;
use warikomi_protocol::commands::LoadPhase;

use super::*;

const MAX_FRAME_BYTES: usize = 65_549;

fn plan() -> SendPlan {
    SendPlan {
        sizes_bytes: vec![64],
        block: 1,
        seed: 7,
        count: 1_000,
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
        run_id: 1,
        mixed: None,
    }
}

fn refused(change: impl FnOnce(&mut SendPlan)) -> String {
    refused_by(MAX_FRAME_BYTES, change)
}

fn refused_by(max_frame_bytes: usize, change: impl FnOnce(&mut SendPlan)) -> String {
    let mut plan = plan();
    change(&mut plan);
    plan.validate(max_frame_bytes).unwrap_err().to_string()
}

#[test]
fn what_cannot_work_is_refused_with_the_range() {
    assert_eq!(plan().validate(MAX_FRAME_BYTES), Ok(()));
    let says = |error: String, range: &str| assert!(error.contains(range), "{error}");
    says(refused(|plan| plan.sizes_bytes.clear()), "1 to 64 of them");
    says(refused(|plan| plan.sizes_bytes = vec![64; 65]), "1 to 64 of them");
    says(refused(|plan| plan.sizes_bytes = vec![64, 15]), "16 to 65507 bytes");
    says(refused(|plan| plan.sizes_bytes = vec![65_508]), "16 to 65507 bytes");
    says(refused_by(1_514, |plan| plan.mtu_bytes = 1_501), "68 to 1500 bytes with this device");
    says(refused(|plan| plan.mtu_bytes = 67), "68 to 65535 bytes");
    says(refused_by(81, |_| ()), "room for an MTU of 68 bytes");
    says(refused(|plan| plan.count = 0), "1 to 1000000000000 messages");
    says(refused(|plan| plan.warmup = u64::MAX), "0 to 1000000000000 messages");
    says(refused(|plan| plan.interval_ps = u64::MAX), "0 to 1000000000000 ps");
    says(refused(|plan| plan.send_buffer_bytes = 63), "64 to 1073741824 bytes");
    says(refused(|plan| plan.send_buffer_bytes = u64::MAX), "64 to 1073741824 bytes");
    says(refused(|plan| plan.bounce = Bounce::First(0)), "1 to 64 buffers");
    for cluster_bytes in [0, 256, 3_000, 131_072] {
        let error = refused(|plan| plan.buffers = BufferKind::Mbuf { cluster_bytes });
        says(error, "a power of two from 512 to 65536 bytes");
    }
}

#[test]
fn a_request_with_nonsense_says_what_is_possible() {
    let request = plan().to_command([2; 6], "10.9.0.2:5001".to_owned(), 1_000);
    let wrong = |change: &dyn Fn(&mut commands::Send)| {
        let mut request = request.clone();
        change(&mut request);
        SendPlan::from_command(&request).unwrap_err().to_string()
    };
    let crossed = wrong(&|request| request.completion = "adaptive:50%,25%".to_owned());
    assert!(crossed.contains("the first below the second"), "{crossed}");
    let buffers = wrong(&|request| request.buffers = "mbuf:0".to_owned());
    assert!(buffers.contains("a power of two from 512 to 65536"), "{buffers}");
    let bounce = wrong(&|request| request.bounce = "65".to_owned());
    assert!(bounce.contains("1 to 64"), "{bounce}");
}

fn mixed() -> MixedLoad {
    let phase = |bytes, compute_ps| LoadPhase { sizes_bytes: vec![bytes], block: 1, compute_ps };
    MixedLoad {
        phases: vec![phase(64, 0), phase(9_000, 20_000_000)],
        phase_ps: 1_000_000_000,
        rounds: 3,
        receive_interval_ps: 20_000_000,
    }
}

#[test]
fn a_mixed_load_survives_the_way_and_one_that_cannot_be_is_refused() {
    let load = SendPlan { sizes_bytes: vec![64, 9_000], mixed: Some(mixed()), ..plan() };
    assert_eq!(load.validate(MAX_FRAME_BYTES), Ok(()));
    let request = load.to_command([2; 6], "10.9.0.2:5001".to_owned(), 1_000);
    assert_eq!(SendPlan::from_command(&request), Ok(load.clone()));
    let wrong = |change: &dyn Fn(&mut MixedLoad)| {
        let mut mixed = mixed();
        change(&mut mixed);
        let plan = SendPlan { mixed: Some(mixed), ..load.clone() };
        plan.validate(MAX_FRAME_BYTES).unwrap_err().to_string()
    };
    for (refused, said) in [
        (wrong(&|mixed| mixed.phases.clear()), "1 to 64 of them"),
        (wrong(&|mixed| mixed.rounds = 33), "1 to 64 of them"),
        (wrong(&|mixed| mixed.rounds = 0), "1 to 64 of them"),
        (wrong(&|mixed| mixed.phase_ps = 1), "1000000 to"),
        (wrong(&|mixed| mixed.receive_interval_ps = u64::MAX), "0 to 1000000000000 ps"),
        (wrong(&|mixed| mixed.phases[0].compute_ps = u64::MAX), "0 to 1000000000000 ps"),
        (wrong(&|mixed| mixed.phases[0].sizes_bytes.clear()), "1 to 64 of them"),
        (wrong(&|mixed| mixed.phases[1].sizes_bytes[0] = 128), "among the sizes"),
    ] {
        assert!(refused.contains(said), "{refused}");
    }
    let paced = SendPlan { interval_ps: 1, ..load.clone() };
    assert!(paced.validate(MAX_FRAME_BYTES).unwrap_err().to_string().contains("neither a pace"));
}

fn any_plan() -> impl Strategy<Value = SendPlan> {
    let buffers = prop_oneof![
        Just(BufferKind::Contiguous),
        (9u32..=16).prop_map(|exponent| BufferKind::Mbuf { cluster_bytes: 1 << exponent }),
    ];
    let completion = prop_oneof![
        Just(Completion::Interrupt),
        Just(Completion::InterruptFree),
        (1u8..99).prop_map(|low| Completion::Adaptive(Thresholds::new(low, 100).unwrap())),
        (1u8..99).prop_map(|low| Completion::AdaptivePublished(Thresholds::new(low, 100).unwrap())),
        (1u8..99).prop_map(|low| Completion::AdaptiveWatching(Thresholds::new(low, 100).unwrap())),
    ];
    let bounce = prop_oneof![
        Just(Bounce::None),
        (1u32..=64).prop_map(Bounce::First),
        Just(Bounce::All),
        Just(Bounce::Auto),
        Just(Bounce::Dummy),
    ];
    let sizes = prop::collection::vec(16u32..65_508, 1..64);
    let numbers = (any::<[u64; 4]>(), any::<u32>(), 65_507u64..1 << 30);
    (sizes, buffers, completion, bounce, numbers).prop_map(
        |(
            sizes_bytes,
            buffers,
            completion,
            bounce,
            ([block, seed, count, warmup], run_id, room),
        )| {
            let count = 1 + count % MOST_MESSAGES;
            let (warmup, interval_ps) = (warmup % MOST_MESSAGES, seed % MOST_INTERVAL_PS);
            let send_buffer_bytes = room;
            SendPlan {
                sizes_bytes,
                block,
                seed,
                count,
                warmup,
                interval_ps,
                buffers,
                checksum: run_id % 2 == 0,
                completion,
                bounce,
                transport: Transport::Udp,
                alignment_bytes: if bounce == Bounce::Auto { 1 } else { 1 << (run_id % 7) },
                send_buffer_bytes,
                mtu_bytes: 68 + run_id % 65_468,
                run_id,
                mixed: None,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_plan_survives_the_way(plan in any_plan()) {
        prop_assert_eq!(plan.validate(MAX_FRAME_BYTES), Ok(()));
        let request = plan.to_command([2; 6], "10.9.0.2:5001".to_owned(), 1_000);
        prop_assert_eq!(SendPlan::from_command(&request), Ok(plan));
    }

    /// Whatever a request says, it is judged, and what passes has a bounded need of memory.
    #[test]
    fn any_request_is_judged(
        sizes_bytes in prop::collection::vec(any::<u32>(), 0..70),
        numbers: [u64; 6],
        texts in prop::array::uniform3("[a-z0-9:%,-]{0,20}"),
        max_frame_bytes in 0usize..70_000,
    ) {
        let [buffers, completion, bounce] = texts;
        let [block, seed, count, warmup, interval_ps, send_buffer_bytes] = numbers;
        let request = commands::Send {
            sizes_bytes, block, seed, count, warmup, interval_ps, buffers, completion, bounce,
            send_buffer_bytes, ..plan().to_command([0; 6], String::new(), 0)
        };
        if let Ok(plan) = SendPlan::from_command(&request) {
            let _ = plan.validate(max_frame_bytes);
        }
    }
}
