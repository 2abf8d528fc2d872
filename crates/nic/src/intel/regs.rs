//! Registers that Intel's gigabit controllers have in the same places, and their bits.
//!
//! Names, offsets and what they do are those of the "82574 GbE Controller Family Datasheet" (317694), chapter 10, and
//! of the "82576 Gigabit Ethernet Controller Datasheet" (321027), chapter 8. A chip's table of registers
//! cites its own.

use crate::register::{Access, Register, Role, Span, WordFile, WordTable};

/// Who made them.
pub(crate) const VENDOR: u16 = 0x8086;

/// The BAR with the registers, what it decodes, and the one with the MSI-X table and its pending bits.
pub(crate) const BAR: u8 = 0;
pub(crate) const BAR_BYTES: u64 = 128 << 10;
pub(crate) const MSIX_BAR: u8 = 3;
pub(crate) const MSIX_BYTES: u64 = 16 << 10;
pub(crate) const PENDING: u32 = 0x2000;

// General registers.
pub(crate) const CTRL: u16 = 0x0000;
pub(crate) const STATUS: u16 = 0x0008;
pub(crate) const EECD: u16 = 0x0010;
pub(crate) const EERD: u16 = 0x0014;
pub(crate) const CTRL_EXT: u16 = 0x0018;
pub(crate) const MDIC: u16 = 0x0020;
pub(crate) const FCAL: u16 = 0x0028;
pub(crate) const FCT: u16 = 0x0030;
pub(crate) const VET: u16 = 0x0038;
pub(crate) const FCTTV: u16 = 0x0170;
pub(crate) const TXCW: u16 = 0x0178;
pub(crate) const LEDCTL: u16 = 0x0e00;
pub(crate) const EEMNGCTL: u16 = 0x1010;
pub(crate) const SWSM: u16 = 0x5b50;

// Interrupt registers.
pub(crate) const ICR: u16 = 0x00c0;
pub(crate) const ICS: u16 = 0x00c8;
pub(crate) const IMS: u16 = 0x00d0;
pub(crate) const IMC: u16 = 0x00d8;

// Receive registers.
pub(crate) const RCTL: u16 = 0x0100;
pub(crate) const FCRTL: u16 = 0x2160;
pub(crate) const FCRTH: u16 = 0x2168;
pub(crate) const RXCSUM: u16 = 0x5000;
pub(crate) const RFCTL: u16 = 0x5008;
pub(crate) const MTA: u16 = 0x5200;
pub(crate) const RAL: u16 = 0x5400;
pub(crate) const RAH: u16 = 0x5404;
pub(crate) const RA_END: u16 = 0x5480;
pub(crate) const VFTA: u16 = 0x5600;
pub(crate) const MRQC: u16 = 0x5818;
pub(crate) const RETA: u16 = 0x5c00;
pub(crate) const RSSRK: u16 = 0x5c80;

// Transmit registers.
pub(crate) const TCTL: u16 = 0x0400;
pub(crate) const TCTL_EXT: u16 = 0x0404;
pub(crate) const TIPG: u16 = 0x0410;

// Statistics.
pub(crate) const STATISTICS: u16 = 0x4000;
pub(crate) const CRCERRS: u16 = 0x4000;
pub(crate) const ALGNERRC: u16 = 0x4004;
pub(crate) const RXERRC: u16 = 0x400c;
pub(crate) const MPC: u16 = 0x4010;
pub(crate) const RLEC: u16 = 0x4040;
pub(crate) const XONRXC: u16 = 0x4048;
pub(crate) const XOFFRXC: u16 = 0x4050;
pub(crate) const FCRUC: u16 = 0x4058;
pub(crate) const PRC64: u16 = 0x405c;
pub(crate) const GPRC: u16 = 0x4074;
pub(crate) const BPRC: u16 = 0x4078;
pub(crate) const MPRC: u16 = 0x407c;
pub(crate) const GPTC: u16 = 0x4080;
pub(crate) const GORCL: u16 = 0x4088;
pub(crate) const GOTCL: u16 = 0x4090;
pub(crate) const RNBC: u16 = 0x40a0;
pub(crate) const RUC: u16 = 0x40a4;
pub(crate) const ROC: u16 = 0x40ac;
pub(crate) const TORL: u16 = 0x40c0;
pub(crate) const TOTL: u16 = 0x40c8;
pub(crate) const TPR: u16 = 0x40d0;
pub(crate) const TPT: u16 = 0x40d4;
pub(crate) const PTC64: u16 = 0x40d8;
pub(crate) const MPTC: u16 = 0x40f0;
pub(crate) const BPTC: u16 = 0x40f4;
pub(crate) const TSCTC: u16 = 0x40f8;
pub(crate) const TSCTFC: u16 = 0x40fc;
pub(crate) const IAC: u16 = 0x4100;
pub(crate) const ICRXPTC: u16 = 0x4104;
pub(crate) const ICRXATC: u16 = 0x4108;
pub(crate) const ICTXPTC: u16 = 0x410c;
pub(crate) const ICTXATC: u16 = 0x4110;
pub(crate) const ICRXDMTC: u16 = 0x4120;
pub(crate) const ICRXOC: u16 = 0x4124;
/// Host good octets, which the 82576 has besides.
pub(crate) const HGORCL: u16 = 0x4128;
pub(crate) const HGOTCL: u16 = 0x4130;

