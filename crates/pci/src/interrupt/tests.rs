use super::*;
use crate::{BarKind, Capability, Identity};

#[derive(Default)]
struct Recorder(Vec<Interrupt>);
impl IntrLine for Recorder {
    fn signal(&mut self, interrupt: Interrupt) {
        self.0.push(interrupt);
    }
}

const COMMAND: u16 = 0x04;
const MASTER: u64 = 0x0006;
const INTX_DISABLED: u64 = 0x0400;
const MSI: u16 = 0x50;
const MSIX: u16 = 0x70;
const TABLE: (u8, u32) = (2, 0x100);
const PENDING: (u8, u32) = (2, 0x800);
const FIRST: Vector = Vector(0);

/// A function with two vectors unless there are more of MSI-X, and the line that its interrupts go to.
struct Bench {
    config: ConfigSpace,
    state: InterruptState,
    line: Recorder,
}

impl Bench {
    fn new() -> Bench {
        Bench::with_msix(2)
    }

    fn with_msix(vectors: u16) -> Bench {
        let identity = Identity {
            vendor: 1,
            device: 2,
            revision: 0,
            class: 0x02_0000,
            subsystem_vendor: 1,
            subsystem: 2,
        };
        let layout = MsixLayout { vectors, table: TABLE, pending: PENDING };
        let config = ConfigSpace::builder(identity)
            .bar(2, BarKind::Memory64, 0x1000)
            .capability_at(MSI as u8, Capability::msi(2, true))
            .capability_at(MSIX as u8, Capability::msix(layout))
            .build();
        let state = InterruptState::new(&config);
        let mut bench = Bench { config, state, line: Recorder::default() };
        bench.write(COMMAND, MASTER);
        bench
    }

    fn write(&mut self, offset: u16, value: u64) {
        self.config.write(offset, Width::B2, value);
        self.state.configure(&self.config, &mut self.line);
    }

    /// MSI with one message, data 7; off by writing 0.
    fn msi(&mut self, control: u64) {
        self.config.write(MSI + 4, Width::B4, 0xfee0_0000);
        self.config.write(MSI + 12, Width::B2, 7);
        self.write(MSI + 2, control);
    }

    fn set(&mut self, vector: u16, level: bool) {
        self.state.set_level(Vector(vector), level, &mut self.line);
    }

    fn table(&mut self, at: u64, value: u64) {
        let place = (TABLE.0, u64::from(TABLE.1) + at);
        assert!(self.state.msix_write(place, Width::B4, value, &mut self.line));
    }

    fn pending(&self) -> u64 {
        self.state.msix_read(PENDING.0, PENDING.1.into(), Width::B8).unwrap()
    }

    fn sent(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.line.0)
    }
}

fn message(data: u32) -> Interrupt {
    Interrupt::Msi(MsiMessage { address: 0xfee0_0000, data })
}

#[test]
fn a_message_for_each_rise_and_none_while_the_level_stays() {
    let mut bench = Bench::new();
    bench.msi(1);
    for level in [true, true, false, true] {
        bench.set(0, level);
    }
    assert_eq!(bench.sent(), [message(7), message(7)]);
    assert_eq!(bench.state.raised(), 2);
}

#[test]
fn the_wire_follows_the_level_and_the_disable_bit() {
    let mut bench = Bench::new();
    bench.set(0, true);
    bench.write(COMMAND, MASTER | INTX_DISABLED);
    bench.write(COMMAND, MASTER);
    bench.set(1, true);
    bench.set(0, false);
    assert!(bench.state.is_asserted(), "vectors share the wire");
    bench.set(1, false);
    let wire: Vec<_> = [true, false, true, false].map(Interrupt::Intx).into();
    assert_eq!(bench.sent(), wire);
}

#[test]
fn the_wire_is_wanted_while_a_level_is_high_and_messages_are_off() {
    let mut bench = Bench::new();
    assert!(!bench.state.wants_wire());
    bench.set(1, true);
    assert!(bench.state.wants_wire());
    bench.write(COMMAND, MASTER | INTX_DISABLED);
    assert!(bench.state.wants_wire(), "disabling does not change what the function wants");
    bench.msi(1);
    assert!(!bench.state.wants_wire(), "it has sent a message instead");
    bench.msi(0);
    bench.set(1, false);
    assert!(!bench.state.wants_wire());
}

