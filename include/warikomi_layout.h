/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What lies where in the memory that processes share, and what the numbers there mean. Places are
 * numbers of 64-bit words unless they say bytes.
 *
 * Made from the Rust definitions; do not edit it, but write it anew:
 *     UPDATE_HEADERS=1 cargo test -p warikomi-stack --test headers layout
 */
#ifndef WARIKOMI_LAYOUT_H
#define WARIKOMI_LAYOUT_H

/* ==== crates/shared/src/handover.rs ==== */

// Files in one message.
#define WK_MOST_FILES 8
// Bytes in one message.
#define WK_MOST_MESSAGE_BYTES 4096

/* ==== crates/pci/src/attach/layout.rs ==== */

// First word of a window: "WARIKOMI", little-endian.
#define WK_MAGIC 5281965122746728791
// Version of this layout.
#define WK_VERSION 3
// Bytes that the last words may have.
#define WK_LAST_WORDS_BYTES 256
// First entry of the ring of register accesses, of two words each.
#define WK_REQUESTS_ENTRIES 2048
// Entries that the ring holds.
#define WK_REQUESTS_CAPACITY 512
// A register access that is not served within this time means that the device is gone.
#define WK_ACCESS_TIMEOUT_NS 2000000000
// First word of the stamps: number `n` (from 0) is at `STAMPS + n % STAMPS_CAPACITY`, and was written
// before the count.
#define WK_STAMPS 3072
// Stamps kept.
#define WK_STAMPS_CAPACITY 8192
// First word of the messages: the data of number `n` (from 0), its low 16 bits, is at
// `MESSAGES + n % MESSAGES_CAPACITY`, and was written before the count. A driver of a device with several
// vectors gives each the vector's number as its data, so that it can tell them apart.
#define WK_MESSAGES 11264
// Messages kept; of older ones only the count is left: each may have been of any vector.
#define WK_MESSAGES_CAPACITY 1024
// Bytes of a window.
#define WK_WINDOW_BYTES 131072
// Bus address of DMA memory: not 0, so that confusing it with an offset is noticed.
#define WK_DMA_BUS_ADDRESS 268435456
// Bus address of packet memory: above 4 GB, so that a driver that forgets the high half is noticed.
#define WK_PACKET_BUS_ADDRESS 8589934592
// The environment variable that names the driver's end of the socket, by its descriptor's number.
#define WK_SOCKET_VARIABLE "WARIKOMI_SOCKET_FD"
// The message that comes with the files: as ASCII, with the layout's version. The files are the window,
// the reading end of the pipe that ends the driver's sleep, DMA memory, and, if there are such, packet
// memory and the state area; then those for whatever is above the driver.
#define WK_HELLO "warikomi driver 3"

// header:
// The header.

// `MAGIC`.
#define WK_HEADER_MAGIC 0
// `VERSION`.
#define WK_HEADER_VERSION 1
// `WINDOW_BYTES`.
#define WK_HEADER_WINDOW_BYTES 2
// Bytes of DMA memory, the third file.
#define WK_HEADER_DMA_BYTES 3
// The bus address of its first byte.
#define WK_HEADER_DMA_BUS_ADDRESS 4
// Bytes of packet memory, the next file; 0 if there is none.
#define WK_HEADER_PACKET_BYTES 5
// The bus address of its first byte.
#define WK_HEADER_PACKET_BUS_ADDRESS 6
// The BAR that the registers are in.
#define WK_HEADER_REGISTER_BAR 7
// Ticks of the time stamp counter in a second.
#define WK_HEADER_TSC_HZ 8
// Bytes of the state area, the file behind packet memory; 0 if this device's driver is not replaced
// while it runs.
#define WK_HEADER_STATE_BYTES 9
// The driver's generation, from 1: the number that the baton names it by.
#define WK_HEADER_GENERATION 10
// How this device's drivers follow one another: see `way`.
#define WK_HEADER_WAY 11

// way:
// Values of `header::WAY`.

// The device is reset between two drivers, and everything is forgotten.
#define WK_WAY_RELOAD 0
// What a driver knows goes through a store.
#define WK_WAY_DATA_STORE 1
// What a driver knows is in the state area all the time.
#define WK_WAY_SHARED_STATE 2

// bells:
// Counts and bells; each in two cache lines of its own, because processors fetch lines in pairs.

