/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A driver for the RTL8168 in C that receives and sends, with a stack or an application above it, and that
 * can be replaced while it runs, or take the place of another driver, be that in Rust or in C: an example
 * of include/warikomi_live.h.
 *
 *     cc -std=c11 -D_GNU_SOURCE -O2 -I include examples/c/rtl8168_live.c -o rtl8168_live
 *     warikomi live --driver rtl8168 ...      and, beside it:      replace --driver ./rtl8168_live
 *
 * docs/replacement.md says in which order things are written, and why.
 */
#include "warikomi_live.h"

#include "rtl8168.h"

#define DEVICE 0x10ec8168u
/* Accept broadcast, multicast and our own address; no limit of DMA bursts. */
#define RX_CONFIG_ACCEPT 0x0000c70e
#define TX_CONFIG_VALUE 0x03000700
#define CHECK_CHECKSUMS 0x20
#define NO_LIMIT 0x4000
#define MOST_FRAME_BYTES (0x7f * 128) /* MAX_TX_PACKET_SIZE counts units of 128 bytes */
#define NPQ 0x40
#define INTR_RINGS 0x000f /* RxOK, RxErr, TxOK, TxErr */
/* What the device says of checksums: the protocol, and which of them are wrong. */
#define PROTO_TCP (1u << 17)
#define PROTO_UDP (1u << 18)
#define CHECKSUM_FAILS (7u << 14)
#define TRANSMIT_BUDGET 64
#define REPORT_EVERY 64

struct driver {
    struct wk_device device;
    struct wk_live live;
    struct descriptor *rx, *tx;
    /* Descriptors before the first in use that are as the device filled them: what was in them is not
     * shown yet, or was not when the driver before stopped. */
    uint32_t unshown;
    /* A frame that was taken from the channel, and is not on the ring yet. */
    struct wk_slice frame;
    int waiting;
    uint64_t counters[WK_COUNTER_COUNT];
    uint64_t interrupts, sleeps;
    uint64_t answered; /* the last order to hand over */
};

static uint32_t in_use(const struct wk_in_use *ring)
{
    return (uint32_t)(ring->taken - ring->given);
}

static void set(struct descriptor *at, uint32_t opts1)
{
    atomic_store_explicit(&at->opts1, opts1, memory_order_release);
}

/* Describes a buffer in the ring's next descriptor: empty first, then the slot, and the device's last. */
static void put(struct driver *v, struct descriptor *descriptors, struct wk_in_use *ring, uint32_t token,
                uint64_t address, uint32_t opts1)
{
    uint32_t index = (ring->index + in_use(ring)) % ring->length;
    uint32_t end = index + 1 == ring->length ? RING_END : 0;
    struct descriptor *at = &descriptors[index];
    set(at, end);
    at->opts2 = 0;
    at->address_low = (uint32_t)address;
    at->address_high = (uint32_t)(address >> 32);
    wk_slot_set(&v->live, ring, index, token);
    set(at, OWN | end | opts1);
    ring->taken++;
}

/* The ring's first descriptor is done with. */
static void advance(struct wk_in_use *ring)
{
    ring->given++;
    ring->index = (ring->index + 1) % ring->length;
}

/* ---- Receive -------------------------------------------------------------------------------- */

/* Puts as many buffers on the ring as there is room for and the channel has. */
static int refill(struct driver *v)
{
    struct wk_in_use *ring = &v->live.rx;
    while (in_use(ring) + v->unshown < ring->length) {
        struct wk_slice s;
        int more = wk_channel_posted(&v->live, &s);
        if (more <= 0)
            return more;
        uint32_t bytes = v->live.buffer_bytes < LENGTH ? v->live.buffer_bytes : LENGTH;
        s.offset = 0;
        put(v, v->rx, ring, s.token, wk_bus_address(&v->live, &s, bytes), bytes);
    }
    return 0;
}