#[test]
fn a_level_that_was_pending_goes_out_when_msi_is_enabled() {
    let mut bench = Bench::new();
    bench.write(COMMAND, MASTER | INTX_DISABLED);
    bench.set(0, true);
    assert!(bench.sent().is_empty());
    bench.msi(1);
    assert_eq!(bench.sent().len(), 1);
    bench.msi(1);
    assert!(bench.sent().is_empty(), "an unchanged configuration sends nothing again");
    bench.msi(0);
    bench.msi(1);
    assert_eq!(bench.sent(), [message(7)], "whoever enables it anew has not seen the first");
}

#[test]
fn a_level_is_reported_from_its_message_on_until_it_falls() {
    let mut bench = Bench::new();
    let reported = |bench: &Bench| [0, 1].map(|vector| bench.state.is_reported(Vector(vector)));
    bench.set(0, true);
    assert_eq!(reported(&bench), [false; 2], "the wire is not a message");
    bench.msi(1);
    assert_eq!(reported(&bench), [true, false]);
    bench.set(0, false);
    assert_eq!(reported(&bench), [false; 2]);
    bench.write(COMMAND, MASTER & !4);
    bench.set(0, true);
    assert_eq!(reported(&bench), [false; 2], "it could not go out");
}

#[test]
fn which_messages_are_on_is_told_also_while_none_may_go_out() {
    let mut bench = Bench::new();
    assert!(!bench.state.is_msix(), "the wire");
    bench.msi(1);
    assert!(!bench.state.is_msix());
    bench.msi(0);
    for command in [MASTER, MASTER & !4] {
        bench.write(COMMAND, command);
        bench.write(MSIX + 2, 0x8000);
        assert!(bench.state.is_msix());
        bench.write(MSIX + 2, 0);
        assert!(!bench.state.is_msix());
    }
}

