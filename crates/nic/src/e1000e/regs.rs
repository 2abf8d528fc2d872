//! The registers: BAR 0 has them, and BAR 2 a window of two ports onto the same ones.
//!
//! Names, offsets and what they do are those of the "82574 GbE Controller Family Datasheet" (317694), chapter 10;
//! where Linux has the only name of a bit, Linux 6.1, drivers/net/ethernet/intel/e1000e. A register is accessed
//! by its four bytes (10.1.1).

use warikomi_pci::Vector;

use crate::register::{Access, Register, Role, Span, WordFile, WordTable, lay_out, row_count};

/// Who the function says it is.
pub(super) const VENDOR: u16 = 0x8086;
pub(super) const DEVICE: u16 = 0x10d3;

/// The BAR with the registers.
pub const BAR: u8 = 0;
/// What that BAR decodes.
pub(super) const BAR_BYTES: u64 = 128 << 10;
/// The BAR with the window onto them (10.1.2): IOADDR and IODATA.
pub(super) const IO_BAR: u8 = 2;
pub(super) const IO_BYTES: u64 = 32;
pub(super) const IOADDR: u64 = 0x0;
pub(super) const IODATA: u64 = 0x4;
/// The BAR with the MSI-X table and the pending bits (10.2.10).
pub(super) const MSIX_BAR: u8 = 3;
pub(super) const MSIX_BYTES: u64 = 16 << 10;
pub(super) const PENDING: u32 = 0x2000;

/// Queues of each direction.
pub(super) const QUEUES: u16 = 2;
/// Vectors by MSI-X.
pub(super) const VECTORS: u16 = 5;

// General registers (10.2.2).
pub(super) const CTRL: u16 = 0x0000;
pub(super) const STATUS: u16 = 0x0008;
pub(super) const EECD: u16 = 0x0010;
pub(super) const EERD: u16 = 0x0014;
pub(super) const CTRL_EXT: u16 = 0x0018;
const FLA: u16 = 0x001c;
pub(super) const MDIC: u16 = 0x0020;
pub(super) const FCAL: u16 = 0x0028;
pub(super) const FCT: u16 = 0x0030;
pub(super) const VET: u16 = 0x0038;
const FCTTV: u16 = 0x0170;
const TXCW: u16 = 0x0178;
const RXCW: u16 = 0x0180;
const LEDCTL: u16 = 0x0e00;
const EXTCNF_CTRL: u16 = 0x0f00;
const EXTCNF_SIZE: u16 = 0x0f08;
const PHY_CTRL: u16 = 0x0f10;
const PBA: u16 = 0x1000;
const PBS: u16 = 0x1008;
const EEMNGCTL: u16 = 0x1010;
const FLASHT: u16 = 0x1028;
pub(super) const EEWR: u16 = 0x102c;
const FLOP: u16 = 0x103c;
const PBA_ECC: u16 = 0x1100;

// Interrupt registers (10.2.4).
pub(super) const ICR: u16 = 0x00c0;
pub(super) const ITR: u16 = 0x00c4;
pub(super) const ICS: u16 = 0x00c8;
pub(super) const IMS: u16 = 0x00d0;
pub(super) const IMC: u16 = 0x00d8;
pub(super) const EIAC: u16 = 0x00dc;
pub(super) const IAM: u16 = 0x00e0;
pub(super) const IVAR: u16 = 0x00e4;
pub(super) const EITR: u16 = 0x00e8;
pub(super) const EITR_LAST: u16 = EITR + 4 * (VECTORS - 1);

// Receive registers (10.2.5); those of a queue are 0x100 behind those of the one before it.
pub(super) const RCTL: u16 = 0x0100;
const ERT: u16 = 0x2008;
const FCRTL: u16 = 0x2160;
const FCRTH: u16 = 0x2168;
pub(super) const PSRCTL: u16 = 0x2170;
pub(super) const RDBAL: u16 = 0x2800;
pub(super) const RDBAH: u16 = 0x2804;
pub(super) const RDLEN: u16 = 0x2808;
pub(super) const RDH: u16 = 0x2810;
pub(super) const RDT: u16 = 0x2818;
pub(super) const RDTR: u16 = 0x2820;
const RXDCTL: u16 = 0x2828;
pub(super) const RADV: u16 = 0x282c;
pub(super) const QUEUE_STRIDE: u16 = 0x100;
pub(super) const RSRPD: u16 = 0x2c00;
const RAID: u16 = 0x2c08;
pub(super) const RXCSUM: u16 = 0x5000;
pub(super) const RFCTL: u16 = 0x5008;
pub(super) const MTA: u16 = 0x5200;
pub(super) const RAL: u16 = 0x5400;
pub(super) const RAH: u16 = 0x5404;
pub(super) const RA_END: u16 = 0x5480;
pub(super) const VFTA: u16 = 0x5600;
pub(super) const MRQC: u16 = 0x5818;
pub(super) const RETA: u16 = 0x5c00;
pub(super) const RSSRK: u16 = 0x5c80;