/* What a filled descriptor says of its buffer. */
static struct wk_slice filled(struct driver *v, uint32_t opts1, uint32_t token)
{
    uint32_t length = opts1 & LENGTH;
    int whole = (opts1 & (FIRST | LAST)) == (FIRST | LAST);
    struct wk_slice s = {.token = token, .flags = WK_RETURNED};
    if ((opts1 & ERROR_SUM) || !whole || length <= FCS_BYTES || length > v->live.buffer_bytes) {
        v->counters[WK_COUNTER_RX_ERRORS]++;
        return s;
    }
    uint32_t verdict = opts1 & (PROTO_TCP | PROTO_UDP | CHECKSUM_FAILS);
    s.flags = verdict == PROTO_TCP || verdict == PROTO_UDP ? WK_CHECKSUMS_GOOD : 0;
    s.length = (uint16_t)(length - FCS_BYTES);
    s.extra = wk_tsc();
    v->counters[WK_COUNTER_RX_PACKETS]++;
    v->counters[WK_COUNTER_RX_BYTES] += s.length;
    return s;
}

/* Takes at most `budget` frames, and shows them; how many. */
static int look(struct driver *v, int budget)
{
    struct wk_in_use *ring = &v->live.rx;
    int found = 0;
    for (; v->unshown; v->unshown--) {
        uint32_t index = (ring->index + ring->length - v->unshown) % ring->length;
        set(&v->rx[index], index + 1 == ring->length ? RING_END : 0);
    }
    TRY(refill(v));
    for (; found < budget && in_use(ring); found++) {
        uint32_t opts1 = atomic_load_explicit(&v->rx[ring->index].opts1, memory_order_acquire);
        if (opts1 & OWN)
            break;
        struct wk_slice s = filled(v, opts1, wk_slot_token(&v->live, ring, 0));
        TRY(wk_channel_complete(&v->live, &s));
        advance(ring);
        v->unshown++;
    }
    wk_channel_flush(&v->live);
    return found;
}

/* ---- Transmit ------------------------------------------------------------------------------- */

static int give_back(struct driver *v, uint32_t token, uint8_t flags)
{
    struct wk_slice s = {.token = token, .flags = flags};
    return wk_channel_sent(&v->live, &s);
}

/* Hands the frame that waits to the device: 1, or 0 if it has to wait. */
static int hand_frame(struct driver *v)
{
    struct wk_in_use *ring = &v->live.tx;
    uint32_t bytes = v->frame.length;
    uint64_t address = wk_bus_address(&v->live, &v->frame, bytes);
    if (address && bytes && bytes <= MOST_FRAME_BYTES) {
        if (in_use(ring) == ring->length)
            return 0;
        put(v, v->tx, ring, v->frame.token, address, FIRST | LAST | bytes);
        v->counters[WK_COUNTER_TX_PACKETS]++;
        v->counters[WK_COUNTER_TX_BYTES] += bytes;
        return 1;
    }
    /* It cannot be sent, and goes back behind those before it. It has no slot, but it counts. */
    if (in_use(ring))
        return 0;
    v->counters[WK_COUNTER_TX_ERRORS]++;
    TRY(give_back(v, v->frame.token, WK_FAILED));
    wk_channel_flush(&v->live);
    ring->given++;
    ring->taken++;
    return 1;
}

/* Frames handed to the device, and frames that it is done with; how many. */
static int transmit(struct driver *v)
{
    struct wk_in_use *ring = &v->live.tx;
    int handed = 0, sent = 0;
    while (handed < TRANSMIT_BUDGET) {
        if (!v->waiting && (v->waiting = wk_channel_transmit(&v->live, &v->frame)) <= 0)
            break;
        int gone = hand_frame(v);
        if (gone < 0)
            return gone;
        if (!gone)
            break;
        v->waiting = 0;
        handed++;
    }
    if (v->waiting < 0)
        return v->waiting;
    if (handed) {
        /* What the card may send has been taken: a driver that begins anew after this one does not send it again. */
        wk_channel_flush(&v->live);
        TRY(wk_write(&v->device, TX_POLL, 1, NPQ));
    }
    for (; in_use(ring); sent++) {
        if (atomic_load_explicit(&v->tx[ring->index].opts1, memory_order_acquire) & OWN)
            break;
        TRY(give_back(v, wk_slot_token(&v->live, ring, 0), 0));
        advance(ring);
    }
    if (sent)
        wk_channel_flush(&v->live);
    return handed + sent;
}

