use proptest::prelude::*;
use warikomi_clock::{Span, Time};
use warikomi_nic::bus::{Bus, PRESETS};
use warikomi_nic::{Link, Nic};
use warikomi_pci::PciFunction;
use warikomi_testbench::Sent;
use warikomi_wire::bytes_time;

use super::card::*;

fn pci() -> Bus {
    "pci-64-66".parse().unwrap()
}

#[test]
fn a_packet_in_pieces_is_sent_whole_when_its_last_piece_is_there() {
    let mut card = Card::open(Some(pci()));
    let packet = filler(1_442, 3);
    let pieces = [(BUFFERS, 42), (BUFFERS + 0x1000, 400), (BUFFERS + 0x3001, 1_000)];
    let mut from = 0;
    for (address, bytes) in pieces {
        card.put_bytes(address, &packet[from..from + bytes]);
        from += bytes;
    }
    card.push_packet(&pieces);
    let mut due = card.now;
    for (i, (_, bytes)) in pieces.into_iter().enumerate() {
        assert_eq!((card.get(TX_REMAINING), card.status()), (3 - i as u32, 0));
        assert!(card.wire.sent_at().is_empty(), "{i} pieces are no packet");
        due += pci().transfer_time(bytes, false);
        assert_eq!(card.nic.next_due(), due, "piece {i}");
        let wait = due.since(card.now);
        card.wait(wait);
    }
    assert_eq!(card.wire.sent_at(), [(due, packet)]);
    assert_eq!((card.get(TX_REMAINING), card.status()), (0, TX_DONE));
    let counted = card.nic.counters();
    assert_eq!((counted.interrupts, counted.doorbells, counted.tx_descriptors), (1, 3, 3));
}

#[test]
fn no_transfer_is_completed_within_a_register_write_also_without_a_bus() {
    let mut card = Card::open(None);
    card.send(&filler(64, 0));
    for register in [TX_REMAINING, STATUS, CONTROL] {
        card.set(register, 0);
    }
    card.set(CONTROL, TX_ENABLE);
    assert_eq!((card.get(TX_REMAINING), card.get(STATUS)), (1, 0));
    assert_eq!(card.nic.next_due(), card.now, "it takes no time");
    card.put_bytes(BUFFERS, &filler(64, 9));
    card.poll();
    assert_eq!(
        card.wire.sent_at(),
        [(card.now, filler(64, 9))],
        "as the bytes are at its completion"
    );
    assert_eq!((card.get(TX_REMAINING), card.status()), (0, TX_DONE));
}

#[test]
fn the_line_holds_back_what_the_cards_memory_has_no_room_for() {
    const PACKETS: u64 = 200;
    const BYTES: usize = 16_384;
    let fast: Bus = "pcie5-x16".parse().unwrap();
    let mut card = Card::with(Some(fast), 100_000_000, 65_535);
    let begun = card.now;
    for _ in 0..PACKETS {
        card.send(&filler(BYTES, 0));
    }
    card.wait(Span::from_ms(1));
    let in_memory = card.wire.sent_at().len();
    assert_eq!(in_memory, 16, "256 KB, before the line has taken a whole one");
    card.settle();
    assert_eq!(card.wire.sent_at().len(), PACKETS as usize - in_memory);
    let took = card.now.since(begun);
    let line = bytes_time(PACKETS * BYTES as u64, 100_000_000);
    let memory = bytes_time(256 << 10, 100_000_000);
    assert!(took + memory >= line && took <= line, "{took} where the line takes {line}");
}

#[test]
fn without_tx_enable_descriptors_wait() {
    let mut card = Card::open(Some(pci()));
    card.set(CONTROL, 0);
    card.send(&filler(60, 1));
    card.wait(Span::from_ms(10));
    assert_eq!((card.get(TX_REMAINING), card.wire.sent_at().len()), (1, 0));
    card.set(CONTROL, TX_ENABLE);
    assert_eq!(card.nic.next_due(), card.now + pci().transfer_time(60, false));
    // Off in the midst of it: it begins anew later.
    card.set(CONTROL, 0);
    card.wait(Span::from_ms(10));
    assert_eq!(card.get(TX_REMAINING), 1);
    card.set(CONTROL, TX_ENABLE);
    card.settle();
    assert_eq!(card.sent(), [filler(60, 1)]);
}

