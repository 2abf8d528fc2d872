/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Attaching a NIC driver written in C to Warikomi: the driver's end of its window.
 *
 * Header only, C11, Linux. A driver is a program that Warikomi starts:
 *
 *     warikomi inject --target process --driver ./my_driver ...
 *
 * It finds its device through wk_attach(), sets it up through its registers, takes frames from its
 * rings in DMA memory, and reports. examples/c/rtl8168.c is a whole driver. With warikomi_live.h it can
 * be replaced, or follow another, while packets come and go.
 *
 * What lies where in the window is specified in crates/pci/src/attach/layout.rs; the numbers here
 * are the same, and a test holds them against each other. Words are 64 bits, little-endian.
 *
 * Functions return 0 (or what they are asked for), or a negative errno.
 */
#ifndef WARIKOMI_DRIVER_H
#define WARIKOMI_DRIVER_H

#include <errno.h>
#include <poll.h>
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

/* ---- What lies where: numbers of words, unless they say bytes ------------------------------ */

#define WK_MAGIC 0x494d4f4b49524157ull /* "WARIKOMI" */
#define WK_VERSION 2
#define WK_HELLO "warikomi driver 2"
#define WK_SOCKET_VARIABLE "WARIKOMI_SOCKET_FD"

/* Header: written before the window is handed over. */
#define WK_HEADER_MAGIC 0
#define WK_HEADER_VERSION 1
#define WK_HEADER_WINDOW_BYTES 2
#define WK_HEADER_DMA_BYTES 3
#define WK_HEADER_DMA_BUS_ADDRESS 4
#define WK_HEADER_PACKET_BYTES 5
#define WK_HEADER_PACKET_BUS_ADDRESS 6
#define WK_HEADER_REGISTER_BAR 7
#define WK_HEADER_TSC_HZ 8
#define WK_HEADER_STATE_BYTES 9
#define WK_HEADER_GENERATION 10
#define WK_HEADER_WAY 11

/* How a device's drivers follow one another (WK_HEADER_WAY); see warikomi_live.h. */
enum wk_way {
    WK_WAY_RELOAD = 0,
    WK_WAY_DATA_STORE = 1,
    WK_WAY_SHARED_STATE = 2,
};

/* Counts and bells. */
#define WK_REQUESTS_HEAD 512
#define WK_REQUESTS_TAIL 528
#define WK_ANSWERED 544
#define WK_ANSWER 545
#define WK_INTERRUPTS 560
#define WK_SLEEPING 576
#define WK_STAMPED 592

/* Orders: what the support side wants; they may change at any time. */
#define WK_ORDER_STOP 1024
#define WK_ORDER_STRATEGY 1025
#define WK_ORDER_POLL_NS 1026
#define WK_ORDER_BUDGET 1027
#define WK_ORDER_CPU_BUDGET_PPM 1028
#define WK_ORDER_BUFFERS 1029
#define WK_ORDER_BUFFER_BYTES 1030
#define WK_ORDER_HAND_OVER 1031
/* Changed: the device is about to change hands. A driver need not care. */
#define WK_ORDER_ALERT 1032

enum wk_strategy {
    WK_STRATEGY_INTERRUPT = 0,
    WK_STRATEGY_POLL = 1,
    WK_STRATEGY_NAPI = 2,
    WK_STRATEGY_HYBRID = 3,
    WK_STRATEGY_AUTO = 4,
    WK_STRATEGY_AWAKE = 5,
};