/* ---- Beginning a turn ----------------------------------------------------------------------- */

static int find_rings(struct driver *v)
{
    struct wk_device *d = &v->device;
    v->rx = wk_dma(d, d->dma_bus, 2 * RING_BYTES);
    v->tx = v->rx ? v->rx + MOST_DESCRIPTORS : NULL;
    return v->rx ? 0 : -ENOMEM;
}

/* The registers, after a reset. */
static int set_up(struct wk_device *d)
{
    uint64_t tx = d->dma_bus + RING_BYTES, value = 0;
    TRY(wk_write(d, CFG9346, 1, CFG9346_UNLOCK));
    TRY(wk_write(d, CPLUS_CMD, 2, CHECK_CHECKSUMS));
    TRY(wk_write(d, MAX_TX_PACKET_SIZE, 1, MOST_FRAME_BYTES / 128));
    TRY(wk_write(d, INTR_MITIGATE, 2, 0));
    TRY(wk_write(d, RX_MAX_SIZE, 2, NO_LIMIT));
    TRY(wk_write(d, TX_DESC_HIGH, 4, tx >> 32));
    TRY(wk_write(d, TX_DESC_LOW, 4, tx & 0xffffffff));
    TRY(wk_write(d, RX_DESC_HIGH, 4, d->dma_bus >> 32));
    TRY(wk_write(d, RX_DESC_LOW, 4, d->dma_bus & 0xffffffff));
    TRY(wk_read(d, CONFIG3, 1, &value));
    TRY(wk_write(d, CONFIG3, 1, value | 4)); /* jumbo frames */
    TRY(wk_read(d, CONFIG4, 1, &value));
    TRY(wk_write(d, CONFIG4, 1, value | 2));
    TRY(wk_write(d, CFG9346, 1, CFG9346_LOCK));
    TRY(wk_write(d, CHIP_CMD, 1, CMD_RX_ENABLE | CMD_TX_ENABLE));
    TRY(wk_write(d, TX_CONFIG, 4, TX_CONFIG_VALUE));
    TRY(wk_write(d, MAR0, 4, 0xffffffff));
    TRY(wk_write(d, MAR0 + 4, 4, 0xffffffff));
    TRY(wk_write(d, RX_CONFIG, 4, RX_CONFIG_ACCEPT));
    return wk_write(d, INTR_STATUS, 2, 0xffff);
}

/* Resets the device. What drivers before had goes back. */
static int start(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t low = 0, high = 0, wanted = wk_load(d, WK_ORDER_BUFFERS);
    uint32_t descriptors = wanted && wanted < MOST_DESCRIPTORS ? (uint32_t)wanted : MOST_DESCRIPTORS;
    wk_live_accept(&v->live);
    TRY(enable_function(d));
    TRY(reset(d));
    TRY(wk_live_start(&v->live));
    wk_live_reset(&v->live, descriptors, MOST_DESCRIPTORS);
    memset(v->rx, 0, 2 * RING_BYTES);
    set(&v->rx[descriptors - 1], RING_END);
    v->unshown = 0;
    v->waiting = 0;
    TRY(wk_read(d, MAC0, 4, &low));
    TRY(wk_read(d, MAC4, 2, &high));
    TRY(refill(v));
    TRY(set_up(d));
    wk_live_set_up(&v->live, DEVICE, d->dma_bus, low | high << 32, "rtl8168c");
    return 0;
}

/* The first word of the last descriptor in use; 0 if none is. */
static uint32_t last_word(struct descriptor *descriptors, const struct wk_in_use *ring)
{
    uint32_t last = (ring->index + in_use(ring) + ring->length - 1) % ring->length;
    return in_use(ring) ? atomic_load_explicit(&descriptors[last].opts1, memory_order_acquire) : 0;
}

