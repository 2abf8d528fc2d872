/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * For a driver in C that is replaced, or follows another, while packets come and go: the state area, the
 * baton, and the driver's end of the channel to whoever is above. Header only, C11, x86-64 Linux.
 *
 * docs/replacement.md has the protocol, crates/pci/src/attach/area.rs what lies where in the state area;
 * a test holds the numbers here against it. examples/c/rtl8168_live.c is a whole driver. What a driver
 * does, in order:
 *
 *     wk_attach, wk_live_attach     map everything
 *     wk_live_wait                  until the device is ours, and how we come by it
 *     wk_live_take_over             after another driver: what is on the rings
 *     wk_live_accept                nothing was stored before, anything may be from here on
 *     wk_live_resume, wk_live_start the channel goes on, or everything in it goes back
 *     wk_slot_set                   before each descriptor that the device is given
 *     wk_live_hand_over             when WK_ORDER_HAND_OVER names a successor; then wk_live_wait again
 *
 * Functions return 0 (or what they are asked for), or a negative errno. Nothing that others have written
 * is believed.
 */
#ifndef WARIKOMI_LIVE_H
#define WARIKOMI_LIVE_H

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "warikomi_driver.h"
#include "warikomi_vi.h"

/* ---- What lies where in the state area: numbers of 64-bit words ---------------------------- */

#define WK_AREA_MAGIC 0x3145544154534b57ull /* "WKSTATE1" */
#define WK_AREA_VERSION 2
#define WK_AREA_OLDEST_VERSION 1
#define WK_AREA_WORDS 4096

/* Header and settings, by the driver that set the device up. */
#define WK_AREA_HEADER_MAGIC 0
#define WK_AREA_HEADER_VERSION 1
#define WK_AREA_HEADER_READABLE_FROM 2
#define WK_AREA_HEADER_BYTES 3
#define WK_AREA_HEADER_DEVICE 4
#define WK_AREA_HEADER_RINGS 5
#define WK_AREA_HEADER_RX_SLOTS 6
#define WK_AREA_HEADER_TX_SLOTS 7
#define WK_AREA_HEADER_MAC_ADDRESS 8
#define WK_AREA_HEADER_SET_UP_BY 9
#define WK_AREA_HEADER_CHECKSUM 10

/* Whose the device is: a generation, and in the upper half how it came by it. */
#define WK_AREA_BATON 32
enum wk_how {
    WK_HOW_HANDED_OVER = 0,
    WK_HOW_DIED = 1,
    WK_HOW_START = 2,
};
/* The generation that has last accepted it. */
#define WK_AREA_OWNER 48

/* What a driver that hands over knows. */
#define WK_AREA_RECORD_CHECKSUM 64
#define WK_AREA_RECORD_GENERATION 65
#define WK_AREA_RECORD_RX_GIVEN 66
#define WK_AREA_RECORD_RX_POSTED 67
#define WK_AREA_RECORD_RX_INDEX 68
#define WK_AREA_RECORD_TX_GIVEN 69
#define WK_AREA_RECORD_TX_PUT 70
#define WK_AREA_RECORD_TX_INDEX 71
#define WK_AREA_RECORD_VERSION 72
#define WK_AREA_RECORD_COUNTERS 80
#define WK_AREA_RECORD_END 128
enum wk_counter {
    WK_COUNTER_RX_PACKETS = 0,
    WK_COUNTER_RX_BYTES = 1,
    WK_COUNTER_RX_ERRORS = 2,
    WK_COUNTER_TX_PACKETS = 3,
    WK_COUNTER_TX_BYTES = 4,
    WK_COUNTER_TX_ERRORS = 5,
    WK_COUNTERS = 6,
};

/* Slots: the count of the buffer or frame from bit 32 on, WK_SLOT_PRESENT, and its token. */
#define WK_AREA_RX_SLOTS 512
#define WK_AREA_TX_SLOTS 1536
#define WK_AREA_MOST_SLOTS 1024
#define WK_SLOT_PRESENT 0x80000000ull
#define WK_SLOT_TOKEN_MASK 0xffffffull

/* ---- What a driver has --------------------------------------------------------------------- */

