/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * warikomi_vi.h: an application's access to Warikomi's packet path, in C11 or C++17, headers only.
 *
 * The application posts buffers and gets them back filled, in order, without a copy, and without a
 * system call while both sides are awake (in the style of the Virtual Interface Architecture):
 *
 *     struct wk_vi vi;
 *     if (wk_vi_connect(&vi) != 0) { fprintf(stderr, "%s\n", vi.error); return 1; }
 *     for (uint32_t b = 0; b < vi.buffers; b++) wk_vi_post(&vi, b);
 *     struct wk_slice s;
 *     while (wk_vi_recv_hybrid(&vi, &s, wk_vi_poll_ns(), -1) == WK_VI_OK) {
 *         use(wk_vi_bytes(&vi, &s), s.length);
 *         wk_vi_post(&vi, s.token);
 *     }
 *
 * Warikomi starts the application, with a socket whose number is in WARIKOMI_SOCKET_FD; the first
 * message on it carries packet memory, two eventfds and a socket to the neighbour. What lies where in
 * packet memory is in warikomi_layout.h, which is made from crates/stack (memory.rs and its neighbours).
 * How long to poll before it sleeps is in WARIKOMI_POLL_NS (wk_vi_poll_ns()). `warikomi receive --target process
 * --application ./mine` starts it so; there are no arguments. It shall attach and post buffers within 10 s, and
 * receive until WK_VI_GONE comes, which is how the run ends; then it has 1 s. What it was given is counted here,
 * and written into packet memory for the support side, which holds it against what the driver accepted.
 * Numbers are in the processor's byte order. x86-64 Linux. Not for use by several threads at a time.
 *
 * What the neighbour writes is not believed: a completion whose buffer the application has not
 * posted, or whose bytes reach beyond it, is counted in vi.refused and never returned.
 */
#ifndef WARIKOMI_VI_H
#define WARIKOMI_VI_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first #include: poll's POLLRDHUP and ppoll need it"
#endif

#include <sched.h>

#include "warikomi_base.h"

/* What the functions return. */
enum {
    WK_VI_OK = 0,
    WK_VI_NOTHING = 1, /* nothing has come, or the time is up */
    WK_VI_GONE = -1,   /* a neighbour has ended: see vi.error */
    WK_VI_BROKEN = -2, /* a neighbour has written nonsense, or the system refuses: see vi.error */
    WK_VI_REFUSED = -3 /* the buffer is not the application's at present, or no such bytes */
};

/* A part of a buffer. */
struct wk_slice {
    uint32_t token;  /* which buffer, 0 to vi.buffers - 1 */
    uint16_t offset; /* where the bytes begin in it */
    uint16_t length; /* how many */
    uint8_t flags;   /* WK_CHECKSUMS_GOOD, WK_RETURNED, WK_UDP, WK_STREAM, WK_FAILED */
    uint64_t extra;  /* received: time stamp counter when the driver took the frame;
                        to be sent by UDP: see wk_vi_destination() */
};

struct wk_ring {
    uint64_t *head, *tail, *entries;
    uint64_t mask;
    uint64_t next;  /* entries that this side has put in, or taken out */
    uint64_t shown; /* entries that the other side has been told of */
};

/* What comes back of the buffers of a driver that has died. */
struct wk_lost {
    uint64_t taken; /* what the driver had taken in all */
    uint64_t next;  /* entry to be looked at next, up to that */
    uint32_t token; /* and then the buffer to be looked at next */
};

struct wk_vi {
    uint32_t buffers;      /* how many the application has */
    uint32_t buffer_bytes; /* bytes of each */
    uint64_t tsc_hz;       /* ticks of the time stamp counter in a second */
    uint64_t refused;      /* entries of the neighbour that made no sense */
    uint64_t messages;     /* filled buffers that the application was given */
    uint64_t bytes;        /* bytes in these */
    char error[160];       /* what went wrong last */

