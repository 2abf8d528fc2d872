//! The registers that the driver uses, and their bits.
//!
//! Names and values are those of Linux 6.12, drivers/net/ethernet/realtek/r8169_main.c: `enum
//! rtl_registers`, `enum rtl_register_content`, `enum rtl_desc_bit`, `enum rtl_rx_desc_bit` and the
//! macros between them.

pub(super) const MAC0: u64 = 0x00;
pub(super) const MAC4: u64 = 0x04;
pub(super) const MAR0: u64 = 0x08;
pub(super) const COUNTER_ADDR_LOW: u64 = 0x10;
pub(super) const COUNTER_ADDR_HIGH: u64 = 0x14;
pub(super) const TX_DESC_START_ADDR_LOW: u64 = 0x20;
pub(super) const TX_DESC_START_ADDR_HIGH: u64 = 0x24;
pub(super) const CHIP_CMD: u64 = 0x37;
pub(super) const TX_POLL: u64 = 0x38;
/// With the status in the upper half, if four bytes are read.
pub(super) const INTR_MASK: u64 = 0x3c;
pub(super) const INTR_STATUS: u64 = 0x3e;
pub(super) const TX_CONFIG: u64 = 0x40;
pub(super) const RX_CONFIG: u64 = 0x44;
pub(super) const CFG9346: u64 = 0x50;
pub(super) const CONFIG3: u64 = 0x54;
pub(super) const CONFIG4: u64 = 0x55;
pub(super) const PHY_STATUS: u64 = 0x6c;
pub(super) const RX_MAX_SIZE: u64 = 0xda;
pub(super) const CPLUS_CMD: u64 = 0xe0;
pub(super) const INTR_MITIGATE: u64 = 0xe2;
pub(super) const RX_DESC_ADDR_LOW: u64 = 0xe4;
pub(super) const RX_DESC_ADDR_HIGH: u64 = 0xe8;
pub(super) const MAX_TX_PACKET_SIZE: u64 = 0xec;

// InterruptStatusBits.
pub(super) const SYS_ERR: u16 = 0x8000;
pub(super) const LINK_CHG: u16 = 0x0020;
pub(super) const TX_ERR: u16 = 0x0008;
pub(super) const TX_OK: u16 = 0x0004;
pub(super) const RX_ERR: u16 = 0x0002;
pub(super) const RX_OK: u16 = 0x0001;

// ChipCmdBits.
pub(super) const STOP_REQ: u8 = 0x80;
pub(super) const CMD_RESET: u8 = 0x10;
pub(super) const CMD_RX_ENB: u8 = 0x08;
pub(super) const CMD_TX_ENB: u8 = 0x04;

/// TxPoll: look at the ring of normal priority.
pub(super) const NPQ: u8 = 0x40;

pub(super) const CFG9346_LOCK: u8 = 0x00;
pub(super) const CFG9346_UNLOCK: u8 = 0xc0;

// RxConfig: what rtl_init_rxcfg writes for RTL_GIGA_MAC_VER_18 to 24, and rx_mode_bits.
pub(super) const RX128_INT_EN: u32 = 1 << 15;
pub(super) const RX_MULTI_EN: u32 = 1 << 14;
pub(super) const RX_DMA_BURST: u32 = 7 << 8;
pub(super) const ACCEPT_BROADCAST: u32 = 0x08;
pub(super) const ACCEPT_MULTICAST: u32 = 0x04;
pub(super) const ACCEPT_MY_PHYS: u32 = 0x02;

/// TxConfig: unlimited bursts, the shortest gap between frames (rtl_set_tx_config_registers).
pub(super) const TX_CONFIG_VALUE: u32 = 7 << 8 | 3 << 24;

/// CPlusCmd: check the checksums of received frames.
pub(super) const RX_CHK_SUM: u16 = 1 << 5;

// Jumbo frames (r8168c_hw_jumbo_enable).
pub(super) const JUMBO_EN0: u8 = 1 << 2;
pub(super) const JUMBO_EN1: u8 = 1 << 1;

/// RxMaxSize: no limit but the descriptor's (rtl_set_rx_max_size).
pub(super) const NO_RX_LIMIT: u16 = 0x4000;
/// MaxTxPacketSize in units of 128 bytes. Linux writes 8,064 bytes (TxPacketMax); frames of up to
/// 16 KB need more.
pub(super) const TX_PACKET_UNITS: u8 = 0x7f;
pub(super) const TX_PACKET_UNIT_BYTES: usize = 128;

/// CounterAddrLow: write the counters to the address now.
pub(super) const COUNTER_DUMP: u32 = 0x8;

// rtl8169_PHYstatus.
pub(super) const PHY_1000: u8 = 0x10;
pub(super) const PHY_100: u8 = 0x08;
pub(super) const PHY_10: u8 = 0x04;
pub(super) const PHY_LINK: u8 = 0x02;

// First word of any descriptor (rtl_desc_bit).
pub(super) const DESC_OWN: u32 = 1 << 31;
pub(super) const RING_END: u32 = 1 << 30;
pub(super) const FIRST_FRAG: u32 = 1 << 29;
pub(super) const LAST_FRAG: u32 = 1 << 28;

// First word of a receive descriptor that has come back (rtl_rx_desc_bit, RxStatusDesc).
pub(super) const RX_RES: u32 = 1 << 21;
pub(super) const RX_PROTO_UDP: u32 = 1 << 18;
pub(super) const RX_PROTO_TCP: u32 = 1 << 17;
pub(super) const RX_PROTO_MASK: u32 = RX_PROTO_UDP | RX_PROTO_TCP;
/// IPFail, UDPFail and TCPFail.
pub(super) const RX_CS_FAIL_MASK: u32 = 1 << 16 | 1 << 15 | 1 << 14;
/// Length of the frame with its check sequence, or of a buffer (rtl_rx: GENMASK(13, 0)).
pub(super) const RX_LENGTH: u32 = 0x3fff;

/// struct RxDesc, struct TxDesc: two words, and an address of 64 bits.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;

// enum rtl_tx_desc_bit_1: segmentation (TD1_GTSENV4, GTTCPHO_SHIFT), and the payload of a segment (TD1_MSS_SHIFT,
// TD_MSS_MAX) in the second word.
pub(super) const GIANT_SEND_V4: u32 = 1 << 26;
pub(super) const GIANT_OFFSET_SHIFT: u32 = 18;
pub(super) const MSS_SHIFT: u32 = 18;
pub(super) const MSS_MAX: u32 = 0x07ff;