// Accesses that the driver has put into the register ring.
#define WK_REQUESTS_HEAD 512
// Accesses that the support side has served.
#define WK_REQUESTS_TAIL 528
// Number of the read that was answered last; reads are numbered from 1.
#define WK_ANSWERED 544
// Its value, written first.
#define WK_ANSWER 545
// Message-signalled interrupts sent.
#define WK_INTERRUPTS 560
// Not 0 while the driver sleeps and wants the pipe to be written.
#define WK_SLEEPING 576
// Interrupts that the driver has handled, and stamped.
#define WK_STAMPED 592

// orders:
// What the support side wants; the driver looks at it whenever it has nothing else to do.

// Not 0: quiesce the device and end.
#define WK_ORDER_STOP 1024
// How to receive: see `strategy`.
#define WK_ORDER_STRATEGY 1025
// Hybrid: how long to poll after the last packet, in nanoseconds.
#define WK_ORDER_POLL_NS 1026
// NAPI: packets taken before others may run.
#define WK_ORDER_BUDGET 1027
// Auto: share of a processor that receiving may take, in millionths.
#define WK_ORDER_CPU_BUDGET_PPM 1028
// Receive buffers to keep on the ring; 0 for as many as the driver likes.
#define WK_ORDER_BUFFERS 1029
// Bytes of each; 0 for what the driver likes.
#define WK_ORDER_BUFFER_BYTES 1030
// Not 0: hand the device over to the driver of this generation. Looked at in every pass, before
// anything else is served.
#define WK_ORDER_HAND_OVER 1031
// Changed: the device is about to change hands. A driver that waits for it rehearses; one that has it
// does not sleep before the order comes, within a millisecond.
#define WK_ORDER_ALERT 1032

// strategy:
// Values of `orders::STRATEGY`.

// An interrupt, then all packets that are there, then sleep.
#define WK_STRATEGY_INTERRUPT 0
// Never sleep.
#define WK_STRATEGY_POLL 1
// An interrupt, then polls of at most a budget until one finds less.
#define WK_STRATEGY_NAPI 2
// Poll for a time after the last packet, then sleep until an interrupt.
#define WK_STRATEGY_HYBRID 3
// Hybrid, with a time that follows from the arrivals and a budget of processor time.
#define WK_STRATEGY_AUTO 4
// An interrupt for each packet, taken by a driver that never sleeps.
#define WK_STRATEGY_AWAKE 5

// report:
// Words that the driver writes for the support side.

// See `state`.
#define WK_REPORT_STATE 1536
// Grows while the driver's loop goes round.
#define WK_REPORT_HEARTBEAT 1537
// Frames received.
#define WK_REPORT_RX_PACKETS 1538
// Their bytes, without check sequence.
#define WK_REPORT_RX_BYTES 1539
// Frames refused for an error that their descriptor told.
#define WK_REPORT_RX_ERRORS 1540
// Frames taken from the ring that no layer above had room for.
#define WK_REPORT_RX_DROPPED 1541
// Frames transmitted.
#define WK_REPORT_TX_PACKETS 1542
// Bytes of the transmitted frames.
#define WK_REPORT_TX_BYTES 1543
// Frames that could not be transmitted.
#define WK_REPORT_TX_ERRORS 1544
// Interrupts handled.
#define WK_REPORT_INTERRUPTS 1545
// Looks at the receive ring.
#define WK_REPORT_POLLS 1546
// Looks that found nothing.
#define WK_REPORT_EMPTY_POLLS 1547
// Sleeps.
#define WK_REPORT_SLEEPS 1548
// Time asleep, in nanoseconds.
#define WK_REPORT_SLEPT_NS 1549
// The poll time in force, in nanoseconds (`auto` changes it).
#define WK_REPORT_POLL_NS 1550
// Gaps of the driver's loop while it was not asleep: its core was taken.
#define WK_REPORT_HICCUPS 1551
// All of these gaps together, in nanoseconds.
#define WK_REPORT_HICCUP_NS 1552
// Link: speed in Mbit/s, 0 if down.
#define WK_REPORT_LINK_MBPS 1553
// Time stamp counter at the driver's last change of hands: see `times`.
#define WK_REPORT_TIMES 1554
// Receive buffers that went back when the device was reset: a frame may have been in each.
#define WK_REPORT_FORGOTTEN_BUFFERS 1560
// Frames to be sent that went back when the device was reset: it is unknown whether each was sent.
#define WK_REPORT_FORGOTTEN_FRAMES 1561
// Not 0 while the driver is asleep. Unlike `bells::SLEEPING`, which says so
// before the last look at the ring, it says that everything counted is in this report.
#define WK_REPORT_ASLEEP 1559
// Bytes of the last words, at most `LAST_WORDS_BYTES`.
#define WK_REPORT_LAST_WORDS_LEN 1600
// Why the driver failed, in UTF-8.
#define WK_REPORT_LAST_WORDS 1601