/* What is on a ring: descriptors from `index` on, those of the counts from `given` up to `taken`. */
struct wk_in_use {
    unsigned first_slot; /* WK_AREA_RX_SLOTS or WK_AREA_TX_SLOTS */
    uint32_t length;     /* descriptors of the ring */
    uint64_t given;      /* what was before it has been given back to whoever is above */
    uint64_t taken;
    uint32_t index;
};

struct wk_live {
    struct wk_device *device;
    _Atomic uint64_t *area;
    uint32_t generation;
    struct wk_in_use rx, tx;
    /* The channel. */
    uint8_t *packets; /* packet memory */
    uint64_t buffers_offset;
    uint32_t buffers, buffer_bytes; /* those that the channel may carry */
    _Atomic uint64_t *channel;
    struct wk_ring posts, completions, transmits, sent;
    uint8_t *places; /* per buffer: 0 the user's, 1 posted, 2 to be sent */
    int event, user_event, neighbour;
};

static inline uint64_t wk_area_load(const struct wk_live *l, unsigned word)
{
    return atomic_load_explicit(&l->area[word], memory_order_acquire);
}

static inline void wk_area_store(struct wk_live *l, unsigned word, uint64_t value)
{
    atomic_store_explicit(&l->area[word], value, memory_order_release);
}

/* FNV-1a, a word at a time; begins with WK_CHECKSUM. */
#define WK_CHECKSUM 0xcbf29ce484222325ull
static inline uint64_t wk_checksum(uint64_t sum, uint64_t word)
{
    return (sum ^ word) * 0x100000001b3ull;
}

/* Stamps a step of a change of hands. */
static inline void wk_stamp(struct wk_live *l, unsigned step)
{
    wk_report(l->device, WK_REPORT_TIMES + step, wk_tsc());
}

/* ---- Attaching ----------------------------------------------------------------------------- */

/* The files of the invitation: packet memory, own event, the event and the socket of who is above. */
static inline int wk__invited(int socket, int files[4])
{
    static const char prefix[] = "warikomi part 1\n";
    char text[4096];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(WK_MOST_FILES * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -errno;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if ((size_t)got < sizeof prefix - 1 || memcmp(text, prefix, sizeof prefix - 1) != 0 || !c ||
        c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(4 * sizeof(int)))
        return -EPROTO;
    memcpy(files, CMSG_DATA(c), 4 * sizeof(int));
    return 0;
}

/* Finds the driver's channel, the last, in packet memory. */
static inline int wk__channel(struct wk_live *l, uint64_t bytes)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)l->packets;
    if (bytes < 8192 || words[WK__MAGIC] != 0x54454b4341504b57ull || words[WK__VERSION] != 1)
        return -EPROTO;
    uint64_t channels = words[WK__CHANNELS], capacity = words[WK__RING_CAPACITY];
    uint64_t all = words[WK__BUFFERS], each = words[WK__BUFFER_BYTES];
    uint64_t above = words[WK__APPLICATION_BUFFERS], offset = words[WK__BUFFERS_OFFSET];
    if (channels < 1 || channels > 2 || capacity < 16 || capacity > 1u << 20 ||
        (capacity & (capacity - 1)) || all > capacity || above < 1 || above > all || each < 128 ||
        each > 65536 || offset > bytes || all * each > bytes - offset ||
        offset < 8 * (WK__CHANNELS_OFFSET + channels * (WK__ENTRIES + 8 * capacity)))
        return -EPROTO;
    l->buffers = (uint32_t)(channels == 1 ? above : all);
    l->buffer_bytes = (uint32_t)each;
    l->buffers_offset = offset;
    l->channel = words + WK__CHANNELS_OFFSET + (channels - 1) * (WK__ENTRIES + 8 * capacity);
    l->posts = wk__ring(l->channel, WK__POSTS, capacity);
    l->completions = wk__ring(l->channel, WK__COMPLETIONS, capacity);
    l->transmits = wk__ring(l->channel, WK__TRANSMITS, capacity);
    l->sent = wk__ring(l->channel, WK__SENT, capacity);
    l->places = (uint8_t *)calloc(l->buffers, 1);
    return l->places ? 0 : -ENOMEM;
}

/* Maps state area and packet memory, after wk_attach. -ENOTSUP if this device's driver is not replaced
 * while it runs, has nothing above, or is replaced through a data store. */
