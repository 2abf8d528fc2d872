/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the examples of drivers for the RTL8168 have in common. Register names are those of Linux's
 * r8169_main.c; descriptors: "RTL8169 Gigabit Ethernet Media Access Controller with Power Management",
 * Rev. 1.21, pages 55 to 57.
 */
#ifndef RTL8168_H
#define RTL8168_H

#include <stdatomic.h>

#include "warikomi_driver.h"

enum {
    MAC0 = 0x00,
    MAC4 = 0x04,
    MAR0 = 0x08,
    TX_DESC_LOW = 0x20,
    TX_DESC_HIGH = 0x24,
    CHIP_CMD = 0x37,
    TX_POLL = 0x38,
    INTR_MASK = 0x3c,
    INTR_STATUS = 0x3e,
    TX_CONFIG = 0x40,
    RX_CONFIG = 0x44,
    CFG9346 = 0x50,
    CONFIG3 = 0x54,
    CONFIG4 = 0x55,
    PHY_STATUS = 0x6c,
    RX_MAX_SIZE = 0xda,
    CPLUS_CMD = 0xe0,
    INTR_MITIGATE = 0xe2,
    RX_DESC_LOW = 0xe4,
    RX_DESC_HIGH = 0xe8,
    MAX_TX_PACKET_SIZE = 0xec,
};

#define CMD_RESET 0x10
#define CMD_RX_ENABLE 0x08
#define CMD_TX_ENABLE 0x04
#define CFG9346_UNLOCK 0xc0
#define CFG9346_LOCK 0x00
#define INTR_SYSTEM_ERROR 0x8000

/* PCI configuration space. */
#define PCI_COMMAND 0x04
#define PCI_COMMAND_MEMORY 0x2
#define PCI_COMMAND_MASTER 0x4
#define PCI_CAPABILITIES 0x34
#define PCI_CAPABILITY_MSI 0x05

struct descriptor {
    _Atomic uint32_t opts1;
    uint32_t opts2;
    uint32_t address_low;
    uint32_t address_high;
};
#define OWN (1u << 31)
#define RING_END (1u << 30)
#define FIRST (1u << 29)
#define LAST (1u << 28)
#define ERROR_SUM (1u << 21)
#define LENGTH 0x3fffu
#define FCS_BYTES 4
#define MOST_DESCRIPTORS 1024
#define RING_BYTES (MOST_DESCRIPTORS * sizeof(struct descriptor))

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int error_ = (call);                                                                       \
        if (error_)                                                                                \
            return error_;                                                                         \
    } while (0)

/* Memory decoding, bus mastering, and message-signalled interrupts. */
static int enable_function(struct wk_device *d)
{
    uint64_t at = 0, header = 0;
    TRY(wk_config_write(d, PCI_COMMAND, 2, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER));
    TRY(wk_config_read(d, PCI_CAPABILITIES, 1, &at));
    for (int hops = 0; at >= 0x40 && at <= 0xf0 && hops < 48; hops++) {
        TRY(wk_config_read(d, (uint32_t)at, 4, &header));
        if ((header & 0xff) == PCI_CAPABILITY_MSI) {
            uint64_t data = header >> 16 & 0x80 ? 12 : 8; /* behind a 64-bit address, or a 32-bit one */
            TRY(wk_config_write(d, (uint32_t)at + 4, 4, 0xfee00000));
            TRY(wk_config_write(d, (uint32_t)(at + data), 2, 1));
            return wk_config_write(d, (uint32_t)at + 2, 2, (header >> 16) | 1);
        }
        at = header >> 8 & 0xff;
    }
    return -ENODEV;
}

/* Resets the device, and masks its interrupts. */
static int reset(struct wk_device *d)
{
    uint64_t value = 0;
    TRY(wk_write(d, CHIP_CMD, 1, CMD_RESET));
    for (int tries = 0; tries == 0 || (value & CMD_RESET); tries++) {
        if (tries == 1000)
            return -ETIMEDOUT;
        TRY(wk_read(d, CHIP_CMD, 1, &value));
    }
    return wk_write(d, INTR_MASK, 2, 0);
}

/* The interrupt handler: why, acknowledge, and no more of them. */
static int handle_interrupts(struct wk_device *d, uint64_t *handled)
{
    uint64_t status = 0;
    while (wk_interrupt_take(d)) {
        ++*handled;
        TRY(wk_write(d, INTR_MASK, 2, 0));
        TRY(wk_read(d, INTR_STATUS, 2, &status));
        TRY(wk_write(d, INTR_STATUS, 2, status));
        if (status & INTR_SYSTEM_ERROR)
            return -EIO;
    }
    return 0;
}

static int report_link(struct wk_device *d)
{
    uint64_t value = 0;
    TRY(wk_read(d, PHY_STATUS, 1, &value));
    wk_report(d, WK_REPORT_LINK_MBPS, value & 2 ? (value & 16 ? 1000 : value & 8 ? 100 : 10) : 0);
    return 0;
}

/* How long to poll after the last frame, in ticks; UINT64_MAX is for ever. */
static uint64_t patience(const struct wk_device *d)
{
    switch (wk_load(d, WK_ORDER_STRATEGY)) {
    case WK_STRATEGY_POLL:
        return UINT64_MAX;
    case WK_STRATEGY_HYBRID:
        return (uint64_t)((double)wk_load(d, WK_ORDER_POLL_NS) * (double)d->tsc_hz / 1e9);
    default: /* by interrupt; these examples know no better for the others */
        return 0;
    }
}

#endif
