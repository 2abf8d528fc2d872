/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Receives a number of packets and says what came.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -O2 -I include -o vi_receive examples/c/vi_receive.c
 *
 * Warikomi starts it: vi_receive COUNT poll|wait|hybrid. It prints the number of packets, their
 * bytes, and the sum of all of these bytes; and it sends each hundredth packet's buffer back as it
 * is, to show the way down.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "warikomi_vi.h"

#include <inttypes.h>

static int receive(struct wk_vi *vi, struct wk_slice *slice, const char *way)
{
    const int64_t ten_seconds_ns = INT64_C(10000000000);
    if (strcmp(way, "wait") == 0)
        return wk_vi_recv_wait(vi, slice, ten_seconds_ns);
    if (strcmp(way, "hybrid") == 0)
        return wk_vi_recv_hybrid(vi, slice, 100000, ten_seconds_ns);
    int outcome;
    while ((outcome = wk_vi_recv_poll(vi, slice)) == WK_VI_NOTHING)
        sched_yield();
    return outcome;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: vi_receive COUNT poll|wait|hybrid\n");
        return 2;
    }
    uint64_t wanted = strtoull(argv[1], NULL, 10), packets = 0, bytes = 0, sum = 0, returned = 0;
    struct wk_vi vi;
    if (wk_vi_connect(&vi) != WK_VI_OK) {
        fprintf(stderr, "vi_receive: %s\n", vi.error);
        return 1;
    }
    for (uint32_t buffer = 0; buffer < vi.buffers; buffer++)
        wk_vi_post(&vi, buffer);
    while (packets < wanted) {
        struct wk_slice slice;
        int outcome = receive(&vi, &slice, argv[2]);
        if (outcome == WK_VI_NOTHING) {
            fprintf(stderr, "vi_receive: nothing has come for 10 s\n");
            return 1;
        }
        if (outcome != WK_VI_OK) {
            fprintf(stderr, "vi_receive: %s\n", vi.error);
            return 1;
        }
        const volatile uint8_t *at = wk_vi_bytes(&vi, &slice);
        for (uint16_t i = 0; i < slice.length; i++)
            sum += at[i];
        packets++;
        bytes += slice.length;
        slice.flags = 0;
        if (packets % 100 != 0 || wk_vi_send(&vi, &slice) != WK_VI_OK)
            wk_vi_post(&vi, slice.token);
        struct wk_slice sent;
        while (wk_vi_sent(&vi, &sent) == WK_VI_OK) {
            returned++;
            wk_vi_post(&vi, sent.token);
        }
    }
    printf("%" PRIu64 " packets, %" PRIu64 " bytes, sum %" PRIu64 ", %" PRIu64 " sent back, "
           "%" PRIu64 " refused\n",
           packets, bytes, sum, returned, vi.refused);
    wk_vi_close(&vi);
    return 0;
}
