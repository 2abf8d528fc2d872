//! The bounce buffer that is used where it gains, against all others over the same packets.

use proptest::prelude::*;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};

use crate::rig::{Costs, Rig};
use crate::transmitter::clusters;

const SEND_BUFFER_BYTES: u64 = 1 << 20;

/// Sends packets; how many microseconds each took, and of what share of them something was copied.
fn send(rig: &mut Rig, packets: impl Iterator<Item = Vec<u32>>) -> (f64, f64) {
    let (begun, before) = (rig.world.now(), rig.transmitter.counts());
    packets.for_each(|pieces| rig.send(&pieces).unwrap());
    let us = rig.world.now().since(begun).as_ps() as f64 / 1e6;
    let after = rig.transmitter.counts();
    let packets = (after.packets - before.packets) as f64;
    (us / packets, (after.bounced_packets - before.bounced_packets) as f64 / packets)
}

fn rig(bounce: Bounce, costs: Costs) -> Rig {
    Rig::new(Completion::Adaptive(Thresholds::default()), bounce, costs, SEND_BUFFER_BYTES)
}

/// Packets of one length, as clusters, behind as many that are not counted.
fn one_length(bounce: Bounce, costs: Costs, bytes: u32) -> (f64, f64) {
    let mut rig = rig(bounce, costs);
    let packets = || std::iter::repeat_n(clusters(bytes), 10_000);
    send(&mut rig, packets());
    send(&mut rig, packets())
}

/// Copying is cheap, and the processor has little else to do.
const COPYING_GAINS: Costs = Costs { copy_byte_ps: 100, ..Costs::PCI };

#[test]
fn where_copying_gains_nearly_every_packet_is_copied() {
    let (none, _) = one_length(Bounce::None, COPYING_GAINS, 4_096);
    let (all, _) = one_length(Bounce::All, COPYING_GAINS, 4_096);
    let (auto, share) = one_length(Bounce::Auto, COPYING_GAINS, 4_096);
    assert!(all < 0.9 * none, "{all} {none}");
    assert!(auto < all + 0.1 * (none - all), "{auto} us, none {none}, all {all}");
    assert!(share > 0.9, "{share}");
}

#[test]
fn where_copying_takes_longer_than_the_transfers_that_it_saves_it_is_left_alone() {
    let costs = Costs { copy_byte_ps: 3_000, ..Costs::PCI };
    let (none, _) = one_length(Bounce::None, costs, 65_507);
    let (all, _) = one_length(Bounce::All, costs, 65_507);
    let (auto, _) = one_length(Bounce::Auto, costs, 65_507);
    assert!(all > 1.1 * none, "{all} {none}");
    assert!(auto < 1.003 * none, "{auto} us, none {none}");
}

#[test]
fn where_the_processor_is_what_is_waited_for_nothing_is_copied() {
    let costs = Costs { application_ns: 40_000, ..Costs::PCI };
    let (none, _) = one_length(Bounce::None, costs, 4_096);
    let (auto, share) = one_length(Bounce::Auto, costs, 4_096);
    assert!(auto < 1.001 * none && share < 0.02, "{auto} us, none {none}, {share}");
}

/// A part of a packet is copied if the whole of it would take the processor too long.
#[test]
fn as_much_is_copied_as_the_processor_has_time_for() {
    let costs = Costs { copy_byte_ps: 2_400, ..Costs::PCI };
    let none = one_length(Bounce::None, costs, 16_384).0;
    let all = one_length(Bounce::All, costs, 16_384).0;
    let auto = one_length(Bounce::Auto, costs, 16_384).0;
    assert!(all > 0.98 * none, "{all} {none}");
    assert!(auto < 0.95 * none, "{auto} us, none {none}, all {all}");
}

/// Copying the long ones would gain, each for itself; but it is the short ones, between them, that the
/// processor is busy with.
#[test]
fn what_is_right_for_one_packet_depends_on_all_the_others() {
    let costs = Costs { copy_byte_ps: 1_000, application_ns: 9_000, ..Costs::PCI };
    let run = |bounce, short: usize| {
        let mut rig = rig(bounce, costs);
        let mixture =
            || (0..20_000).map(|n| if n % (short + 1) == 0 { clusters(8_192) } else { vec![100] });
        send(&mut rig, mixture());
        send(&mut rig, mixture())
    };
    for (short, copies) in [(0, true), (4, false)] {
        let ((none, _), (auto, share)) = (run(Bounce::None, short), run(Bounce::Auto, short));
        assert!(auto < 1.003 * none, "{short}: {auto} us, none {none}");
        assert_eq!(copies, share > 0.1, "{short}: {share}, {auto} us, none {none}");
    }
}