/* Report: what the driver tells. */
#define WK_REPORT_STATE 1536
#define WK_REPORT_HEARTBEAT 1537
#define WK_REPORT_RX_PACKETS 1538
#define WK_REPORT_RX_BYTES 1539
#define WK_REPORT_RX_ERRORS 1540
#define WK_REPORT_RX_DROPPED 1541
#define WK_REPORT_TX_PACKETS 1542
#define WK_REPORT_TX_BYTES 1543
#define WK_REPORT_TX_ERRORS 1544
#define WK_REPORT_INTERRUPTS 1545
#define WK_REPORT_POLLS 1546
#define WK_REPORT_EMPTY_POLLS 1547
#define WK_REPORT_SLEEPS 1548
#define WK_REPORT_SLEPT_NS 1549
#define WK_REPORT_POLL_NS 1550
#define WK_REPORT_HICCUPS 1551
#define WK_REPORT_HICCUP_NS 1552
#define WK_REPORT_LINK_MBPS 1553
/* Time stamp counter at the steps of the last change of hands. */
#define WK_REPORT_TIMES 1554
#define WK_TIME_ORDER_SEEN 0
#define WK_TIME_HANDED_OVER 1
#define WK_TIME_AWAKE 2
#define WK_TIME_ACCEPTED 3
#define WK_TIME_SERVED 4
#define WK_TIME_COUNT 5
/* Not 0 while the driver is asleep, with everything that it has counted in its report. */
#define WK_REPORT_ASLEEP 1559
#define WK_REPORT_FORGOTTEN_BUFFERS 1560
#define WK_REPORT_FORGOTTEN_FRAMES 1561
#define WK_REPORT_LAST_WORDS_LEN 1600
#define WK_REPORT_LAST_WORDS 1601
#define WK_LAST_WORDS_BYTES 256

enum wk_state {
    WK_STATE_STARTING = 0,
    WK_STATE_READY = 1,
    WK_STATE_STOPPED = 2,
    WK_STATE_FAILED = 3,
    WK_STATE_WARM = 4,
    WK_STATE_HANDED_OVER = 5,
    WK_STATE_ALERT = 6,
};

/* The ring of register accesses: 512 entries of two words. */
#define WK_REQUESTS 2048
#define WK_REQUESTS_CAPACITY 512
/* Time stamps of the interrupts handled. */
#define WK_STAMPS 3072
#define WK_STAMPS_CAPACITY 8192
/* Bytes of all that. */
#define WK_WINDOW_BYTES 0x20000

/* An access: bits 0-7 what, 8-15 where, 16-23 width in bytes, 32-63 offset. */
#define WK_ACCESS_READ 1ull
#define WK_ACCESS_WRITE 2ull
#define WK_SPACE_CONFIG 0xffull

/* A register access that is not served within this time means that the device is gone. */
#define WK_ACCESS_TIMEOUT_NS 2000000000ull

/* ---- The device --------------------------------------------------------------------------- */

#define WK_MOST_FILES 8

struct wk_device {
    _Atomic uint64_t *words; /* the window */
    uint8_t *dma;            /* DMA memory */
    uint64_t dma_bus;        /* its bus address */
    uint64_t dma_bytes;
    uint64_t bar; /* the BAR with the registers */
    uint64_t tsc_hz;
    int socket; /* hangs up when the support side is gone */
    int event;  /* reading end of a pipe: ends a sleep */
    /* All files that came: window, pipe, DMA memory, packet memory and state area if the header has
     * their bytes, then those for whatever is above the driver. */
    int file[WK_MOST_FILES];
    unsigned files;
    /* The driver's own counts: what is in the window may be anybody's. */
    uint64_t requests;
    uint64_t reads;
    uint64_t interrupts;
    uint64_t stamped;
    uint64_t heartbeat;
};

static inline uint64_t wk_load(const struct wk_device *d, unsigned word)
{
    return atomic_load_explicit(&d->words[word], memory_order_acquire);
}

static inline void wk_store(struct wk_device *d, unsigned word, uint64_t value)
{
    atomic_store_explicit(&d->words[word], value, memory_order_release);
}

