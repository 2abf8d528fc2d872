//! Our driver on a card that others have made, QEMU's RTL8139, and on ours: what it does on both is held against each
//! other, access by access. Where a read gives something else, one of the two models is wrong, or free to choose.

mod stand;

use warikomi_driver::NicDriver;
use warikomi_testbench::{Access, Place, QemuCard, frame, qemu, skipped};

use self::stand::{Model, Stand};

/// The BAR with registers that both have.
const REGISTER_BAR: u8 = 1;

/// Lengths of frames: the shortest, around a word, the ordinary and the longest.
const LENGTHS: [usize; 8] = [60, 61, 62, 63, 64, 300, 1_000, 1_514];

/// Everything that a driver does in its life, told apart by the frames alone.
fn life(stand: &mut Stand) {
    stand.init();
    stand.call(|driver, hw, _| driver.link(hw)).unwrap();
    receives_one_by_one(stand);
    receives_many(stand);
    sends(stand);
    // Stopped, and begun anew.
    let mut back = Vec::new();
    stand.call(|driver, hw, sink| driver.quiesce(hw, sink, &mut |token| back.push(token))).unwrap();
    assert_eq!((back, stand.interrupts()), (vec![], false));
    stand.init();
    receives_one_by_one(stand);
}

/// Each interrupts, if the driver has armed the card.
fn receives_one_by_one(stand: &mut Stand) {
    for (seed, length) in (0..).zip(LENGTHS) {
        stand.call(|driver, hw, _| driver.arm(hw)).unwrap();
        assert!(!stand.interrupts(), "nothing has come");
        let sent = frame(length, seed);
        stand.arrive(&sent);
        assert!(stand.interrupts(), "{length} bytes have come");
        let causes = stand.call(|driver, hw, _| driver.on_interrupt(hw, 0)).unwrap();
        assert!(causes.receive && !stand.interrupts(), "{causes:?}");
        assert_eq!(stand.poll(16), [sent], "{length} bytes");
    }
    stand.call(|driver, hw, _| driver.disarm(hw)).unwrap();
}

/// More than the ring holds, some at a time.
fn receives_many(stand: &mut Stand) {
    for round in 0..16 {
        let sent: Vec<_> = (0..6).map(|seed| frame(1_514 - round - 64 * seed, seed)).collect();
        sent.iter().for_each(|frame| stand.arrive(frame));
        let first = stand.poll(2);
        assert_eq!([first, stand.poll(16)].concat(), sent, "round {round}");
    }
}

/// One by one, and until the slots are full.
fn sends(stand: &mut Stand) {
    for (token, length) in (0..).zip(LENGTHS) {
        let sent = frame(length, token as usize);
        assert!(stand.put(&sent, token));
        stand.kick();
        assert_eq!((stand.left(), stand.reclaim()), (sent, vec![token]));
    }
    let frames: Vec<_> = (0..5).map(|seed| frame(400 + seed, seed)).collect();
    let taken = frames.iter().zip(0..).map(|(frame, token)| stand.put(frame, token));
    assert_eq!(taken.collect::<Vec<_>>(), [true, true, true, true, false]);
    stand.kick();
    frames[..4].iter().for_each(|frame| assert_eq!(stand.left(), *frame));
    assert_eq!(stand.reclaim(), [0, 1, 2, 3]);
}

/// What may differ, and why. What is written there was read before.
struct Known {
    place: Place,
    /// Bits that may differ.
    bits: u64,
    why: &'static str,
}

/// Registers are those of the RTL8139C datasheet.
const KNOWN: [Known; 2] = [
    Known {
        place: Place::Bar(REGISTER_BAR, 0x59),
        bits: 0x01,
        why: "CONFIG3, fast back-to-back: what is in the EEPROM, which QEMU has set and we have not",
    },
    Known {
        place: Place::Bar(REGISTER_BAR, 0x58),
        bits: 0xd0,
        why: "media status (5.12), flow control both ways and auxiliary power: QEMU's has both whatever its partner says, \
              ours has a partner that does not negotiate flow control, and no auxiliary power",
    },
];

/// Accesses to registers: where a card has its capabilities in configuration space is its own choice.
fn to_registers(stand: &Stand) -> Vec<Access> {
    let accesses = stand.accesses.iter().copied();
    accesses.filter(|access| matches!(access.place, Place::Bar(..))).collect()
}

fn may_differ(place: Place) -> u64 {
    KNOWN.iter().filter(|known| known.place == place).fold(0, |bits, known| bits | known.bits)
}

/// What differs at the same step of the driver, and is not known to.
fn differences(ours: &[Access], theirs: &[Access]) -> Vec<String> {
    let mut found = Vec::new();
    for (step, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let what = |access: &Access| (access.write, access.place, access.width);
        assert_eq!(what(ours), what(theirs), "step {step}: the driver does something else");
        if (ours.value ^ theirs.value) & !may_differ(ours.place) != 0 {
            let (verb, place) = (if ours.write { "write" } else { "read" }, ours.place);
            let (ours, theirs) = (ours.value, theirs.value);
            found.push(format!(
                "step {step}, {verb} of {place:?}: {ours:#x} on ours, {theirs:#x} on QEMU's"
            ));
        }
    }
    found
}

#[test]
fn our_driver_does_the_same_on_qemus_card_as_on_ours() {
    let qemu = match qemu() {
        Ok(qemu) => qemu,
        Err(why) => return skipped(why),
    };
    let model = Model::new();
    let mac = model.mac_address();
    let mut ours = Stand::new(model);
    life(&mut ours);
    let mut theirs = Stand::new(QemuCard::start(&qemu, "rtl8139", REGISTER_BAR, mac));
    life(&mut theirs);
    let [ours, theirs] = [&ours, &theirs].map(to_registers);
    let found = differences(&ours, &theirs);
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    assert_eq!(ours.len(), theirs.len());
    for known in &KNOWN {
        println!("{:?}, bits {:#x}: {}", known.place, known.bits, known.why);
    }
}
