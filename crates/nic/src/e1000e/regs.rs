//! The registers: BAR 0 has them, and BAR 2 a window of two ports onto the same ones.
//!
//! Names, offsets and what they do are those of the "82574 GbE Controller Family Datasheet" (317694), chapter 10;
//! where Linux has the only name of a bit, Linux 6.1, drivers/net/ethernet/intel/e1000e. A register is accessed
//! by its four bytes (10.1.1).

use warikomi_pci::Vector;

use crate::intel::link::EECD_INITIAL;
pub(crate) use crate::intel::regs::*;
use crate::register::{Access, Register, Role, Span, join, joined_count, lay_out, row_count};

/// What the function says it is.
pub(super) const DEVICE: u16 = 0x10d3;

/// The BAR with the window onto them (10.1.2): IOADDR and IODATA.
pub(super) const IO_BAR: u8 = 2;
pub(super) const IO_BYTES: u64 = 32;
pub(super) const IOADDR: u64 = 0x0;
pub(super) const IODATA: u64 = 0x4;

/// Queues of each direction.
pub(super) const QUEUES: u16 = 2;
/// Vectors by MSI-X.
pub(super) const VECTORS: u16 = 5;

// General registers (10.2.2).
const FLA: u16 = 0x001c;
const RXCW: u16 = 0x0180;
const EXTCNF_CTRL: u16 = 0x0f00;
const EXTCNF_SIZE: u16 = 0x0f08;
const PHY_CTRL: u16 = 0x0f10;
const PBA: u16 = 0x1000;
const PBS: u16 = 0x1008;
const FLASHT: u16 = 0x1028;
pub(super) const EEWR: u16 = 0x102c;
const FLOP: u16 = 0x103c;
const PBA_ECC: u16 = 0x1100;

// Interrupt registers (10.2.4).
pub(super) const ITR: u16 = 0x00c4;
pub(super) const EIAC: u16 = 0x00dc;
pub(super) const IAM: u16 = 0x00e0;
pub(super) const IVAR: u16 = 0x00e4;
pub(super) const EITR: u16 = 0x00e8;
pub(super) const EITR_LAST: u16 = EITR + 4 * (VECTORS - 1);

// Receive registers (10.2.5); those of a queue are 0x100 behind those of the one before it.
const ERT: u16 = 0x2008;
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

// Transmit registers (10.2.6).
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
/// The queue takes part, for three descriptors in turn.
const TARC_INITIAL: u32 = 0x403;

// Statistics (10.2.7).
pub(super) const STATISTICS_END: u16 = 0x4128;

// Semaphores (10.2.3), and time stamps (10.2.9).
pub(super) const RXMTRL: u16 = 0xb634;
pub(super) const RXUDP: u16 = 0xb638;

// CTRL_EXT.
pub(super) const EXT_EEPROM_RESET: u32 = 1 << 13;
pub(super) const EXT_INTERRUPT_AUTO_MASK: u32 = 1 << 24;
pub(super) const INTERRUPT_AUTO_MASK: u32 = 1 << 27;
pub(super) const EXT_PBA_CLEAR: u32 = 1 << 31;

// Causes of interrupts: ICR, ICS, IMS, IMC, IAM.
pub(super) const TXQE: u32 = 1 << 1;
pub(super) const SRPD: u32 = 1 << 16;
const ACK: u32 = 1 << 17;
const MNG: u32 = 1 << 18;
pub(super) const RXQ0: u32 = 1 << 20;
pub(super) const TXQ0: u32 = 1 << 22;
pub(super) const OTHER: u32 = 1 << 24;
/// Those that are OTHER as well.
pub(super) const OTHERS: u32 = LSC | RXO | MDAC | SRPD | ACK | MNG;
/// All of them: those of the datasheet, and of the lowest ten the two that it reserves, which Linux sets by ICS and
/// expects an interrupt for (e1000_intr_test).
pub(super) const CAUSES: u32 = 0x01f7_83ff;

// RCTL.
pub(super) const RCTL_TYPE: u32 = 3 << 10;
pub(super) const RCTL_TYPE_SPLIT: u32 = 1 << 10;

// RFCTL and RXCSUM.
pub(super) const RFCTL_EXTENDED: u32 = 1 << 15;

/// Flushes what a delay timer holds: RDTR and TIDV.
pub(super) const FLUSH: u32 = 1 << 31;

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

/// Bits of a ring's address, of its length in bytes, and of the upper part of an address of the station.
const BASE_BITS: u32 = 0xffff_fff0;
const LENGTH_BITS: u32 = 0x000f_ff80;
const HIGH_ADDRESS_BITS: u32 = 0x8003_ffff;

/// Addresses of the station: the first one is the EEPROM's.
const ADDRESSES: [Span; 32] = {
    let mut spans = [row("RAL", RAL, RW, RECEIVE); 32];
    let mut index = 0;
    while index < 16 {
        let at = 8 * index as u16;
        spans[2 * index] = row("RAL", RAL + at, RW, RECEIVE);
        spans[2 * index + 1] = of_bits(row("RAH", RAH + at, RW, RECEIVE), HIGH_ADDRESS_BITS);
        index += 1;
    }
    spans[0] = holding(row("RAL0", RAL, RW, RECEIVE), 0x004b_5702);
    spans[1] = holding(of_bits(row("RAH0", RAH, RW, RECEIVE), HIGH_ADDRESS_BITS), 0x8000_0100);
    spans
};