#[test]
fn a_descriptor_pushed_into_a_full_fifo_is_lost_and_the_others_are_not() {
    let mut card = Card::open(Some(pci()));
    for i in 0..258 {
        card.put_bytes(BUFFERS + 64 * i, &filler(64, i as usize));
        card.push(BUFFERS + 64 * i, 64 | FIRST | LAST);
        let lost = i >= 256;
        assert_eq!(card.status(), if lost { TX_OVERRUN } else { 0 }, "{i}");
    }
    assert_eq!(card.get(TX_REMAINING), 256);
    card.settle();
    let all: Vec<_> = (0..256).map(|i| filler(64, i)).collect();
    assert_eq!(card.sent(), all);
}

#[test]
fn a_packet_that_makes_no_frame_is_passed_over_and_reported() {
    let limit = 1_514;
    let mut card = Card::with(Some(pci()), LINE_BPS, 1_500);
    let bad: [&[(u32, u32)]; 7] = [
        &[(0, FIRST | LAST)],
        &[(0, FIRST), (0, 0), (0, LAST)],
        &[(limit + 1, FIRST | LAST)],
        &[(1_000, FIRST), (1_000, 0), (100, LAST)],
        &[(1_048_575, FIRST | LAST)],
        &[(100, LAST)],
        &[(100, 0), (100, 0), (100, LAST)],
    ];
    for pieces in bad {
        for &(bytes, marks) in pieces {
            card.push(BUFFERS, bytes | marks);
        }
        card.settle();
        assert_eq!(
            (card.status(), card.wire.sent_at().len()),
            (TX_OVERRUN | TX_DONE, 0),
            "{pieces:?}"
        );
        card.send(&filler(limit as usize, 5));
        card.settle();
        assert_eq!((card.status(), card.sent()), (TX_DONE, vec![filler(limit as usize, 5)]));
    }
}

#[test]
fn a_packet_that_another_begins_within_is_lost() {
    let mut card = Card::open(Some(pci()));
    card.push(BUFFERS, 1_000 | FIRST);
    card.send(&filler(100, 2));
    card.settle();
    assert_eq!((card.status(), card.sent()), (TX_OVERRUN | TX_DONE, vec![filler(100, 2)]));
}

#[test]
fn the_longest_packet_goes_out_in_one_piece_and_in_many() {
    let mut card = Card::open(Some(pci()));
    let packet = filler(65_549, 1);
    card.send(&packet);
    let pieces: Vec<_> = (0..65_549)
        .step_by(2_048)
        .map(|at| (BUFFERS + at as u64, 2_048.min(65_549 - at)))
        .collect();
    card.push_packet(&pieces);
    card.settle();
    assert_eq!(card.sent(), [packet.clone(), packet]);
}

#[test]
fn memory_that_is_not_there_stops_both_engines_until_reset() {
    let mut card = Card::open(Some(pci()));
    card.push(MEMORY as u64 - 10, 60 | FIRST | LAST);
    card.send(&filler(60, 1));
    card.push_buffer(BUFFERS, 2_048);
    card.settle();
    assert_eq!(
        (card.status(), card.get(TX_REMAINING), card.wire.sent_at().len()),
        (SYS_ERROR, 2, 0)
    );
    assert_eq!(card.receive(&[0xff; 60]), warikomi_nic::RxOutcome::DmaError);
    assert_eq!(card.nic.config_read(6, warikomi_pci::Width::B2) & 0x2000, 0x2000);
    card.start();
    card.send(&filler(60, 2));
    card.settle();
    assert_eq!((card.status(), card.sent()), (TX_DONE, vec![filler(60, 2)]));
}

