/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What lies where in the memory that processes share, and what the numbers there mean. Places are
 * numbers of 64-bit words unless they say bytes.
 *
 * Made from the Rust definitions; do not edit it, but write it anew:
 *     UPDATE_HEADERS=1 cargo test -p warikomi-stack --test headers layout
 */
#ifndef WARIKOMI_BRIDGE_H
#define WARIKOMI_BRIDGE_H

/* ==== crates/pci/src/attach/bridge.rs ==== */

// First word of a window: "WKBRIDGE", little-endian.
#define WB_MAGIC 4992033793666861911
// Version of this layout.
#define WB_VERSION 5
// The virtio device that a window is handed over through; virt-pci has 1234.
#define WB_VIRTIO_DEVICE 1235
// Cards that a bridge takes, each with a window of its own.
#define WB_CARDS 4
// Bytes of a window.
#define WB_WINDOW_BYTES 32768
// Accesses that the guest has put into the register ring.
#define WB_REQUESTS_HEAD 64
// The number (from 0) of the access that was put in last, and beside it its entry a second time: a support side
// that has kept up finds it in the cache line of the count. The number is written before the entry, the entry
// before the count.
#define WB_REQUESTS_LATEST 65
// Accesses that the support side has carried out.
#define WB_REQUESTS_TAIL 80
// Number of the read that was answered last; reads are numbered from 1.
#define WB_ANSWERED 96
// Its value, written first.
#define WB_ANSWER 97
// How long the access takes that was carried out last, in nanoseconds of a guest's virtual time. Written before it
// is known to have been carried out.
#define WB_DELAY_NS 98
// Message-signalled interrupts sent.
#define WB_INTERRUPTS 112
// The latest of them: its number `n` (from 0) times 65,536, and the low 16 bits of its data. Beside the count, so
// that a guest that has kept up finds both in one cache line; written before the count, like its place among
// the messages, which counts if this is of another `n`.
#define WB_LATEST 113
// The level of INTA#; it holds when all accesses have been carried out.
#define WB_PIN_LEVEL 128
// Whether the guest looks at the interrupts by itself: 0, all the time; 1, it sleeps, so signal it; 2, it does
// something else, and looks behind its next access and before it sleeps or polls, so signal it if that takes
// too long.
#define WB_SLEEPING 144
// See `SLEEPING`.
#define WB_LOOKS 0
// See `SLEEPING`.
#define WB_SLEEPS 1
// See `SLEEPING`.
#define WB_BUSY 2
// Message-signalled interrupts that the guest has taken: whose handlers have run, or are about to.
#define WB_TAKEN 160
// Times that the guest's poller was not running.
#define WB_HICCUPS 176
// First entry of the ring of register accesses, of two words each.
#define WB_REQUESTS_ENTRIES 512
// Entries that the ring holds.
#define WB_REQUESTS_CAPACITY 512
// First word of the messages: the data of number `n` (from 0), its low 16 bits, is at
// `MESSAGES + n % MESSAGES_CAPACITY`, and was written before the count.
#define WB_MESSAGES 1536
// Messages kept; of older ones only the count is left.
#define WB_MESSAGES_CAPACITY 1024
// First of the times that the guest's poller was not running: number `n` (from 0) is at
// `HICCUP_TIMES + n % HICCUPS_CAPACITY * 2`, time stamp counter of the last look before it and of the first behind.
#define WB_HICCUP_TIMES 2560
// Times kept.
#define WB_HICCUPS_CAPACITY 256

// header:
// The header.

// `MAGIC`, from the guest.
#define WB_HEADER_MAGIC 0
// `VERSION`, from the guest.
#define WB_HEADER_VERSION 1
// Ticks of the time stamp counter that an access may take; then the card is given up for good. From the
// support side.
#define WB_HEADER_PATIENCE_TICKS 8
// Not 0: the guest polls for interrupts while it has nothing else to do. From the support side.
#define WB_HEADER_POLLING 9
// Ticks that may lie between two looks of a guest that polls, if nothing came; it notes what is longer.
// From the support side.
#define WB_HEADER_LOOK_TICKS 10
// Ticks that taking interrupts may take, with all that drivers and the network stack do then; likewise.
#define WB_HEADER_WORK_TICKS 11
// How often the card was pulled out or plugged in: odd while it is out. From the support side.
#define WB_HEADER_PLUGS 12
// Not 0: the guest waits until a write has been carried out, as it does for the answer to a read, and then
// lets `DELAY_NS` pass. From the support side.
#define WB_HEADER_IN_STEP 13
// How often the guest was asked to listen: it tells the calendar its time, which answers when what the guest shall
// hear has been said. From the support side.
#define WB_HEADER_LISTENS 14
// How long an interrupt takes until its handler runs, in picoseconds of a guest's virtual time, which the guest lets
// pass then. From the support side.
#define WB_HEADER_INTERRUPT_PS 15

/* ==== crates/pci/src/attach/access.rs ==== */

// Bits 0 to 7 of a read.
#define WB_ACCESS_READ 1
// Bits 0 to 7 of a write.
#define WB_ACCESS_WRITE 2
// Bits 8 to 15 of an access to configuration space.
#define WB_ACCESS_CONFIG 255
// How many BARs there are, from 0.
#define WB_ACCESS_BARS 6

#endif /* WARIKOMI_BRIDGE_H */
