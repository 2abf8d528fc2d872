/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A receive driver for the RTL8168 in C, as an example of include/warikomi_driver.h:
 *
 *     cc -std=c11 -D_GNU_SOURCE -O2 -I include examples/c/rtl8168.c -o rtl8168_c
 *     warikomi inject --target process --driver ./rtl8168_c --strategy hybrid --poll-time 100us
 *
 * It receives by interrupt, by polling, or by both (hybrid); what it receives it counts and gives
 * back. rtl8168_live.c sends, too, and can be replaced while it runs.
 */
#include "rtl8168.h"

/* Accept broadcast and our own address; no limit of DMA bursts. */
#define RX_CONFIG_ACCEPT 0x0000e70a
#define INTR_RX 0x0013 /* RxOK, RxErr, RxOverflow (no descriptor) */
#define USUAL_BUFFERS 256
#define USUAL_BUFFER_BYTES 16376 /* the longest that a descriptor can name, a multiple of 8 */

struct driver {
    struct wk_device device;
    struct descriptor *ring;
    unsigned descriptors;
    unsigned next;
    uint32_t buffer_bytes;
    uint64_t packets, bytes, errors, polls, empty_polls, sleeps, slept_ns, interrupts;
};

static void give(struct driver *v, unsigned index)
{
    uint32_t end = index + 1 == v->descriptors ? RING_END : 0;
    atomic_store_explicit(&v->ring[index].opts1, OWN | end | v->buffer_bytes,
                          memory_order_release);
}

/* Rings at the start of DMA memory, buffers behind them. */
static int make_ring(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t wanted = wk_load(d, WK_ORDER_BUFFERS), size = wk_load(d, WK_ORDER_BUFFER_BYTES);
    v->descriptors = wanted ? (unsigned)(wanted < MOST_DESCRIPTORS ? wanted : MOST_DESCRIPTORS)
                            : USUAL_BUFFERS;
    v->buffer_bytes = size && size < USUAL_BUFFER_BYTES ? (uint32_t)(size & ~7ull)
                                                        : USUAL_BUFFER_BYTES;
    if (v->buffer_bytes == 0 || d->dma_bytes < RING_BYTES)
        return -ENOMEM;
    uint64_t most = (d->dma_bytes - RING_BYTES) / v->buffer_bytes;
    if (v->descriptors > most)
        v->descriptors = (unsigned)most;
    v->ring = wk_dma(d, d->dma_bus, RING_BYTES);
    if (!v->ring || v->descriptors == 0)
        return -ENOMEM;
    for (unsigned i = 0; i < v->descriptors; i++) {
        uint64_t address = d->dma_bus + RING_BYTES + (uint64_t)i * v->buffer_bytes;
        v->ring[i].opts2 = 0;
        v->ring[i].address_low = (uint32_t)address;
        v->ring[i].address_high = (uint32_t)(address >> 32);
        give(v, i);
    }
    return 0;
}

static int start(struct driver *v)
{
    struct wk_device *d = &v->device;
    TRY(enable_function(d));
    TRY(reset(d));
    TRY(make_ring(v));
    TRY(wk_write(d, CFG9346, 1, CFG9346_UNLOCK));
    TRY(wk_write(d, RX_MAX_SIZE, 2, LENGTH));
    TRY(wk_write(d, CPLUS_CMD, 2, 0));
    TRY(wk_write(d, RX_DESC_HIGH, 4, d->dma_bus >> 32));
    TRY(wk_write(d, RX_DESC_LOW, 4, d->dma_bus & 0xffffffff));
    TRY(wk_write(d, CFG9346, 1, CFG9346_LOCK));
    TRY(wk_write(d, CHIP_CMD, 1, CMD_RX_ENABLE));
    TRY(wk_write(d, RX_CONFIG, 4, RX_CONFIG_ACCEPT));
    TRY(wk_write(d, INTR_STATUS, 2, 0xffff));
    return report_link(d);
}

