//! The registers, row by row.
//!
//! Cited are "RTL8139C(L) Fast Ethernet Controller With Power Management", Rev. 1.4 of 2002-01-10, and where that is
//! silent the Linux drivers (`8139too.c` and `8139cp.c` of Linux 6.1), which have the names of the registers, too. Of
//! the C+ mode 8139cp is what could be checked. Where no source says what a register holds at power-on, it holds 0.

use warikomi_pci::Vector;

use crate::register::{Access, Register, Role};

/// The chip has one vector.
pub(super) const VECTOR: Vector = Vector(0);

/// The memory BAR with the registers. The BAR of ports, which is number 0, leads to the same ones.
pub(super) const BAR: u8 = 1;
/// Bytes that the BARs decode.
pub(super) const BAR_BYTES: u64 = 256;
/// Bytes that the registers take up in them; behind are those of CardBus.
pub(super) const BYTES: usize = 0xf0;

pub(super) const MAC0: u16 = 0x00;
pub(super) const MAC4: u16 = 0x04;
pub(super) const MAR0: u16 = 0x08;
pub(super) const TX_STATUS_0: u16 = 0x10;
pub(super) const TX_STATUS_3: u16 = 0x1c;
/// The same place in C+ mode: where the tally counters go.
pub(super) const COUNTER_LOW: u16 = TX_STATUS_0;
pub(super) const COUNTER_HIGH: u16 = COUNTER_LOW + 4;
pub(super) const TX_ADDRESS_0: u16 = 0x20;
pub(super) const TX_ADDRESS_3: u16 = 0x2c;
/// The same places in C+ mode: the transmit rings.
pub(super) const TX_RING: u16 = TX_ADDRESS_0;
pub(super) const TX_HIGH_RING: u16 = TX_RING + 8;
pub(super) const RX_BUFFER: u16 = 0x30;
pub(super) const CHIP_CMD: u16 = 0x37;
pub(super) const RX_READ: u16 = 0x38;
pub(super) const RX_WRITTEN: u16 = 0x3a;
pub(super) const INTR_MASK: u16 = 0x3c;
pub(super) const INTR_STATUS: u16 = 0x3e;
pub(super) const TX_CONFIG: u16 = 0x40;
pub(super) const RX_CONFIG: u16 = 0x44;
pub(super) const TIMER_COUNT: u16 = 0x48;
pub(super) const RX_MISSED: u16 = 0x4c;
pub(super) const CFG9346: u16 = 0x50;
pub(super) const CONFIG0: u16 = 0x51;
pub(super) const CONFIG1: u16 = 0x52;
pub(super) const TIMER_INT: u16 = 0x54;
pub(super) const MEDIA_STATUS: u16 = 0x58;
pub(super) const CONFIG3: u16 = 0x59;
pub(super) const CONFIG4: u16 = 0x5a;
pub(super) const MULTI_INTR: u16 = 0x5c;
const REVISION: u16 = 0x5e;
pub(super) const TX_SUMMARY: u16 = 0x60;
pub(super) const MODE_CONTROL: u16 = 0x62;
pub(super) const MODE_STATUS: u16 = 0x64;
pub(super) const ADVERTISEMENT: u16 = 0x66;
pub(super) const PARTNER: u16 = 0x68;
pub(super) const EXPANSION: u16 = 0x6a;
pub(super) const CSCR: u16 = 0x74;
const TX_DONE: u16 = 0x82;
pub(super) const CONFIG5: u16 = 0xd8;
pub(super) const TX_POLL: u16 = 0xd9;
pub(super) const CPLUS_CMD: u16 = 0xe0;
const INTR_MITIGATE: u16 = 0xe2;
pub(super) const RX_RING: u16 = 0xe4;
pub(super) const RX_RING_HIGH: u16 = RX_RING + 4;
const TX_THRESHOLD: u16 = 0xec;