static inline int wk_live_attach(struct wk_live *l, struct wk_device *d)
{
    memset(l, 0, sizeof *l);
    l->device = d;
    if (wk_load(d, WK_HEADER_STATE_BYTES) < 8 * WK_AREA_WORDS || d->files < 6 ||
        !wk_load(d, WK_HEADER_PACKET_BYTES) || wk_load(d, WK_HEADER_WAY) == WK_WAY_DATA_STORE)
        return -ENOTSUP;
    l->generation = (uint32_t)wk_load(d, WK_HEADER_GENERATION);
    uint64_t bytes;
    l->area = (_Atomic uint64_t *)wk_map(d->file[4], &bytes);
    if (!l->area || bytes < 8 * WK_AREA_WORDS)
        return -EPROTO;
    int files[4];
    int error = wk__invited(d->file[5], files);
    if (error)
        return error;
    l->event = files[1];
    l->user_event = files[2];
    l->neighbour = files[3];
    l->packets = (uint8_t *)wk_map(files[0], &bytes);
    return l->packets ? wk__channel(l, bytes) : -EPROTO;
}

/* ---- The baton ----------------------------------------------------------------------------- */

/* Waits until the device is ours: 1, and how; 0 if we shall stop before. Where a driver waits that has
 * handed the device over, and WK_HOW_HANDED_OVER comes with wk_live_owned(), it goes on as if nothing
 * had been. */
static inline int wk_live_wait(struct wk_live *l, enum wk_how *how)
{
    const struct timespec piece = {0, 100000000};
    for (;;) {
        uint64_t baton = wk_area_load(l, WK_AREA_BATON);
        if ((uint32_t)baton == l->generation) {
            wk_stamp(l, WK_TIME_AWAKE);
            *how = (enum wk_how)(baton >> 32);
            return baton >> 32 <= WK_HOW_START ? 1 : -EPROTO;
        }
        if (wk_load(l->device, WK_ORDER_STOP)) {
            /* Giving memory back must not keep whoever has the device waiting. */
            setpriority(PRIO_PROCESS, 0, 19);
            return 0;
        }
        if (wk_gone(l->device))
            return -ECONNRESET;
        syscall(SYS_futex, (void *)&l->area[WK_AREA_BATON], FUTEX_WAIT, (uint32_t)baton, &piece,
                NULL, 0);
    }
}

/* Whether this driver was the last to accept the device. */
static inline int wk_live_owned(const struct wk_live *l)
{
    return wk_area_load(l, WK_AREA_OWNER) == l->generation;
}

/* The device is ours: nothing was stored before. */
static inline void wk_live_accept(struct wk_live *l)
{
    wk_area_store(l, WK_AREA_OWNER, l->generation);
    atomic_thread_fence(memory_order_seq_cst);
    wk_stamp(l, WK_TIME_ACCEPTED);
}

/* ---- Slots --------------------------------------------------------------------------------- */

static inline uint64_t wk__slot(const struct wk_live *l, const struct wk_in_use *ring, uint32_t index)
{
    return wk_area_load(l, ring->first_slot + index % ring->length);
}

/* The token of the n-th descriptor in use, counted from 0. */
static inline uint32_t wk_slot_token(const struct wk_live *l, const struct wk_in_use *ring, uint32_t n)
{
    return (uint32_t)(wk__slot(l, ring, ring->index + n) & WK_SLOT_TOKEN_MASK);
}

/* Notes that descriptor `index` stands for the ring's next buffer or frame. Before that its first word was
 * made empty, after it the descriptor is given to the device, and then `taken` grows. */
static inline void wk_slot_set(struct wk_live *l, const struct wk_in_use *ring, uint32_t index,
                               uint32_t token)
{
    wk_area_store(l, ring->first_slot + index,
                  ring->taken << 32 | WK_SLOT_PRESENT | (token & WK_SLOT_TOKEN_MASK));
}

