//! What every model must do, whatever it models. A new model is one more line at the end.

#![allow(missing_docs)]

use warikomi_clock::{Span, Time};
use warikomi_nic::bus::PRESETS;
use warikomi_nic::register::{Access, Register};
use warikomi_nic::wire::CountedSink;
use warikomi_nic::{Frame, MODELS, ModelInfo, Nic, NicOptions, RxCounters, RxOutcome, build};
use warikomi_pci::{DmaMemory, Host, Interrupt, IntrLine, SharedMemory, Width};

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const MEMORY: usize = 1 << 20;
const MEMORY_AND_MASTER: u64 = 0x0406;

#[derive(Default)]
struct Line(Vec<Interrupt>);

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        self.0.push(interrupt);
    }
}

struct Bench {
    nic: Box<dyn Nic>,
    info: &'static ModelInfo,
    memory: SharedMemory,
    line: Line,
    now: Time,
}

impl Bench {
    fn new(options: &NicOptions, command: u64) -> Bench {
        let nic = build(options, Box::new(CountedSink::new())).expect("a possible NIC");
        let mut bench = Bench {
            info: nic.info(),
            nic,
            memory: SharedMemory::anonymous(0, MEMORY).unwrap(),
            line: Line::default(),
            now: Time::ZERO + Span::from_ms(5),
        };
        bench.config(4, Width::B2, command);
        bench
    }

    fn host<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let Bench { nic, memory, line, now, .. } = self;
        call(&mut **nic, &mut Host { now: *now, memory, interrupts: line })
    }

    fn config(&mut self, offset: u16, width: Width, value: u64) {
        self.host(|nic, host| nic.config_write(host, offset, width, value));
    }

    /// What the function says that this BAR decodes.
    fn bar_bytes(&self, index: u8) -> u64 {
        let bar = self.nic.bars().iter().find(|bar| bar.index == index);
        bar.map_or(0, |bar| bar.bytes)
    }

    fn read(&mut self, bar: u8, offset: u64, width: Width) -> u64 {
        self.host(|nic, host| nic.bar_read(host, bar, offset, width))
    }

    fn write(&mut self, bar: u8, offset: u64, width: Width, value: u64) {
        self.host(|nic, host| nic.bar_write(host, bar, offset, width, value));
    }

    /// A register in its own width, or, if no access has that, in the next one.
    fn read_register(&mut self, row: &Register) -> u64 {
        let bytes = usize::from(row.width);
        let width = WIDTHS.into_iter().find(|width| width.bytes() >= bytes).unwrap_or(Width::B8);
        self.read(row.bar, row.offset.into(), width) & (u64::MAX >> (64 - 8 * bytes))
    }

    /// Writes something to every register, from the last to the first.
    fn disturb(&mut self, pattern: u64) {
        for row in self.info.registers.iter().rev() {
            for at in (row.offset..row.offset + row.width).step_by(4) {
                self.write(row.bar, at.into(), Width::B4, pattern.rotate_left(u32::from(at)));
            }
        }
        self.now += Span::from_ms(1);
        self.host(|nic, host| nic.poll(host));
    }

    fn all_memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; MEMORY];
        self.memory.read(0, &mut bytes).unwrap();
        bytes
    }
}

const PATTERNS: [u64; 4] = [u64::MAX, 0x5555_5555_5555_5555, 0xdead_beef_0bad_f00d, 0x0000_ffff];

fn the_table_has_neither_gap_nor_overlap(options: &NicOptions) {
    let bench = Bench::new(options, 0);
    let (mut bar, mut next) = (0, 0);
    for row in bench.info.registers {
        assert!(row.bar >= bar, "{} is in a BAR before that of the row before it", row.name);
        (bar, next) = if row.bar > bar { (row.bar, 0) } else { (bar, next) };
        assert_eq!(row.offset, next, "{} does not follow the row before it", row.name);
        assert!((1..=8).contains(&row.width), "{} is {} bytes wide", row.name, row.width);
        assert!(u32::from(row.width) == 8 || row.reset >> (8 * row.width) == 0, "{}", row.name);
        assert!(!row.name.is_empty() && row.source.len() > 10, "{:#x}", row.offset);
        next += row.width;
        assert!(u64::from(next) <= bench.bar_bytes(row.bar), "{} is outside of its BAR", row.name);
    }
}

fn every_read_has_a_value_of_its_width(options: &NicOptions) {
    let mut bench = Bench::new(options, MEMORY_AND_MASTER);
    for pattern in PATTERNS {
        bench.disturb(pattern);
        for bar in 0..=u8::MAX {
            for offset in (0..bench.bar_bytes(bar) + 16).chain([u64::MAX - 4, u64::MAX]) {
                for width in WIDTHS {
                    let value = bench.read(bar, offset, width);
                    assert!(value <= width.mask(), "BAR {bar}, {offset:#x}, {width}");
                }
            }
        }
    }
}

