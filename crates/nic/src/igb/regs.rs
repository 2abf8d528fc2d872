//! The registers, all in BAR 0.
//!
//! Names, offsets and what they do are those of the "82576 Gigabit Ethernet Controller Datasheet" (321027), chapter 8;
//! where Linux has the only name of a register, Linux 6.12, drivers/net/ethernet/intel/igb/e1000_regs.h. A register is
//! accessed by its four bytes (8.1.1).
//!
//! The registers of a queue are in a block of their own. Those of the first four have a second place, where older chips
//! have theirs (8.1.3): a table row each, one register.

use warikomi_pci::Vector;

pub(super) use super::queues::QUEUES;
use super::queues::{RX_HIGH, RX_LOW, TX_HIGH, TX_LOW};
use crate::intel::link::EECD_INITIAL;
pub(crate) use crate::intel::regs::*;
use crate::register::{Access, Register, Role, Span, join, joined_count, lay_out, row_count};

/// What the function says it is.
pub(super) const DEVICE: u16 = 0x10c9;

/// Vectors by MSI-X.
pub(super) const VECTORS: u16 = 10;

// General registers (8.2).
const I2CCMD: u16 = 0x1028;
pub(super) const RLPML: u16 = 0x5004;

// Interrupt registers (8.8).
pub(super) const IAM: u16 = 0x00e0;
pub(super) const GPIE: u16 = 0x1514;
pub(super) const EICS: u16 = 0x1520;
pub(super) const EIMS: u16 = 0x1524;
pub(super) const EIMC: u16 = 0x1528;
pub(super) const EIAC: u16 = 0x152c;
pub(super) const EIAM: u16 = 0x1530;
pub(super) const EICR: u16 = 0x1580;
pub(super) const EITR: u16 = 0x1680;
/// Causes that EICR can hold by MSI-X, each with a throttle.
pub(super) const CAUSE_BITS: u16 = 25;
pub(super) const EITR_LAST: u16 = EITR + 4 * (CAUSE_BITS - 1);
pub(super) const IVAR: u16 = 0x1700;
pub(super) const IVAR_LAST: u16 = IVAR + 4 * 7;
pub(super) const IVAR_MISC: u16 = 0x1740;

// Receive registers (8.10).
/// The last eight of the station's addresses.
pub(super) const RA2: u16 = 0x54e0;
pub(super) const RA2_END: u16 = 0x5520;
pub(super) const RETA_LAST: u16 = RETA + 4 * 31;

// Statistics (8.18).
pub(super) const RPTHC: u16 = 0x4104;
pub(super) const HGPTC: u16 = 0x4118;
pub(super) const STATISTICS_END: u16 = 0x413c;

// Filters of time stamps (8.10.23, 8.10.24, 8.16).
pub(super) const ETQF: u16 = 0x5cb0;
pub(super) const FTQF: u16 = 0x59e0;
pub(super) const IMIR: u16 = 0x5a80;
pub(super) const TSYNCRXCFG: u16 = 0x5f50;
const SYSTIM_END: u16 = 0xb67c;
/// Registers of time and stamps.
pub(super) const TIME: std::ops::Range<u16> = SYSTIML..SYSTIM_END;

// CTRL_EXT.
pub(super) const EXT_EEPROM_RESET: u32 = 1 << 13;

// GPIE.
pub(super) const GPIE_CLEARED_BY_ANY_READ: u32 = 1 << 0;
pub(super) const GPIE_MANY_VECTORS: u32 = 1 << 4;
pub(super) const GPIE_AUTO_MASK: u32 = 1 << 30;

/// All causes of ICR: those of the datasheet (8.8.9), and those that Linux counts as writable in ICS and expects an
/// interrupt for (igb_intr_test).
pub(super) const CAUSES: u32 = 0x5fff_87df | 0x77d4_fbfd;

use Access::{
    ReadClear as RC, ReadOnly as RO, ReadSet as RS, ReadWrite as RW, Write1Set as W1S,
    WriteOnly as WO,
};

