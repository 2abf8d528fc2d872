//! What every model must do, whatever it models.

use warikomi_clock::Span;
use warikomi_nic::register::{Access, Register};
use warikomi_nic::{Burst, Frame, Link, ModelInfo, RxCounters, RxOutcome};
use warikomi_pci::{DmaMemory, Host, Interrupt, IntrLine, SharedMemory, Width};

use crate::bench::{self, Bench, MEMORY_AND_MASTER};
use crate::cards::step::{BASE, MEMORY, Step, TxRequest};
use crate::cards::{Subject, TestCard, misstep};
use crate::history::World;

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const PATTERNS: [u64; 4] = [u64::MAX, 0x5555_5555_5555_5555, 0xdead_beef_0bad_f00d, 0x0000_ffff];

struct Card {
    bench: Bench,
    info: &'static ModelInfo,
}

impl Card {
    fn new(subject: &Subject, command: u64) -> Card {
        let bench = subject.bench().commanded(command);
        Card { info: bench.nic.info(), bench }
    }

    /// What the card says that this BAR decodes.
    fn bar_bytes(&self, index: u8) -> u64 {
        let bar = self.bench.nic.bars().iter().find(|bar| bar.index == index);
        bar.map_or(0, |bar| bar.bytes)
    }

    /// A register in its own width, or, if no access has that, in the next one.
    fn read_register(&mut self, row: &Register) -> u64 {
        let bytes = usize::from(row.width);
        let width = WIDTHS.into_iter().find(|width| width.bytes() >= bytes).unwrap_or(Width::B8);
        let value = self.bench.bar_read(row.bar, row.offset.into(), width);
        value & (u64::MAX >> (64 - 8 * bytes.min(8)))
    }

    /// Writes something to every register, from the last to the first.
    fn write_all_registers(&mut self, pattern: u64) {
        write_all_registers(&mut self.bench, pattern);
    }
}

/// Writes something to every register, from the last to the first.
fn write_all_registers(bench: &mut Bench, pattern: u64) {
    for row in bench.nic.info().registers.iter().rev() {
        for at in (row.offset..row.offset + row.width).step_by(4) {
            let value = pattern.rotate_left(u32::from(at));
            bench.bar_write(row.bar, at.into(), Width::B4, value);
        }
    }
    bench.wait(Span::from_ms(1));
}

/// Lets an orderly driver open the card, with this in the command register. It has a link then, and buffers.
fn open(world: &mut World, card: &dyn TestCard, command: u64) {
    for mut step in card.open(8, 2_000) {
        if let Step::Config { offset: 4, value, .. } = &mut step {
            *value = command;
        }
        world.apply(&step);
    }
    world.apply(&Step::Wait { us: 50_000 });
}

/// Rows of the register table follow each other, have a width that an access can have unless there is no register
/// in their place, and say where they are from.
pub fn the_table_has_neither_gap_nor_overlap(subject: &Subject) {
    let card = Card::new(subject, 0);
    let (mut bar, mut next) = (0, 0);
    for row in card.info.registers {
        assert!(row.bar >= bar, "{} is in a BAR before that of the row before it", row.name);
        (bar, next) = if row.bar > bar { (row.bar, 0) } else { (bar, next) };
        assert_eq!(row.offset, next, "{} does not follow the row before it", row.name);
        assert!(row.width >= 1, "{} has no bytes", row.name);
        let empty = !row.is_empty() || row.reset == 0 && row.access == Access::ReadOnly;
        assert!(empty, "{} has {} bytes, as no register", row.name, row.width);
        assert!(row.width >= 8 || row.reset >> (8 * row.width) == 0, "{}", row.name);
        assert!(!row.name.is_empty() && row.source.len() > 10, "{:#x}", row.offset);
        next += row.width;
        assert!(u64::from(next) <= card.bar_bytes(row.bar), "{} is outside of its BAR", row.name);
    }
}