// times:
// Words from `report::TIMES` on.

// The order to hand over was seen.
#define WK_TIME_ORDER_SEEN 0
// The device was handed over: from here on this driver has left it alone.
#define WK_TIME_HANDED_OVER 1
// The baton was seen.
#define WK_TIME_AWAKE 2
// What the predecessor left was read and accepted.
#define WK_TIME_ACCEPTED 3
// The first pass has served the device.
#define WK_TIME_SERVED 4
// Number of these times.
#define WK_TIME_COUNT 5

// state:
// Values of `report::STATE`.

// The process runs, the device is not set up yet.
#define WK_STATE_STARTING 0
// The device receives.
#define WK_STATE_READY 1
// The device was quiesced, as ordered.
#define WK_STATE_STOPPED 2
// See the last words.
#define WK_STATE_FAILED 3
// Everything is mapped and ready; the driver waits for the baton.
#define WK_STATE_WARM 4
// The device is another driver's now.
#define WK_STATE_HANDED_OVER 5
// As warm, and it has rehearsed the takeover.
#define WK_STATE_ALERT 6

/* ==== crates/pci/src/attach/access.rs ==== */

// Bits 0 to 7 of a read.
#define WK_ACCESS_READ 1
// Bits 0 to 7 of a write.
#define WK_ACCESS_WRITE 2
// Bits 8 to 15 of an access to configuration space.
#define WK_ACCESS_CONFIG 255
// How many BARs there are, from 0.
#define WK_ACCESS_BARS 6

/* ==== crates/pci/src/attach/area.rs ==== */

// First word: "WKSTATE1", little-endian.
#define WK_AREA_MAGIC 3550336520815856471
// Version that is written: 2 carries counters over, 1 does not.
#define WK_AREA_VERSION 2
// The oldest version that can be read.
#define WK_AREA_OLDEST_VERSION 1
// Words of the area.
#define WK_AREA_WORDS 4096
// Bytes of the state area.
#define WK_AREA_BYTES 32768
// Whose the device is: a generation in bits 0 to 31, `how` in bits 32 to 63. A process waits for a
// change of the lower half (a futex, on little-endian machines).
#define WK_AREA_BATON 32
// The generation that has accepted the baton: written before it stores anything else.
#define WK_AREA_OWNER 48
// Frames that a driver with no layer above has counted: it stands for the channel's count.
#define WK_AREA_ALONE_GIVEN 128
// First receive slot. Slot *i* is that of descriptor *i*: the count of the buffer in bits 32 to 63
// (modulo 2^32), `PRESENT`, and its token in bits 0 to 23. 0 if there never was one.
#define WK_AREA_RX_SLOTS 512
// First transmit slot, of the same form: the count is that of the frame, its place is its last
// descriptor.
#define WK_AREA_TX_SLOTS 1536
// Slots that there is room for, each way.
#define WK_AREA_MOST_SLOTS 1024
// In every slot that holds something.
#define WK_AREA_PRESENT 2147483648
// Bits of a slot with the buffer's token.
#define WK_AREA_TOKEN_MASK 16777215
// What a checksum begins with: the offset basis of FNV-1a.
#define WK_AREA_CHECKSUM_BASIS 14695981039346656037ull
// What it is multiplied by after each word: the prime of FNV-1a.
#define WK_AREA_CHECKSUM_PRIME 1099511628211

// header:
// Header and settings.