// System time and time stamps.
pub(crate) const SYSTIML: u16 = 0xb600;
pub(crate) const SYSTIMH: u16 = 0xb604;
pub(crate) const TIMINCA: u16 = 0xb608;
pub(crate) const TIMADJL: u16 = 0xb60c;
pub(crate) const TIMADJH: u16 = 0xb610;
pub(crate) const TSYNCTXCTL: u16 = 0xb614;
pub(crate) const TXSTMPL: u16 = 0xb618;
pub(crate) const TXSTMPH: u16 = 0xb61c;
pub(crate) const TSYNCRXCTL: u16 = 0xb620;
pub(crate) const RXSTMPL: u16 = 0xb624;
pub(crate) const RXSTMPH: u16 = 0xb628;
pub(crate) const RXSATRL: u16 = 0xb62c;
pub(crate) const RXSATRH: u16 = 0xb630;

// CTRL.
pub(crate) const CTRL_FULL_DUPLEX: u32 = 1 << 0;
pub(crate) const CTRL_MASTER_DISABLE: u32 = 1 << 2;
pub(crate) const CTRL_SET_LINK_UP: u32 = 1 << 6;
pub(crate) const CTRL_SPEED_1000: u32 = 1 << 9;
pub(crate) const CTRL_RESET: u32 = 1 << 26;
pub(crate) const CTRL_RECEIVE_PAUSE: u32 = 1 << 27;
pub(crate) const CTRL_VLAN: u32 = 1 << 30;
pub(crate) const CTRL_PHY_RESET: u32 = 1 << 31;
pub(crate) const CTRL_INITIAL: u32 = CTRL_FULL_DUPLEX | CTRL_SET_LINK_UP | CTRL_SPEED_1000;

// STATUS.
pub(crate) const STATUS_FULL_DUPLEX: u32 = 1 << 0;
pub(crate) const STATUS_LINK_UP: u32 = 1 << 1;
pub(crate) const STATUS_SPEED_100: u32 = 1 << 6;
pub(crate) const STATUS_SPEED_1000: u32 = 1 << 7;
pub(crate) const STATUS_MASTER: u32 = 1 << 19;
pub(crate) const STATUS_INITIAL: u32 =
    STATUS_FULL_DUPLEX | STATUS_LINK_UP | STATUS_SPEED_1000 | STATUS_MASTER;

// Causes of interrupts: ICR, ICS, IMS, IMC, IAM.
pub(crate) const TXDW: u32 = 1 << 0;
pub(crate) const LSC: u32 = 1 << 2;
pub(crate) const RXDMT0: u32 = 1 << 4;
pub(crate) const RXO: u32 = 1 << 6;
pub(crate) const RXT0: u32 = 1 << 7;
pub(crate) const MDAC: u32 = 1 << 9;
pub(crate) const INT_ASSERTED: u32 = 1 << 31;

// RCTL.
pub(crate) const RCTL_ENABLE: u32 = 1 << 1;
pub(crate) const RCTL_STORE_BAD: u32 = 1 << 2;
pub(crate) const RCTL_ALL_UNICAST: u32 = 1 << 3;
pub(crate) const RCTL_ALL_MULTICAST: u32 = 1 << 4;
pub(crate) const RCTL_LONG: u32 = 1 << 5;
pub(crate) const RCTL_THRESHOLD_SHIFT: u32 = 8;
pub(crate) const RCTL_OFFSET_SHIFT: u32 = 12;
pub(crate) const RCTL_BROADCAST: u32 = 1 << 15;
pub(crate) const RCTL_SIZE_SHIFT: u32 = 16;
pub(crate) const RCTL_VLAN_FILTER: u32 = 1 << 18;
pub(crate) const RCTL_CFI_ENABLE: u32 = 1 << 19;
pub(crate) const RCTL_CFI: u32 = 1 << 20;
pub(crate) const RCTL_DISCARD_PAUSE: u32 = 1 << 22;
pub(crate) const RCTL_PASS_CONTROL: u32 = 1 << 23;
pub(crate) const RCTL_SIZE_EXTENSION: u32 = 1 << 25;
pub(crate) const RCTL_STRIP_CRC: u32 = 1 << 26;

// RXCSUM.
pub(crate) const RXCSUM_START: u32 = 0xff;
pub(crate) const RXCSUM_IP: u32 = 1 << 8;
pub(crate) const RXCSUM_TRANSPORT: u32 = 1 << 9;
/// Of the 82576 alone: CRC32c of SCTP.
pub(crate) const RXCSUM_SCTP: u32 = 1 << 11;
pub(crate) const RXCSUM_NO_PACKET_SUM: u32 = 1 << 13;

