//! The registers, row by row.
//!
//! Realtek's register datasheet for the RTL8168C is not public. What is cited here is what could
//! be checked: the Linux driver's names for the registers (`r8169_main.c` of Linux 6.1, by the
//! enumeration they stand in), and for the descriptors "RTL8169 Gigabit Ethernet Media Access
//! Controller with Power Management", Rev. 1.21 of 2002-03-27, pages 51 to 57. Where neither says
//! what a register holds at power-on, it holds 0.

use warikomi_pci::Vector;

use crate::register::{Access, Register, Role, Window};

/// The chip has one vector.
pub(super) const VECTOR: Vector = Vector(0);

/// The memory BAR with the registers. The BAR of ports leads to the same ones.
pub(super) const BAR: u8 = 2;
/// Bytes that the registers take up in their BAR.
pub(super) const BYTES: usize = 256;

pub(super) const MAC0: u16 = 0x00;
pub(super) const MAC4: u16 = 0x04;
pub(super) const MAR0: u16 = 0x08;
pub(super) const COUNTER_LOW: u16 = 0x10;
pub(super) const COUNTER_HIGH: u16 = 0x14;
pub(super) const TX_DESC_LOW: u16 = 0x20;
pub(super) const TX_DESC_HIGH: u16 = 0x24;
pub(super) const TX_HIGH_DESC_LOW: u16 = 0x28;
pub(super) const TX_HIGH_DESC_HIGH: u16 = 0x2c;
pub(super) const CHIP_CMD: u16 = 0x37;
pub(super) const TX_POLL: u16 = 0x38;
pub(super) const INTR_MASK: u16 = 0x3c;
pub(super) const INTR_STATUS: u16 = 0x3e;
pub(super) const TX_CONFIG: u16 = 0x40;
pub(super) const RX_CONFIG: u16 = 0x44;
pub(super) const TIMER_COUNT: u16 = 0x48;
pub(super) const RX_MISSED: u16 = 0x4c;
pub(super) const CFG9346: u16 = 0x50;
pub(super) const CONFIG0: u16 = 0x51;
pub(super) const CONFIG5: u16 = 0x56;
pub(super) const TIMER_INT: u16 = 0x58;
pub(super) const PHYAR: u16 = 0x60;
pub(super) const CSIDR: u16 = 0x64;
pub(super) const CSIAR: u16 = 0x68;
pub(super) const PHY_STATUS: u16 = 0x6c;
pub(super) const ERIDR: u16 = 0x70;
pub(super) const ERIAR: u16 = 0x74;
pub(super) const EPHYAR: u16 = 0x80;
pub(super) const OCPAR: u16 = 0xb4;
pub(super) const GPHY_OCP: u16 = 0xb8;
pub(super) const RX_MAX_SIZE: u16 = 0xda;
pub(super) const EFUSEAR: u16 = 0xdc;
pub(super) const CPLUS_CMD: u16 = 0xe0;
pub(super) const INTR_MITIGATE: u16 = 0xe2;
pub(super) const RX_DESC_LOW: u16 = 0xe4;
pub(super) const RX_DESC_HIGH: u16 = 0xe8;
pub(super) const MAX_TX_PACKET_SIZE: u16 = 0xec;

// ChipCmd.
pub(super) const CMD_RESET: u8 = 0x10;
pub(super) const CMD_RX_ENABLE: u8 = 0x08;
pub(super) const CMD_TX_ENABLE: u8 = 0x04;

// TxPoll.
pub(super) const POLL_HIGH: u8 = 0x80;
pub(super) const POLL_NORMAL: u8 = 0x40;
pub(super) const POLL_SOFTWARE_INTERRUPT: u8 = 0x01;