// Revisions (8139too.c, rtl8139_init_one; 8139cp.c, cp_init_one), and versions in TxConfig (8139too.c, rtl_chip_info).
pub(super) const C_REVISION: u8 = 0x10;
pub(super) const CPLUS_REVISION: u8 = 0x20;
pub(super) const C_VERSION: u32 = 0x7400_0000;
pub(super) const CPLUS_VERSION: u32 = 0x7480_0000;
pub(super) const VERSION_MASK: u32 = 0x7cc0_0000;

// TSD (section 5.2).
pub(super) const TX_CARRIER_LOST: u32 = 1 << 31;
pub(super) const TX_ABORTED: u32 = 1 << 30;
pub(super) const TX_STATUS_OK: u32 = 1 << 15;
pub(super) const TX_UNDERRUN: u32 = 1 << 14;
pub(super) const TX_OWN: u32 = 1 << 13;
pub(super) const TX_SIZE: u32 = 0x1fff;
/// The bits that a driver writes: threshold, owner and size.
pub(super) const TX_WRITTEN: u32 = 0x003f_0000 | TX_OWN | TX_SIZE;

// ChipCmd (section 5.4).
pub(super) const CMD_RESET: u8 = 0x10;
pub(super) const CMD_RX_ENABLE: u8 = 0x08;
pub(super) const CMD_TX_ENABLE: u8 = 0x04;
pub(super) const CMD_BUFFER_EMPTY: u8 = 0x01;

/// What CAPR holds at power-on; it is 16 behind what the driver has read (CAPR in the table of section 5).
pub(super) const READ_AT_FIRST: u16 = 0xfff0;
pub(super) const READ_BEHIND: u16 = 16;

// IntrMask and IntrStatus (section 5.6).
pub(super) const SYS_ERR: u32 = 0x8000;
pub(super) const TIMEOUT: u32 = 0x4000;
const LENGTH_CHG: u32 = 0x2000;
pub(super) const SW_INT: u32 = 0x0100;
pub(super) const TX_DESC_UNAVAIL: u32 = 0x0080;
const RX_FIFO_OVER: u32 = 0x0040;
pub(super) const LINK_CHG: u32 = 0x0020;
pub(super) const RX_OVERFLOW: u32 = 0x0010;
pub(super) const TX_ERR: u32 = 0x0008;
pub(super) const TX_OK: u32 = 0x0004;
pub(super) const RX_ERR: u32 = 0x0002;
pub(super) const RX_OK: u32 = 0x0001;
/// Every interrupt of the C mode; other bits read as 0.
pub(super) const C_CAUSES: u32 = SYS_ERR
    | TIMEOUT
    | LENGTH_CHG
    | RX_FIFO_OVER
    | LINK_CHG
    | RX_OVERFLOW
    | TX_ERR
    | TX_OK
    | RX_ERR
    | RX_OK;
/// Those that the C+ mode adds (8139cp.c, IntrAll).
pub(super) const CPLUS_CAUSES: u32 = SW_INT | TX_DESC_UNAVAIL;

/// TxConfig: sends an aborted frame again; write only (8139too.c, TxClearAbt).
pub(super) const TX_CLEAR_ABORT: u32 = 1 << 0;

// RxConfig (section 5.8); the low six bits are the filter's.
pub(super) const RX_NO_WRAP: u32 = 1 << 7;
pub(super) const RX_LENGTH_SHIFT: u32 = 11;

/// Cfg9346 (section 5.9): the two bits that say what the register is for at the moment.
pub(super) const CFG9346_MODE: u8 = 0xc0;
pub(super) const CFG9346_AUTOLOAD: u8 = 0x40;
pub(super) const CFG9346_PROGRAM: u8 = 0x80;
pub(super) const CFG9346_UNLOCKED: u8 = 0xc0;
pub(super) const CFG9346_DATA_OUT: u8 = 0x01;

// MediaStatus (section 5.12).
pub(super) const MEDIA_PAUSE: u8 = 0xc0;
pub(super) const MEDIA_10: u8 = 0x08;
pub(super) const MEDIA_NO_LINK: u8 = 0x04;