// Transmit registers (10.2.6).
pub(super) const TCTL: u16 = 0x0400;
const TCTL_EXT: u16 = 0x0404;
const TIPG: u16 = 0x0410;
const AIT: u16 = 0x0458;
pub(super) const TDBAL: u16 = 0x3800;
pub(super) const TDBAH: u16 = 0x3804;
pub(super) const TDLEN: u16 = 0x3808;
pub(super) const TDH: u16 = 0x3810;
pub(super) const TDT: u16 = 0x3818;
pub(super) const TIDV: u16 = 0x3820;
const TXDCTL: u16 = 0x3828;
pub(super) const TADV: u16 = 0x382c;
const TARC: u16 = 0x3840;

// Statistics (10.2.7).
pub(super) const STATISTICS: u16 = 0x4000;
pub(super) const STATISTICS_END: u16 = 0x4128;
pub(super) const CRCERRS: u16 = 0x4000;
pub(super) const ALGNERRC: u16 = 0x4004;
pub(super) const RXERRC: u16 = 0x400c;
pub(super) const MPC: u16 = 0x4010;
pub(super) const PRC64: u16 = 0x405c;
pub(super) const GPRC: u16 = 0x4074;
pub(super) const BPRC: u16 = 0x4078;
pub(super) const MPRC: u16 = 0x407c;
pub(super) const GPTC: u16 = 0x4080;
pub(super) const GORCL: u16 = 0x4088;
pub(super) const GOTCL: u16 = 0x4090;
pub(super) const RNBC: u16 = 0x40a0;
pub(super) const RUC: u16 = 0x40a4;
pub(super) const ROC: u16 = 0x40ac;
pub(super) const TORL: u16 = 0x40c0;
pub(super) const TOTL: u16 = 0x40c8;
pub(super) const TPR: u16 = 0x40d0;
pub(super) const TPT: u16 = 0x40d4;
pub(super) const PTC64: u16 = 0x40d8;
pub(super) const MPTC: u16 = 0x40f0;
pub(super) const BPTC: u16 = 0x40f4;
pub(super) const TSCTC: u16 = 0x40f8;
pub(super) const TSCTFC: u16 = 0x40fc;
pub(super) const IAC: u16 = 0x4100;
pub(super) const ICRXPTC: u16 = 0x4104;
pub(super) const ICRXATC: u16 = 0x4108;
pub(super) const ICTXPTC: u16 = 0x410c;
pub(super) const ICTXATC: u16 = 0x4110;
pub(super) const ICRXDMTC: u16 = 0x4120;
pub(super) const ICRXOC: u16 = 0x4124;

// Semaphores (10.2.3), and time stamps (10.2.9).
pub(super) const SWSM: u16 = 0x5b50;
pub(super) const SYSTIML: u16 = 0xb600;
pub(super) const SYSTIMH: u16 = 0xb604;
pub(super) const TIMINCA: u16 = 0xb608;
pub(super) const TIMADJL: u16 = 0xb60c;
pub(super) const TIMADJH: u16 = 0xb610;
pub(super) const TSYNCTXCTL: u16 = 0xb614;
pub(super) const TXSTMPL: u16 = 0xb618;
pub(super) const TXSTMPH: u16 = 0xb61c;
pub(super) const TSYNCRXCTL: u16 = 0xb620;
pub(super) const RXSTMPL: u16 = 0xb624;
pub(super) const RXSTMPH: u16 = 0xb628;
pub(super) const RXSATRL: u16 = 0xb62c;
pub(super) const RXSATRH: u16 = 0xb630;
pub(super) const RXMTRL: u16 = 0xb634;
pub(super) const RXUDP: u16 = 0xb638;
const END: usize = 0xb63c;