/// Blocks of long packets, of which a part is worth copying, between blocks of short ones, with which the processor is
/// nearly as busy as the device: what it has left during the long ones is of no use to the short ones, however the
/// blocks lie in the windows that are looked at.
#[test]
fn in_blocks_each_length_is_judged_by_itself() {
    let costs = Costs {
        transfer_ns: 255,
        transfer_byte_ps: 1_332,
        copy_byte_ps: 1_135,
        describe_ns: 21,
        application_ns: 12_043,
        ..Costs::PCI
    };
    for block in [16, 64, 100, 128, 200, 230, 255, 256, 300, 500, 1_000, 2_000] {
        let run = |bounce| {
            let mut rig = rig(bounce, costs);
            let lengths = (0..20_000).map(|n| [11_119, 24_215][n / block % 2]);
            send(&mut rig, lengths.map(clusters))
        };
        let ((none, _), (auto, share)) = (run(Bounce::None), run(Bounce::Auto));
        assert!(auto < 0.99 * none, "{block}: {auto} us, none {none}, {share} copied");
    }
}

#[test]
fn a_sudden_change_of_what_things_cost_is_followed() {
    let slow_copies = Costs { copy_byte_ps: 8_000, ..Costs::PCI };
    let mut auto = rig(Bounce::Auto, COPYING_GAINS);
    let packets = || std::iter::repeat_n(clusters(4_096), 10_000);
    for (costs, copies) in
        [(COPYING_GAINS, true), (slow_copies, false), (COPYING_GAINS, true), (slow_copies, false)]
    {
        auto.world.set_costs(costs);
        send(&mut auto, packets());
        let (us, share) = send(&mut auto, packets());
        let (none, _) = one_length(Bounce::None, costs, 4_096);
        assert!(us < 1.003 * none, "{us} us, none {none}, {costs:?}");
        assert_eq!(copies, share > 0.5, "{share} {costs:?}");
    }
}

/// Twenty thousand packets of 106 bytes take 6.6 ms, and copies of 64 KB would take a twentieth of that.
#[test]
fn who_sends_short_packets_only_does_not_pay_for_measuring_long_copies() {
    let costs = Costs {
        transfer_ns: 50,
        transfer_byte_ps: 100,
        copy_byte_ps: 933,
        describe_ns: 10,
        application_ns: 300,
        ..Costs::PCI
    };
    for copy_byte_ps in [933, 4_000] {
        let run = |bounce| {
            let mut rig = rig(bounce, Costs { copy_byte_ps, ..costs });
            send(&mut rig, std::iter::repeat_n(clusters(64), 20_000)).0
        };
        let (none, auto) = (run(Bounce::None), run(Bounce::Auto));
        assert!(auto < 1.02 * none, "{auto} us, none {none}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever things cost, and whatever is sent: never worse than without a bounce buffer, beyond what
    /// looking for something better takes.
    #[test]
    fn it_is_never_worse_than_none(
        transfer_ns in 50u64..3_000,
        transfer_byte_ps in 100u64..4_000,
        copy_byte_ps in 50u64..4_000,
        describe_ns in 10u64..300,
        application_ns in 300u64..20_000,
        lengths in prop::collection::vec(64u32..65_507, 1..4),
        block in 1usize..2_000,
    ) {
        let costs = Costs {
            transfer_ns, transfer_byte_ps, copy_byte_ps, describe_ns, application_ns, ..Costs::PCI
        };
        let run = |bounce| {
            let mut rig = rig(bounce, costs);
            let packets = (0..20_000).map(|n| clusters(lengths[n / block % lengths.len()]));
            send(&mut rig, packets)
        };
        let ((none, _), (auto, share)) = (run(Bounce::None), run(Bounce::Auto));
        prop_assert!(auto < 1.02 * none, "{auto} us, none {none}, {share} copied");
    }
}
