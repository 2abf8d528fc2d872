//! Linux's drivers on our cards and on QEMU's: what a driver reads from each register, and what it writes there, from
//! its probe to its end. Where the two differ one of the models is wrong, or free to choose.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use warikomi_protocol::commands::{LinkDown, UnloadDriver};
use warikomi_target::Target;
use warikomi_testbench::card;

use super::Running;
use super::guest::{Card, Common, Machine};

/// A card, and its registers.
struct Judged {
    common: Common,
    /// What QEMU calls the region with its registers.
    region: &'static str,
    /// The BAR with ours, and how many bytes it has.
    bar: u8,
    bytes: u64,
    known: [&'static [Known]; 2],
}

/// Registers that may differ, and why.
type Known = (RangeInclusive<u64>, &'static str);

const JUDGED: [Judged; 3] = [
    Judged {
        common: Common::RTL8139CP,
        region: "rtl8139",
        bar: 1,
        bytes: 0x100,
        known: [RTL8139CP, &[]],
    },
    Judged {
        common: Common::E1000E,
        region: "e1000e-mmio",
        bar: 0,
        bytes: 0x2_0000,
        known: [INTEL, E1000E],
    },
    Judged {
        common: Common::IGB,
        region: "igb-mmio",
        bar: 0,
        bytes: 0x2_0000,
        known: [INTEL, IGB],
    },
];

const RINGS: &str = "where the kernel had memory for rings";
const COUNTS: &str = "what has passed, tails of rings too: ours is cabled to nothing that answers, QEMU's to a network";

const RTL8139CP: &[Known] = &[
    (0x20..=0x24, RINGS),
    (0xe4..=0xe8, RINGS),
    (
        0x3e..=0x3e,
        "ISR: ours also says that the driver has given no further descriptor to send (TDU), at each last one",
    ),
    (0x50..=0x50, "9346CR: bits of the EEPROM's content"),
    (0x52..=0x52, "CONFIG1: ours has power management on, by its EEPROM"),
    (0x62..=0x62, "BMCR: ours says which speed and duplex mode it had before it negotiated"),
    (0x64..=0x64, "BMSR: ours needs no preamble (bit 6), which the datasheet leaves open"),
    (0x66..=0x68, "what either end offers: QEMU's both do flow control, ours both do not"),
];

/// Of both Intel cards.
const INTEL: &[Known] = &[
    (0x10..=0x10, "EECD: how large the EEPROM is"),
    (0x14..=0x14, "what is in the EEPROM is its maker's"),
    (
        0x20..=0x20,
        "another PHY: QEMU's partner can do flow control, ours cannot; ours says that a page has come, QEMU's that \
         it can take more",
    ),
    (
        0x400..=0x400,
        "TCTL: the driver writes the collision distance when the link comes, before or after it sets up to send",
    ),
    (0xe00..=0xe00, "what LEDs show, of which ours has none"),
    (0x2160..=0x2168, "FCRTL and FCRTH: QEMU's partner can do flow control, ours cannot"),
    (0x2800..=0x2804, RINGS),
    (0x2818..=0x2818, COUNTS),
    (0x3800..=0x3804, RINGS),
    (0x3818..=0x3818, COUNTS),
    (0x4000..=0x4124, COUNTS),
    (0x5b00..=0x5b00, "what PCI Express has negotiated, of which ours has nothing to say"),
    (0x5c80..=0x5ca7, "a random key"),
    (0xb600..=0xb67b, "the time"),
];

const E1000E: &[Known] = &[
    (0x00..=0x00, "CTRL: QEMU's can be woken (ADVD3WUC) and has a pin set, both by its EEPROM"),
    (
        0x08..=0x08,
        "STATUS: QEMU's detects the speed by itself (ASDV), and is in full duplex mode without a link",
    ),
    (0xc0..=0xd8, "what had happened by the time at which the driver looked"),
    (0xe8..=0xf8, "EITR: the driver follows what comes"),
    (0xf00..=0xf00, "EXTCNF_CTRL: bit 3, which the datasheet reserves"),
    (0x5820..=0x5820, "MANC: QEMU's has management, ours has none"),
    (0x5b50..=0x5b50, "SWSM: the first read takes the semaphore and gives 0 on ours, on QEMU's 1"),
];

const IGB: &[Known] = &[
    (0x00..=0x00, "CTRL: QEMU's can be woken (ADVD3WUC), by its EEPROM"),
    (
        0x08..=0x08,
        "STATUS: QEMU's says that the PHY was reset (PHYRA), and that its DMA clock may be gated",
    ),
    (
        0xc0..=0xd8,
        "ICR: QEMU's says with every cause that it interrupts (INTA), ours where its vector is told",
    ),
    (
        0x1010..=0x1010,
        "EEMNGCTL: ours has loaded its configuration at once, QEMU's says nothing of it",
    ),
    (
        0x1524..=0x1580,
        "EIMS to EICR: which vectors interrupted; and EIAM, which QEMU's gives back inverted",
    ),
    (0x1680..=0x16a4, "EITR: the driver follows what comes"),
];

/// What was read from a register, and what was written there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Register {
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
}

type Registers = BTreeMap<u64, Register>;

/// The accesses to one region in a trace of QEMU's events `memory_region_ops_read` and `memory_region_ops_write`.
fn registers(trace: &Path, region: &str, bytes: u64) -> Registers {
    let text = std::fs::read(trace).unwrap();
    let mut registers = Registers::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let Some((access, name)) = line.split_once(" name '") else { continue };
        if !name.starts_with(region) {
            continue;
        }
        let words: Vec<_> = access.split_whitespace().collect();
        let after = |key: &str| {
            let at = words.iter().position(|word| *word == key).unwrap();
            u64::from_str_radix(words[at + 1].trim_start_matches("0x"), 16).unwrap()
        };
        let register = registers.entry(after("addr") & (bytes - 1)).or_default();
        let values = match words[0] {
            "memory_region_ops_write" => &mut register.written,
            _ => &mut register.read,
        };
        values.insert(after("value"));
    }
    registers
}

