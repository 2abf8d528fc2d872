//! Registers and bits (RTL8139C(L) data sheet, Rev. 1.4; names as in Linux 6.12 8139too.c).

pub(super) const MAC0: u64 = 0x00;
pub(super) const MAC4: u64 = 0x04;
pub(super) const MAR0: u64 = 0x08;
pub(super) const TX_STATUS_0: u64 = 0x10;
pub(super) const TX_ADDR_0: u64 = 0x20;
pub(super) const RX_BUF: u64 = 0x30;
pub(super) const CHIP_CMD: u64 = 0x37;
pub(super) const RX_BUF_PTR: u64 = 0x38;
pub(super) const RX_BUF_ADDR: u64 = 0x3a;
pub(super) const INTR_MASK: u64 = 0x3c;
pub(super) const INTR_STATUS: u64 = 0x3e;
pub(super) const TX_CONFIG: u64 = 0x40;
pub(super) const RX_CONFIG: u64 = 0x44;
pub(super) const RX_MISSED: u64 = 0x4c;
pub(super) const CFG9346: u64 = 0x50;
pub(super) const MEDIA_STATUS: u64 = 0x58;
pub(super) const CONFIG3: u64 = 0x59;
pub(super) const MULTI_INTR: u64 = 0x5c;
pub(super) const TX_SUMMARY: u64 = 0x60;

// ChipCmd.
pub(super) const CMD_RESET: u8 = 0x10;
pub(super) const CMD_RX_ENB: u8 = 0x08;
pub(super) const CMD_TX_ENB: u8 = 0x04;

// IntrMask and IntrStatus.
pub(super) const PCI_ERR: u16 = 0x8000;
pub(super) const LINK_CHG: u16 = 0x0020;
pub(super) const TX_ERR: u16 = 0x0008;
pub(super) const TX_OK: u16 = 0x0004;
pub(super) const RX_ERR: u16 = 0x0002;
pub(super) const RX_OK: u16 = 0x0001;

// Cfg9346.
pub(super) const CFG9346_UNLOCK: u8 = 0xc0;
pub(super) const CFG9346_LOCK: u8 = 0x00;

/// Config3: wake up by a magic packet.
pub(super) const CONFIG3_MAGIC: u8 = 0x20;
/// MultiIntr: what is kept of it, so that no frame interrupts early.
pub(super) const MULTI_INTR_KEPT: u16 = 0xf000;

// MediaStatus.
pub(super) const MEDIA_10: u8 = 0x08;
pub(super) const MEDIA_NO_LINK: u8 = 0x04;

// RxConfig.
pub(super) const ACCEPT_BROADCAST: u32 = 0x08;
pub(super) const ACCEPT_MULTICAST: u32 = 0x04;
pub(super) const ACCEPT_MY_PHYS: u32 = 0x02;
/// A frame does not wrap at the end of the ring, and transfers are as long as they can be.
pub(super) const RX_NO_WRAP: u32 = 0x80;
pub(super) const RX_TRANSFERS: u32 = 0xe700;
/// 32 KB.
pub(super) const RX_RING_32K: u32 = 2 << 11;

/// TxConfig: the gap that Ethernet wants, transfers of 1 KB, and some retries.
pub(super) const TX_CONFIG_VALUE: u32 = 0x0300_0680;
/// An aborted transmission is over.
pub(super) const TX_CLEAR_ABORT: u32 = 0x01;

// TxStatus: the threshold of 256 bytes.
pub(super) const TX_THRESHOLD: u32 = 0x0008_0000;

// Header of a frame in the ring.
pub(super) const RX_STATUS_OK: u16 = 0x0001;
/// Its length while it is being written.
pub(super) const UNFINISHED: u32 = 0xfff0;
