/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * warikomi_vi.h: an application's access to Warikomi's packet path, in C11, header only.
 *
 * The application posts buffers and gets them back filled, in order, without a copy, and without a
 * system call while both sides are awake (in the style of the Virtual Interface Architecture):
 *
 *     struct wk_vi vi;
 *     if (wk_vi_connect(&vi) != 0) { fprintf(stderr, "%s\n", vi.error); return 1; }
 *     for (uint32_t b = 0; b < vi.buffers; b++) wk_vi_post(&vi, b);
 *     struct wk_slice s;
 *     while (wk_vi_recv_hybrid(&vi, &s, 100000, -1) == WK_VI_OK) {
 *         use(wk_vi_bytes(&vi, &s), s.length);
 *         wk_vi_post(&vi, s.token);
 *     }
 *
 * Warikomi starts the application, with a socket whose number is in WARIKOMI_SOCKET_FD; the first
 * message on it carries packet memory, two eventfds and a socket to the neighbour. What lies where in
 * packet memory is said in crates/stack (memory.rs, channel.rs, entry.rs), and here in constants.
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

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#error "warikomi_vi.h is C11: it uses _Atomic"
#endif

_Static_assert(sizeof(_Atomic uint64_t) == 8, "atomic words must be plain words");

/* What the functions return. */
enum {
    WK_VI_OK = 0,
    WK_VI_NOTHING = 1, /* nothing has come, or the time is up */
    WK_VI_GONE = -1,   /* a neighbour has ended: see vi.error */
    WK_VI_BROKEN = -2, /* a neighbour has written nonsense, or the system refuses: see vi.error */
    WK_VI_REFUSED = -3 /* the buffer is not the application's at present, or no such bytes */
};

/* struct wk_slice, flags */
enum {
    WK_CHECKSUMS_GOOD = 1, /* the device found the checksums right */
    WK_RETURNED = 2,       /* the buffer comes back unused */
    WK_UDP = 4,            /* the bytes are a UDP payload, its headers right before them */
    WK_STREAM = 8,         /* the bytes are a part of the TCP connection's stream */
    WK_FAILED = 16         /* of a transmission: it could not be sent */
};

/* Bytes that must be free before a UDP payload that is to be sent. */
#define WK_HEADROOM_BYTES 64u

/* A part of a buffer. */
struct wk_slice {
    uint32_t token;  /* which buffer, 0 to vi.buffers - 1 */
    uint16_t offset; /* where the bytes begin in it */
    uint16_t length; /* how many */
    uint8_t flags;
    uint64_t extra;  /* received: time stamp counter when the driver took the frame;
                        to be sent by UDP: see wk_vi_destination() */
};

struct wk_ring {
    _Atomic uint64_t *head, *tail, *entries;
    uint64_t mask;
    uint64_t next;  /* entries that this side has put in, or taken out */
    uint64_t shown; /* entries that the other side has been told of */
};

struct wk_vi {
    uint32_t buffers;      /* how many the application has */
    uint32_t buffer_bytes; /* bytes of each */
    uint64_t tsc_hz;       /* ticks of the time stamp counter in a second */
    uint64_t refused;      /* entries of the neighbour that made no sense */
    char error[160];       /* what went wrong last */

    /* private */
    uint8_t *memory;
    size_t memory_bytes;
    uint64_t buffers_offset;
    _Atomic uint64_t *channel;
    struct wk_ring posts, completions, transmits, sent;
    uint8_t *places; /* per buffer: 0 the application's, 1 posted, 2 to be sent */
    int socket, event, neighbour_event, neighbour;
    uint64_t next_check;
};

/* Layout: words of the header, and of a channel from its first. */
enum {
    WK__MAGIC = 0, WK__VERSION = 1, WK__FILE_BYTES = 2, WK__CHANNELS = 4, WK__RING_CAPACITY = 5,
    WK__BUFFERS = 6, WK__BUFFER_BYTES = 7, WK__APPLICATION_BUFFERS = 8, WK__BUFFERS_OFFSET = 9,
    WK__TSC_HZ = 10,
    WK__CHANNELS_OFFSET = 512,
    WK__POSTS = 0, WK__COMPLETIONS = 32, WK__TRANSMITS = 64, WK__SENT = 96, WK__TAIL = 16,
    WK__USER_SLEEPING = 128, WK__PROVIDER_SLEEPING = 144, WK__PROVIDER_HUNGRY = 160,
    WK__SOCKET_ORDERS = 192, WK__ORDERS_FOLLOWED = 16, WK__ENTRIES = 512
};
enum { WK__MINE = 0, WK__POSTED = 1, WK__SENDING = 2 };