// `MAGIC`.
#define WK_AREA_HEADER_MAGIC 0
// `VERSION`.
#define WK_AREA_HEADER_VERSION 1
// The least version that a reader must know: it may leave newer parts aside.
#define WK_AREA_HEADER_READABLE_FROM 2
// `BYTES`.
#define WK_AREA_HEADER_BYTES 3
// Vendor number in bits 16 to 31, device number in bits 0 to 15: for whose rings the slots are.
#define WK_AREA_HEADER_DEVICE 4
// Bus address of the rings.
#define WK_AREA_HEADER_RINGS 5
// Receive slots in use.
#define WK_AREA_HEADER_RX_SLOTS 6
// Transmit slots in use.
#define WK_AREA_HEADER_TX_SLOTS 7
// The device's own address: its first byte in bits 0 to 7.
#define WK_AREA_HEADER_MAC_ADDRESS 8
// The driver that set the device up: up to 8 characters of its name.
#define WK_AREA_HEADER_SET_UP_BY 9
// `checksum` of the words before.
#define WK_AREA_HEADER_CHECKSUM 10

// how:
// How the baton was come by.

// The predecessor has written its record, and has left the device alone since.
#define WK_HOW_HANDED_OVER 0
// The predecessor is dead, at whatever instruction: its slots are there, its record is not.
#define WK_HOW_DIED 1
// The device is to be reset, and what a predecessor held goes back to the layer above.
#define WK_HOW_START 2

// record:
// What a driver that hands over knows.

// `checksum` of the record's other words, the receive slots in use (those of
// `RX_GIVEN` up to `RX_POSTED`, in order), and the transmit slots in use.
#define WK_AREA_RECORD_CHECKSUM 64
// The generation that wrote it.
#define WK_AREA_RECORD_GENERATION 65
// Frames given to the layer above, returned buffers included: the count of the next receive slot.
#define WK_AREA_RECORD_RX_GIVEN 66
// Buffers that were put on the ring: the count of the next buffer.
#define WK_AREA_RECORD_RX_POSTED 67
// Index of the descriptor of `RX_GIVEN`.
#define WK_AREA_RECORD_RX_INDEX 68
// Frames given back as sent: the count of the next transmit slot.
#define WK_AREA_RECORD_TX_GIVEN 69
// Frames that were put on the ring: the count of the next frame.
#define WK_AREA_RECORD_TX_PUT 70
// Index of the descriptor of `TX_GIVEN`.
#define WK_AREA_RECORD_TX_INDEX 71
// The version that its writer knows: from 2 on there are counters.
#define WK_AREA_RECORD_VERSION 72
// First of the counters that version 2 carries over; see `counters`.
#define WK_AREA_RECORD_COUNTERS 80
// Behind the last word.
#define WK_AREA_RECORD_END 128

// counters:
// Words from `record::COUNTERS` on.

// Frames received.
#define WK_COUNTER_RX_PACKETS 0
// Bytes of the received frames.
#define WK_COUNTER_RX_BYTES 1
// Frames refused for an error.
#define WK_COUNTER_RX_ERRORS 2
// Frames transmitted.
#define WK_COUNTER_TX_PACKETS 3
// Bytes of the transmitted frames.
#define WK_COUNTER_TX_BYTES 4
// Frames that could not be transmitted.
#define WK_COUNTER_TX_ERRORS 5
// Number of these counts.
#define WK_COUNTER_COUNT 6

/* ==== crates/stack/src/memory.rs ==== */

// First word of packet memory: "WKPACKET", little-endian.
#define WK_PACKETS_MAGIC 6072342424809655127
// Version of this layout.
#define WK_PACKETS_VERSION 2
// Where the channels begin, in bytes.
#define WK_PACKETS_CHANNELS_OFFSET_BYTES 4096
// Most channels: application to stack, stack to driver.
#define WK_PACKETS_MOST_CHANNELS 2
// Most buffers.
#define WK_PACKETS_MOST_BUFFERS 1048576
// Fewest entries of a ring.
#define WK_PACKETS_LEAST_RING_CAPACITY 16
// Longest buffer in bytes.
#define WK_PACKETS_MOST_BUFFER_BYTES 65536
// Lengths of buffers are multiples of this many bytes, two cache lines, so that two that are used
// on two cores share none.
#define WK_PACKETS_BUFFER_ALIGN_BYTES 128
// Most bytes of packet memory.
#define WK_PACKETS_MOST_BYTES 4294967296

// header:
// Words of the header.