/* After a death: the slots of `given`, `given` + 1, ... lie one behind the other. */
static inline int wk__search(struct wk_live *l, struct wk_in_use *ring)
{
    int32_t latest = INT32_MIN;
    uint32_t behind = 0, later = 0, found = 0, begin = UINT32_MAX;
    for (uint32_t i = 0; i < ring->length; i++) {
        uint64_t slot = wk__slot(l, ring, i);
        int32_t distance = (int32_t)((uint32_t)(slot >> 32) - (uint32_t)ring->given);
        if (!slot)
            continue;
        if ((slot & 0xffffffff & ~WK_SLOT_TOKEN_MASK) != WK_SLOT_PRESENT)
            return -EPROTO;
        later += distance >= 0;
        if (distance == 0)
            begin = i;
        if (distance < 0 && distance >= latest) {
            latest = distance;
            behind = (i + 1) % ring->length;
        }
    }
    ring->index = begin != UINT32_MAX ? begin : behind;
    for (; found < ring->length; found++) {
        uint64_t slot = wk__slot(l, ring, ring->index + found);
        if (!slot || (uint32_t)(slot >> 32) != (uint32_t)(ring->given + found))
            break;
    }
    ring->taken = ring->given + found;
    return found == later ? 0 : -EPROTO;
}

/* ---- Settings and record ------------------------------------------------------------------- */

static inline uint64_t wk__header_sum(const struct wk_live *l)
{
    uint64_t sum = wk_checksum(WK_CHECKSUM, WK_AREA_MAGIC);
    for (unsigned at = WK_AREA_HEADER_VERSION; at < WK_AREA_HEADER_CHECKSUM; at++)
        sum = wk_checksum(sum, wk_area_load(l, at));
    return sum;
}

static inline uint64_t wk__record_sum(const struct wk_live *l)
{
    const struct wk_in_use *rings[2] = {&l->rx, &l->tx};
    uint64_t sum = WK_CHECKSUM;
    for (unsigned at = WK_AREA_RECORD_CHECKSUM + 1; at < WK_AREA_RECORD_END; at++)
        sum = wk_checksum(sum, wk_area_load(l, at));
    for (int r = 0; r < 2; r++)
        for (uint32_t n = 0; n < (uint32_t)(rings[r]->taken - rings[r]->given); n++)
            sum = wk_checksum(sum, wk__slot(l, rings[r], rings[r]->index + n));
    return sum;
}

/* Reads the settings: of `device` (vendor number in the upper half), with rings at the bus address `rings`
 * and `tx` transmit descriptors. l->rx.length and l->tx.length are known then. */
static inline int wk__settings(struct wk_live *l, uint32_t device, uint64_t rings, uint32_t tx)
{
    uint64_t version = wk_area_load(l, WK_AREA_HEADER_VERSION);
    uint64_t readable_from = wk_area_load(l, WK_AREA_HEADER_READABLE_FROM);
    uint64_t rx = wk_area_load(l, WK_AREA_HEADER_RX_SLOTS);
    if (wk_area_load(l, WK_AREA_HEADER_MAGIC) != WK_AREA_MAGIC)
        return -ENODATA; /* nobody has finished setting the device up */
    if (wk_area_load(l, WK_AREA_HEADER_CHECKSUM) != wk__header_sum(l))
        return -EBADMSG;
    if (version < WK_AREA_OLDEST_VERSION || readable_from > WK_AREA_VERSION)
        return -EPROTONOSUPPORT;
    if (wk_area_load(l, WK_AREA_HEADER_BYTES) != 8 * WK_AREA_WORDS || rx < 1 ||
        rx > WK_AREA_MOST_SLOTS || wk_area_load(l, WK_AREA_HEADER_TX_SLOTS) != tx ||
        wk_area_load(l, WK_AREA_HEADER_DEVICE) != device ||
        wk_area_load(l, WK_AREA_HEADER_RINGS) != rings)
        return -EPROTO;
    l->rx = (struct wk_in_use){.first_slot = WK_AREA_RX_SLOTS, .length = (uint32_t)rx};
    l->tx = (struct wk_in_use){.first_slot = WK_AREA_TX_SLOTS, .length = tx};
    return 0;
}

