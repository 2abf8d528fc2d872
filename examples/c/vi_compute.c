/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An application that receives, and a second process that computes on what came, in place.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -O2 -I include -o mine examples/c/vi_compute.c
 *     warikomi receive --target process --application ./mine --own-compute
 *
 * The two share packet memory. Slices go to the second process through a pipe, and come back through another when it
 * has done with them. It computes all the time: on a message until the next one is there. So it takes of the
 * processor what receiving leaves.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "warikomi_vi.h"

#include <fcntl.h>

/* Reads a slice: 1; 0 if there is none at present, -1 at the end. A pipe gives entries of this length whole. */
static int take(int pipe, struct wk_slice *slice)
{
    ssize_t length = read(pipe, slice, sizeof *slice);
    if (length == (ssize_t)sizeof *slice)
        return 1;
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static int give(int pipe, const struct wk_slice *slice)
{
    return write(pipe, slice, sizeof *slice) == (ssize_t)sizeof *slice;
}

/* The second process: ends when the first one does. */
static int compute(const struct wk_vi *vi, int in, int out)
{
    struct wk_slice slice, next;
    volatile uint64_t sum = 0;
    int has = 0, took;
    while ((took = take(in, &next)) >= 0) {
        if (took > 0) {
            if (has && !give(out, &slice))
                return 0;
            slice = next;
            has = 1;
        }
        const volatile uint8_t *at = has ? wk_vi_bytes(vi, &slice) : NULL;
        for (uint16_t i = 0; at != NULL && i < slice.length; i++)
            sum = sum * 31 + at[i];
    }
    return 0;
}

/* The first one: receives, passes on, and posts again what comes back. */
static int receive(struct wk_vi *vi, int out, int in)
{
    const uint64_t poll_ns = wk_vi_poll_ns();
    uint32_t away = 0; /* buffers that the second process has */
    for (uint32_t buffer = 0; buffer < vi->buffers; buffer++)
        wk_vi_post(vi, buffer);
    for (;;) {
        struct wk_slice slice;
        /* What comes back from the second process wakes nobody: it keeps one, and gives the others back soon. */
        int64_t timeout_ns = away > 1 ? 1000000 : -1;
        int outcome = wk_vi_recv_hybrid(vi, &slice, poll_ns, timeout_ns);
        if (outcome < 0)
            return outcome == WK_VI_GONE ? 0 : 1;
        if (outcome == WK_VI_OK) {
            if (!give(out, &slice))
                return 1;
            away++;
        }
        while (take(in, &slice) > 0) {
            wk_vi_post(vi, slice.token);
            away--;
        }
    }
}

int main(void)
{
    struct wk_vi vi;
    int there[2], back[2];
    if (wk_vi_connect(&vi) != WK_VI_OK) {
        fprintf(stderr, "vi_compute: %s\n", vi.error);
        return 1;
    }
    /* There is room for every buffer: 65,536 bytes, and 1,024 buffers at most. */
    if (pipe2(there, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(back, O_CLOEXEC | O_NONBLOCK) != 0) {
        perror("vi_compute: pipe2");
        return 1;
    }
    pid_t second = fork();
    if (second < 0) {
        perror("vi_compute: fork");
        return 1;
    }
    if (second == 0) {
        wk_vi_keep_memory(&vi);
        close(there[1]);
        close(back[0]);
        return compute(&vi, there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);
    return receive(&vi, there[1], back[0]);
}