const GENERAL: &str = "82576 (321027), section 8.2, general registers";
const NVM: &str = "82576 (321027), section 8.4, flash and EEPROM registers";
const PCIE: &str = "82576 (321027), section 8.6, PCIe registers";
const SEMAPHORE: &str = "82576 (321027), section 8.7, semaphore registers";
const INTERRUPT: &str = "82576 (321027), section 8.8, interrupt registers";
const RECEIVE: &str = "82576 (321027), section 8.10, receive registers";
const FILTER: &str = "82576 (321027), section 8.11, filtering registers";
const TRANSMIT: &str = "82576 (321027), section 8.12, transmit registers";
const VIRTUAL: &str = "82576 (321027), section 8.14, virtualization registers";
const STATS: &str = "82576 (321027), section 8.18, statistics registers";
const SERDES: &str = "82576 (321027), section 8.17, PCS registers";
const MANAGEMENT: &str = "82576 (321027), section 8.20, wake-up and management registers";
const SYNC: &str = "82576 (321027), section 8.16, time sync registers";

// Values at power-on that a driver keeps where it changes other bits; QEMU's igb has them, too.
/// Short frames are padded, 16 attempts, a collision distance of 64 bytes; what stands above is reserved.
const TCTL_INITIAL: u32 = 0xa404_00f8;
/// Length fields are taken for IEEE 802.3, and a frame with another's address interrupts.
const DTXCTL_INITIAL: u32 = 0x44;
/// A pool's replicated frames lose their check sequence.
const STRIP_CHECK_SEQUENCE: u32 = 1 << 31;
/// A pool's longest frame is 9,728 bytes.
const VMOLR_INITIAL: u32 = STRIP_CHECK_SEQUENCE | 0x2600;

/// Those before the queues' second places.
const LOWEST: &[Span] = &[
    holding(row("CTRL", CTRL, RW, GENERAL), CTRL_INITIAL),
    holding(row("STATUS", STATUS, RO, GENERAL), STATUS_INITIAL),
    holding(row("EECD", EECD, RW, NVM), EECD_INITIAL),
    row("EERD", EERD, RW, NVM),
    row("CTRL_EXT", CTRL_EXT, RW, GENERAL),
    row("FLA", 0x001c, RW, NVM),
    row("MDIC", MDIC, RW, GENERAL),
    row("SERDESCTL", 0x0024, RW, SERDES),
    rows("FCA", FCAL, 2, GENERAL),
    row("FCT", FCT, RW, GENERAL),
    row("CONNSW", 0x0034, RW, GENERAL),
    holding(row("VET", VET, RW, GENERAL), 0x8100),
    with_role(row("ICR", ICR, RC, INTERRUPT), Role::Status(Vector(0))),
    // These read as ICR and EICR do, without an effect (Linux, igb_get_regs).
    row("ICS", ICS, W1S, INTERRUPT),
    with_role(row("IMS", IMS, W1S, INTERRUPT), Role::Mask(Vector(0))),
    row("IMC", IMC, WO, INTERRUPT),
    row("IAM", IAM, RW, INTERRUPT),
    row("RCTL", RCTL, RW, RECEIVE),
    row("FCTTV", FCTTV, RW, GENERAL),
    row("TXCW", TXCW, RW, SERDES),
    holding(row("TCTL", TCTL, RW, TRANSMIT), TCTL_INITIAL),
    row("TCTL_EXT", TCTL_EXT, RW, TRANSMIT),
    row("TIPG", TIPG, RW, TRANSMIT),
    row("AIT", 0x0458, RW, TRANSMIT),
    rows("VMBMEM", 0x0800, 128, VIRTUAL),
    rows("P2VMAILBOX", 0x0c00, 8, VIRTUAL),
    rows("MBVFICR/MBVFIMR/VFLRE/VFRE/VFTE", 0x0c80, 5, VIRTUAL),
    row("LEDCTL", LEDCTL, RW, GENERAL),
    // The EEPROM has configured both ports.
    holding(row("EEMNGCTL", EEMNGCTL, RO, NVM), 3 << 18),
    row("I2CCMD", I2CCMD, RW, GENERAL),
    row("I2CPARAMS", 0x102c, RW, GENERAL),
    row("FRTIMER", 0x1048, RO, GENERAL),
    row("TCPTIMER", 0x104c, RW, GENERAL),
    row("GPIE", GPIE, RW, INTERRUPT),
    row("EICS", EICS, W1S, INTERRUPT),
    with_role(row("EIMS", EIMS, W1S, INTERRUPT), Role::Mask(Vector(0))),
    row("EIMC", EIMC, WO, INTERRUPT),
    row("EIAC", EIAC, RW, INTERRUPT),
    row("EIAM", EIAM, RW, INTERRUPT),
    row("EICR", EICR, RC, INTERRUPT),
    rows("EITR", EITR, CAUSE_BITS, INTERRUPT),
    rows("IVAR", IVAR, 8, INTERRUPT),
    row("IVAR_MISC", IVAR_MISC, RW, INTERRUPT),
    row("FCRTL", FCRTL, RW, GENERAL),
    row("FCRTH", FCRTH, RW, GENERAL),
    // 64 KB for what is received.
    holding(row("RXPBS", 0x2404, RW, GENERAL), 0x40),
    row("QDE", 0x2408, RW, VIRTUAL),
    row("FCRTV", 0x2460, RW, GENERAL),
    row("DMACR", 0x2508, RW, GENERAL),
    row("DMCTLX", 0x2514, RW, GENERAL),
];

