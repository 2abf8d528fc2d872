/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Attaching a NIC driver written in C to Warikomi: the driver's end of its window.
 *
 * Headers only, C11 and C++17, Linux. A driver is a program that Warikomi starts:
 *
 *     warikomi inject --target process --driver ./my_driver ...
 *
 * It finds its device through wk_attach(), sets it up through its registers, takes frames from its
 * rings in DMA memory, and reports. examples/c/rtl8168.c is a whole driver. With warikomi_live.h it can
 * be replaced, or follow another, while packets come and go.
 *
 * What lies where in the window is in warikomi_layout.h, which is made from
 * crates/pci/src/attach/layout.rs. Words are 64 bits, little-endian.
 *
 * Functions return 0 (or what they are asked for), or a negative errno.
 */
#ifndef WARIKOMI_DRIVER_H
#define WARIKOMI_DRIVER_H

#include "warikomi_base.h"

/* ---- The device --------------------------------------------------------------------------- */

struct wk_device {
    uint64_t *words;  /* the window */
    uint8_t *dma;     /* DMA memory */
    uint64_t dma_bus; /* its bus address */
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
    return wk__load(&d->words[word]);
}

static inline void wk_store(struct wk_device *d, unsigned word, uint64_t value)
{
    wk__store(&d->words[word], value);
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

    ssize_t got = wk__receive(d->socket, WK_HELLO, d->file, &d->files);
    if (got < 0)
        return (int)got;
    if ((size_t)got != strlen(WK_HELLO) || d->files < 3)
        return -EPROTO;
    d->event = d->file[1];

    uint64_t bytes;
    d->words = (uint64_t *)wk_map(d->file[0], &bytes);
    if (!d->words || bytes < WK_WINDOW_BYTES)
        return -EPROTO;
    d->dma = (uint8_t *)wk_map(d->file[2], &bytes);
    d->dma_bytes = wk_load(d, WK_HEADER_DMA_BYTES);
    d->dma_bus = wk_load(d, WK_HEADER_DMA_BUS_ADDRESS);
    d->bar = wk_load(d, WK_HEADER_REGISTER_BAR);
    d->tsc_hz = wk_load(d, WK_HEADER_TSC_HZ);
    if (wk_load(d, WK_HEADER_MAGIC) != WK_MAGIC || wk_load(d, WK_HEADER_VERSION) != WK_VERSION ||
        !d->dma || d->dma_bytes > bytes || d->bar >= WK_ACCESS_BARS)
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
    struct pollfd hangup = {d->socket, POLLIN, 0};
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
    unsigned at = WK_REQUESTS_ENTRIES + 2 * (unsigned)(d->requests % WK_REQUESTS_CAPACITY);
    wk__store_relaxed(&d->words[at], access);
    wk__store_relaxed(&d->words[at + 1], value);
    wk_store(d, WK_REQUESTS_HEAD, ++d->requests);
    return 0;
}

/* The first word of an access: bits 0 to 7 say what is done, 8 to 15 the space (a BAR or WK_ACCESS_CONFIG),
 * 16 to 23 the width in bytes, 32 to 63 the offset. The second is a read's number, a write's value. */
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
    return wk_read_space(d, WK_ACCESS_CONFIG, offset, width, value);
}

static inline int wk_config_write(struct wk_device *d, uint32_t offset, unsigned width,
                                  uint64_t value)
{
    return wk_request(d, wk_access(WK_ACCESS_WRITE, WK_ACCESS_CONFIG, offset, width), value);
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
    wk__store_relaxed(&d->words[at], wk_tsc());
    wk_store(d, WK_STAMPED, ++d->stamped);
    return 1;
}

/* To be called before the last look at the ring: interrupts from now on end the sleep. */
static inline void wk_sleep_begin(struct wk_device *d)
{
    wk__store_relaxed(&d->words[WK_SLEEPING], 1);
    wk__fence();
}

/* Sleeps until an interrupt, or for so many milliseconds (-1: for ever). Returns at once if there is
 * an interrupt. -ECONNRESET if the support side is gone. */
static inline int wk_sleep(struct wk_device *d, int timeout_ms)
{
    if (wk_interrupt_pending(d))
        return 0;
    struct pollfd files[2] = {{d->event, POLLIN, 0}, {d->socket, POLLIN, 0}};
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
    wk__store_relaxed(&d->words[WK_SLEEPING], 0);
}

/* ---- Report ------------------------------------------------------------------------------- */

static inline void wk_report(struct wk_device *d, unsigned word, uint64_t value)
{
    wk__store_relaxed(&d->words[word], value);
}

static inline void wk_set_state(struct wk_device *d, uint64_t state)
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

#endif /* WARIKOMI_DRIVER_H */