/// No read has more bits than it asks for, wherever it is.
pub fn every_read_has_a_value_of_its_width(subject: &Subject) {
    let mut card = Card::new(subject, MEMORY_AND_MASTER);
    for pattern in PATTERNS {
        card.write_all_registers(pattern);
        for bar in 0..=u8::MAX {
            for offset in (0..card.bar_bytes(bar) + 16).chain([u64::MAX - 4, u64::MAX]) {
                for width in WIDTHS {
                    let value = card.bench.bar_read(bar, offset, width);
                    assert!(value <= width.mask(), "BAR {bar}, {offset:#x}, {width}");
                }
            }
        }
    }
}

/// Who looks at a register sees what a driver would read, and leaves no trace.
pub fn a_look_at_a_register_is_no_access(subject: &Subject) {
    let mut card = Card::new(subject, MEMORY_AND_MASTER);
    for pattern in PATTERNS {
        card.write_all_registers(pattern);
        for row in card.info.registers {
            let before = card.bench.nic.counters();
            let (bar, offset) = (row.bar, u64::from(row.offset));
            let seen = card.bench.host(|nic, host| nic.register(host, bar, offset));
            assert_eq!(card.bench.nic.counters(), before, "{}", row.name);
            let readable = row.access.is_looked_at() && !row.is_empty();
            let read = card.read_register(row);
            assert_eq!(seen, readable.then_some(read), "{}", row.name);
        }
        let beyond =
            card.bench.host(|nic, host| nic.register(host, card.info.register_bar, 1 << 20));
        assert_eq!(beyond, None);
    }
}

/// Whatever was written, registers are as the table says after power was off.
pub fn power_on_restores_every_register(subject: &Subject) {
    let mut card = Card::new(subject, MEMORY_AND_MASTER);
    for pattern in PATTERNS {
        card.write_all_registers(pattern);
        card.bench.host(|nic, host| nic.power_on(host));
        card.bench = card.bench.commanded(MEMORY_AND_MASTER);
        for row in card.info.registers {
            let value = card.read_register(row);
            assert_eq!(value, row.reset, "{} at {:#x}", row.name, row.offset);
        }
    }
}

/// Writes of any width do not change them.
pub fn read_only_registers_cannot_be_written(subject: &Subject) {
    let mut card = Card::new(subject, MEMORY_AND_MASTER);
    let rows = card.info.registers.iter().filter(|row| row.access == Access::ReadOnly);
    for row in rows {
        for pattern in PATTERNS {
            for width in WIDTHS {
                card.bench.bar_write(row.bar, row.offset.into(), width, pattern & width.mask());
                assert_eq!(card.read_register(row), row.reset, "{}", row.name);
            }
        }
    }
}

/// No transfer and no message while bus mastering is off: of a card that is open, and makes both while it is on.
pub fn without_bus_mastering_memory_stays_as_it_is(subject: &Subject) {
    let card = subject.card;
    for (master, command) in [(true, MEMORY_AND_MASTER), (false, 0x0402)] {
        let mut world = World::new(subject);
        world.apply(&Step::Config { offset: 4, width: Width::B2, value: command });
        if card.abilities().messages {
            world.bench.enable_messages();
        }
        open(&mut world, card, command);
        let before = world.bench.bytes(BASE, MEMORY);
        world.apply(&misstep::frame());
        world.apply(&Step::Wait { us: 1_000 });
        assert_eq!(world.bench.bytes(BASE, MEMORY) != before, master);
        world.apply(&Step::Transmit(TxRequest { opts: [0; 2], pieces: 1, bytes: 200 }));
        world.apply(&Step::Wait { us: 1_000 });
        assert_eq!(world.bench.nic.wire().counters().tx_frames > 0, master);
        assert_eq!(world.bench.line.messages() > 0, master && card.abilities().messages);
        if !master {
            stays_as_it_is(world.bench);
        }
    }
}

