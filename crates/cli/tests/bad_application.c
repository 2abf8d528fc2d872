/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Applications that do what they must not: -D WAY=... says which.
 */
#define _GNU_SOURCE
#include "warikomi_vi.h"

enum way { LIES, CRASHES, ENDS, CORRUPTS, CLOSES, HANGS, NEVER_ATTACHES, NEVER_POSTS, STAYS };

/* More than comes by the warm-up alone. */
enum { ENOUGH = 400 };

static void stay(void)
{
    for (;;)
        pause();
}

static void misbehave(struct wk_vi *vi, enum way way)
{
    switch (way) {
    case LIES:
        vi->messages += 1000;
        break;
    case CRASHES:
        abort();
    case ENDS:
        _exit(3);
    case CORRUPTS:
        wk__store(vi->posts.head, UINT64_C(1) << 60);
        stay();
        break;
    case CLOSES:
        close(vi->socket);
        stay();
        break;
    case HANGS:
        stay();
        break;
    default:
        break;
    }
}

int main(void)
{
    const enum way way = WAY;
    struct wk_vi vi;
    if (way == NEVER_ATTACHES)
        stay();
    if (wk_vi_connect(&vi) != WK_VI_OK) {
        fprintf(stderr, "bad_application: %s\n", vi.error);
        return 1;
    }
    if (way == NEVER_POSTS)
        stay();
    for (uint32_t buffer = 0; buffer < vi.buffers; buffer++)
        wk_vi_post(&vi, buffer);
    if (way == STAYS && fork() == 0)
        stay();
    struct wk_slice slice;
    uint64_t received = 0;
    while (wk_vi_recv_hybrid(&vi, &slice, wk_vi_poll_ns(), -1) == WK_VI_OK) {
        if (++received == ENOUGH)
            misbehave(&vi, way);
        wk_vi_post(&vi, slice.token);
    }
    if (way == STAYS)
        stay();
    return 0;
}