static inline uint64_t wk__tsc(void)
{
    return __builtin_ia32_rdtsc();
}

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

static inline struct wk_ring wk__ring(_Atomic uint64_t *channel, unsigned head, uint64_t capacity)
{
    struct wk_ring ring;
    ring.head = channel + head;
    ring.tail = channel + head + WK__TAIL;
    ring.entries = channel + WK__ENTRIES + head / 32 * 2 * capacity;
    ring.mask = capacity - 1;
    ring.next = ring.shown = 0;
    return ring;
}

/* Receives the first message: packet memory and the other files. */
static inline int wk__invitation(struct wk_vi *vi, int files[4])
{
    static const char prefix[] = "warikomi part 1\n";
    char message[4096];
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = { message, sizeof message };
    struct msghdr header;
    memset(&header, 0, sizeof header);
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    ssize_t length;
    do {
        length = recvmsg(vi->socket, &header, MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    if (length < 0)
        return wk__fail_errno(vi, "cannot receive warikomi's message");
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int file;
            memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
            if (count < 4)
                files[count++] = file;
            else
                close(file); /* the control socket, which this library does not serve */
        }
    }
    if (length == 0)
        return wk__fail(vi, WK_VI_GONE, "the support side is gone");
    if (count < 4 || (size_t)length < sizeof prefix - 1 ||
        memcmp(message, prefix, sizeof prefix - 1) != 0)
        return wk__fail(vi, WK_VI_BROKEN, "the first message is not warikomi's");
    return WK_VI_OK;
}