// CTRL.
pub(super) const CTRL_FULL_DUPLEX: u32 = 1 << 0;
pub(super) const CTRL_MASTER_DISABLE: u32 = 1 << 2;
pub(super) const CTRL_SET_LINK_UP: u32 = 1 << 6;
pub(super) const CTRL_SPEED_1000: u32 = 1 << 9;
pub(super) const CTRL_RESET: u32 = 1 << 26;
pub(super) const CTRL_VLAN: u32 = 1 << 30;
pub(super) const CTRL_PHY_RESET: u32 = 1 << 31;
const CTRL_INITIAL: u32 = CTRL_FULL_DUPLEX | CTRL_SET_LINK_UP | CTRL_SPEED_1000;

// STATUS.
pub(super) const STATUS_FULL_DUPLEX: u32 = 1 << 0;
pub(super) const STATUS_LINK_UP: u32 = 1 << 1;
pub(super) const STATUS_SPEED_100: u32 = 1 << 6;
pub(super) const STATUS_SPEED_1000: u32 = 1 << 7;
pub(super) const STATUS_MASTER: u32 = 1 << 19;
const STATUS_INITIAL: u32 = STATUS_FULL_DUPLEX | STATUS_LINK_UP | STATUS_SPEED_1000 | STATUS_MASTER;

// CTRL_EXT.
pub(super) const EXT_EEPROM_RESET: u32 = 1 << 13;
pub(super) const EXT_INTERRUPT_AUTO_MASK: u32 = 1 << 24;
pub(super) const INTERRUPT_AUTO_MASK: u32 = 1 << 27;
pub(super) const EXT_PBA_CLEAR: u32 = 1 << 31;

// Causes of interrupts: ICR, ICS, IMS, IMC, IAM.
pub(super) const TXDW: u32 = 1 << 0;
pub(super) const TXQE: u32 = 1 << 1;
pub(super) const LSC: u32 = 1 << 2;
pub(super) const RXDMT0: u32 = 1 << 4;
pub(super) const RXO: u32 = 1 << 6;
pub(super) const RXT0: u32 = 1 << 7;
pub(super) const MDAC: u32 = 1 << 9;
pub(super) const SRPD: u32 = 1 << 16;
const ACK: u32 = 1 << 17;
const MNG: u32 = 1 << 18;
pub(super) const RXQ0: u32 = 1 << 20;
pub(super) const TXQ0: u32 = 1 << 22;
pub(super) const OTHER: u32 = 1 << 24;
pub(super) const INT_ASSERTED: u32 = 1 << 31;
/// Those that are OTHER as well.
pub(super) const OTHERS: u32 = LSC | RXO | MDAC | SRPD | ACK | MNG;
/// All of them.
pub(super) const CAUSES: u32 = 0x01f7_82df;

// RCTL.
pub(super) const RCTL_ENABLE: u32 = 1 << 1;
pub(super) const RCTL_STORE_BAD: u32 = 1 << 2;
pub(super) const RCTL_ALL_UNICAST: u32 = 1 << 3;
pub(super) const RCTL_ALL_MULTICAST: u32 = 1 << 4;
pub(super) const RCTL_LONG: u32 = 1 << 5;
pub(super) const RCTL_THRESHOLD_SHIFT: u32 = 8;
pub(super) const RCTL_TYPE: u32 = 3 << 10;
pub(super) const RCTL_TYPE_SPLIT: u32 = 1 << 10;
pub(super) const RCTL_OFFSET_SHIFT: u32 = 12;
pub(super) const RCTL_BROADCAST: u32 = 1 << 15;
pub(super) const RCTL_SIZE_SHIFT: u32 = 16;
pub(super) const RCTL_VLAN_FILTER: u32 = 1 << 18;
pub(super) const RCTL_CFI_ENABLE: u32 = 1 << 19;
pub(super) const RCTL_CFI: u32 = 1 << 20;
pub(super) const RCTL_PASS_CONTROL: u32 = 1 << 23;
pub(super) const RCTL_SIZE_EXTENSION: u32 = 1 << 25;
pub(super) const RCTL_STRIP_CRC: u32 = 1 << 26;

// RFCTL and RXCSUM.
pub(super) const RFCTL_EXTENDED: u32 = 1 << 15;
pub(super) const RXCSUM_START: u32 = 0xff;
pub(super) const RXCSUM_IP: u32 = 1 << 8;
pub(super) const RXCSUM_TRANSPORT: u32 = 1 << 9;
pub(super) const RXCSUM_NO_PACKET_SUM: u32 = 1 << 13;

// TCTL.
pub(super) const TCTL_ENABLE: u32 = 1 << 1;
pub(super) const TCTL_PAD: u32 = 1 << 3;

/// Flushes what a delay timer holds: RDTR and TIDV.
pub(super) const FLUSH: u32 = 1 << 31;