// CSCR (8139too.c, enum CSCRBits). What clears the second one is not documented; here a reset does.
pub(super) const CSCR_LINK_OK: u16 = 0x0400;
pub(super) const CSCR_LINK_CHANGED: u16 = 0x0800;

// TxPoll of the C+ mode (8139cp.c, NormalTxPoll; as in the RTL8169).
pub(super) const POLL_HIGH: u8 = 0x80;
pub(super) const POLL_NORMAL: u8 = 0x40;
pub(super) const POLL_SOFTWARE_INTERRUPT: u8 = 0x01;

// CpCmd (8139cp.c).
pub(super) const CPLUS_RX_VLAN: u16 = 1 << 6;
pub(super) const CPLUS_RX_CHECKSUM: u16 = 1 << 5;
pub(super) const CPLUS_RX_ENABLE: u16 = 1 << 1;
pub(super) const CPLUS_TX_ENABLE: u16 = 1 << 0;
const CPLUS_RESERVED: u64 = 0xff84;

// The low half of the counters' address (8139cp.c, DumpStats; as in the RTL8169).
pub(super) const COUNTER_DUMP: u32 = 8;
pub(super) const COUNTER_RESET: u32 = 1;

/// Rings begin at multiples of 256 (8139cp.c, which puts both into one coherent allocation of 64 descriptors each).
const RING_RESERVED: u64 = 0xff;

const TABLE: &str = "RTL8139C Rev. 1.4, section 5, table of registers";
const TSD: &str = "RTL8139C Rev. 1.4, section 5.2";
const COMMAND: &str = "RTL8139C Rev. 1.4, section 5.4";
const MASK: &str = "RTL8139C Rev. 1.4, section 5.5";
const STATUS: &str = "RTL8139C Rev. 1.4, section 5.6";
const CONFIGURATION: &str = "RTL8139C Rev. 1.4, sections 5.7 and 5.8";
const EEPROM: &str = "RTL8139C Rev. 1.4, sections 5.9 to 5.11, 5.13 and 5.14";
const MEDIA: &str = "RTL8139C Rev. 1.4, section 5.12";
const SUMMARY: &str = "RTL8139C Rev. 1.4, section 5.17";
const PHY: &str = "RTL8139C Rev. 1.4, sections 5.18 to 5.22; IEEE 802.3, 22.2.4";
const PHY_TESTS: &str = "RTL8139C Rev. 1.4, sections 5.23 to 5.27";
const UNDOCUMENTED: &str = "Linux 6.1 8139too.c, enum RTL8139_registers: undocumented";
const CPLUS: &str = "Linux 6.1 8139cp.c, the first enumeration";
const RESERVED: &str = "not named by RTL8139C Rev. 1.4, Linux 6.1 8139too.c and 8139cp.c; iPXE realtek.c \
                        (realtek_detect) takes a chip that keeps what is written at 0xda for an RTL8169";

const fn row(
    name: &'static str,
    offset: u16,
    width: u16,
    access: Access,
    source: &'static str,
) -> Register {
    Register { joined: true, ..Register::new(name, (BAR, offset), width, access, source) }
}

const fn reset_to(reset: u64, row: Register) -> Register {
    Register { reset, ..row }
}

const fn reserved(offset: u16, width: u16) -> Register {
    row("reserved", offset, width, Access::ReadOnly, RESERVED).with_reserved(u64::MAX)
}

/// One of the four that say what is to be sent.
const fn tx_status(name: &'static str, offset: u16) -> Register {
    reset_to(TX_OWN as u64, row(name, offset, 4, Access::ReadWrite, TSD))
}

use Access::{
    ReadClear as RC, ReadOnly as RO, ReadWrite as RW, SelfClearing as SC, Write1Clear as W1C,
    WriteOnly as WO,
};