// TCTL.
pub(crate) const TCTL_ENABLE: u32 = 1 << 1;
pub(crate) const TCTL_PAD: u32 = 1 << 3;

/// Words up to the last register of the largest of these chips.
pub(crate) const WORDS: usize = 0xe400 / 4;
/// What BAR 0 holds.
pub(crate) type Registers = WordFile<WORDS>;
/// The registers of BAR 0 by their words.
pub(crate) type Table = WordTable<WORDS>;

use Access::{ReadClear as RC, ReadWrite as RW};

pub(crate) const fn row(
    name: &'static str,
    offset: u16,
    access: Access,
    source: &'static str,
) -> Span {
    Span { first: Register::new(name, (BAR, offset), 4, access, source), count: 1 }
}

pub(crate) const fn rows(
    name: &'static str,
    offset: u16,
    count: u16,
    source: &'static str,
) -> Span {
    Span { count, ..row(name, offset, RW, source) }
}

pub(crate) const fn holding(span: Span, reset: u32) -> Span {
    Span { first: Register { reset: reset as u64, ..span.first }, ..span }
}

/// Of which only these bits are there.
pub(crate) const fn of_bits(span: Span, bits: u32) -> Span {
    Span { first: Register { bits: bits as u64, ..span.first }, ..span }
}

pub(crate) const fn with_role(span: Span, role: Role) -> Span {
    Span { first: span.first.with_role(role), ..span }
}

/// Names and offsets of the statistics registers that these chips have in common.
const COUNTERS: [(&str, u16); COUNTER_COUNT] = [
    ("CRCERRS", CRCERRS),
    ("ALGNERRC", ALGNERRC),
    ("SYMERRS", 0x4008),
    ("RXERRC", RXERRC),
    ("MPC", MPC),
    ("SCC", 0x4014),
    ("ECOL", 0x4018),
    ("MCC", 0x401c),
    ("LATECOL", 0x4020),
    ("COLC", 0x4028),
    ("DC", 0x4030),
    ("TNCRS", 0x4034),
    ("SEC", 0x4038),
    ("CEXTERR", 0x403c),
    ("RLEC", RLEC),
    ("XONRXC", XONRXC),
    ("XONTXC", 0x404c),
    ("XOFFRXC", XOFFRXC),
    ("XOFFTXC", 0x4054),
    ("FCRUC", FCRUC),
    ("PRC64", PRC64),
    ("PRC127", 0x4060),
    ("PRC255", 0x4064),
    ("PRC511", 0x4068),
    ("PRC1023", 0x406c),
    ("PRC1522", 0x4070),
    ("GPRC", GPRC),
    ("BPRC", BPRC),
    ("MPRC", MPRC),
    ("GPTC", GPTC),
    ("GORCL", GORCL),
    ("GORCH", GORCL + 4),
    ("GOTCL", GOTCL),
    ("GOTCH", GOTCL + 4),
    ("RNBC", RNBC),
    ("RUC", RUC),
    ("RFC", 0x40a8),
    ("ROC", ROC),
    ("RJC", 0x40b0),
    ("MGTPRC", 0x40b4),
    ("MGTPDC", 0x40b8),
    ("MGTPTC", 0x40bc),
    ("TORL", TORL),
    ("TORH", TORL + 4),
    ("TOTL", TOTL),
    ("TOTH", TOTL + 4),
    ("TPR", TPR),
    ("TPT", TPT),
    ("PTC64", PTC64),
    ("PTC127", 0x40dc),
    ("PTC255", 0x40e0),
    ("PTC511", 0x40e4),
    ("PTC1023", 0x40e8),
    ("PTC1522", 0x40ec),
    ("MPTC", MPTC),
    ("BPTC", BPTC),
    ("TSCTC", TSCTC),
    ("TSCTFC", TSCTFC),
    ("IAC", IAC),
    ("ICRXPTC", ICRXPTC),
    ("ICRXATC", ICRXATC),
    ("ICTXPTC", ICTXPTC),
    ("ICTXATC", ICTXATC),
    ("ICTXQEC", 0x4118),
    ("ICTXQMTC", 0x411c),
    ("ICRXDMTC", ICRXDMTC),
    ("ICRXOC", ICRXOC),
];
pub(crate) const COUNTER_COUNT: usize = 67;

/// The rows of these registers, as this document says.
pub(crate) const fn counters(source: &'static str) -> [Span; COUNTER_COUNT] {
    let mut spans = [row("CRCERRS", CRCERRS, RC, source); COUNTER_COUNT];
    let mut index = 0;
    while index < COUNTER_COUNT {
        let (name, offset) = COUNTERS[index];
        spans[index] = row(name, offset, RC, source);
        index += 1;
    }
    spans
}