/* Takes at most `budget` frames; how many. */
static unsigned poll_ring(struct driver *v, unsigned budget)
{
    unsigned found = 0;
    while (found < budget) {
        struct descriptor *slot = &v->ring[v->next];
        uint32_t opts1 = atomic_load_explicit(&slot->opts1, memory_order_acquire);
        if (opts1 & OWN)
            break;
        uint32_t length = opts1 & LENGTH;
        int whole = (opts1 & (FIRST | LAST)) == (FIRST | LAST);
        if ((opts1 & ERROR_SUM) || !whole || length < FCS_BYTES || length > v->buffer_bytes) {
            v->errors++;
        } else {
            v->packets++;
            v->bytes += length - FCS_BYTES;
        }
        give(v, v->next);
        v->next = v->next + 1 == v->descriptors ? 0 : v->next + 1;
        found++;
    }
    v->polls++;
    v->empty_polls += found == 0;
    return found;
}

/* Interrupts on, one last look, then sleep. The read makes sure that the device has taken note of the
 * writes before the look: a frame that comes after it interrupts, one that came before is found. */
static int sleep_for_interrupt(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t status;
    TRY(wk_write(d, INTR_STATUS, 2, INTR_RX));
    TRY(wk_write(d, INTR_MASK, 2, INTR_RX | INTR_SYSTEM_ERROR));
    TRY(wk_read(d, INTR_STATUS, 2, &status));
    wk_sleep_begin(d);
    int error = 0;
    if (poll_ring(v, MOST_DESCRIPTORS) == 0) {
        uint64_t from = wk_now_ns();
        error = wk_sleep(d, 100);
        v->sleeps++;
        v->slept_ns += wk_now_ns() - from;
    }
    wk_sleep_end(d);
    return error;
}

static void report(struct driver *v)
{
    struct wk_device *d = &v->device;
    wk_report(d, WK_REPORT_RX_PACKETS, v->packets);
    wk_report(d, WK_REPORT_RX_BYTES, v->bytes);
    wk_report(d, WK_REPORT_RX_ERRORS, v->errors);
    wk_report(d, WK_REPORT_INTERRUPTS, v->interrupts);
    wk_report(d, WK_REPORT_POLLS, v->polls);
    wk_report(d, WK_REPORT_EMPTY_POLLS, v->empty_polls);
    wk_report(d, WK_REPORT_SLEEPS, v->sleeps);
    wk_report(d, WK_REPORT_SLEPT_NS, v->slept_ns);
    wk_beat(d);
}

static int receive(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t last = wk_tsc();
    for (unsigned passes = 0; !wk_load(d, WK_ORDER_STOP); passes++) {
        TRY(handle_interrupts(&v->device, &v->interrupts));
        uint64_t wait = patience(d);
        if (poll_ring(v, 64) > 0) {
            last = wk_tsc();
        } else if (wait != UINT64_MAX && wk_tsc() - last >= wait) {
            report(v);
            TRY(sleep_for_interrupt(v));
            last = wk_tsc();
        } else if (passes % 65536 == 0 && wk_gone(d)) {
            return -ECONNRESET;
        }
        if (passes % 64 == 0)
            report(v);
    }
    return 0;
}

int main(void)
{
    static struct driver v;
    int error = wk_attach(&v.device);
    if (error) {
        fprintf(stderr, "cannot attach: %s; start this program with warikomi --target process "
                        "--driver PATH\n", strerror(-error));
        return 1;
    }
    error = start(&v);
    if (!error) {
        wk_set_state(&v.device, WK_STATE_READY);
        error = receive(&v);
        report(&v);
    }
    if (error == -ECONNRESET)
        return 0; /* nobody is left to be told */
    if (error) {
        wk_fail(&v.device, strerror(-error));
        return 1;
    }
    /* No more frames, and no more DMA. */
    uint64_t value;
    wk_write(&v.device, INTR_MASK, 2, 0);
    wk_write(&v.device, CHIP_CMD, 1, CMD_RESET);
    wk_read(&v.device, CHIP_CMD, 1, &value);
    wk_set_state(&v.device, WK_STATE_STOPPED);
    return 0;
}