/* The driver before may have ended before it gave the last descriptor to the device: it was never begun. */
static void count_out(struct descriptor *descriptors, struct wk_in_use *ring)
{
    if (in_use(ring) && !(last_word(descriptors, ring) & ~RING_END))
        ring->taken--;
}

/* Goes on where another driver stopped. */
static int take_over(struct driver *v, uint32_t how)
{
    struct wk_live *l = &v->live;
    TRY(wk_live_take_over(l, how, DEVICE, v->device.dma_bus, MOST_DESCRIPTORS));
    if (how == WK_HOW_DIED) {
        count_out(v->rx, &l->rx);
        count_out(v->tx, &l->tx);
    }
    wk_live_accept(l);
    TRY(wk_live_resume(l));
    v->unshown = l->rx.length - in_use(&l->rx);
    v->waiting = 0;
    wk_live_counted(l, v->counters);
    TRY(wk_write(&v->device, INTR_MASK, 2, 0));
    if (!(last_word(v->tx, &l->tx) & OWN))
        return 0;
    return wk_write(&v->device, TX_POLL, 1, NPQ); /* a doorbell may have been missing */
}

static int begin(struct driver *v, uint32_t how)
{
    if (how == WK_HOW_START)
        TRY(start(v));
    else if (how != WK_HOW_HANDED_OVER || !wk_live_owned(&v->live))
        TRY(take_over(v, how));
    int found = look(v, 64);
    if (found >= 0)
        found = transmit(v);
    if (found < 0)
        return found;
    wk_stamp(&v->live, WK_TIME_SERVED);
    return report_link(&v->device);
}

/* ---- At work -------------------------------------------------------------------------------- */

static void report(struct driver *v)
{
    static const unsigned words[WK_COUNTER_COUNT] = {
        WK_REPORT_RX_PACKETS, WK_REPORT_RX_BYTES, WK_REPORT_RX_ERRORS,
        WK_REPORT_TX_PACKETS, WK_REPORT_TX_BYTES, WK_REPORT_TX_ERRORS,
    };
    for (unsigned i = 0; i < WK_COUNTER_COUNT; i++)
        wk_report(&v->device, words[i], v->counters[i]);
    wk_report(&v->device, WK_REPORT_INTERRUPTS, v->interrupts);
    wk_report(&v->device, WK_REPORT_SLEEPS, v->sleeps);
    wk_live_count(&v->live, v->counters);
    wk_beat(&v->device);
}

static int is_ordered(const struct driver *v)
{
    return wk_load(&v->device, WK_ORDER_STOP) ||
           wk_load(&v->device, WK_ORDER_HAND_OVER) != v->answered;
}

/* Waits for the device, the channel, the support side, or 100 ms. */
static int wait(struct driver *v)
{
    struct wk_device *d = &v->device;
    struct pollfd files[] = {{.fd = d->event, .events = POLLIN},
                             {.fd = v->live.event, .events = POLLIN},
                             {.fd = d->socket, .events = POLLIN},
                             {.fd = v->live.neighbour, .events = POLLRDHUP}};
    v->sleeps++;
    wk_store(d, WK_REPORT_ASLEEP, 1);
    int ready = poll(files, 4, 100);
    wk_store(d, WK_REPORT_ASLEEP, 0);
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    if (files[2].revents || files[3].revents)
        return -ECONNRESET;
    uint64_t count;
    if (files[0].revents && read(d->event, &count, sizeof count) < 0 && errno != EAGAIN)
        return -errno;
    return 0;
}

