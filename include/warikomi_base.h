/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What warikomi_driver.h, warikomi_vi.h and warikomi_live.h have in common: words that two processes share,
 * and the first message on a part's socket. Header only, C11 and C++17, gcc or clang, x86-64 Linux.
 *
 * Words are plain 64-bit integers, touched by the compiler's __atomic functions alone: C's _Atomic and C++'s
 * std::atomic are no types that both languages know.
 */
#ifndef WARIKOMI_BASE_H
#define WARIKOMI_BASE_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "warikomi_layout.h"

/* ---- Shared words -------------------------------------------------------------------------- */

static inline uint64_t wk__load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint64_t wk__load_relaxed(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void wk__store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void wk__store_relaxed(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void wk__fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Whether somebody sleeps by this word and is to be woken, by us alone. What they shall see was published
 * before. */
static inline int wk__wakes(uint64_t *sleeping)
{
    wk__fence();
    return wk__load_relaxed(sleeping) && __atomic_exchange_n(sleeping, 0, __ATOMIC_ACQ_REL);
}

static inline uint64_t wk_tsc(void)
{
    return __builtin_ia32_rdtsc();
}

/* ---- The first message --------------------------------------------------------------------- */

/* Receives a message that begins with `prefix`: its length, or a negative errno (-EPROTO: it begins with
 * something else). The files that came are in `files`, their number in `count`. */
static inline ssize_t wk__receive(int socket, const char *prefix, int files[WK_MOST_FILES],
                                  unsigned *count)
{
    char text[WK_MOST_MESSAGE_BYTES];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(WK_MOST_FILES * sizeof(int))];
    } control;
    struct iovec part = {text, sizeof text};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    ssize_t length;
    do
        length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    *count = 0;
    if (length <= 0)
        return length < 0 ? -errno : -ECONNRESET;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        *count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(files, CMSG_DATA(c), *count * sizeof(int));
    }
    if ((size_t)length < strlen(prefix) || memcmp(text, prefix, strlen(prefix)) != 0)
        return -EPROTO;
    return length;
}

#endif /* WARIKOMI_BASE_H */