/* The n-th word of the record's part about a ring, in use there. */
static inline int wk__recorded(struct wk_live *l, struct wk_in_use *ring, unsigned at)
{
    uint64_t index = wk_area_load(l, at + 2);
    uint64_t shown = ring->given;
    ring->given = wk_area_load(l, at);
    ring->taken = wk_area_load(l, at + 1);
    if (ring->taken - ring->given > ring->length || index >= ring->length || ring->given != shown)
        return -EPROTO;
    ring->index = (uint32_t)index;
    for (uint32_t n = 0; n < (uint32_t)(ring->taken - ring->given); n++) {
        uint64_t slot = wk__slot(l, ring, ring->index + n);
        if ((slot & 0xffffffff & ~WK_SLOT_TOKEN_MASK) != WK_SLOT_PRESENT ||
            (uint32_t)(slot >> 32) != (uint32_t)(ring->given + n))
            return -EPROTO;
    }
    return 0;
}

/* After another driver: what is on its rings, in l->rx and l->tx. After one that died, the last descriptor of
 * each may be empty yet: the caller looks, and counts it out. Nothing is stored. */
static inline int wk_live_take_over(struct wk_live *l, enum wk_how how, uint32_t device, uint64_t rings,
                                    uint32_t tx)
{
    int error = wk__settings(l, device, rings, tx);
    if (error)
        return error;
    l->rx.given = atomic_load_explicit(l->completions.head, memory_order_acquire);
    l->tx.given = atomic_load_explicit(l->sent.head, memory_order_acquire);
    if (how == WK_HOW_DIED) {
        error = wk__search(l, &l->rx);
        return error ? error : wk__search(l, &l->tx);
    }
    error = wk__recorded(l, &l->rx, WK_AREA_RECORD_RX_GIVEN);
    if (!error)
        error = wk__recorded(l, &l->tx, WK_AREA_RECORD_TX_GIVEN);
    if (!error && wk_area_load(l, WK_AREA_RECORD_CHECKSUM) != wk__record_sum(l))
        error = -EBADMSG;
    return error;
}

/* Before the device is reset: nobody can go on from here until wk_live_set_up. */
static inline void wk_live_reset(struct wk_live *l, uint32_t rx, uint32_t tx)
{
    wk_area_store(l, WK_AREA_HEADER_MAGIC, 0);
    l->rx = (struct wk_in_use){.first_slot = WK_AREA_RX_SLOTS, .length = rx};
    l->tx = (struct wk_in_use){.first_slot = WK_AREA_TX_SLOTS, .length = tx};
    l->rx.given = l->rx.taken = atomic_load_explicit(l->completions.head, memory_order_acquire);
    l->tx.given = l->tx.taken = atomic_load_explicit(l->sent.head, memory_order_acquire);
    for (unsigned i = 0; i < 2 * WK_AREA_MOST_SLOTS; i++)
        wk_area_store(l, WK_AREA_RX_SLOTS + i, 0);
}

/* The device runs: another driver can go on from here. `name` has up to 8 characters. */
static inline void wk_live_set_up(struct wk_live *l, uint32_t device, uint64_t rings, uint64_t mac,
                                  const char *name)
{
    uint64_t by = 0;
    memcpy(&by, name, strlen(name) < sizeof by ? strlen(name) : sizeof by);
    const uint64_t words[] = {WK_AREA_VERSION, WK_AREA_OLDEST_VERSION, 8 * WK_AREA_WORDS, device, rings,
                              l->rx.length, l->tx.length, mac, by};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        wk_area_store(l, WK_AREA_HEADER_VERSION + i, words[i]);
    wk_area_store(l, WK_AREA_HEADER_CHECKSUM, wk__header_sum(l));
    wk_area_store(l, WK_AREA_HEADER_MAGIC, WK_AREA_MAGIC);
}

/* Notes what was counted; `counters` has WK_COUNTERS words. */
static inline void wk_live_count(struct wk_live *l, const uint64_t *counters)
{
    for (unsigned i = 0; i < WK_COUNTERS; i++)
        wk_area_store(l, WK_AREA_RECORD_COUNTERS + i, counters[i]);
    wk_area_store(l, WK_AREA_RECORD_VERSION, WK_AREA_VERSION);
}

/* What drivers before this one have counted, if the last one noted it. */
static inline void wk_live_counted(const struct wk_live *l, uint64_t *counters)
{
    int there = wk_area_load(l, WK_AREA_RECORD_VERSION) >= 2;
    for (unsigned i = 0; i < WK_COUNTERS; i++)
        counters[i] = there ? wk_area_load(l, WK_AREA_RECORD_COUNTERS + i) : 0;
}