static inline uint64_t wk_tsc(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static inline uint64_t wk_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Maps a whole file; NULL if that cannot be. */
static inline void *wk_map(int file, uint64_t *bytes)
{
    struct stat about;
    if (fstat(file, &about) != 0 || about.st_size <= 0)
        return NULL;
    *bytes = (uint64_t)about.st_size;
    void *map = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, file, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Receives the window, the pipe and the memory on the socket that Warikomi has left open for us. */
static inline int wk_attach(struct wk_device *d)
{
    const char *number = getenv(WK_SOCKET_VARIABLE);
    if (!number)
        return -ENOTCONN; /* not started by Warikomi */
    memset(d, 0, sizeof *d);
    d->socket = atoi(number);

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
    ssize_t got = recvmsg(d->socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -errno;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if ((size_t)got != strlen(WK_HELLO) || memcmp(text, WK_HELLO, (size_t)got) != 0 || !c ||
        c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(3 * sizeof(int)))
        return -EPROTO;
    d->files = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(d->file, CMSG_DATA(c), d->files * sizeof(int));
    d->event = d->file[1];

    uint64_t bytes;
    d->words = wk_map(d->file[0], &bytes);
    if (!d->words || bytes < WK_WINDOW_BYTES)
        return -EPROTO;
    d->dma = (uint8_t *)wk_map(d->file[2], &bytes);
    d->dma_bytes = wk_load(d, WK_HEADER_DMA_BYTES);
    d->dma_bus = wk_load(d, WK_HEADER_DMA_BUS_ADDRESS);
    d->bar = wk_load(d, WK_HEADER_REGISTER_BAR);
    d->tsc_hz = wk_load(d, WK_HEADER_TSC_HZ);
    if (wk_load(d, WK_HEADER_MAGIC) != WK_MAGIC || wk_load(d, WK_HEADER_VERSION) != WK_VERSION ||
        !d->dma || d->dma_bytes > bytes || d->bar > 5)
        return -EPROTO;
    d->requests = wk_load(d, WK_REQUESTS_HEAD);
    d->reads = wk_load(d, WK_ANSWERED);
    d->interrupts = wk_load(d, WK_INTERRUPTS);
    d->stamped = wk_load(d, WK_STAMPED);
    return 0;
}

/* DMA memory at a bus address; NULL if it is not all there. */
static inline void *wk_dma(const struct wk_device *d, uint64_t bus_address, uint64_t bytes)
{
    if (bus_address < d->dma_bus || bytes > d->dma_bytes ||
        bus_address - d->dma_bus > d->dma_bytes - bytes)
        return NULL;
    return d->dma + (bus_address - d->dma_bus);
}

/* Whether the support side is gone. */
static inline int wk_gone(const struct wk_device *d)
{
    struct pollfd hangup = {.fd = d->socket, .events = POLLIN};
    return poll(&hangup, 1, 0) != 0;
}

/* ---- Registers ---------------------------------------------------------------------------- */

/* Waits until `word`, as a count, is at least `count`. */
static inline int wk_await(const struct wk_device *d, unsigned word, uint64_t count)
{
    uint64_t deadline = 0;
    for (unsigned passes = 1; (int64_t)(wk_load(d, word) - count) < 0; passes++) {
        if (passes % 4096)
            continue;
        if (wk_gone(d))
            return -ECONNRESET;
        if (!deadline)
            deadline = wk_now_ns() + WK_ACCESS_TIMEOUT_NS;
        else if (wk_now_ns() > deadline)
            return -ETIMEDOUT;
    }
    return 0;
}

static inline int wk_request(struct wk_device *d, uint64_t access, uint64_t value)
{
    int error = wk_await(d, WK_REQUESTS_TAIL, d->requests + 1 - WK_REQUESTS_CAPACITY);
    if (error)
        return error;
    unsigned at = WK_REQUESTS + 2 * (unsigned)(d->requests % WK_REQUESTS_CAPACITY);
    atomic_store_explicit(&d->words[at], access, memory_order_relaxed);
    atomic_store_explicit(&d->words[at + 1], value, memory_order_relaxed);
    wk_store(d, WK_REQUESTS_HEAD, ++d->requests);
    return 0;
}

static inline uint64_t wk_access(uint64_t what, uint64_t space, uint32_t offset, unsigned width)
{
    return what | space << 8 | (uint64_t)width << 16 | (uint64_t)offset << 32;
}

static inline int wk_read_space(struct wk_device *d, uint64_t space, uint32_t offset,
                                unsigned width, uint64_t *value)
{
    uint64_t number = ++d->reads;
    int error = wk_request(d, wk_access(WK_ACCESS_READ, space, offset, width), number);
    if (!error)
        error = wk_await(d, WK_ANSWERED, number);
    if (!error)
        *value = wk_load(d, WK_ANSWER);
    return error;
}

/* Reads a register of 1, 2, 4 or 8 bytes. It comes behind all writes before it. */
static inline int wk_read(struct wk_device *d, uint32_t offset, unsigned width, uint64_t *value)
{
    return wk_read_space(d, d->bar, offset, width, value);
}

/* Writes a register; the write is posted, that is, it takes effect some time later. */
static inline int wk_write(struct wk_device *d, uint32_t offset, unsigned width, uint64_t value)
{
    return wk_request(d, wk_access(WK_ACCESS_WRITE, d->bar, offset, width), value);
}

/* The same for configuration space. */
static inline int wk_config_read(struct wk_device *d, uint32_t offset, unsigned width,
                                 uint64_t *value)
{
    return wk_read_space(d, WK_SPACE_CONFIG, offset, width, value);
}

static inline int wk_config_write(struct wk_device *d, uint32_t offset, unsigned width,
                                  uint64_t value)
{
    return wk_request(d, wk_access(WK_ACCESS_WRITE, WK_SPACE_CONFIG, offset, width), value);
}

/* ---- Interrupts and sleep ----------------------------------------------------------------- */

/* Whether there are interrupts that have not been taken. */
static inline int wk_interrupt_pending(const struct wk_device *d)
{
    return wk_load(d, WK_INTERRUPTS) != d->interrupts;
}

/* Takes one interrupt, if there is one, and stamps it: call it once for each run of the handler. */
static inline int wk_interrupt_take(struct wk_device *d)
{
    if (!wk_interrupt_pending(d))
        return 0;
    d->interrupts++;
    unsigned at = WK_STAMPS + (unsigned)(d->stamped % WK_STAMPS_CAPACITY);
    atomic_store_explicit(&d->words[at], wk_tsc(), memory_order_relaxed);
    wk_store(d, WK_STAMPED, ++d->stamped);
    return 1;
}

/* To be called before the last look at the ring: interrupts from now on end the sleep. */
static inline void wk_sleep_begin(struct wk_device *d)
{
    atomic_store_explicit(&d->words[WK_SLEEPING], 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

/* Sleeps until an interrupt, or for so many milliseconds (-1: for ever). Returns at once if there is
 * an interrupt. -ECONNRESET if the support side is gone. */
static inline int wk_sleep(struct wk_device *d, int timeout_ms)
{
    if (wk_interrupt_pending(d))
        return 0;
    struct pollfd files[2] = {{.fd = d->event, .events = POLLIN},
                              {.fd = d->socket, .events = POLLIN}};
    wk_store(d, WK_REPORT_ASLEEP, 1);
    int ready = poll(files, 2, timeout_ms);
    wk_store(d, WK_REPORT_ASLEEP, 0);
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    if (files[1].revents)
        return -ECONNRESET;
    if (files[0].revents) {
        uint64_t count;
        if (read(d->event, &count, sizeof count) < 0 && errno != EAGAIN)
            return -errno;
    }
    return 0;
}

/* To be called after the sleep, and when the last look has found something. */
static inline void wk_sleep_end(struct wk_device *d)
{
    atomic_store_explicit(&d->words[WK_SLEEPING], 0, memory_order_relaxed);
}

/* ---- Report ------------------------------------------------------------------------------- */

static inline void wk_report(struct wk_device *d, unsigned word, uint64_t value)
{
    atomic_store_explicit(&d->words[word], value, memory_order_relaxed);
}

static inline void wk_set_state(struct wk_device *d, enum wk_state state)
{
    wk_store(d, WK_REPORT_STATE, state);
}

/* Says that the driver goes round. */
static inline void wk_beat(struct wk_device *d)
{
    wk_report(d, WK_REPORT_HEARTBEAT, ++d->heartbeat);
}

/* Says why the driver cannot go on. */
static inline void wk_fail(struct wk_device *d, const char *why)
{
    char text[WK_LAST_WORDS_BYTES] = {0};
    size_t bytes = strlen(why);
    if (bytes > sizeof text)
        bytes = sizeof text;
    memcpy(text, why, bytes);
    for (unsigned i = 0; i < WK_LAST_WORDS_BYTES / 8; i++) {
        uint64_t word;
        memcpy(&word, text + 8 * i, sizeof word);
        wk_report(d, WK_REPORT_LAST_WORDS + i, word);
    }
    wk_report(d, WK_REPORT_LAST_WORDS_LEN, bytes);
    wk_set_state(d, WK_STATE_FAILED);
}

#endif
