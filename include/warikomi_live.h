/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * For a driver in C that is replaced, or follows another, while packets come and go: the state area, the
 * baton, and the driver's end of the channel to the layer above. Headers only, C11 and C++17, x86-64 Linux.
 *
 * docs/replacement.md has the protocol; what lies where in the state area is in warikomi_layout.h, which is made
 * from crates/pci/src/attach/area.rs. examples/c/rtl8168_live.c is a whole driver. What a driver does, in order:
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

/* ---- What a driver has --------------------------------------------------------------------- */

/* What is on a ring: descriptors from `index` on, those of the counts from `given` up to `taken`. */
struct wk_in_use {
    unsigned first_slot; /* WK_AREA_RX_SLOTS or WK_AREA_TX_SLOTS */
    uint32_t length;     /* descriptors of the ring */
    uint64_t given;      /* what was before it has been given back to the layer above */
    uint64_t taken;
    uint32_t index;
};

struct wk_live {
    struct wk_device *device;
    uint64_t *area;
    uint32_t generation;
    struct wk_in_use rx, tx;
    /* The channel. */
    uint8_t *packets; /* packet memory */
    uint64_t buffers_offset;
    uint32_t buffers, buffer_bytes; /* those that the channel may carry */
    uint64_t *channel;
    struct wk_ring posts, completions, transmits, sent;
    uint8_t *places; /* per buffer: 0 the user's, 1 posted, 2 to be sent */
    int event, user_event, neighbour;
};

static inline uint64_t wk_area_load(const struct wk_live *l, unsigned word)
{
    return wk__load(&l->area[word]);
}

static inline void wk_area_store(struct wk_live *l, unsigned word, uint64_t value)
{
    wk__store(&l->area[word], value);
}

/* FNV-1a, a word at a time; begins with WK_AREA_CHECKSUM_BASIS. */
static inline uint64_t wk_checksum(uint64_t sum, uint64_t word)
{
    return (sum ^ word) * WK_AREA_CHECKSUM_PRIME;
}

/* Stamps a step of a change of hands. */
static inline void wk_stamp(struct wk_live *l, unsigned step)
{
    wk_report(l->device, WK_REPORT_TIMES + step, wk_tsc());
}

/* ---- Attaching ----------------------------------------------------------------------------- */

/* Finds the driver's channel, the last, in packet memory. */
static inline int wk__attach_channel(struct wk_live *l, uint64_t bytes)
{
    struct wk_packets p;
    if (wk__packets(&p, (const uint64_t *)(const void *)l->packets, bytes))
        return -EPROTO;
    l->buffers = (uint32_t)(p.channels == 1 ? p.application_buffers : p.buffers);
    l->buffer_bytes = (uint32_t)p.buffer_bytes;
    l->buffers_offset = p.buffers_offset;
    l->channel = wk__channel(&p, l->packets, p.channels - 1);
    l->posts = wk__ring(l->channel, WK_CHANNEL_POSTS, p.capacity);
    l->completions = wk__ring(l->channel, WK_CHANNEL_COMPLETIONS, p.capacity);
    l->transmits = wk__ring(l->channel, WK_CHANNEL_TRANSMITS, p.capacity);
    l->sent = wk__ring(l->channel, WK_CHANNEL_SENT, p.capacity);
    l->places = (uint8_t *)calloc(l->buffers, 1);
    return l->places ? 0 : -ENOMEM;
}

/* Maps state area and packet memory, after wk_attach. -ENOTSUP if this device's driver is not replaced
 * while it runs, has nothing above, or is replaced through a data store. */
static inline int wk_live_attach(struct wk_live *l, struct wk_device *d)
{
    memset(l, 0, sizeof *l);
    l->device = d;
    if (wk_load(d, WK_HEADER_STATE_BYTES) < WK_AREA_BYTES || d->files < 6 ||
        !wk_load(d, WK_HEADER_PACKET_BYTES) || wk_load(d, WK_HEADER_WAY) == WK_WAY_DATA_STORE)
        return -ENOTSUP;
    l->generation = (uint32_t)wk_load(d, WK_HEADER_GENERATION);
    uint64_t bytes;
    l->area = (uint64_t *)wk_map(d->file[4], &bytes);
    if (!l->area || bytes < WK_AREA_BYTES)
        return -EPROTO;
    int files[WK_MOST_FILES];
    unsigned count;
    ssize_t length = wk__receive(d->file[5], WK_INVITATION_PREFIX, files, &count);
    if (length < 0)
        return (int)length;
    if (count != WK__FILES)
        return -EPROTO;
    l->event = files[1];
    l->user_event = files[2];
    l->neighbour = files[3];
    l->packets = (uint8_t *)wk_map(files[0], &bytes);
    return l->packets ? wk__attach_channel(l, bytes) : -EPROTO;
}