/* Hands the device over, after everything was shown (wk_channel_flush). The caller stores nothing any more
 * until wk_live_wait gives the device back. */
static inline void wk_live_hand_over(struct wk_live *l, uint32_t to)
{
    const uint64_t words[] = {l->generation, l->rx.given, l->rx.taken, l->rx.index,
                              l->tx.given, l->tx.taken, l->tx.index, WK_AREA_VERSION};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        wk_area_store(l, WK_AREA_RECORD_GENERATION + i, words[i]);
    wk_area_store(l, WK_AREA_RECORD_CHECKSUM, wk__record_sum(l));
    wk_stamp(l, WK_TIME_HANDED_OVER);
    wk_area_store(l, WK_AREA_BATON, to | (uint64_t)WK_HOW_HANDED_OVER << 32);
    syscall(SYS_futex, (void *)&l->area[WK_AREA_BATON], FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- The driver's end of the channel -------------------------------------------------------- */

/* The bus address of a part of a buffer; 0 if it does not lie in one. */
static inline uint64_t wk_bus_address(const struct wk_live *l, const struct wk_slice *s, uint32_t length)
{
    if (s->token >= l->buffers || s->offset + length > l->buffer_bytes)
        return 0;
    return wk_load(l->device, WK_HEADER_PACKET_BUS_ADDRESS) + l->buffers_offset +
           (uint64_t)s->token * l->buffer_bytes + s->offset;
}

static inline void wk__wake_user(struct wk_live *l)
{
    uint64_t one = 1;
    ssize_t written = write(l->user_event, &one, sizeof one);
    (void)written; /* it cannot block, and a count that is full wakes too */
}

/* The next entry of a ring whose buffer is the user's, who has it no more: 1, or 0 if there is none. */
static inline int wk__next(struct wk_live *l, struct wk_ring *ring, uint8_t place, struct wk_slice *s)
{
    int64_t left = wk__waiting(ring);
    for (; left > 0; left--) {
        wk__entry(ring, ring->next++, s);
        if (s->token < l->buffers && l->places[s->token] == WK__MINE) {
            l->places[s->token] = place;
            return 1;
        }
    }
    return left < 0 ? -EPROTO : 0;
}

/* The next buffer to be received into. */
static inline int wk_channel_posted(struct wk_live *l, struct wk_slice *s)
{
    return wk__next(l, &l->posts, WK__POSTED, s);
}

/* The next frame to be sent. */
static inline int wk_channel_transmit(struct wk_live *l, struct wk_slice *s)
{
    return wk__next(l, &l->transmits, WK__SENDING, s);
}

static inline int wk__give(struct wk_live *l, struct wk_ring *ring, uint8_t place, const struct wk_slice *s)
{
    if (s->token >= l->buffers || l->places[s->token] != place || !wk__push(ring, s))
        return -EPROTO;
    l->places[s->token] = WK__MINE;
    return 0;
}

/* Gives a buffer back, filled or with WK_RETURNED. */
static inline int wk_channel_complete(struct wk_live *l, const struct wk_slice *s)
{
    return wk__give(l, &l->completions, WK__POSTED, s);
}

/* Gives a buffer back that was sent, or with WK_FAILED was not. */
static inline int wk_channel_sent(struct wk_live *l, const struct wk_slice *s)
{
    return wk__give(l, &l->sent, WK__SENDING, s);
}

static inline int wk__show(struct wk_ring *ring, _Atomic uint64_t *count)
{
    if (ring->shown == ring->next)
        return 0;
    ring->shown = ring->next;
    atomic_store_explicit(count, ring->next, memory_order_release);
    return 1;
}

/* Shows the user what was given. */
static inline void wk_channel_flush(struct wk_live *l)
{
    wk__show(&l->posts, l->posts.tail);
    wk__show(&l->transmits, l->transmits.tail);
    int given = wk__show(&l->completions, l->completions.head);
    given |= wk__show(&l->sent, l->sent.head);
    if (!given)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(l->channel + WK__USER_SLEEPING, memory_order_relaxed) &&
        atomic_exchange_explicit(l->channel + WK__USER_SLEEPING, 0, memory_order_acq_rel))
        wk__wake_user(l);
}

/* Says that the driver sleeps, then looks: whether there is something to do after all. A driver that is
 * hungry has room for buffers, and is woken for them, too. */
static inline int wk_channel_sleep_begin(struct wk_live *l, int hungry)
{
    atomic_store_explicit(l->channel + WK__PROVIDER_SLEEPING, 1, memory_order_relaxed);
    atomic_store_explicit(l->channel + WK__PROVIDER_HUNGRY, hungry, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return wk__waiting(&l->transmits) != 0 || (hungry && wk__waiting(&l->posts) != 0);
}

static inline void wk_channel_sleep_end(struct wk_live *l)
{
    atomic_store_explicit(l->channel + WK__PROVIDER_SLEEPING, 0, memory_order_relaxed);
    atomic_store_explicit(l->channel + WK__PROVIDER_HUNGRY, 0, memory_order_relaxed);
    uint64_t count;
    ssize_t taken = read(l->event, &count, sizeof count);
    (void)taken; /* nothing to read is no error: it does not block */
}

/* What is on a ring is the driver's. */
static inline int wk__hold(struct wk_live *l, const struct wk_in_use *ring, uint8_t place)
{
    for (uint32_t n = 0; n < (uint32_t)(ring->taken - ring->given); n++) {
        uint32_t token = wk_slot_token(l, ring, n);
        if (token >= l->buffers || l->places[token] != WK__MINE)
            return -EPROTO;
        l->places[token] = place;
    }
    return 0;
}

static inline void wk__go_on(struct wk_ring *from, uint64_t taken, struct wk_ring *to)
{
    from->next = taken;
    from->shown = atomic_load_explicit(from->tail, memory_order_acquire);
    to->next = to->shown = atomic_load_explicit(to->head, memory_order_acquire);
}

/* The channel goes on with what is in l->rx and l->tx: after wk_live_accept. */
static inline int wk_live_resume(struct wk_live *l)
{
    memset(l->places, WK__MINE, l->buffers);
    int error = wk__hold(l, &l->rx, WK__POSTED);
    if (!error)
        error = wk__hold(l, &l->tx, WK__SENDING);
    if (error)
        return error;
    wk__go_on(&l->posts, l->rx.taken, &l->completions);
    wk__go_on(&l->transmits, l->tx.taken, &l->sent);
    if (wk__waiting(&l->posts) < 0 || wk__waiting(&l->transmits) < 0)
        return -EPROTO;
    wk_channel_sleep_end(l);
    wk_channel_flush(l);
    wk__wake_user(l); /* a bell may have been missing */
    return 0;
}

/* Gives back what `from` has carried down and `to` not up; how much. */
static inline int64_t wk__give_back(struct wk_live *l, struct wk_ring *from, struct wk_ring *to,
                                    uint8_t flags)
{
    uint64_t taken = atomic_load_explicit(from->tail, memory_order_acquire);
    wk__go_on(from, taken, to);
    uint64_t held = taken - to->next;
    if (held > from->mask + 1 || wk__waiting(from) < 0)
        return -EPROTO;
    for (uint64_t n = taken - held; n != taken; n++) {
        struct wk_slice s;
        wk__entry(from, n, &s);
        s = (struct wk_slice){.token = s.token, .flags = flags};
        if (s.token >= l->buffers || !wk__push(to, &s))
            return -EPROTO;
    }
    return (int64_t)held;
}

/* Before a reset: everything that drivers had goes back, unused or as not sent. */
static inline int wk_live_start(struct wk_live *l)
{
    memset(l->places, WK__MINE, l->buffers);
    int64_t buffers = wk__give_back(l, &l->posts, &l->completions, WK_RETURNED);
    int64_t frames = wk__give_back(l, &l->transmits, &l->sent, WK_FAILED);
    if (buffers < 0 || frames < 0)
        return -EPROTO;
    wk_report(l->device, WK_REPORT_FORGOTTEN_BUFFERS, (uint64_t)buffers);
    wk_report(l->device, WK_REPORT_FORGOTTEN_FRAMES, (uint64_t)frames);
    wk_channel_sleep_end(l);
    wk_channel_flush(l);
    wk__wake_user(l);
    return 0;
}

#endif /* WARIKOMI_LIVE_H */
