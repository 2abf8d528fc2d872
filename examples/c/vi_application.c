/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An application that polls for as long as it is asked to, and then waits for the interrupt.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -O2 -I include -o mine examples/c/vi_application.c
 *     warikomi receive --target process --application ./mine --whole-messages --driver oc48
 *
 * It adds up what it receives, so that it looks at each byte, and gives the buffer back. The library counts messages
 * and bytes for warikomi; at the end, which is when a neighbour is gone, it prints its own counts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "warikomi_vi.h"

#include <inttypes.h>

int main(void)
{
    struct wk_vi vi;
    if (wk_vi_connect(&vi) != WK_VI_OK) {
        fprintf(stderr, "vi_application: %s\n", vi.error);
        return 1;
    }
    for (uint32_t buffer = 0; buffer < vi.buffers; buffer++)
        wk_vi_post(&vi, buffer);
    const uint64_t poll_ns = wk_vi_poll_ns();
    uint64_t sum = 0;
    struct wk_slice slice;
    int outcome;
    while ((outcome = wk_vi_recv_hybrid(&vi, &slice, poll_ns, -1)) == WK_VI_OK) {
        const volatile uint8_t *at = wk_vi_bytes(&vi, &slice);
        for (uint16_t i = 0; i < slice.length; i++)
            sum += at[i];
        wk_vi_post(&vi, slice.token);
    }
    printf("%" PRIu64 " messages, %" PRIu64 " bytes, sum %" PRIu64 ": %s\n", vi.messages, vi.bytes, sum,
           vi.error);
    wk_vi_close(&vi);
    return outcome == WK_VI_GONE ? 0 : 1;
}