    /* private */
    uint8_t *memory;
    size_t memory_bytes;
    uint64_t buffers_offset;
    uint64_t *channel;
    struct wk_ring posts, completions, transmits, sent;
    struct wk_lost lost_posts, lost_transmits;
    uint8_t *places; /* per buffer: see below */
    int socket, event, neighbour_event, neighbour;
    uint64_t next_check;
};

/* Files of the invitation: packet memory, own event, the event and the socket of the neighbour. */
enum { WK__FILES = 4 };
/* Who has a buffer: the application, the neighbour, to receive into or to send, or a dead one. */
enum { WK__MINE = 0, WK__POSTED = 1, WK__SENDING = 2, WK__LOST = 4 };

static inline int wk__fail(struct wk_vi *vi, int code, const char *what)
{
    snprintf(vi->error, sizeof vi->error, "%s", what);
    return code;
}

static inline int wk__fail_errno(struct wk_vi *vi, const char *what)
{
    snprintf(vi->error, sizeof vi->error, "%s: %s", what, strerror(errno));
    return WK_VI_BROKEN;
}

/* ---- connecting ---- */

static inline struct wk_ring wk__ring(uint64_t *channel, unsigned head, uint64_t capacity)
{
    struct wk_ring ring;
    ring.head = channel + head;
    ring.tail = channel + head + WK_CHANNEL_TAIL;
    ring.entries = channel + WK_CHANNEL_ENTRIES + head / WK_CHANNEL_COMPLETIONS * 2 * capacity;
    ring.mask = capacity - 1;
    ring.next = ring.shown = 0;
    return ring;
}

/* Receives the first message: packet memory and the other files. */
static inline int wk__invitation(struct wk_vi *vi, int files[WK_MOST_FILES])
{
    unsigned count;
    ssize_t length = wk__receive(vi->socket, WK_INVITATION_PREFIX, files, &count);
    if (length > 0 && count >= WK__FILES) {
        for (unsigned i = WK__FILES; i < count; i++)
            close(files[i]); /* the control socket, which this library does not serve */
        return WK_VI_OK;
    }
    for (unsigned i = 0; i < count; i++)
        close(files[i]);
    if (length > 0 || length == -EPROTO)
        return wk__fail(vi, WK_VI_BROKEN, "the first message is not warikomi's");
    if (length == -ECONNRESET)
        return wk__fail(vi, WK_VI_GONE, "the support side is gone");
    errno = (int)-length;
    return wk__fail_errno(vi, "cannot receive warikomi's message");
}

/* What the header of packet memory says. */
struct wk_packets {
    uint64_t channels, capacity, buffers, buffer_bytes, application_buffers, buffers_offset, tsc_hz;
};

/* Reads the header of packet memory of so many bytes: 0, -EPROTO if it has none of this version, -ERANGE if its
 * numbers contradict each other or the file's length. */
static inline int wk__packets(struct wk_packets *p, const uint64_t *words, uint64_t bytes)
{
    if (bytes < WK_PACKETS_CHANNELS_OFFSET_BYTES ||
        wk__load(words + WK_PACKETS_HEADER_MAGIC) != WK_PACKETS_MAGIC ||
        wk__load(words + WK_PACKETS_HEADER_VERSION) != WK_PACKETS_VERSION)
        return -EPROTO;
    p->channels = wk__load(words + WK_PACKETS_HEADER_CHANNELS);
    p->capacity = wk__load(words + WK_PACKETS_HEADER_RING_CAPACITY);
    p->buffers = wk__load(words + WK_PACKETS_HEADER_BUFFERS);
    p->buffer_bytes = wk__load(words + WK_PACKETS_HEADER_BUFFER_BYTES);
    p->application_buffers = wk__load(words + WK_PACKETS_HEADER_APPLICATION_BUFFERS);
    p->buffers_offset = wk__load(words + WK_PACKETS_HEADER_BUFFERS_OFFSET);
    p->tsc_hz = wk__load(words + WK_PACKETS_HEADER_TSC_HZ);
    if (p->channels < 1 || p->channels > WK_PACKETS_MOST_CHANNELS ||
        p->capacity < WK_PACKETS_LEAST_RING_CAPACITY || p->capacity > WK_PACKETS_MOST_BUFFERS ||
        (p->capacity & (p->capacity - 1)) != 0 || p->buffers > p->capacity ||
        p->application_buffers < 1 || p->application_buffers > p->buffers ||
        p->buffer_bytes < WK_PACKETS_BUFFER_ALIGN_BYTES ||
        p->buffer_bytes > WK_PACKETS_MOST_BUFFER_BYTES || p->tsc_hz == 0)
        return -ERANGE;
    uint64_t channel_bytes = 8 * (WK_CHANNEL_ENTRIES + 8 * p->capacity);
    if (p->buffers_offset < WK_PACKETS_CHANNELS_OFFSET_BYTES + p->channels * channel_bytes ||
        p->buffers_offset > bytes || p->buffers * p->buffer_bytes > bytes - p->buffers_offset)
        return -ERANGE;
    return 0;
}