// IntrMask and IntrStatus.
pub(super) const SYS_ERR: u32 = 0x8000;
pub(super) const PCS_TIMEOUT: u32 = 0x4000;
pub(super) const SW_INT: u32 = 0x0100;
pub(super) const TX_DESC_UNAVAIL: u32 = 0x0080;
pub(super) const RX_FIFO_OVER: u32 = 0x0040;
pub(super) const LINK_CHG: u32 = 0x0020;
pub(super) const RX_OVERFLOW: u32 = 0x0010;
pub(super) const TX_ERR: u32 = 0x0008;
pub(super) const TX_OK: u32 = 0x0004;
pub(super) const RX_ERR: u32 = 0x0002;
pub(super) const RX_OK: u32 = 0x0001;
/// Every interrupt that exists; the other bits read as 0.
pub(super) const INTR_ALL: u32 = SYS_ERR
    | PCS_TIMEOUT
    | SW_INT
    | TX_DESC_UNAVAIL
    | RX_FIFO_OVER
    | LINK_CHG
    | RX_OVERFLOW
    | TX_ERR
    | TX_OK
    | RX_ERR
    | RX_OK;

/// TxConfig: the bits that say which chip it is, `(TxConfig >> 20) & 0xfcf` being 0x3c0.
pub(super) const TX_CONFIG_VERSION: u32 = 0x3c00_0000;
pub(super) const TX_CONFIG_VERSION_MASK: u32 = 0xfcf0_0000;

/// Cfg9346: the two bits that say what the configuration registers are for at the moment.
pub(super) const CFG9346_MODE: u8 = 0xc0;
pub(super) const CFG9346_AUTOLOAD: u8 = 0x40;
pub(super) const CFG9346_UNLOCKED: u8 = 0xc0;

// CPlusCmd.
pub(super) const CPLUS_RX_VLAN: u16 = 1 << 6;
pub(super) const CPLUS_RX_CHECKSUM: u16 = 1 << 5;
pub(super) const CPLUS_TIMER_SCALE: u16 = 3;

// CounterAddrLow.
pub(super) const COUNTER_DUMP: u32 = 8;
pub(super) const COUNTER_RESET: u32 = 1;

/// PHYAR, EPHYAR, CSIAR, ERIAR and their like: written as 1 with a value to store, it goes to 0
/// when that is done; written as 0, it goes to 1 when what was asked for can be read.
pub(super) const FLAG: u32 = 0x8000_0000;

const REGISTERS_ENUM: &str = "Linux 6.1 r8169_main.c, enum rtl_registers";
const CONTENT: &str = "Linux 6.1 r8169_main.c, enum rtl_register_content";
const ADDRESS: &str = "Linux 6.1 r8169_main.c, rtl_read_mac_from_reg and rtl_rar_set";
const RINGS: &str =
    "Linux 6.1 r8169_main.c, enum rtl_registers; RTL8169 Rev. 1.21, section 9.1, page 50";
const REGISTERS_8168_8101: &str = "Linux 6.1 r8169_main.c, enum rtl8168_8101_registers";
const REGISTERS_8168: &str = "Linux 6.1 r8169_main.c, enum rtl8168_registers";
const TALLY: &str = "Linux 6.1 r8169_main.c, enum rtl_registers and rtl8169_do_counters";
const FAMILY: &str = "common to the RTL8139 and RTL8169 families; not used by Linux 6.1 r8169";
const RESERVED: &str = "not named by Linux 6.1 r8169_main.c";

/// Rings begin at multiples of 256 (RTL8169 Rev. 1.21, section 9.1, page 50), and the counters are dumped to multiples of 64 bytes: of the lower bits of
/// the counters' address two are commands.
const RING_RESERVED: u64 = 0xff;
const COUNTER_RESERVED: u64 = 0x3f & !(COUNTER_DUMP | COUNTER_RESET) as u64;

const fn row(
    name: &'static str,
    offset: u16,
    width: u16,
    access: Access,
    source: &'static str,
) -> Register {
    Register { joined: true, ..Register::new(name, (BAR, offset), width, access, source) }
}

const fn reset_to(value: u64, row: Register) -> Register {
    Register { reset: value, ..row }
}

const fn reserved(offset: u16, width: u16) -> Register {
    row("reserved", offset, width, Access::ReadWrite, RESERVED).with_reserved(u64::MAX)
}

use Access::{ReadOnly as RO, ReadWrite as RW, SelfClearing as SC, Write1Clear as W1C};