/// Those before the statistics.
const LOWER: &[Span] = &[
    holding(row("CTRL", CTRL, RW, GENERAL), CTRL_INITIAL),
    holding(row("STATUS", STATUS, RO, GENERAL), STATUS_INITIAL),
    holding(row("EECD", EECD, RW, GENERAL), EECD_INITIAL),
    row("EERD", EERD, RW, GENERAL),
    row("CTRL_EXT", CTRL_EXT, RW, GENERAL),
    row("FLA", FLA, RW, GENERAL),
    row("MDIC", MDIC, RW, GENERAL),
    row("FCAL", FCAL, RW, GENERAL),
    of_bits(row("FCAH", FCAL + 4, RW, GENERAL), 0xffff),
    of_bits(row("FCT", FCT, RW, GENERAL), 0xffff),
    of_bits(holding(row("VET", VET, RW, GENERAL), 0x8100), 0xffff),
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
    of_bits(row("FCTTV", FCTTV, RW, GENERAL), 0xffff),
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
    of_bits(row("RDBAL0", RDBAL, RW, RECEIVE), BASE_BITS),
    row("RDBAH0", RDBAH, RW, RECEIVE),
    of_bits(row("RDLEN0", RDLEN, RW, RECEIVE), LENGTH_BITS),
    of_bits(row("RDH0", RDH, RW, RECEIVE), 0xffff),
    of_bits(row("RDT0", RDT, RW, RECEIVE), 0xffff),
    of_bits(row("RDTR", RDTR, RW, RECEIVE), 0xffff | FLUSH),
    row("RXDCTL0", RXDCTL, RW, RECEIVE),
    row("RADV", RADV, RW, RECEIVE),
    of_bits(row("RDBAL1", RDBAL + QUEUE_STRIDE, RW, RECEIVE), BASE_BITS),
    row("RDBAH1", RDBAH + QUEUE_STRIDE, RW, RECEIVE),
    of_bits(row("RDLEN1", RDLEN + QUEUE_STRIDE, RW, RECEIVE), LENGTH_BITS),
    of_bits(row("RDH1", RDH + QUEUE_STRIDE, RW, RECEIVE), 0xffff),
    of_bits(row("RDT1", RDT + QUEUE_STRIDE, RW, RECEIVE), 0xffff),
    row("RXDCTL1", RXDCTL + QUEUE_STRIDE, RW, RECEIVE),
    row("RSRPD", RSRPD, RW, RECEIVE),
    row("RAID", RAID, RW, RECEIVE),
    of_bits(row("TDBAL0", TDBAL, RW, TRANSMIT), BASE_BITS),
    row("TDBAH0", TDBAH, RW, TRANSMIT),
    of_bits(row("TDLEN0", TDLEN, RW, TRANSMIT), LENGTH_BITS),
    of_bits(row("TDH0", TDH, RW, TRANSMIT), 0xffff),
    of_bits(with_role(row("TDT0", TDT, RW, TRANSMIT), Role::Doorbell(0)), 0xffff),
    of_bits(row("TIDV", TIDV, RW, TRANSMIT), 0xffff | FLUSH),
    row("TXDCTL0", TXDCTL, RW, TRANSMIT),
    row("TADV", TADV, RW, TRANSMIT),
    holding(row("TARC0", TARC, RW, TRANSMIT), TARC_INITIAL),
    of_bits(row("TDBAL1", TDBAL + QUEUE_STRIDE, RW, TRANSMIT), BASE_BITS),
    row("TDBAH1", TDBAH + QUEUE_STRIDE, RW, TRANSMIT),
    of_bits(row("TDLEN1", TDLEN + QUEUE_STRIDE, RW, TRANSMIT), LENGTH_BITS),
    of_bits(row("TDH1", TDH + QUEUE_STRIDE, RW, TRANSMIT), 0xffff),
    of_bits(with_role(row("TDT1", TDT + QUEUE_STRIDE, RW, TRANSMIT), Role::Doorbell(1)), 0xffff),
    row("TXDCTL1", TXDCTL + QUEUE_STRIDE, RW, TRANSMIT),
    holding(row("TARC1", TARC + QUEUE_STRIDE, RW, TRANSMIT), TARC_INITIAL),
];

/// Those behind the statistics.
const UPPER: &[Span] = &[
    // Checksums of IP, TCP and UDP are looked at.
    holding(row("RXCSUM", RXCSUM, RW, RECEIVE), RXCSUM_IP | RXCSUM_TRANSPORT),
    row("RFCTL", RFCTL, RW, RECEIVE),
    rows("MTA", MTA, 128, RECEIVE),
];

/// Those behind the station's addresses.
const BEHIND_ADDRESSES: &[Span] = &[
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

const PARTS: &[&[Span]] = &[LOWER, &counters(STATS), UPPER, &ADDRESSES, BEHIND_ADDRESSES];
const SPANS: &[Span] = &join::<{ joined_count(PARTS) }>(PARTS);

static ROWS: [Register; row_count(SPANS)] =
    lay_out(SPANS, "82574 (317694), section 10.1.3, no register is listed here");

/// Every byte up to the last register of each BAR, once.
pub const REGISTERS: &[Register] = &ROWS;

/// The registers of BAR 0 by their words.
pub(crate) static TABLE: Table = Table::new(&ROWS, BAR);