/// What the driver does in its life on this card.
fn life(machine: &Machine, card: Card<'_>, modules: &[&str], trace: &Path) {
    let mut guest = machine.boot_traced(card, modules, trace);
    guest.bring_up(modules);
    // A watchdog looks every other second.
    std::thread::sleep(Duration::from_secs(5));
    guest.ask(LinkDown { interface: None });
    guest.ask(UnloadDriver { name: (*modules.last().unwrap()).into() });
    guest.stop().unwrap();
}

/// The registers on both, by their offsets.
fn both(machine: &Machine, judged: &Judged) -> [Registers; 2] {
    let Judged { common: Common { model, modules, device }, region, bar, bytes, .. } = *judged;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let [of_ours, of_theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));
    let serving = Running::start(&["serve", "--model", model, "--wire", "sink"], &socket);
    life(machine, Card::Ours(&socket), modules, &of_ours);
    serving.interrupt();
    let network = "user,id=cable,ipv6=off";
    let theirs = Card::Qemus { device, mac: card(model).mac_address(), network };
    life(machine, theirs, modules, &of_theirs);
    let ours = format!("vfio-user:{} BAR {bar}", socket.display());
    [registers(&of_ours, &ours, bytes), registers(&of_theirs, region, bytes)]
}

/// Prints what differs and is known to; gives what differs and is not.
fn judge(machine: &Machine, judged: &Judged) -> Vec<String> {
    let [ours, theirs] = both(machine, judged);
    let every: BTreeSet<_> = ours.keys().chain(theirs.keys()).copied().collect();
    let nothing = Register::default();
    let mut unknown = Vec::new();
    let mut equal = 0;
    for offset in &every {
        let [ours, theirs] = [&ours, &theirs].map(|all| all.get(offset).unwrap_or(&nothing));
        if ours == theirs {
            equal += 1;
            continue;
        }
        match judged.known.into_iter().flatten().find(|(registers, _)| registers.contains(offset)) {
            Some((_, why)) => println!("{} {offset:#x}: {why}", judged.common.model),
            None => unknown.push(format!(
                "{} {offset:#x}: ours {ours:x?}, QEMU's {theirs:x?}",
                judged.common.model
            )),
        }
    }
    println!("{}: of {} registers {equal} the same", judged.common.model, every.len());
    assert!(equal > 0, "nothing was traced");
    unknown
}

#[test]
#[ignore = "boots two guests of QEMU for each card; scripts/test-long"]
fn a_driver_sees_the_same_in_our_card_as_in_qemus() {
    let Some(machine) = Machine::find() else { return };
    let unknown: Vec<_> = JUDGED.iter().flat_map(|judged| judge(&machine, judged)).collect();
    assert!(unknown.is_empty(), "these differ, and no reason is written:\n{}", unknown.join("\n"));
}