/* Interrupts on, one last look at everything, then sleep. */
static int rest(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t status = 0;
    report(v);
    wk_sleep_begin(d);
    int error = wk_write(d, INTR_STATUS, 2, INTR_RINGS);
    if (!error)
        error = wk_write(d, INTR_MASK, 2, INTR_RINGS | INTR_SYSTEM_ERROR);
    if (!error)
        error = wk_read(d, INTR_STATUS, 2, &status); /* the device has taken note */
    int found = error ? error : look(v, 64);
    if (found == 0)
        found = wk_channel_sleep_begin(&v->live, in_use(&v->live.rx) < v->live.rx.length);
    if (found == 0)
        found = transmit(v);
    if (found == 0 && !is_ordered(v) && !wk_interrupt_pending(d))
        found = wait(v);
    wk_channel_sleep_end(&v->live);
    wk_sleep_end(d);
    if (found < 0)
        return found;
    return wk_write(d, INTR_MASK, 2, 0);
}

/* Hands the device over if that is ordered and can be: whether it is another driver's. */
static int hand_over(struct driver *v)
{
    uint64_t to = wk_load(&v->device, WK_ORDER_HAND_OVER);
    v->answered = to;
    if (to == 0 || to > UINT32_MAX || to == v->live.generation ||
        wk_load(&v->device, WK_HEADER_WAY) != WK_WAY_SHARED_STATE)
        return 0;
    wk_stamp(&v->live, WK_TIME_ORDER_SEEN);
    wk_channel_flush(&v->live);
    wk_live_count(&v->live, v->counters);
    wk_live_hand_over(&v->live, (uint32_t)to);
    return 1;
}

/* Until the orders say stop (0), or the device is another driver's (1). */
static int serve(struct driver *v)
{
    struct wk_device *d = &v->device;
    uint64_t last = wk_tsc();
    for (unsigned passes = 0; !wk_load(d, WK_ORDER_STOP); passes++) {
        if (wk_load(d, WK_ORDER_HAND_OVER) != v->answered && hand_over(v))
            return 1;
        TRY(handle_interrupts(&v->device, &v->interrupts));
        int found = look(v, 64);
        int sent = found < 0 ? found : transmit(v);
        uint64_t wait = patience(d);
        if (sent < 0)
            return sent;
        if (found + sent > 0) {
            last = wk_tsc();
        } else if (wait != UINT64_MAX && wk_tsc() - last >= wait) {
            TRY(rest(v));
            last = wk_tsc();
        } else if (passes % 65536 == 0 && wk_gone(d)) {
            return -ECONNRESET;
        }
        if (passes % REPORT_EVERY == 0)
            report(v);
    }
    return 0;
}

/* No more frames, and no more DMA; everything goes back. */
static int quiesce(struct driver *v)
{
    wk_area_store(&v->live, WK_AREA_HEADER_MAGIC, 0);
    TRY(reset(&v->device));
    TRY(wk_config_write(&v->device, PCI_COMMAND, 2, PCI_COMMAND_MEMORY));
    return wk_live_start(&v->live);
}

/* Drives the device whenever it is ours, until the orders say stop. */
static int turns(struct driver *v)
{
    uint32_t how;
    for (;;) {
        int turn = wk_live_wait(&v->live, &how);
        if (turn <= 0)
            return turn;
        TRY(begin(v, how));
        report(v);
        wk_set_state(&v->device, WK_STATE_READY);
        turn = serve(v);
        if (turn < 0)
            return turn; /* as it is: a successor goes on with it */
        if (turn == 0)
            return quiesce(v);
        wk_set_state(&v->device, WK_STATE_HANDED_OVER);
    }
}

int main(void)
{
    static struct driver v;
    int error = wk_attach(&v.device);
    if (error) {
        fprintf(stderr, "cannot attach: %s; start this program with warikomi live\n",
                strerror(-error));
        return 1;
    }
    error = wk_live_attach(&v.live, &v.device);
    if (!error)
        error = find_rings(&v);
    if (!error) {
        wk_set_state(&v.device, WK_STATE_WARM);
        error = turns(&v);
    }
    if (error == -ECONNRESET)
        return 0; /* nobody is left to be told */
    if (error) {
        fprintf(stderr, "it cannot go on: %s\n", strerror(-error));
        wk_fail(&v.device, strerror(-error));
        return 1;
    }
    wk_set_state(&v.device, WK_STATE_STOPPED);
    return 0;
}