static inline int wk__map(struct wk_vi *vi, int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return wk__fail_errno(vi, "cannot look at packet memory");
    if (status.st_size < 8192)
        return wk__fail(vi, WK_VI_BROKEN, "packet memory is too short");
    vi->memory_bytes = (size_t)status.st_size;
    void *memory = mmap(NULL, vi->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return wk__fail_errno(vi, "cannot map packet memory");
    vi->memory = memory;
    _Atomic uint64_t *words = memory;
    uint64_t capacity = words[WK__RING_CAPACITY], buffers = words[WK__BUFFERS];
    uint64_t bytes = words[WK__BUFFER_BYTES], mine = words[WK__APPLICATION_BUFFERS];
    uint64_t offset = words[WK__BUFFERS_OFFSET], channels = words[WK__CHANNELS];
    if (words[WK__MAGIC] != UINT64_C(0x54454b4341504b57) || words[WK__VERSION] != 1)
        return wk__fail(vi, WK_VI_BROKEN, "this is no packet memory of version 1");
    uint64_t channel_words = WK__ENTRIES + 8 * capacity;
    if (channels < 1 || channels > 2 || capacity < 16 || capacity > (1u << 20) ||
        (capacity & (capacity - 1)) != 0 || buffers > capacity || mine < 1 || mine > buffers ||
        bytes < 128 || bytes > 65536 || words[WK__TSC_HZ] == 0 ||
        offset < 8 * (WK__CHANNELS_OFFSET + channels * channel_words) ||
        offset > vi->memory_bytes || buffers * bytes > vi->memory_bytes - offset)
        return wk__fail(vi, WK_VI_BROKEN, "packet memory's numbers contradict each other");
    vi->buffers = (uint32_t)mine;
    vi->buffer_bytes = (uint32_t)bytes;
    vi->buffers_offset = offset;
    vi->tsc_hz = words[WK__TSC_HZ];
    vi->channel = words + WK__CHANNELS_OFFSET;
    vi->posts = wk__ring(vi->channel, WK__POSTS, capacity);
    vi->completions = wk__ring(vi->channel, WK__COMPLETIONS, capacity);
    vi->transmits = wk__ring(vi->channel, WK__TRANSMITS, capacity);
    vi->sent = wk__ring(vi->channel, WK__SENT, capacity);
    vi->places = calloc(vi->buffers, 1);
    return vi->places != NULL ? WK_VI_OK : wk__fail(vi, WK_VI_BROKEN, "out of memory");
}

static inline void wk_vi_close(struct wk_vi *vi);

/* Connects to the packet path that warikomi has prepared for this process. All buffers are the
 * application's at first. */
static inline int wk_vi_connect(struct wk_vi *vi)
{
    memset(vi, 0, sizeof *vi);
    vi->socket = vi->event = vi->neighbour_event = vi->neighbour = -1;
    const char *number = getenv("WARIKOMI_SOCKET_FD");
    char *end = NULL;
    long socket_number = number != NULL ? strtol(number, &end, 10) : -1;
    if (number == NULL || end == number || *end != 0 || socket_number < 0 || socket_number > 65535)
        return wk__fail(vi, WK_VI_BROKEN,
                        "WARIKOMI_SOCKET_FD names no socket; this program is started by warikomi");
    vi->socket = (int)socket_number;
    int files[4] = { -1, -1, -1, -1 };
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

/* Gives everything back; the neighbours see that the application is gone. vi.error stays. */
static inline void wk_vi_close(struct wk_vi *vi)
{
    int files[4] = { vi->socket, vi->event, vi->neighbour_event, vi->neighbour };
    for (int i = 0; i < 4; i++)
        if (files[i] >= 0)
            close(files[i]);
    vi->socket = vi->event = vi->neighbour_event = vi->neighbour = -1;
    if (vi->memory != NULL)
        munmap(vi->memory, vi->memory_bytes);
    vi->memory = NULL;
    free(vi->places);
    vi->places = NULL;
}

/* ---- rings ---- */

static inline int wk__push(struct wk_ring *ring, const struct wk_slice *slice)
{
    if (ring->next - atomic_load_explicit(ring->tail, memory_order_acquire) > ring->mask)
        return 0;
    _Atomic uint64_t *entry = ring->entries + 2 * (ring->next & ring->mask);
    uint64_t word = (uint64_t)slice->token | (uint64_t)slice->flags << 24 |
                    (uint64_t)slice->offset << 32 | (uint64_t)slice->length << 48;
    atomic_store_explicit(entry, word, memory_order_relaxed);
    atomic_store_explicit(entry + 1, slice->extra, memory_order_relaxed);
    ring->next++;
    return 1;
}

/* Entries that wait; negative if the other side's count makes no sense. */
static inline int64_t wk__waiting(const struct wk_ring *ring)
{
    uint64_t count = atomic_load_explicit(ring->head, memory_order_acquire) - ring->next;
    return count <= ring->mask + 1 ? (int64_t)count : -1;
}

/* What the entry of a count says. */
static inline void wk__entry(const struct wk_ring *ring, uint64_t count, struct wk_slice *slice)
{
    _Atomic uint64_t *entry = ring->entries + 2 * (count & ring->mask);
    uint64_t word = atomic_load_explicit(entry, memory_order_relaxed);
    slice->extra = atomic_load_explicit(entry + 1, memory_order_relaxed);
    slice->token = (uint32_t)(word & 0xffffff);
    slice->flags = (uint8_t)(word >> 24);
    slice->offset = (uint16_t)(word >> 32);
    slice->length = (uint16_t)(word >> 48);
}

/* The next entry whose buffer is where it should be; it is the application's then. */
static inline int wk__take(struct wk_vi *vi, struct wk_ring *ring, uint8_t from,
                           struct wk_slice *slice)
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
        vi->refused++;
    }
    return WK_VI_NOTHING;
}

/* Rings the neighbour's bell if it sleeps by this word. What it shall see was published before. */
static inline void wk__bell(struct wk_vi *vi, unsigned sleeping)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(vi->channel + sleeping, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange_explicit(vi->channel + sleeping, 0, memory_order_acq_rel) == 0)
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
    return wk__take(vi, &vi->sent, WK__SENDING, slice);
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
            atomic_store_explicit(taken[i]->tail, taken[i]->next, memory_order_release);
        }
    struct wk_ring *given[2] = { &vi->transmits, &vi->posts };
    unsigned sleeping[2] = { WK__PROVIDER_SLEEPING, WK__PROVIDER_HUNGRY };
    for (int i = 0; i < 2; i++)
        if (given[i]->shown != given[i]->next) {
            given[i]->shown = given[i]->next;
            atomic_store_explicit(given[i]->head, given[i]->next, memory_order_release);
            wk__bell(vi, sleeping[i]);
        }
}