/// Every byte of the register window, once.
///
/// The chip goes by byte enables, so an access may take in several registers. Reserved rows keep what is written, as the driver expects of the undocumented ones that it
/// patches. Addresses are as at power-on: 02:57:4b:00:00:01.
pub const REGISTERS: &[Register] = &[
    reset_to(0x004b_5702, row("MAC0", MAC0, 4, RW, ADDRESS).as_bytes()),
    reset_to(0x0100, row("MAC4", MAC4, 2, RW, ADDRESS).as_bytes()),
    reserved(0x06, 2),
    row("MAR0", MAR0, 8, RW, REGISTERS_ENUM),
    row("CounterAddrLow", COUNTER_LOW, 4, SC, TALLY).with_reserved(COUNTER_RESERVED),
    row("CounterAddrHigh", COUNTER_HIGH, 4, RW, TALLY),
    reserved(0x18, 2),
    row("LED_FREQ", 0x1a, 1, RW, REGISTERS_8168),
    row("EEE_LED", 0x1b, 1, RW, REGISTERS_8168),
    reserved(0x1c, 4),
    row("TxDescStartAddrLow", TX_DESC_LOW, 4, RW, RINGS).with_reserved(RING_RESERVED),
    row("TxDescStartAddrHigh", TX_DESC_HIGH, 4, RW, REGISTERS_ENUM),
    row("TxHDescStartAddrLow", TX_HIGH_DESC_LOW, 4, RW, RINGS).with_reserved(RING_RESERVED),
    row("TxHDescStartAddrHigh", TX_HIGH_DESC_HIGH, 4, RW, REGISTERS_ENUM),
    row("FLASH", 0x30, 4, RW, REGISTERS_ENUM),
    row("ERBCR", 0x34, 2, RO, FAMILY),
    row("ERSR", 0x36, 1, RO, REGISTERS_ENUM),
    row("ChipCmd", CHIP_CMD, 1, SC, CONTENT).with_reserved(0x62),
    row("TxPoll", TX_POLL, 1, SC, CONTENT).with_reserved(0x3e).with_role(Role::Doorbell(0)),
    reserved(0x39, 3),
    row("IntrMask", INTR_MASK, 2, RW, CONTENT)
        .with_reserved(0xffff & !(INTR_ALL as u64))
        .with_role(Role::Mask(VECTOR)),
    // A 1 in a bit that does not exist clears nothing: drivers write all ones.
    row("IntrStatus", INTR_STATUS, 2, W1C, CONTENT).with_role(Role::Status(VECTOR)),
    reset_to(TX_CONFIG_VERSION as u64, row("TxConfig", TX_CONFIG, 4, RW, REGISTERS_ENUM)),
    row("RxConfig", RX_CONFIG, 4, RW, REGISTERS_ENUM),
    row("TCTR", TIMER_COUNT, 4, RW, FAMILY),
    row("RxMissed", RX_MISSED, 4, RW, FAMILY),
    row("Cfg9346", CFG9346, 1, RW, REGISTERS_ENUM),
    row("Config0", CONFIG0, 1, RW, REGISTERS_ENUM),
    // Memory and I/O mapped, power management on.
    reset_to(0x0d, row("Config1", 0x52, 1, RW, REGISTERS_ENUM)),
    row("Config2", 0x53, 1, RW, REGISTERS_ENUM),
    row("Config3", 0x54, 1, RW, REGISTERS_ENUM),
    row("Config4", 0x55, 1, RW, REGISTERS_ENUM),
    row("Config5", CONFIG5, 1, RW, REGISTERS_ENUM),
    reserved(0x57, 1),
    row("TimerInt", TIMER_INT, 4, RW, FAMILY),
    row("MULINT", 0x5c, 2, RW, FAMILY),
    reserved(0x5e, 2),
    row("PHYAR", PHYAR, 4, SC, "Linux 6.1 r8169_main.c, r8169_mdio_write and r8169_mdio_read"),
    row("CSIDR", CSIDR, 4, RW, REGISTERS_8168_8101),
    row("CSIAR", CSIAR, 4, SC, REGISTERS_8168_8101),
    // 1,000 Mbit/s, link, full duplex: the cable is in.
    reset_to(0x13, row("PHYstatus", PHY_STATUS, 1, RO, CONTENT)),
    reserved(0x6d, 2),
    row("PMCH", 0x6f, 1, RW, REGISTERS_8168_8101),
    row("ERIDR", ERIDR, 4, RW, REGISTERS_8168),
    row("ERIAR", ERIAR, 4, SC, REGISTERS_8168),
    reserved(0x78, 4),
    row("EPHY_RXER_NUM", 0x7c, 4, RW, REGISTERS_8168),
    row("EPHYAR", EPHYAR, 4, SC, REGISTERS_8168_8101),
    row("Wakeup0", 0x84, 8, RW, FAMILY),
    row("Wakeup1", 0x8c, 8, RW, FAMILY),
    row("Wakeup2 low", 0x94, 8, RW, FAMILY),
    row("Wakeup2 high", 0x9c, 8, RW, FAMILY),
    row("Wakeup3 low", 0xa4, 8, RW, FAMILY),
    reserved(0xac, 4),
    row("OCPDR", 0xb0, 4, RW, REGISTERS_8168),
    row("OCPAR", OCPAR, 4, SC, REGISTERS_8168),
    row("GPHY_OCP", GPHY_OCP, 4, SC, REGISTERS_8168),
    reserved(0xbc, 8),
    row("Wakeup CRC0", 0xc4, 2, RW, FAMILY),
    row("Wakeup CRC1", 0xc6, 2, RW, FAMILY),
    row("Wakeup CRC2", 0xc8, 2, RW, FAMILY),
    row("Wakeup CRC3", 0xca, 2, RW, FAMILY),
    row("Wakeup CRC4", 0xcc, 2, RW, FAMILY),
    reserved(0xce, 2),
    row("RDSAR1", 0xd0, 1, RW, REGISTERS_8168),
    row("DBG_REG", 0xd1, 1, RW, REGISTERS_8168_8101),
    row("TWSI", 0xd2, 1, RW, REGISTERS_8168_8101),
    row("MCU", 0xd3, 1, RW, REGISTERS_8168_8101),
    reserved(0xd4, 6),
    reset_to(0x3fff, row("RxMaxSize", RX_MAX_SIZE, 2, RW, REGISTERS_ENUM)),
    row("EFUSEAR", EFUSEAR, 4, SC, REGISTERS_8168_8101),
    row("CPlusCmd", CPLUS_CMD, 2, RW, CONTENT),
    row("IntrMitigate", INTR_MITIGATE, 2, RW, "Linux 6.1 r8169_main.c, RTL_COALESCE_TX_USECS"),
    row("RxDescAddrLow", RX_DESC_LOW, 4, RW, RINGS).with_reserved(RING_RESERVED),
    row("RxDescAddrHigh", RX_DESC_HIGH, 4, RW, REGISTERS_ENUM),
    reset_to(0x3f, row("MaxTxPacketSize", MAX_TX_PACKET_SIZE, 1, RW, REGISTERS_ENUM)),
    reserved(0xed, 3),
    row("FuncEvent", 0xf0, 4, RW, REGISTERS_ENUM),
    row("FuncEventMask", 0xf4, 4, RW, REGISTERS_ENUM),
    row("FuncPresetState", 0xf8, 4, RW, REGISTERS_ENUM),
    row("FuncForceEvent", 0xfc, 4, RW, REGISTERS_ENUM),
];

/// The same, by the bytes that they take up.
pub(super) static WINDOW: Window<BYTES> = Window::new(REGISTERS);

/// What the registers hold, where that is no more than what was written to them.
pub(super) type RegisterFile = crate::register::RegisterFile<BYTES>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_starts_with_the_tables_values() {
        let file = RegisterFile::new(&WINDOW);
        assert_eq!(file.bytes::<6>(MAC0), [0x02, 0x57, 0x4b, 0, 0, 1]);
        assert_eq!((file.u32(TX_CONFIG) >> 20) & 0xfcf, 0x3c0, "the revision that Linux sees");
    }
}