#[test]
fn reset_forgets_what_is_under_way() {
    let mut card = Card::open(Some(pci()));
    card.push(BUFFERS, 1_000 | FIRST);
    card.send(&filler(100, 2));
    card.start();
    assert_eq!((card.get(TX_REMAINING), card.get(RX_REMAINING)), (0, 0));
    card.wait(Span::from_ms(10));
    assert_eq!((card.wire.sent_at().len(), card.status()), (0, 0));
    card.send(&filler(60, 2));
    assert_eq!(card.nic.next_due(), card.now + pci().transfer_time(60, false));
    card.settle();
    assert_eq!(card.sent(), [filler(60, 2)]);
}

#[test]
fn without_a_link_packets_are_transferred_and_lost() {
    let mut card = Card::open(Some(pci()));
    card.host(|nic, host| nic.set_link(host, Link::Down));
    assert_eq!((card.status(), card.get(0x08)), (LINK_CHANGED, 0));
    card.send(&filler(60, 2));
    card.settle();
    assert_eq!((card.status(), card.wire.sent_at().len()), (TX_DONE, 0));
}

#[test]
fn one_call_does_a_bounded_amount() {
    let mut card = Card::open(None);
    for _ in 0..256 {
        card.send(&filler(60, 2));
    }
    card.poll();
    let first = card.wire.sent_at().len();
    assert!((1..=64).contains(&first), "{first} packets in one call");
    card.settle();
    assert_eq!(card.wire.sent_at().len(), 256 - first);
}

const FASTER_THAN_ANY_BUS_BPS: u64 = 1_000_000_000_000;

/// What goes out, and when, for packets pushed at these times, if the card is looked at whenever
/// something is due or only as often as `late` says.
fn history(
    (bus, line_bps): (Bus, u64),
    packets: &[(u64, Vec<usize>)],
    late: Option<Span>,
) -> Vec<Sent> {
    let mut card = Card::with(Some(bus), line_bps, 65_535);
    card.put_bytes(BUFFERS, &filler(100_000, 0));
    let catch_up = |card: &mut Card, until: Time| match late {
        None => {
            while card.nic.next_due() <= until {
                card.now = card.nic.next_due();
                card.poll();
            }
        }
        Some(every) => {
            while card.now + every <= until {
                card.wait(every);
            }
        }
    };
    for (after_ns, lengths) in packets {
        let at = card.now + Span::from_ns(*after_ns);
        catch_up(&mut card, at);
        card.now = at;
        let pieces: Vec<_> = lengths.iter().map(|&bytes| (BUFFERS + bytes as u64, bytes)).collect();
        card.push_packet(&pieces);
    }
    let end = card.now + Span::from_ms(50);
    catch_up(&mut card, end);
    card.wire.sent_at()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn times_follow_from_the_bus_and_not_from_how_late_we_look(
        preset in 0..PRESETS.len(),
        packets in prop::collection::vec((0u64..20_000, prop::collection::vec(1usize..9_000, 1..6)), 1..40),
        late_us in 1u64..2_000,
    ) {
        let bus = PRESETS[preset].bus;
        for line_bps in [LINE_BPS, FASTER_THAN_ANY_BUS_BPS] {
            let punctual = history((bus, line_bps), &packets, None);
            prop_assert_eq!(punctual.len(), packets.len());
            let late = history((bus, line_bps), &packets, Some(Span::from_us(late_us)));
            prop_assert_eq!(&late, &punctual);
        }
        // A transfer begins when it is pushed, or behind the one before it.
        let sent = history((bus, FASTER_THAN_ANY_BUS_BPS), &packets, None);
        let (mut pushed, mut free) = (Time::ZERO + Span::from_ms(7), Time::ZERO);
        for ((after_ns, lengths), (at, frame)) in packets.iter().zip(sent) {
            pushed += Span::from_ns(*after_ns);
            free = free.max(pushed);
            for &bytes in lengths {
                free += bus.transfer_time(bytes, false);
            }
            prop_assert_eq!((at, frame.len()), (free, lengths.iter().sum::<usize>()));
        }
    }
}