/* ---- The baton ----------------------------------------------------------------------------- */

/* Waits until the device is ours: 1, and how; 0 if we shall stop before. Where a driver waits that has
 * handed the device over, and WK_HOW_HANDED_OVER comes with wk_live_owned(), it goes on as if nothing
 * had been. */
static inline int wk_live_wait(struct wk_live *l, uint32_t *how)
{
    const struct timespec piece = {0, 100000000};
    for (;;) {
        uint64_t baton = wk_area_load(l, WK_AREA_BATON);
        if ((uint32_t)baton == l->generation) {
            wk_stamp(l, WK_TIME_AWAKE);
            *how = (uint32_t)(baton >> 32);
            return *how <= WK_HOW_START ? 1 : -EPROTO;
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
    wk__fence();
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
    return (uint32_t)(wk__slot(l, ring, ring->index + n) & WK_AREA_TOKEN_MASK);
}

/* Notes that descriptor `index` stands for the ring's next buffer or frame. Before that its first word was
 * made empty, after it the descriptor is given to the device, and then `taken` grows. */
static inline void wk_slot_set(struct wk_live *l, const struct wk_in_use *ring, uint32_t index,
                               uint32_t token)
{
    wk_area_store(l, ring->first_slot + index,
                  ring->taken << 32 | WK_AREA_PRESENT | (token & WK_AREA_TOKEN_MASK));
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
        if ((slot & 0xffffffff & ~WK_AREA_TOKEN_MASK) != WK_AREA_PRESENT)
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
    uint64_t sum = wk_checksum(WK_AREA_CHECKSUM_BASIS, WK_AREA_MAGIC);
    for (unsigned at = WK_AREA_HEADER_VERSION; at < WK_AREA_HEADER_CHECKSUM; at++)
        sum = wk_checksum(sum, wk_area_load(l, at));
    return sum;
}

static inline uint64_t wk__record_sum(const struct wk_live *l)
{
    const struct wk_in_use *rings[2] = {&l->rx, &l->tx};
    uint64_t sum = WK_AREA_CHECKSUM_BASIS;
    for (unsigned at = WK_AREA_RECORD_CHECKSUM + 1; at < WK_AREA_RECORD_END; at++)
        sum = wk_checksum(sum, wk_area_load(l, at));
    for (int r = 0; r < 2; r++)
        for (uint32_t n = 0; n < (uint32_t)(rings[r]->taken - rings[r]->given); n++)
            sum = wk_checksum(sum, wk__slot(l, rings[r], rings[r]->index + n));
    return sum;
}

/* Rings of so many descriptors, with nothing on them. */
static inline void wk__rings(struct wk_live *l, uint32_t rx, uint32_t tx)
{
    const struct wk_in_use empty_rx = {WK_AREA_RX_SLOTS, rx, 0, 0, 0};
    const struct wk_in_use empty_tx = {WK_AREA_TX_SLOTS, tx, 0, 0, 0};
    l->rx = empty_rx;
    l->tx = empty_tx;
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
    if (wk_area_load(l, WK_AREA_HEADER_BYTES) != WK_AREA_BYTES || rx < 1 ||
        rx > WK_AREA_MOST_SLOTS || wk_area_load(l, WK_AREA_HEADER_TX_SLOTS) != tx ||
        wk_area_load(l, WK_AREA_HEADER_DEVICE) != device ||
        wk_area_load(l, WK_AREA_HEADER_RINGS) != rings)
        return -EPROTO;
    wk__rings(l, (uint32_t)rx, tx);
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
        if ((slot & 0xffffffff & ~WK_AREA_TOKEN_MASK) != WK_AREA_PRESENT ||
            (uint32_t)(slot >> 32) != (uint32_t)(ring->given + n))
            return -EPROTO;
    }
    return 0;
}

/* After another driver: what is on its rings, in l->rx and l->tx. After one that died, the last descriptor of
 * each may be empty yet: the caller looks, and counts it out. Nothing is stored. */
static inline int wk_live_take_over(struct wk_live *l, uint32_t how, uint32_t device, uint64_t rings,
                                    uint32_t tx)
{
    int error = wk__settings(l, device, rings, tx);
    if (error)
        return error;
    l->rx.given = wk__load(l->completions.head);
    l->tx.given = wk__load(l->sent.head);
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

/* Before the device is reset: no driver can continue from here until wk_live_set_up. */
static inline void wk_live_reset(struct wk_live *l, uint32_t rx, uint32_t tx)
{
    wk_area_store(l, WK_AREA_HEADER_MAGIC, 0);
    wk__rings(l, rx, tx);
    l->rx.given = l->rx.taken = wk__load(l->completions.head);
    l->tx.given = l->tx.taken = wk__load(l->sent.head);
    for (unsigned i = 0; i < 2 * WK_AREA_MOST_SLOTS; i++)
        wk_area_store(l, WK_AREA_RX_SLOTS + i, 0);
}

/* The device runs: another driver can go on from here. `name` has up to 8 characters. */
static inline void wk_live_set_up(struct wk_live *l, uint32_t device, uint64_t rings, uint64_t mac,
                                  const char *name)
{
    uint64_t by = 0;
    memcpy(&by, name, strlen(name) < sizeof by ? strlen(name) : sizeof by);
    const uint64_t words[] = {WK_AREA_VERSION, WK_AREA_OLDEST_VERSION, WK_AREA_BYTES, device, rings,
                              l->rx.length, l->tx.length, mac, by};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        wk_area_store(l, WK_AREA_HEADER_VERSION + i, words[i]);
    wk_area_store(l, WK_AREA_HEADER_CHECKSUM, wk__header_sum(l));
    wk_area_store(l, WK_AREA_HEADER_MAGIC, WK_AREA_MAGIC);
}

/* Notes what was counted; `counters` has WK_COUNTER_COUNT words. */
static inline void wk_live_count(struct wk_live *l, const uint64_t *counters)
{
    for (unsigned i = 0; i < WK_COUNTER_COUNT; i++)
        wk_area_store(l, WK_AREA_RECORD_COUNTERS + i, counters[i]);
    wk_area_store(l, WK_AREA_RECORD_VERSION, WK_AREA_VERSION);
}

/* What drivers before this one have counted, if the last one noted it. */
static inline void wk_live_counted(const struct wk_live *l, uint64_t *counters)
{
    int there = wk_area_load(l, WK_AREA_RECORD_VERSION) >= 2;
    for (unsigned i = 0; i < WK_COUNTER_COUNT; i++)
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

static inline int wk__show(struct wk_ring *ring, uint64_t *count)
{
    if (ring->shown == ring->next)
        return 0;
    ring->shown = ring->next;
    wk__store(count, ring->next);
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
    if (wk__wakes(l->channel + WK_CHANNEL_USER_SLEEPING))
        wk__wake_user(l);
}

/* Says that the driver sleeps, then looks: whether there is something to do after all. A driver that is
 * hungry has room for buffers, and is woken for them, too. */
static inline int wk_channel_sleep_begin(struct wk_live *l, int hungry)
{
    wk__store_relaxed(l->channel + WK_CHANNEL_PROVIDER_SLEEPING, 1);
    wk__store_relaxed(l->channel + WK_CHANNEL_PROVIDER_HUNGRY, hungry);
    wk__fence();
    return wk__waiting(&l->transmits) != 0 || (hungry && wk__waiting(&l->posts) != 0);
}

static inline void wk_channel_sleep_end(struct wk_live *l)
{
    wk__store_relaxed(l->channel + WK_CHANNEL_PROVIDER_SLEEPING, 0);
    wk__store_relaxed(l->channel + WK_CHANNEL_PROVIDER_HUNGRY, 0);
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
    from->shown = wk__load(from->tail);
    to->next = to->shown = wk__load(to->head);
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

/* Gives back what `from` has carried down and `to` not up; how much. Which buffers these are the user
 * knows: drivers need not give them back in the order in which they took them. */
static inline int64_t wk__give_back(struct wk_ring *from, struct wk_ring *to, uint8_t flags)
{
    uint64_t taken = wk__load(from->tail);
    wk__go_on(from, taken, to);
    uint64_t held = taken - to->next;
    if (held > from->mask + 1 || wk__waiting(from) < 0)
        return -EPROTO;
    for (uint64_t left = held; left != 0; left--) {
        const struct wk_slice back = {WK_NO_TOKEN, 0, 0, (uint8_t)(flags | WK_FORGOTTEN), left};
        if (!wk__push(to, &back))
            return -EPROTO;
    }
    return (int64_t)held;
}

/* Before a reset: everything that drivers had goes back, unused or as not sent. */
static inline int wk_live_start(struct wk_live *l)
{
    memset(l->places, WK__MINE, l->buffers);
    int64_t buffers = wk__give_back(&l->posts, &l->completions, WK_RETURNED);
    int64_t frames = wk__give_back(&l->transmits, &l->sent, WK_FAILED);
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