/* The first word of a channel, counted from the application. */
static inline uint64_t *wk__channel(const struct wk_packets *p, void *memory, uint64_t number)
{
    return (uint64_t *)memory + WK_PACKETS_CHANNELS_OFFSET_BYTES / 8 +
           number * (WK_CHANNEL_ENTRIES + 8 * p->capacity);
}

static inline int wk__map(struct wk_vi *vi, int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return wk__fail_errno(vi, "cannot look at packet memory");
    vi->memory_bytes = (size_t)status.st_size;
    void *memory = mmap(NULL, vi->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return wk__fail_errno(vi, "cannot map packet memory");
    vi->memory = (uint8_t *)memory;
    struct wk_packets p;
    int error = wk__packets(&p, (const uint64_t *)memory, vi->memory_bytes);
    if (error == -EPROTO)
        return wk__fail(vi, WK_VI_BROKEN, "this is no packet memory of the version that is known here");
    if (error)
        return wk__fail(vi, WK_VI_BROKEN, "packet memory's numbers contradict each other");
    vi->buffers = (uint32_t)p.application_buffers;
    vi->buffer_bytes = (uint32_t)p.buffer_bytes;
    vi->buffers_offset = p.buffers_offset;
    vi->tsc_hz = p.tsc_hz;
    vi->channel = wk__channel(&p, memory, 0);
    vi->posts = wk__ring(vi->channel, WK_CHANNEL_POSTS, p.capacity);
    vi->completions = wk__ring(vi->channel, WK_CHANNEL_COMPLETIONS, p.capacity);
    vi->transmits = wk__ring(vi->channel, WK_CHANNEL_TRANSMITS, p.capacity);
    vi->sent = wk__ring(vi->channel, WK_CHANNEL_SENT, p.capacity);
    vi->places = (uint8_t *)calloc(vi->buffers, 1);
    if (vi->places == NULL)
        return wk__fail(vi, WK_VI_BROKEN, "out of memory");
    wk__store(vi->channel + WK_CHANNEL_USER_ATTACHED, 1);
    return WK_VI_OK;
}

static inline void wk_vi_close(struct wk_vi *vi);

/* Connects to the packet path that warikomi has prepared for this process. All buffers are the
 * application's at first. */
static inline int wk_vi_connect(struct wk_vi *vi)
{
    memset(vi, 0, sizeof *vi);
    vi->socket = vi->event = vi->neighbour_event = vi->neighbour = -1;
    const char *number = getenv(WK_SOCKET_VARIABLE);
    char *end = NULL;
    long socket_number = number != NULL ? strtol(number, &end, 10) : -1;
    if (number == NULL || end == number || *end != 0 || socket_number < 0 || socket_number > 65535)
        return wk__fail(vi, WK_VI_BROKEN,
                        WK_SOCKET_VARIABLE " names no socket; this program is started by warikomi");
    vi->socket = (int)socket_number;
    int files[WK_MOST_FILES];
    int outcome = wk__invitation(vi, files);
    if (outcome == WK_VI_OK) {
        vi->event = files[1];
        vi->neighbour_event = files[2];
        vi->neighbour = files[3];
        outcome = wk__map(vi, files[0]);
        close(files[0]);
    }
    if (outcome != WK_VI_OK)
        wk_vi_close(vi);
    return outcome;
}

/* In a child of the application, behind fork(): keeps packet memory, for wk_vi_bytes(), and lets go of the rest,
 * so that neighbours see when the application itself is gone. A child must neither post nor receive. */
static inline void wk_vi_keep_memory(struct wk_vi *vi)
{
    int files[4] = { vi->socket, vi->event, vi->neighbour_event, vi->neighbour };
    for (int i = 0; i < 4; i++)
        if (files[i] >= 0)
            close(files[i]);
    vi->socket = vi->event = vi->neighbour_event = vi->neighbour = -1;
}

/* Gives everything back; the neighbours see that the application is gone. vi.error stays. */
static inline void wk_vi_close(struct wk_vi *vi)
{
    wk_vi_keep_memory(vi);
    if (vi->memory != NULL)
        munmap(vi->memory, vi->memory_bytes);
    vi->memory = NULL;
    free(vi->places);
    vi->places = NULL;
}

/* ---- rings ---- */

static inline int wk__push(struct wk_ring *ring, const struct wk_slice *slice)
{
    if (ring->next - wk__load(ring->tail) > ring->mask)
        return 0;
    uint64_t *entry = ring->entries + 2 * (ring->next & ring->mask);
    uint64_t word = (uint64_t)slice->token | (uint64_t)slice->flags << 24 |
                    (uint64_t)slice->offset << 32 | (uint64_t)slice->length << 48;
    wk__store_relaxed(entry, word);
    wk__store_relaxed(entry + 1, slice->extra);
    ring->next++;
    return 1;
}

/* Entries that wait; negative if the other side's count makes no sense. */
static inline int64_t wk__waiting(const struct wk_ring *ring)
{
    uint64_t count = wk__load(ring->head) - ring->next;
    return count <= ring->mask + 1 ? (int64_t)count : -1;
}

/* What the entry of a count says. */
static inline void wk__entry(const struct wk_ring *ring, uint64_t count, struct wk_slice *slice)
{
    uint64_t *entry = ring->entries + 2 * (count & ring->mask);
    uint64_t word = wk__load_relaxed(entry);
    slice->extra = wk__load_relaxed(entry + 1);
    slice->token = (uint32_t)(word & WK_TOKEN_MASK);
    slice->flags = (uint8_t)(word >> 24);
    slice->offset = (uint16_t)(word >> 32);
    slice->length = (uint16_t)(word >> 48);
}

/* The token of an entry of the application's own. */
static inline uint32_t wk__asked(const struct wk_ring *asked, uint64_t count)
{
    struct wk_slice slice;
    wk__entry(asked, count, &slice);
    return slice.token;
}

/* A driver has died that had taken this many entries in all, `left` of which are not answered: what is at
 * `from` and was handed over before that is lost. */
static inline void wk__lose(struct wk_vi *vi, const struct wk_ring *asked, struct wk_lost *lost,
                            uint8_t from, uint64_t taken, uint64_t left)
{
    for (uint32_t token = 0; token < vi->buffers; token++)
        if (vi->places[token] == from)
            vi->places[token] |= WK__LOST;
    if (asked->next - taken <= asked->mask + 1)
        for (uint64_t count = taken; count != asked->next; count++) {
            uint32_t token = wk__asked(asked, count);
            if (token < vi->buffers)
                vi->places[token] &= (uint8_t)~WK__LOST;
        }
    lost->taken = taken;
    lost->next = taken - (left <= asked->mask + 1 ? left : 0);
    lost->token = 0;
}

/* The next lost buffer that comes back: those handed over last in their order, then the others. */
static inline uint32_t wk__find(struct wk_vi *vi, const struct wk_ring *asked, struct wk_lost *lost,
                                uint8_t from)
{
    while (lost->next != lost->taken) {
        uint32_t token = wk__asked(asked, lost->next++);
        if (token < vi->buffers && vi->places[token] == (from | WK__LOST))
            return token;
    }
    for (; lost->token < vi->buffers; lost->token++)
        if (vi->places[lost->token] == (from | WK__LOST))
            return lost->token;
    return WK_NO_TOKEN;
}

/* An entry that names no buffer, because whoever had it died. It answers one entry of the application's, as
 * every entry does. */
static inline int wk__forgotten(struct wk_vi *vi, const struct wk_ring *ring,
                                const struct wk_ring *asked, struct wk_lost *lost, uint8_t from,
                                struct wk_slice *slice)
{
    uint64_t taken = ring->next - 1 + slice->extra;
    if (slice->token != WK_NO_TOKEN || (slice->flags & WK_FORGOTTEN) == 0)
        return 0;
    if (lost->taken != taken)
        wk__lose(vi, asked, lost, from, taken, slice->extra);
    uint32_t token = wk__find(vi, asked, lost, from);
    if (token == WK_NO_TOKEN)
        return 0;
    vi->places[token] = WK__MINE;
    slice->token = token;
    slice->flags &= (uint8_t)~WK_FORGOTTEN;
    slice->offset = slice->length = 0;
    slice->extra = 0;
    return 1;
}

/* The next entry whose buffer is where it should be; it is the application's then. */
static inline int wk__take(struct wk_vi *vi, struct wk_ring *ring, const struct wk_ring *asked,
                           struct wk_lost *lost, uint8_t from, struct wk_slice *slice)
{
    for (int64_t left = wk__waiting(ring); left != 0; left--) {
        if (left < 0)
            return wk__fail(vi, WK_VI_BROKEN, "the neighbour's ring is corrupt");
        wk__entry(ring, ring->next++, slice);
        if (slice->token < vi->buffers && vi->places[slice->token] == from &&
            (uint32_t)slice->offset + slice->length <= vi->buffer_bytes) {
            vi->places[slice->token] = WK__MINE;
            return WK_VI_OK;
        }
        if (wk__forgotten(vi, ring, asked, lost, from, slice))
            return WK_VI_OK;
        vi->refused++;
    }
    return WK_VI_NOTHING;
}

/* Rings the neighbour's bell if it sleeps by this word. What it shall see was published before. */
static inline void wk__bell(struct wk_vi *vi, unsigned sleeping)
{
    if (!wk__wakes(vi->channel + sleeping))
        return;
    uint64_t one = 1;
    ssize_t written = write(vi->neighbour_event, &one, sizeof one);
    (void)written; /* it cannot block, and a count that is full wakes too */
}

/* ---- buffers ---- */

/* Posts a buffer to be received into. The neighbour sees it at the next receive, or flush. */
static inline int wk_vi_post(struct wk_vi *vi, uint32_t token)
{
    struct wk_slice slice = { token, 0, 0, 0, 0 };
    if (token >= vi->buffers || vi->places[token] != WK__MINE || !wk__push(&vi->posts, &slice))
        return WK_VI_REFUSED;
    vi->places[token] = WK__POSTED;
    return WK_VI_OK;
}

/* The word that says where a datagram goes: address as in 0x0a090002 for 10.9.0.2. */
static inline uint64_t wk_vi_destination(uint32_t address, uint16_t port, uint16_t source_port)
{
    return (uint64_t)address | (uint64_t)port << 32 | (uint64_t)source_port << 48;
}

/* Hands a buffer over to be sent: with WK_UDP as a datagram to `extra`, the offset being at least
 * WK_HEADROOM_BYTES; without flags as a whole frame. It comes back by wk_vi_sent(). */
static inline int wk_vi_send(struct wk_vi *vi, const struct wk_slice *slice)
{
    if (slice->token >= vi->buffers || vi->places[slice->token] != WK__MINE ||
        (uint32_t)slice->offset + slice->length > vi->buffer_bytes ||
        ((slice->flags & WK_UDP) != 0 && slice->offset < WK_HEADROOM_BYTES) ||
        !wk__push(&vi->transmits, slice))
        return WK_VI_REFUSED;
    vi->places[slice->token] = WK__SENDING;
    return WK_VI_OK;
}

/* The next buffer that was sent, or with WK_FAILED was not. */
static inline int wk_vi_sent(struct wk_vi *vi, struct wk_slice *slice)
{
    return wk__take(vi, &vi->sent, &vi->transmits, &vi->lost_transmits, WK__SENDING, slice);
}

/* The bytes of a slice, in place. NULL if they do not lie in a buffer of the application. */
static inline volatile uint8_t *wk_vi_bytes(const struct wk_vi *vi, const struct wk_slice *slice)
{
    if (slice->token >= vi->buffers ||
        (uint32_t)slice->offset + slice->length > vi->buffer_bytes)
        return NULL;
    return vi->memory + vi->buffers_offset + (uint64_t)slice->token * vi->buffer_bytes +
           slice->offset;
}

/* Shows the neighbour what was posted and handed over. */
static inline void wk_vi_flush(struct wk_vi *vi)
{
    struct wk_ring *taken[2] = { &vi->completions, &vi->sent };
    for (int i = 0; i < 2; i++)
        if (taken[i]->shown != taken[i]->next) {
            taken[i]->shown = taken[i]->next;
            wk__store(taken[i]->tail, taken[i]->next);
        }
    struct wk_ring *given[2] = { &vi->transmits, &vi->posts };
    unsigned sleeping[2] = { WK_CHANNEL_PROVIDER_SLEEPING, WK_CHANNEL_PROVIDER_HUNGRY };
    for (int i = 0; i < 2; i++)
        if (given[i]->shown != given[i]->next) {
            given[i]->shown = given[i]->next;
            wk__store(given[i]->head, given[i]->next);
            wk__bell(vi, sleeping[i]);
        }
}

/* With a stack below: takes datagrams for this UDP port from now on, of which `buffer_bytes` may
 * wait. */
static inline void wk_vi_listen(struct wk_vi *vi, uint16_t port, uint64_t buffer_bytes)
{
    uint64_t *orders = vi->channel + WK_CHANNEL_SOCKET_ORDERS;
    wk__store_relaxed(orders + WK_SOCKET_ORDER_PORT, port);
    wk__store_relaxed(orders + WK_SOCKET_ORDER_BUFFER_BYTES, buffer_bytes);
    __atomic_fetch_add(orders + WK_SOCKET_ORDER_NUMBER, 1, __ATOMIC_RELEASE);
    wk__bell(vi, WK_CHANNEL_PROVIDER_SLEEPING);
}

/* ---- receiving ---- */

/* Sleeps until the event, the end of a neighbour, or the end of the time; negative: for ever. */
static inline int wk__sleep(struct wk_vi *vi, int64_t timeout_ns, int listen)
{
    struct pollfd files[3] = {
        { vi->event, (short)(listen ? POLLIN : 0), 0 },
        { vi->neighbour, POLLRDHUP, 0 },
        { vi->socket, POLLRDHUP, 0 },
    };
    struct timespec limit = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
    int ready = ppoll(files, 3, timeout_ns < 0 ? NULL : &limit, NULL);
    if (ready < 0)
        return errno == EINTR ? WK_VI_OK : wk__fail_errno(vi, "cannot wait");
    if (ready == 0)
        return WK_VI_NOTHING;
    if (files[1].revents != 0)
        return wk__fail(vi, WK_VI_GONE, "the neighbour below is gone: its process has ended");
    if (files[2].revents != 0)
        return wk__fail(vi, WK_VI_GONE, "the support side is gone: its process has ended");
    uint64_t count;
    ssize_t taken = read(vi->event, &count, sizeof count);
    (void)taken; /* nothing to read is no error: it does not block */
    return WK_VI_OK;
}

/* Whether the neighbours are there, every millisecond. */
static inline int wk__check(struct wk_vi *vi)
{
    uint64_t now = wk_tsc();
    if (now < vi->next_check)
        return WK_VI_OK;
    vi->next_check = now + vi->tsc_hz / 1000;
    int outcome = wk__sleep(vi, 0, 0);
    return outcome == WK_VI_NOTHING ? WK_VI_OK : outcome;
}

/* How long warikomi asks the application to poll before it sleeps, in nanoseconds: T of `warikomi receive`, for
 * wk_vi_recv_hybrid(). 0, not at all, if nobody asks. */
static inline uint64_t wk_vi_poll_ns(void)
{
    const char *given = getenv(WK_INVITATION_POLL_VARIABLE);
    return given != NULL ? strtoull(given, NULL, 10) : 0;
}

/* Counts a completion for the support side; a buffer that came back unused is none. */
static inline void wk__count(struct wk_vi *vi, const struct wk_slice *slice)
{
    if ((slice->flags & WK_RETURNED) != 0)
        return;
    vi->messages++;
    vi->bytes += slice->length;
    wk__store_relaxed(vi->channel + WK_CHANNEL_USER_BYTES, vi->bytes);
    wk__store(vi->channel + WK_CHANNEL_USER_MESSAGES, vi->messages);
}

/* The next completion, if there is one. */
static inline int wk_vi_recv_poll(struct wk_vi *vi, struct wk_slice *slice)
{
    int outcome = wk__take(vi, &vi->completions, &vi->posts, &vi->lost_posts, WK__POSTED, slice);
    if (outcome == WK_VI_OK)
        wk__count(vi, slice);
    if (outcome != WK_VI_NOTHING)
        return outcome;
    wk_vi_flush(vi);
    int there = wk__check(vi);
    return there == WK_VI_OK ? WK_VI_NOTHING : there;
}

/* Sleeps until there is a completion, for `timeout_ns` at most (negative: for ever). */
static inline int wk_vi_recv_wait(struct wk_vi *vi, struct wk_slice *slice, int64_t timeout_ns)
{
    uint64_t begin = wk_tsc();
    for (;;) {
        int outcome = wk_vi_recv_poll(vi, slice);
        if (outcome != WK_VI_NOTHING)
            return outcome;
        int64_t left = timeout_ns;
        if (timeout_ns >= 0) {
            double spent = (double)(wk_tsc() - begin) * 1e9 / (double)vi->tsc_hz;
            if (spent >= (double)timeout_ns)
                return WK_VI_NOTHING;
            left = timeout_ns - (int64_t)spent;
        }
        /* "I sleep", a full fence, the last look: whoever publishes something from here on sees
         * that we sleep, and whatever was published before we see. */
        wk__store_relaxed(vi->channel + WK_CHANNEL_USER_SLEEPING, 1);
        wk__fence();
        outcome = WK_VI_OK;
        if (wk__waiting(&vi->completions) == 0)
            outcome = wk__sleep(vi, left, 1);
        wk__store_relaxed(vi->channel + WK_CHANNEL_USER_SLEEPING, 0);
        if (outcome < 0)
            return outcome;
    }
}

/* Polls for `poll_ns`, and if nothing comes meanwhile sleeps as wk_vi_recv_wait() does. */
static inline int wk_vi_recv_hybrid(struct wk_vi *vi, struct wk_slice *slice, uint64_t poll_ns,
                                    int64_t timeout_ns)
{
    uint64_t begin = wk_tsc();
    double ticks = (double)poll_ns * (double)vi->tsc_hz / 1e9;
    do {
        int outcome = wk_vi_recv_poll(vi, slice);
        if (outcome != WK_VI_NOTHING)
            return outcome;
        sched_yield(); /* the neighbours may be on this very core */
    } while ((double)(wk_tsc() - begin) < ticks);
    return wk_vi_recv_wait(vi, slice, timeout_ns);
}

#endif /* WARIKOMI_VI_H */