#[test]
fn no_message_without_bus_mastering() {
    let mut bench = Bench::new();
    bench.write(COMMAND, MASTER & !4);
    bench.msi(1);
    bench.set(0, true);
    assert!(bench.sent().is_empty());
    bench.write(COMMAND, MASTER);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn vectors_have_messages_of_their_own_if_so_many_are_granted() {
    let mut bench = Bench::new();
    bench.msi(0x01);
    bench.set(1, true);
    bench.set(1, false);
    bench.msi(0x11);
    bench.set(0, true);
    bench.set(1, true);
    assert_eq!(bench.sent(), [message(7), message(6), message(7)]);
}

#[test]
fn a_masked_message_of_msi_waits_and_is_pending() {
    let mut bench = Bench::new();
    bench.msi(0x11);
    bench.write(MSI + 16, 1 << 1);
    bench.set(0, true);
    bench.set(1, true);
    assert_eq!((bench.sent(), bench.state.pending()), (vec![message(6)], 1 << 1));
    bench.write(MSI + 16, 0);
    assert_eq!((bench.sent(), bench.state.pending()), (vec![message(7)], 0));
}

#[test]
fn msix_sends_what_its_table_says() {
    let mut bench = Bench::new();
    bench.write(MSIX + 2, 0x8000);
    bench.set(0, true);
    assert!(bench.sent().is_empty(), "entries are masked at power-on");
    assert_eq!(bench.pending(), 1);
    for (vector, data) in [(0, 0x1_0000), (1, 0x2_0000)] {
        bench.table(16 * vector, 0xfee0_0000);
        bench.table(16 * vector + 8, data);
    }
    assert!(bench.sent().is_empty());
    bench.table(12, 0);
    assert_eq!((bench.sent(), bench.pending()), (vec![message(0x1_0000)], 0));
    assert_eq!(bench.state.message(FIRST).unwrap().data, 0x1_0000);
    // A rise that is over before its vector is unmasked is not told.
    bench.set(1, true);
    assert_eq!(bench.pending(), 2);
    bench.set(1, false);
    bench.table(28, 0);
    assert!(bench.sent().is_empty());
    // Masking and unmasking tells nothing again.
    bench.table(12, 1);
    bench.table(12, 0);
    assert!(bench.sent().is_empty());
}

#[test]
fn the_function_mask_holds_every_vector_back() {
    let mut bench = Bench::new();
    bench.table(12, 0);
    bench.table(28, 0);
    bench.write(MSIX + 2, 0xc000);
    bench.set(0, true);
    bench.set(1, true);
    assert_eq!((bench.sent().len(), bench.pending()), (0, 3));
    bench.write(MSIX + 2, 0x8000);
    assert_eq!((bench.sent().len(), bench.pending()), (2, 0));
}

#[test]
fn msix_comes_before_msi_and_the_wire() {
    let mut bench = Bench::new();
    bench.msi(1);
    bench.table(12, 0);
    bench.write(MSIX + 2, 0x8000);
    bench.set(0, true);
    assert_eq!(bench.sent(), [Interrupt::Msi(MsiMessage { address: 0, data: 0 })]);
}

#[test]
fn only_the_table_and_the_pending_bits_are_msix() {
    let mut bench = Bench::new();
    for bar in 0..6 {
        for offset in (0..0x900).chain([u64::MAX - 3, u64::MAX]) {
            let inside =
                |at: u32, bytes: u64| (u64::from(at)..=u64::from(at) + bytes - 4).contains(&offset);
            let expected = bar == 2 && (inside(TABLE.1, 32) || inside(PENDING.1, 8));
            let read = bench.state.msix_read(bar, offset, Width::B4);
            assert_eq!(read.is_some(), expected, "BAR {bar}, {offset:#x}");
            let place = (bar, offset);
            let written = bench.state.msix_write(place, Width::B4, u64::MAX, &mut bench.line);
            assert_eq!(written, expected);
        }
    }
    assert_eq!(bench.pending(), 0, "pending bits are read-only");
}

#[test]
fn a_vector_that_is_not_there_is_none() {
    let mut bench = Bench::new();
    bench.msi(1);
    bench.set(2, true);
    bench.set(u16::MAX, true);
    assert!(bench.sent().is_empty() && !bench.state.is_asserted());
    assert_eq!(bench.state.message(Vector(2)), Some(MsiMessage { address: 0xfee0_0000, data: 7 }));
}

#[test]
fn a_level_tells_whether_it_has_just_risen() {
    let mut bench = Bench::new();
    let mut set = |vector, level| bench.state.set_level(Vector(vector), level, &mut bench.line);
    let risen = [(0, false), (0, true), (0, true), (1, true), (0, false), (2, true)];
    assert_eq!(
        risen.map(|(vector, level)| set(vector, level)),
        [false, true, false, true, false, false]
    );
    assert_eq!([0, 1, 2].map(|vector| bench.state.is_high(Vector(vector))), [false, true, false]);
    assert_eq!((bench.state.raised(), bench.state.is_asserted()), (2, true));
    assert_eq!(bench.state.pending(), 0, "nothing waits on the wire");
}

#[test]
fn a_table_of_many_vectors_has_an_address_and_a_pending_bit_for_each() {
    let mut bench = Bench::with_msix(100);
    bench.write(MSIX + 2, 0x8000);
    let high = [0, 9, 31, 32, 63, 64, 77, 99];
    high.into_iter().for_each(|vector| bench.set(vector, true));
    let place = |offset: u64| u64::from(PENDING.1) + offset;
    let read =
        |bench: &Bench, offset, width| bench.state.msix_read(PENDING.0, place(offset), width);
    let expected = high.iter().fold(0u128, |bits, vector| bits | 1 << vector);
    for offset in 0..16 {
        let byte = (expected >> (8 * offset)) as u8;
        assert_eq!(read(&bench, offset, Width::B1), Some(byte.into()), "{offset}");
    }
    assert_eq!(read(&bench, 8, Width::B8), Some((expected >> 64) as u64));
    assert_eq!(bench.state.pending(), expected as u32);
    assert_eq!((read(&bench, 16, Width::B1), read(&bench, 9, Width::B8)), (None, None));
    for (at, value) in [(0, 0xfee0_0000), (4, 0x1234), (8, 77), (12, 0)] {
        bench.table(16 * 77 + at, value);
    }
    let message = MsiMessage { address: 0x1234_fee0_0000, data: 77 };
    assert_eq!(bench.sent(), [Interrupt::Msi(message)]);
    let at = u64::from(TABLE.1) + 16 * 77 + 4;
    assert_eq!(bench.state.msix_read(TABLE.0, at, Width::B4), Some(0x1234));
    assert_eq!(read(&bench, 8, Width::B8), Some((expected >> 64 & !(1 << 13)) as u64));
}

#[test]
fn a_line_without_more_takes_every_interrupt_alike() {
    let mut line = Recorder::default();
    line.signal_any_time(Interrupt::Intx(true));
    line.interrupt_now();
    line.work_ahead();
    line.set_present(true);
    assert!(!line.has_hotplug());
    assert_eq!(line.0, [Interrupt::Intx(true)]);
}