/// What BAR 0 holds.
pub(super) type Registers = WordFile<{ END / 4 }>;

use Access::{
    ReadClear as RC, ReadOnly as RO, ReadSet as RS, ReadWrite as RW, Write1Set as W1S,
    WriteOnly as WO,
};

const GENERAL: &str = "82574 (317694), section 10.2.2, general registers";
const PCIE: &str = "82574 (317694), section 10.2.3, PCIe registers";
const INTERRUPT: &str = "82574 (317694), section 10.2.4, interrupt registers";
const RECEIVE: &str = "82574 (317694), section 10.2.5, receive registers";
const TRANSMIT: &str = "82574 (317694), section 10.2.6, transmit registers";
const STATS: &str = "82574 (317694), section 10.2.7, statistics registers";
const MANAGEMENT: &str = "82574 (317694), section 10.2.8, management registers";
const TIME: &str = "82574 (317694), section 10.2.9, time sync registers";

const fn row(name: &'static str, offset: u16, access: Access, source: &'static str) -> Span {
    Span { first: Register::new(name, (BAR, offset), 4, access, source), count: 1 }
}

const fn rows(name: &'static str, offset: u16, count: u16, source: &'static str) -> Span {
    Span { count, ..row(name, offset, RW, source) }
}

const fn holding(span: Span, reset: u32) -> Span {
    Span { first: Register { reset: reset as u64, ..span.first }, ..span }
}

const fn with_role(span: Span, role: Role) -> Span {
    Span { first: span.first.with_role(role), ..span }
}

const fn counter(name: &'static str, offset: u16) -> Span {
    row(name, offset, RC, STATS)
}