/// The table of a chip.
pub(super) type Registers = [Register; 73];

/// Every byte of the registers of the RTL8139C+, once.
///
/// The chips go by byte enables, so an access may take in several registers. Reserved rows keep nothing.
/// Addresses are as the EEPROM has them: 02:57:4b:00:00:01. What is negotiated is so: 100 Mbit/s, full duplex.
#[rustfmt::skip]
pub(super) const CPLUS_REGISTERS: Registers = [
    reset_to(0x004b_5702, row("IDR0", MAC0, 4, RW, TABLE).as_bytes()),
    reset_to(0x0100, row("IDR4", MAC4, 2, RW, TABLE).as_bytes()),
    reserved(0x06, 2),
    row("MAR0", MAR0, 8, RW, TABLE),
    tx_status("TSD0", TX_STATUS_0),
    tx_status("TSD1", 0x14),
    tx_status("TSD2", 0x18),
    tx_status("TSD3", TX_STATUS_3),
    row("TSAD0", TX_ADDRESS_0, 4, RW, TABLE),
    row("TSAD1", 0x24, 4, RW, TABLE),
    row("TSAD2", TX_HIGH_RING, 4, RW, TABLE),
    row("TSAD3", TX_ADDRESS_3, 4, RW, TABLE),
    row("RBSTART", RX_BUFFER, 4, RW, TABLE),
    row("ERBCR", 0x34, 2, RO, TABLE),
    row("ERSR", 0x36, 1, RO, TABLE),
    reset_to(CMD_BUFFER_EMPTY as u64, row("CR", CHIP_CMD, 1, SC, COMMAND)).with_reserved(0xe2),
    reset_to(READ_AT_FIRST as u64, row("CAPR", RX_READ, 2, RW, TABLE)),
    row("CBR", RX_WRITTEN, 2, RO, TABLE),
    row("IMR", INTR_MASK, 2, RW, MASK)
        .with_reserved(0xffff & !((C_CAUSES | CPLUS_CAUSES) as u64))
        .with_role(Role::Mask(VECTOR)),
    // A 1 in a bit that does not exist clears nothing: drivers write all ones.
    row("ISR", INTR_STATUS, 2, W1C, STATUS).with_role(Role::Status(VECTOR)),
    reset_to(CPLUS_VERSION as u64, row("TCR", TX_CONFIG, 4, RW, CONFIGURATION)),
    row("RCR", RX_CONFIG, 4, RW, CONFIGURATION),
    row("TCTR", TIMER_COUNT, 4, RW, TABLE),
    row("MPC", RX_MISSED, 4, RW, TABLE),
    row("9346CR", CFG9346, 1, RW, EEPROM),
    row("CONFIG0", CONFIG0, 1, RW, EEPROM),
    // Memory and I/O mapped, power management on.
    reset_to(0x0d, row("CONFIG1", CONFIG1, 1, RW, EEPROM)),
    reserved(0x53, 1),
    row("TimerInt", TIMER_INT, 4, RW, TABLE),
    row("MSR", MEDIA_STATUS, 1, RW, MEDIA),
    row("CONFIG3", CONFIG3, 1, RW, EEPROM),
    row("CONFIG4", CONFIG4, 1, RW, EEPROM),
    row("HltClk", 0x5b, 1, WO, UNDOCUMENTED),
    row("MULINT", MULTI_INTR, 2, RW, "RTL8139C Rev. 1.4, section 5.15"),
    reset_to(CPLUS_REVISION as u64, row("RERID", REVISION, 1, RO, "RTL8139C Rev. 1.4, section 5.16")),
    reserved(0x5f, 1),
    reset_to(0x000f, row("TSAD", TX_SUMMARY, 2, RO, SUMMARY)),
    reset_to(0x3100, row("BMCR", MODE_CONTROL, 2, RW, PHY)),
    // A link that has failed stands there until it has been read.
    reset_to(0x786d, row("BMSR", MODE_STATUS, 2, RC, PHY)),
    reset_to(0x01e1, row("ANAR", ADVERTISEMENT, 2, RW, PHY)),
    reset_to(0x41e1, row("ANLPAR", PARTNER, 2, RO, PHY)),
    reset_to(0x0003, row("ANER", EXPANSION, 2, RO, PHY)),
    row("DIS", 0x6c, 2, RO, PHY_TESTS),
    row("FCSC", 0x6e, 2, RO, PHY_TESTS),
    row("NWAYTR", 0x70, 2, RW, PHY_TESTS),
    row("REC", 0x72, 2, RO, PHY_TESTS),
    reset_to(CSCR_LINK_OK as u64, row("CSCR", CSCR, 2, RW, PHY_TESTS)),
    reserved(0x76, 2),
    row("PHY1_PARM", 0x78, 4, RW, UNDOCUMENTED),
    row("TW_PARM", 0x7c, 4, RW, UNDOCUMENTED),
    row("PHY2_PARM", 0x80, 1, RW, TABLE),
    reserved(0x81, 1),
    row("TDOKLADDR", TX_DONE, 2, RO, CPLUS),
    row("CRC0 to CRC7", 0x84, 8, RW, TABLE).as_bytes(),
    row("Wakeup0", 0x8c, 8, RW, TABLE),
    row("Wakeup1", 0x94, 8, RW, TABLE),
    row("Wakeup2", 0x9c, 8, RW, TABLE),
    row("Wakeup3", 0xa4, 8, RW, TABLE),
    row("Wakeup4", 0xac, 8, RW, TABLE),
    row("Wakeup5", 0xb4, 8, RW, TABLE),
    row("Wakeup6", 0xbc, 8, RW, TABLE),
    row("Wakeup7", 0xc4, 8, RW, TABLE),
    row("LSBCRC0 to LSBCRC7", 0xcc, 8, RW, TABLE).as_bytes(),
    row("FLASH", 0xd4, 4, RW, TABLE),
    row("Config5", CONFIG5, 1, RW, "RTL8139C Rev. 1.4, section 5.28"),
    row("TPPoll", TX_POLL, 1, SC, CPLUS).with_reserved(0x3e).with_role(Role::Doorbell(0)),
    reserved(0xda, 6),
    row("CpCmd", CPLUS_CMD, 2, RW, "RTL8139C+ v1.6, section 6.33").with_reserved(CPLUS_RESERVED),
    row("IntrMitigate", INTR_MITIGATE, 2, RW, CPLUS),
    row("RDSAR low", RX_RING, 4, RW, CPLUS).with_reserved(RING_RESERVED),
    row("RDSAR high", RX_RING_HIGH, 4, RW, CPLUS),
    row("ETThR", TX_THRESHOLD, 1, RW, CPLUS),
    reserved(0xed, 3),
];

/// Those of the RTL8139C.
pub(super) const C_REGISTERS: Registers = {
    let mut rows = CPLUS_REGISTERS;
    let mut index = 0;
    while index < rows.len() {
        rows[index] = of_c(rows[index]);
        index += 1;
    }
    rows
};

/// What a register of the RTL8139C+ is in the RTL8139C, which has no C+ mode.
const fn of_c(row: Register) -> Register {
    match row.offset {
        // Doorbells; of a chip that is driven in C+ mode the first two are an address.
        TX_STATUS_0..=TX_STATUS_3 => row.with_reserved(0x00c0_0000).with_role(Role::Doorbell(0)),
        INTR_MASK => row.with_reserved(0xffff & !(C_CAUSES as u64)),
        TX_CONFIG => reset_to(C_VERSION as u64, row),
        REVISION => reset_to(C_REVISION as u64, row),
        TX_DONE | TX_POLL | CPLUS_CMD | INTR_MITIGATE | RX_RING | RX_RING_HIGH | TX_THRESHOLD => {
            reserved(row.offset, row.width)
        }
        _ => row,
    }
}