/// Those between the second places of receive and transmit queues.
const LOW: &[Span] = &[
    // 40 KB for what is sent.
    holding(row("TXPBS", 0x3404, RW, GENERAL), 0x28),
    row("TDFH", 0x3410, RO, GENERAL),
    row("TDFT", 0x3418, RO, GENERAL),
    row("TDFHS", 0x3420, RO, GENERAL),
    row("TDFPC", 0x3430, RO, GENERAL),
    row("DTXSWC", 0x3500, RW, VIRTUAL),
    row("LVMMC", 0x3548, RO, VIRTUAL),
    row("WVBR", 0x3554, RC, VIRTUAL),
    holding(row("DTXCTL", 0x3590, RW, TRANSMIT), DTXCTL_INITIAL),
    row("RTTDQSEL", 0x3604, RW, TRANSMIT),
    row("RTTBCNRM", 0x3690, RW, TRANSMIT),
    row("RTTBCNRC", 0x36b0, RW, TRANSMIT),
    rows("VMVIR", 0x3700, 8, VIRTUAL),
];

/// Those between the statistics and the queues.
const HIGH: &[Span] = &[
    row("HGORCL", HGORCL, RC, STATS),
    row("HGORCH", HGORCL + 4, RC, STATS),
    row("HGOTCL", HGOTCL, RC, STATS),
    row("HGOTCH", HGOTCL + 4, RC, STATS),
    row("LENERRS", 0x4138, RC, STATS),
    row("PCS_CFG", 0x4200, RW, SERDES),
    row("PCS_LCTL", 0x4208, RW, SERDES),
    row("PCS_LSTAT", 0x420c, RO, SERDES),
    rows("PCS_ANADV/PCS_LPAB/PCS_NPTX/PCS_LPABNP", 0x4218, 4, SERDES),
    row("SCVPC", 0x4228, RO, STATS),
    // Checksums of IP, TCP and UDP are looked at.
    holding(row("RXCSUM", RXCSUM, RW, RECEIVE), RXCSUM_IP | RXCSUM_TRANSPORT),
    // The longest frame that this chip takes.
    holding(row("RLPML", RLPML, RW, RECEIVE), 0x2600),
    row("RFCTL", RFCTL, RW, RECEIVE),
    rows("MTA", MTA, 128, FILTER),
    // The first address is the EEPROM's.
    holding(row("RAL0", RAL, RW, FILTER), 0x004b_5702),
    holding(row("RAH0", RAH, RW, FILTER), 0x8000_0100),
    rows("RAL/RAH", RAL + 8, 30, FILTER),
    rows("PSRTYPE", 0x5480, 8, RECEIVE),
    rows("RAL/RAH", RA2, 16, FILTER),
    row("VLAPQF", 0x55b0, RW, FILTER),
    row("SYNQF", 0x55fc, RW, FILTER),
    rows("VFTA", VFTA, 128, FILTER),
    row("WUC", 0x5800, RW, MANAGEMENT),
    row("WUFC", 0x5808, RW, MANAGEMENT),
    row("WUS", 0x5810, RW, MANAGEMENT),
    row("MRQC", MRQC, RW, FILTER),
    row("VT_CTL", 0x581c, RW, VIRTUAL),
    row("MANC", 0x5820, RW, MANAGEMENT),
    row("IPAV", 0x5838, RW, MANAGEMENT),
    rows("IP4AT", 0x5840, 8, MANAGEMENT),
    rows("IP6AT", 0x5880, 4, MANAGEMENT),
    row("WUPL", 0x5900, RO, MANAGEMENT),
    rows("SAQF/DAQF/SPQF/FTQF", 0x5980, 32, FILTER),
    rows("WUPM", 0x5a00, 32, MANAGEMENT),
    rows("IMIR/IMIREXT", IMIR, 16, INTERRUPT),
    row("IMIRVP", 0x5ac0, RW, INTERRUPT),
    row("TXSWC", 0x5acc, RW, VIRTUAL),
    holding(rows("VMOLR", 0x5ad0, 8, VIRTUAL), VMOLR_INITIAL),
    holding(row("RPLOLR", 0x5af0, RW, VIRTUAL), STRIP_CHECK_SEQUENCE),
    row("GCR", 0x5b00, RW, PCIE),
    row("FACTPS", 0x5b30, RO, PCIE),
    row("GIOANACTL", 0x5b44, RW, PCIE),
    row("CCMCTL", 0x5b48, RW, PCIE),
    row("SCCTL", 0x5b4c, RW, PCIE),
    row("SWSM", SWSM, RS, SEMAPHORE),
    row("FWSM", 0x5b54, RO, SEMAPHORE),
    row("SW_FW_SYNC", 0x5b5c, RW, SEMAPHORE),
    row("DCA_CTRL", 0x5b74, RW, PCIE),
    row("PCIEMISC", 0x5bb8, RW, PCIE),
    row("IOVCTL", 0x5bbc, RW, VIRTUAL),
    rows("RETA", RETA, 32, FILTER),
    rows("RSSRK", RSSRK, 10, FILTER),
    rows("ETQF", ETQF, 8, FILTER),
    rows("VLVF", 0x5d00, 32, VIRTUAL),
    row("DMCRTRH", 0x5dd0, RW, GENERAL),
    row("DMCCNT", 0x5dd4, RO, GENERAL),
    rows("FFLT", 0x5f00, 16, MANAGEMENT),
    row("TSYNCRXCFG", TSYNCRXCFG, RW, SYNC),
    row("LEDMUX", 0x8130, RW, GENERAL),
    row("HICR", 0x8f00, RW, MANAGEMENT),
    rows("FFMT", 0x9000, 256, MANAGEMENT),
    rows("FFVT", 0x9800, 256, MANAGEMENT),
    rows("UTA", 0xa000, 128, FILTER),
    row("SYSTIML", SYSTIML, RW, SYNC),
    row("SYSTIMH", SYSTIMH, RW, SYNC),
    row("TIMINCA", TIMINCA, RW, SYNC),
    row("TIMADJL", TIMADJL, WO, SYNC),
    row("TIMADJH", TIMADJH, WO, SYNC),
    row("TSYNCTXCTL", TSYNCTXCTL, RW, SYNC),
    row("TXSTMPL", TXSTMPL, RO, SYNC),
    row("TXSTMPH", TXSTMPH, RC, SYNC),
    row("TSYNCRXCTL", TSYNCRXCTL, RW, SYNC),
    row("RXSTMPL", RXSTMPL, RO, SYNC),
    row("RXSTMPH", RXSTMPH, RC, SYNC),
    row("RXSATRL", RXSATRL, RO, SYNC),
    row("RXSATRH", RXSATRH, RO, SYNC),
    rows("TSAUXC/TRGTTIM/FREQOUT", 0xb640, 7, SYNC),
    rows("AUXSTMP", 0xb65c, 4, SYNC),
    row("TSICR", 0xb66c, RC, SYNC),
    row("TSIM", 0xb674, RW, SYNC),
];

const PARTS: &[&[Span]] =
    &[LOWEST, &RX_LOW, LOW, &TX_LOW, &counters(STATS), HIGH, &RX_HIGH, &TX_HIGH];
const SPANS: &[Span] = &join::<{ joined_count(PARTS) }>(PARTS);

static ROWS: [Register; row_count(SPANS)] =
    lay_out(SPANS, "82576 (321027), section 8.1.3, no register is listed here");

/// Every byte up to the last register of each BAR, once.
pub const REGISTERS: &[Register] = &ROWS;

/// The registers of BAR 0 by their words.
pub(super) static TABLE: Table = Table::new(&ROWS, BAR);