fn power_on_restores_every_register(options: &NicOptions) {
    let mut bench = Bench::new(options, MEMORY_AND_MASTER);
    for pattern in PATTERNS {
        bench.disturb(pattern);
        bench.host(|nic, host| nic.power_on(host));
        bench.config(4, Width::B2, MEMORY_AND_MASTER);
        for row in bench.info.registers {
            let value = bench.read_register(row);
            assert_eq!(value, row.reset, "{} at {:#x}", row.name, row.offset);
        }
    }
}

fn read_only_registers_cannot_be_written(options: &NicOptions) {
    let mut bench = Bench::new(options, MEMORY_AND_MASTER);
    let rows = bench.info.registers.iter().filter(|row| row.access == Access::ReadOnly);
    for row in rows {
        for pattern in PATTERNS {
            for width in WIDTHS {
                bench.write(row.bar, row.offset.into(), width, pattern & width.mask());
                assert_eq!(bench.read_register(row), row.reset, "{}", row.name);
            }
        }
    }
}

fn without_bus_mastering_memory_stays_as_it_is(options: &NicOptions) {
    let mut bench = Bench::new(options, 0x0402);
    bench.memory.write(0, &vec![0xa5; MEMORY]).unwrap();
    for pattern in PATTERNS {
        bench.disturb(pattern);
        bench.host(|nic, host| nic.receive(host, Frame::new(&[0xff; 60])));
    }
    assert!(bench.all_memory().iter().all(|byte| *byte == 0xa5));
    assert!(!bench.line.0.iter().any(|interrupt| matches!(interrupt, Interrupt::Msi(_))));
}

fn a_nic_that_is_off_receives_nothing(options: &NicOptions) {
    let mut bench = Bench::new(options, MEMORY_AND_MASTER);
    bench.memory.write(0, &vec![0xff; MEMORY]).unwrap();
    for fill in [0x00, 0x02, 0xff] {
        let outcome = bench.host(|nic, host| nic.receive(host, Frame::new(&[fill; 60])));
        assert_eq!(outcome, RxOutcome::NotReceiving);
    }
    assert!(!bench.nic.receiving());
    assert!(bench.all_memory().iter().all(|byte| *byte == 0xff));
    let progress = bench.host(|nic, host| nic.rx_progress(host, usize::MAX));
    assert_eq!(progress, RxCounters::default());
    assert_eq!(bench.nic.counters().interrupts, 0);
}

fn the_intx_wire_goes_up_and_down_in_turn(options: &NicOptions) {
    let mut bench = Bench::new(options, 0x0006);
    for pattern in PATTERNS.iter().cycle().take(40) {
        bench.disturb(*pattern);
    }
    let levels: Vec<bool> = bench
        .line
        .0
        .iter()
        .map(|interrupt| match interrupt {
            Interrupt::Intx(level) => *level,
            Interrupt::Msi(_) => panic!("MSI is off"),
        })
        .collect();
    assert!(levels.iter().enumerate().all(|(i, level)| *level == (i % 2 == 0)), "{levels:?}");
    let raised = levels.iter().filter(|level| **level).count() as u64;
    assert_eq!(raised, bench.nic.counters().interrupts);
}

fn identification_does_not_change(options: &NicOptions) {
    let mut bench = Bench::new(options, MEMORY_AND_MASTER);
    let id = bench.host(|nic, _| nic.config_read(0, Width::B4));
    for offset in (0..256).step_by(4) {
        bench.config(offset, Width::B4, 0xffff_ffff);
    }
    bench.host(|nic, host| nic.power_on(host));
    assert_eq!(bench.host(|nic, _| nic.config_read(0, Width::B4)), id);
    assert_eq!(bench.host(|nic, _| nic.config_read(4, Width::B2)) & 7, 0);
}

fn on_a_bus(model: &str) -> NicOptions {
    NicOptions { bus: Some(PRESETS[0].bus), ..NicOptions::of(model) }
}

macro_rules! conformance {
    ($($name:ident: $options:expr),+ $(,)?) => {
        $(mod $name {
            conformance!(@tests $options =>
                the_table_has_neither_gap_nor_overlap,
                every_read_has_a_value_of_its_width,
                power_on_restores_every_register,
                read_only_registers_cannot_be_written,
                without_bus_mastering_memory_stays_as_it_is,
                a_nic_that_is_off_receives_nothing,
                the_intx_wire_goes_up_and_down_in_turn,
                identification_does_not_change,
            );
        })+

        #[test]
        fn every_model_is_tested() {
            let tested = [$($options.model),+];
            assert!(MODELS.iter().all(|info| tested.iter().any(|name| name == info.name)));
        }
    };
    (@tests $options:expr => $($test:ident),+ $(,)?) => {
        use super::*;
        $(#[test]
        fn $test() {
            super::$test(&$options);
        })+
    };
}

conformance!(
    rtl8168: NicOptions::of("rtl8168"),
    rtl8168_on_a_bus: on_a_bus("rtl8168"),
    oc48: NicOptions::of("oc48"),
);