/// Whatever is written to registers of a card that is no bus master.
fn stays_as_it_is(mut bench: Bench) {
    bench.put_bytes(BASE, &[0xa5; MEMORY]);
    for pattern in PATTERNS {
        write_all_registers(&mut bench, pattern);
        bench.receive(&[0xff; 60]);
    }
    assert!(bench.bytes(BASE, MEMORY).iter().all(|byte| *byte == 0xa5));
    assert_eq!(bench.line.messages(), 0);
}

/// A card that nobody has set up takes no frame, writes nothing and does not interrupt.
pub fn a_nic_that_is_off_receives_nothing(subject: &Subject) {
    let mut bench = Card::new(subject, MEMORY_AND_MASTER).bench;
    bench.put_bytes(0, &vec![0xff; bench::MEMORY]);
    for fill in [0x00, 0x02, 0xff] {
        assert_eq!(bench.receive(&[fill; 60]), RxOutcome::NotReceiving);
    }
    assert!(!bench.nic.receiving());
    assert!(bench.bytes(0, bench::MEMORY).iter().all(|byte| *byte == 0xff));
    assert_eq!(bench.progress(), RxCounters::default());
    assert_eq!(bench.raised(), 0);
}

/// Without messages the INTA# wire is asserted and released in turn, as often as interrupts are raised: by each frame
/// of a card that is open.
pub fn the_intx_wire_goes_up_and_down_in_turn(subject: &Subject) {
    let mut world = World::new(subject);
    for pattern in PATTERNS.iter().cycle().take(12) {
        let before = world.bench.line.rises();
        open(&mut world, subject.card, 0x0006);
        world.apply(&misstep::frame());
        world.apply(&Step::Wait { us: 1_000 });
        assert!(world.bench.line.rises() > before);
        write_all_registers(&mut world.bench, *pattern);
    }
    let bench = &mut world.bench;
    let level = |interrupt| match interrupt {
        Interrupt::Intx(level) => level,
        Interrupt::Msi(_) => panic!("MSI is off"),
    };
    let levels: Vec<bool> = bench.line.take().into_iter().map(level).collect();
    assert!(levels.iter().enumerate().all(|(i, level)| *level == (i % 2 == 0)), "{levels:?}");
    let raised = levels.iter().filter(|level| **level).count() as u64;
    assert_eq!(raised, bench.raised());
}

/// What memory held at each interrupt.
struct Pictures<'a> {
    memory: &'a SharedMemory,
    taken: Vec<Vec<u8>>,
}

impl IntrLine for Pictures<'_> {
    fn signal(&mut self, _: Interrupt) {
        let mut bytes = vec![0; MEMORY];
        self.memory.read(BASE, &mut bytes).expect("an address in memory");
        self.taken.push(bytes);
    }
}

/// A frame for everybody; each number's is another, and longer than the one before.
fn numbered(number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 60 + 7 * usize::from(number)];
    bytes[..6].fill(0xff);
    bytes
}

/// A burst leaves what its frames leave that come one by one, at its end and whenever the card interrupts: also one
/// that finds fewer descriptors than it has frames, and comes to those again that it has filled.
pub fn a_burst_is_its_frames_one_by_one(subject: &Subject) {
    // As many as were announced, fewer and more; and there are not descriptors for twelve.
    let bursts = [1, 3, 12].into_iter().flat_map(|count| [0, 1, 3, 12].map(|said| (count, said)));
    for (count, said) in bursts {
        let frames: Vec<Vec<u8>> = (0..count).map(numbered).collect();
        let [singly, together] = [false, true].map(|together| {
            let mut world = World::new(subject);
            if subject.card.abilities().messages {
                world.bench.enable_messages();
            }
            open(&mut world, subject.card, 0x0006);
            let Bench { nic, memory, now, .. } = &mut world.bench;
            let mut line = Pictures { memory, taken: Vec::new() };
            let mut host = Host { now: *now, memory, interrupts: &mut line, looks: None };
            let receptions: Vec<_> = if together {
                let mut burst = Burst::new(&mut **nic, &mut host, said, frames[0].len());
                frames.iter().map(|bytes| burst.receive(Frame::new(bytes))).collect()
            } else {
                frames.iter().map(|bytes| nic.receive(&mut host, Frame::new(bytes))).collect()
            };
            let taken = line.taken;
            (receptions, taken, world.bench.bytes(BASE, MEMORY), world.bench.progress())
        });
        assert!(singly == together, "{count} frames of {said}: {:?}, {:?}", singly.0, together.0);
        let last = singly.0.last().map(|reception| reception.outcome);
        assert!(last == Some(RxOutcome::OnRing) || count == 12, "{last:?}");
    }
}