// `MAGIC`.
#define WK_PACKETS_HEADER_MAGIC 0
// `VERSION`.
#define WK_PACKETS_HEADER_VERSION 1
// Bytes of the file.
#define WK_PACKETS_HEADER_FILE_BYTES 2
// Bus address of its first byte.
#define WK_PACKETS_HEADER_BUS_ADDRESS 3
// Channels: 0, 1 or 2. The first is the application's, the last the driver's.
#define WK_PACKETS_HEADER_CHANNELS 4
// Entries that each ring of a channel holds, a power of two.
#define WK_PACKETS_HEADER_RING_CAPACITY 5
// Buffers in all.
#define WK_PACKETS_HEADER_BUFFERS 6
// Bytes of each buffer.
#define WK_PACKETS_HEADER_BUFFER_BYTES 7
// Those of the application, numbered from 0.
#define WK_PACKETS_HEADER_APPLICATION_BUFFERS 8
// Where the buffers begin, in bytes.
#define WK_PACKETS_HEADER_BUFFERS_OFFSET 9
// Ticks of the time stamp counter in a second.
#define WK_PACKETS_HEADER_TSC_HZ 10

/* ==== crates/stack/src/channel.rs ==== */

// words:
// Words of a channel, from its first. Heads and tails are 16 words apart, two cache lines.

// Head of the ring of posts; its tail, and the other rings', follow.
#define WK_CHANNEL_POSTS 0
// Head of the ring of completions.
#define WK_CHANNEL_COMPLETIONS 32
// Head of the ring of transmits.
#define WK_CHANNEL_TRANSMITS 64
// Head of the ring of what was sent.
#define WK_CHANNEL_SENT 96
// From the head of a ring to its tail.
#define WK_CHANNEL_TAIL 16
// Not 0 while the user sleeps.
#define WK_CHANNEL_USER_SLEEPING 128
// Not 0 while the provider sleeps.
#define WK_CHANNEL_PROVIDER_SLEEPING 144
// Not 0 while the provider sleeps and wants to be woken for posts.
#define WK_CHANNEL_PROVIDER_HUNGRY 160
// What the user wants of the provider's socket; see `crate::ip`.
#define WK_CHANNEL_SOCKET_ORDERS 192
// What the provider counts.
#define WK_CHANNEL_COUNTERS 224
// Not 0 once a user has mapped packet memory; what its library has received follows (`crate::account`).
#define WK_CHANNEL_USER_ATTACHED 256
// Buffers that it was given filled.
#define WK_CHANNEL_USER_MESSAGES 257
// Bytes in these.
#define WK_CHANNEL_USER_BYTES 258
// The first entry of the first ring; the others' follow.
#define WK_CHANNEL_ENTRIES 512

/* ==== crates/stack/src/entry.rs ==== */

// Tokens that an entry can name.
#define WK_TOKEN_MASK 16777215
// The token of an entry that names no buffer: there are never so many.
#define WK_NO_TOKEN 16777215
// Room for headers before a payload that is to be sent; as much as keeps the payload aligned.
#define WK_HEADROOM_BYTES 64

// flags:
// What is to be known about the bytes of a completion or a transmission.

// The device found the checksums of the IP, and UDP or TCP, headers right.
#define WK_CHECKSUMS_GOOD 1
// The buffer comes back unused: nothing is in it.
#define WK_RETURNED 2
// The bytes are the payload of a UDP datagram, with its headers right before them; what is to
// be sent has `HEADROOM_BYTES` of room for them.
#define WK_UDP 4
// The bytes are a part of the TCP connection's stream.
#define WK_STREAM 8
// Of a transmission that is done: it could not be sent.
#define WK_FAILED 16
// With `RETURNED` or `FAILED`: a dead provider had this buffer. The entry names none, because the
// user alone knows which these are; `extra` counts those that are left, this one included.
#define WK_FORGOTTEN 32

/* ==== crates/stack/src/socket.rs ==== */

// orders:
// Words of the orders, from `words::SOCKET_ORDERS` on.

// Their number, which grows, and is written last.
#define WK_SOCKET_ORDER_NUMBER 0
// The UDP port; 0 for none.
#define WK_SOCKET_ORDER_PORT 1
// Bytes of payload that may wait for the application.
#define WK_SOCKET_ORDER_BUFFER_BYTES 2
// The number that the provider has followed, two cache lines further.
#define WK_SOCKET_ORDER_FOLLOWED 16

/* ==== crates/stack/src/invitation.rs ==== */

// What the message begins with, in ASCII, with its version.
#define WK_INVITATION_PREFIX "warikomi part 1\n"
// The variable that tells an application how long to poll before it sleeps, in nanoseconds.
#define WK_INVITATION_POLL_VARIABLE "WARIKOMI_POLL_NS"

#endif /* WARIKOMI_LAYOUT_H */