/* With a stack below: takes datagrams for this UDP port from now on, of which `buffer_bytes` may
 * wait. */
static inline void wk_vi_listen(struct wk_vi *vi, uint16_t port, uint64_t buffer_bytes)
{
    _Atomic uint64_t *orders = vi->channel + WK__SOCKET_ORDERS;
    atomic_store_explicit(orders + 1, port, memory_order_relaxed);
    atomic_store_explicit(orders + 2, buffer_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(orders, 1, memory_order_release);
    wk__bell(vi, WK__PROVIDER_SLEEPING);
}

/* ---- receiving ---- */

/* Sleeps until the event, the end of a neighbour, or the end of the time; negative: for ever. */
static inline int wk__sleep(struct wk_vi *vi, int64_t timeout_ns, int listen)
{
    struct pollfd files[3] = {
        { vi->event, listen ? POLLIN : 0, 0 },
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
    uint64_t now = wk__tsc();
    if (now < vi->next_check)
        return WK_VI_OK;
    vi->next_check = now + vi->tsc_hz / 1000;
    int outcome = wk__sleep(vi, 0, 0);
    return outcome == WK_VI_NOTHING ? WK_VI_OK : outcome;
}

/* The next completion, if there is one. */
static inline int wk_vi_recv_poll(struct wk_vi *vi, struct wk_slice *slice)
{
    int outcome = wk__take(vi, &vi->completions, WK__POSTED, slice);
    if (outcome != WK_VI_NOTHING)
        return outcome;
    wk_vi_flush(vi);
    int there = wk__check(vi);
    return there == WK_VI_OK ? WK_VI_NOTHING : there;
}

/* Sleeps until there is a completion, for `timeout_ns` at most (negative: for ever). */
static inline int wk_vi_recv_wait(struct wk_vi *vi, struct wk_slice *slice, int64_t timeout_ns)
{
    uint64_t begin = wk__tsc();
    for (;;) {
        int outcome = wk_vi_recv_poll(vi, slice);
        if (outcome != WK_VI_NOTHING)
            return outcome;
        int64_t left = timeout_ns;
        if (timeout_ns >= 0) {
            double spent = (double)(wk__tsc() - begin) * 1e9 / (double)vi->tsc_hz;
            if (spent >= (double)timeout_ns)
                return WK_VI_NOTHING;
            left = timeout_ns - (int64_t)spent;
        }
        /* "I sleep", a full fence, the last look: whoever publishes something from here on sees
         * that we sleep, and whatever was published before we see. */
        atomic_store_explicit(vi->channel + WK__USER_SLEEPING, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        outcome = WK_VI_OK;
        if (wk__waiting(&vi->completions) == 0)
            outcome = wk__sleep(vi, left, 1);
        atomic_store_explicit(vi->channel + WK__USER_SLEEPING, 0, memory_order_relaxed);
        if (outcome < 0)
            return outcome;
    }
}

/* Polls for `poll_ns`, and if nothing comes meanwhile sleeps as wk_vi_recv_wait() does. */
static inline int wk_vi_recv_hybrid(struct wk_vi *vi, struct wk_slice *slice, uint64_t poll_ns,
                                    int64_t timeout_ns)
{
    uint64_t begin = wk__tsc();
    double ticks = (double)poll_ns * (double)vi->tsc_hz / 1e9;
    do {
        int outcome = wk_vi_recv_poll(vi, slice);
        if (outcome != WK_VI_NOTHING)
            return outcome;
        sched_yield(); /* the neighbours may be on this very core */
    } while ((double)(wk__tsc() - begin) < ticks);
    return wk_vi_recv_wait(vi, slice, timeout_ns);
}

#endif /* WARIKOMI_VI_H */