/// A cable that is pulled or plugged means work for the driver, whatever it has asked to be told.
pub fn a_change_of_the_link_announces_work(subject: &Subject) {
    let mut bench = Card::new(subject, MEMORY_AND_MASTER).bench;
    for changes in 1..4 {
        bench.plug(if changes % 2 == 0 { Link::Up { mbps: 1_000 } } else { Link::Down });
        assert_eq!(bench.line.work_ahead(), changes);
    }
}

/// Neither writes nor power-on change who it is, and power-on closes it.
pub fn identification_does_not_change(subject: &Subject) {
    let mut bench = Card::new(subject, MEMORY_AND_MASTER).bench;
    // Vendor and device, revision and class, subsystem.
    let who = |bench: &mut Bench| [0x00, 0x08, 0x2c].map(|at| bench.config_read(at, Width::B4));
    let id = who(&mut bench);
    for value in [0xffff_ffff, 0] {
        (0..256).step_by(4).for_each(|offset| bench.config(offset, Width::B4, value));
        assert_eq!(who(&mut bench), id, "written");
    }
    bench.config(4, Width::B2, MEMORY_AND_MASTER);
    bench.host(|nic, host| nic.power_on(host));
    assert_eq!(who(&mut bench), id);
    assert_eq!(bench.config_read(4, Width::B2) & 7, 0);
}

/// Tests each [`Subject`], a line for each:
/// `card_conformance!(rtl8168: Subject::of(warikomi_testbench::RTL8168));`
#[macro_export]
macro_rules! card_conformance {
    ($($name:ident: $subject:expr),+ $(,)?) => {
        $(mod $name {
            use super::*;
            use $crate::conformance as suite;
            $crate::suite!($subject =>
                the_table_has_neither_gap_nor_overlap,
                every_read_has_a_value_of_its_width,
                a_look_at_a_register_is_no_access,
                power_on_restores_every_register,
                read_only_registers_cannot_be_written,
                without_bus_mastering_memory_stays_as_it_is,
                a_nic_that_is_off_receives_nothing,
                the_intx_wire_goes_up_and_down_in_turn,
                a_burst_is_its_frames_one_by_one,
                a_change_of_the_link_announces_work,
                identification_does_not_change,
            );
            mod strict {
                use super::*;
                use $crate::strict as suite;
                $crate::suite!($subject =>
                    a_card_that_is_not_strict_finds_nothing,
                    a_register_may_be_accessed_in_its_own_width,
                    an_access_of_a_part_of_a_register_is_found,
                    an_access_across_registers_is_found_unless_it_takes_in_all_of_each,
                    an_access_that_is_not_aligned_is_found,
                    an_access_of_no_register_is_found,
                    a_write_of_what_can_only_be_read_is_found_and_the_other_way_round,
                    a_reserved_bit_is_found_unless_it_stands_already,
                    an_orderly_opening_has_no_finding,
                    each_misstep_is_found,
                );
            }
        })+
    };
}

/// A test for each of these functions of the module that is called `suite` here; properties keep what has
/// failed in a file.
#[doc(hidden)]
#[macro_export]
macro_rules! suite {
    (@kept $path:expr, $subject:expr => $($test:ident),+ $(,)?) => {
        $(#[test]
        fn $test() {
            suite::$test(&$subject, $crate::kept_in($path));
        })+
    };
    ($subject:expr => $($test:ident),+ $(,)?) => {
        $(#[test]
        fn $test() {
            suite::$test(&$subject);
        })+
    };
}