const SPANS: &[Span] = &[
    holding(row("CTRL", CTRL, RW, GENERAL), CTRL_INITIAL),
    holding(row("STATUS", STATUS, RO, GENERAL), STATUS_INITIAL),
    // An EEPROM of 256 words is there, and has been read.
    holding(row("EECD", EECD, RW, GENERAL), 0x0000_1300),
    row("EERD", EERD, RW, GENERAL),
    row("CTRL_EXT", CTRL_EXT, RW, GENERAL),
    row("FLA", FLA, RW, GENERAL),
    row("MDIC", MDIC, RW, GENERAL),
    rows("FCA", FCAL, 2, GENERAL),
    row("FCT", FCT, RW, GENERAL),
    holding(row("VET", VET, RW, GENERAL), 0x8100),
    with_role(row("ICR", ICR, RC, INTERRUPT), Role::Status(Vector(0))),
    row("ITR", ITR, RW, INTERRUPT),
    row("ICS", ICS, WO, INTERRUPT),
    with_role(row("IMS", IMS, W1S, INTERRUPT), Role::Mask(Vector(0))),
    row("IMC", IMC, WO, INTERRUPT),
    row("EIAC", EIAC, RW, INTERRUPT),
    row("IAM", IAM, RW, INTERRUPT),
    row("IVAR", IVAR, RW, INTERRUPT),
    rows("EITR", EITR, VECTORS, INTERRUPT),
    row("RCTL", RCTL, RW, RECEIVE),
    row("FCTTV", FCTTV, RW, GENERAL),
    row("TXCW", TXCW, RW, GENERAL),
    row("RXCW", RXCW, RO, GENERAL),
    row("TCTL", TCTL, RW, TRANSMIT),
    row("TCTL_EXT", TCTL_EXT, RW, TRANSMIT),
    row("TIPG", TIPG, RW, TRANSMIT),
    row("AIT", AIT, RW, TRANSMIT),
    row("LEDCTL", LEDCTL, RW, GENERAL),
    row("EXTCNF_CTRL", EXTCNF_CTRL, RW, GENERAL),
    row("EXTCNF_SIZE", EXTCNF_SIZE, RW, GENERAL),
    row("PHY_CTRL", PHY_CTRL, RW, GENERAL),
    // 20 KB for each direction.
    holding(row("PBA", PBA, RW, GENERAL), 0x0014_0014),
    row("PBS", PBS, RW, GENERAL),
    // The EEPROM has configured the port.
    holding(row("EEMNGCTL", EEMNGCTL, RO, MANAGEMENT), 1 << 18),
    row("FLASHT", FLASHT, RW, GENERAL),
    row("EEWR", EEWR, RW, GENERAL),
    row("FLOP", FLOP, RW, GENERAL),
    row("PBA_ECC", PBA_ECC, RW, GENERAL),
    row("ERT", ERT, RW, RECEIVE),
    row("FCRTL", FCRTL, RW, RECEIVE),
    row("FCRTH", FCRTH, RW, RECEIVE),
    // 256 bytes of header, 4 KB in the next two buffers.
    holding(row("PSRCTL", PSRCTL, RW, RECEIVE), 0x0004_0402),
    rows("RDBAL0/RDBAH0", RDBAL, 2, RECEIVE),
    row("RDLEN0", RDLEN, RW, RECEIVE),
    row("RDH0", RDH, RW, RECEIVE),
    row("RDT0", RDT, RW, RECEIVE),
    row("RDTR", RDTR, RW, RECEIVE),
    row("RXDCTL0", RXDCTL, RW, RECEIVE),
    row("RADV", RADV, RW, RECEIVE),
    rows("RDBAL1/RDBAH1", RDBAL + QUEUE_STRIDE, 2, RECEIVE),
    row("RDLEN1", RDLEN + QUEUE_STRIDE, RW, RECEIVE),
    row("RDH1", RDH + QUEUE_STRIDE, RW, RECEIVE),
    row("RDT1", RDT + QUEUE_STRIDE, RW, RECEIVE),
    row("RXDCTL1", RXDCTL + QUEUE_STRIDE, RW, RECEIVE),
    row("RSRPD", RSRPD, RW, RECEIVE),
    row("RAID", RAID, RW, RECEIVE),
    rows("TDBAL0/TDBAH0", TDBAL, 2, TRANSMIT),
    row("TDLEN0", TDLEN, RW, TRANSMIT),
    row("TDH0", TDH, RW, TRANSMIT),
    with_role(row("TDT0", TDT, RW, TRANSMIT), Role::Doorbell(0)),
    row("TIDV", TIDV, RW, TRANSMIT),
    row("TXDCTL0", TXDCTL, RW, TRANSMIT),
    row("TADV", TADV, RW, TRANSMIT),
    row("TARC0", TARC, RW, TRANSMIT),
    rows("TDBAL1/TDBAH1", TDBAL + QUEUE_STRIDE, 2, TRANSMIT),
    row("TDLEN1", TDLEN + QUEUE_STRIDE, RW, TRANSMIT),
    row("TDH1", TDH + QUEUE_STRIDE, RW, TRANSMIT),
    with_role(row("TDT1", TDT + QUEUE_STRIDE, RW, TRANSMIT), Role::Doorbell(1)),
    row("TXDCTL1", TXDCTL + QUEUE_STRIDE, RW, TRANSMIT),
    row("TARC1", TARC + QUEUE_STRIDE, RW, TRANSMIT),
    counter("CRCERRS", CRCERRS),
    counter("ALGNERRC", ALGNERRC),
    counter("SYMERRS", 0x4008),
    counter("RXERRC", RXERRC),
    counter("MPC", MPC),
    counter("SCC", 0x4014),
    counter("ECOL", 0x4018),
    counter("MCC", 0x401c),
    counter("LATECOL", 0x4020),
    counter("COLC", 0x4028),
    counter("DC", 0x4030),
    counter("TNCRS", 0x4034),
    counter("SEC", 0x4038),
    counter("CEXTERR", 0x403c),
    counter("RLEC", 0x4040),
    counter("XONRXC", 0x4048),
    counter("XONTXC", 0x404c),
    counter("XOFFRXC", 0x4050),
    counter("XOFFTXC", 0x4054),
    counter("FCRUC", 0x4058),
    counter("PRC64", PRC64),
    counter("PRC127", 0x4060),
    counter("PRC255", 0x4064),
    counter("PRC511", 0x4068),
    counter("PRC1023", 0x406c),
    counter("PRC1522", 0x4070),
    counter("GPRC", GPRC),
    counter("BPRC", BPRC),
    counter("MPRC", MPRC),
    counter("GPTC", GPTC),
    counter("GORCL", GORCL),
    counter("GORCH", GORCL + 4),
    counter("GOTCL", GOTCL),
    counter("GOTCH", GOTCL + 4),
    counter("RNBC", RNBC),
    counter("RUC", RUC),
    counter("RFC", 0x40a8),
    counter("ROC", ROC),
    counter("RJC", 0x40b0),
    counter("MGTPRC", 0x40b4),
    counter("MGTPDC", 0x40b8),
    counter("MGTPTC", 0x40bc),
    counter("TORL", TORL),
    counter("TORH", TORL + 4),
    counter("TOTL", TOTL),
    counter("TOTH", TOTL + 4),
    counter("TPR", TPR),
    counter("TPT", TPT),
    counter("PTC64", PTC64),
    counter("PTC127", 0x40dc),
    counter("PTC255", 0x40e0),
    counter("PTC511", 0x40e4),
    counter("PTC1023", 0x40e8),
    counter("PTC1522", 0x40ec),
    counter("MPTC", MPTC),
    counter("BPTC", BPTC),
    counter("TSCTC", TSCTC),
    counter("TSCTFC", TSCTFC),
    counter("IAC", IAC),
    counter("ICRXPTC", ICRXPTC),
    counter("ICRXATC", ICRXATC),
    counter("ICTXPTC", ICTXPTC),
    counter("ICTXATC", ICTXATC),
    counter("ICTXQEC", 0x4118),
    counter("ICTXQMTC", 0x411c),
    counter("ICRXDMTC", ICRXDMTC),
    counter("ICRXOC", ICRXOC),
    // Checksums of IP, TCP and UDP are looked at.
    holding(row("RXCSUM", RXCSUM, RW, RECEIVE), RXCSUM_IP | RXCSUM_TRANSPORT),
    row("RFCTL", RFCTL, RW, RECEIVE),
    rows("MTA", MTA, 128, RECEIVE),
    // The first address is the EEPROM's.
    holding(row("RAL0", RAL, RW, RECEIVE), 0x004b_5702),
    holding(row("RAH0", RAH, RW, RECEIVE), 0x8000_0100),
    rows("RAL/RAH", RAL + 8, 30, RECEIVE),
    rows("VFTA", VFTA, 128, RECEIVE),
    row("WUC", 0x5800, RW, MANAGEMENT),
    row("WUFC", 0x5808, RW, MANAGEMENT),
    row("WUS", 0x5810, RW, MANAGEMENT),
    row("MRQC", MRQC, RW, RECEIVE),
    row("MANC", 0x5820, RW, MANAGEMENT),
    row("IPAV", 0x5838, RW, MANAGEMENT),
    row("MANC2H", 0x5860, RW, MANAGEMENT),
    rows("MDEF", 0x5890, 8, MANAGEMENT),
    row("GCR", 0x5b00, RW, PCIE),
    row("FUNCTAG", 0x5b08, RW, PCIE),
    row("FACTPS", 0x5b30, RO, PCIE),
    row("SWSM", SWSM, RS, PCIE),
    row("FWSM", 0x5b54, RO, PCIE),
    row("SWSM2", 0x5b58, RW, PCIE),
    row("SW_FW_SYNC", 0x5b5c, RW, PCIE),
    row("GCR2", 0x5b64, RW, PCIE),
    row("PBACLR", 0x5b68, WO, INTERRUPT),
    rows("RETA", RETA, 32, RECEIVE),
    rows("RSSRK", RSSRK, 10, RECEIVE),
    row("FFLT_DBG", 0x5f04, RW, MANAGEMENT),
    row("CRC_OFFSET", 0x5f50, RW, MANAGEMENT),
    row("HICR", 0x8f00, RW, MANAGEMENT),
    row("SYSTIML", SYSTIML, RW, TIME),
    row("SYSTIMH", SYSTIMH, RW, TIME),
    row("TIMINCA", TIMINCA, RW, TIME),
    row("TIMADJL", TIMADJL, WO, TIME),
    row("TIMADJH", TIMADJH, WO, TIME),
    row("TSYNCTXCTL", TSYNCTXCTL, RW, TIME),
    row("TXSTMPL", TXSTMPL, RO, TIME),
    row("TXSTMPH", TXSTMPH, RC, TIME),
    row("TSYNCRXCTL", TSYNCRXCTL, RW, TIME),
    row("RXSTMPL", RXSTMPL, RO, TIME),
    row("RXSTMPH", RXSTMPH, RC, TIME),
    row("RXSATRL", RXSATRL, RO, TIME),
    row("RXSATRH", RXSATRH, RO, TIME),
    row("RXMTRL", RXMTRL, RW, TIME),
    row("RXUDP", RXUDP, RW, TIME),
];

static ROWS: [Register; row_count(SPANS)] =
    lay_out(SPANS, "82574 (317694), section 10.1.3, no register is listed here");

/// Every byte up to the last register of each BAR, once.
pub const REGISTERS: &[Register] = &ROWS;

/// The registers of BAR 0 by their words.
pub(super) static TABLE: WordTable<{ END / 4 }> = WordTable::new(&ROWS, BAR);
