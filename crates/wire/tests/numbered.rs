//! Numbered datagrams, judged.

use proptest::prelude::*;
use warikomi_clock::{Chance, Seed, Time};
use warikomi_testbench::{message, segments};
use warikomi_wire::Wire;
use warikomi_wire::peer::numbered::{Look, Numbered, Seen};

const RUN: u32 = 7;

fn judged(look: Look, frames: impl IntoIterator<Item = Vec<u8>>) -> Seen {
    let (mut sink, judge) = Numbered::sink();
    judge.lock().begin(RUN, 1_000, look);
    frames.into_iter().for_each(|frame| sink.transmit(Time::ZERO, &frame));
    judge.lock().seen()
}

fn in_order(sequences: &[u64]) -> Seen {
    judged(Look::Whole, sequences.iter().map(|&sequence| message(RUN, sequence, 64)))
}

#[test]
fn each_message_once_and_in_order_is_right() {
    let seen = judged(
        Look::Whole,
        [16, 17, 18, 1_472, 65_507]
            .iter()
            .zip(0..)
            .map(|(&bytes, sequence)| message(RUN, sequence, bytes)),
    );
    assert_eq!((seen.messages, seen.message_bytes), (5, 16 + 17 + 18 + 1_472 + 65_507));
    assert_eq!(seen.wrong(5), None);
    assert!(seen.wrong(6).unwrap().contains("1 lost"));
    assert!(seen.wrong(4).is_some(), "more came than were sent");
}

#[test]
fn what_is_lost_doubled_or_out_of_order_is_told_apart() {
    let lost = in_order(&[0, 1, 3]);
    assert_eq!((lost.lost(4), lost.duplicated, lost.reordered), (1, 0, 0));
    let late = in_order(&[0, 2, 1, 3]);
    assert_eq!((late.lost(4), late.duplicated, late.reordered), (0, 0, 1));
    let twice = in_order(&[0, 1, 1, 2]);
    assert_eq!((twice.lost(3), twice.duplicated, twice.reordered), (0, 1, 0));
    assert!([lost, late, twice].iter().all(|seen| seen.wrong(seen.end).is_some()));
}

#[test]
fn frames_of_others_are_foreign_and_a_number_too_high_is_corrupt() {
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x08, 0x06], &[0; 46]].concat();
    let seen = judged(Look::Whole, [message(RUN + 1, 0, 64), arp, message(RUN, 1_000, 64)]);
    assert_eq!((seen.messages, seen.foreign, seen.corrupt), (0, 2, 1));
}

#[test]
fn padding_is_no_fault_but_bytes_behind_a_long_message_are() {
    let padded = |bytes: usize, padding: usize| {
        let mut frame = message(RUN, 0, bytes);
        frame.extend(vec![0; padding]);
        judged(Look::Whole, [frame])
    };
    assert_eq!(padded(16, 2).wrong(1), None);
    assert_eq!((padded(16, 3).corrupt, padded(64, 1).corrupt), (1, 1));
}

/// A message with the checksum that another library makes.
fn summed(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut frame = message(RUN, sequence, bytes);
    let headers = etherparse::PacketHeaders::from_ethernet_slice(&frame).unwrap();
    let Some(etherparse::NetHeaders::Ipv4(ip, _)) = headers.net else { panic!("no IPv4") };
    let Some(etherparse::TransportHeader::Udp(udp)) = headers.transport else { panic!("no UDP") };
    let checksum = udp.calc_checksum_ipv4(&ip, &frame[42..]).unwrap();
    frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn judged_with_checksums(look: Look, frame: &[u8]) -> Seen {
    let (mut sink, judge) = Numbered::sink();
    judge.lock().begin(RUN, 1_000, look);
    judge.lock().expect_checksums(true);
    sink.transmit(Time::ZERO, frame);
    judge.lock().seen()
}

#[test]
fn a_checksum_is_there_if_one_is_expected_and_only_then() {
    for bytes in [16, 17, 18, 64, 213, 1_471, 1_472, 65_507] {
        let frame = summed(0, bytes);
        for look in [Look::Whole, Look::Head] {
            assert_eq!(judged_with_checksums(look, &frame).wrong(1), None, "{bytes} bytes");
            assert_eq!(judged(look, [frame.clone()]).corrupt, 1, "{bytes} bytes, none expected");
            let without = message(RUN, 0, bytes);
            assert_eq!(judged_with_checksums(look, &without).corrupt, 1, "{bytes} bytes, none");
        }
    }
}

/// Of the 65,536 checksums, 0 stands for none; a message whose sum is all ones has all ones.
#[test]
fn a_checksum_that_would_be_0_is_all_ones() {
    let all_ones = (0..1_000_000)
        .map(|sequence| summed(sequence, 16))
        .find(|frame| frame[40..42] == [0xff; 2]);
    let (mut sink, judge) = Numbered::sink();
    judge.lock().begin(RUN, 1_000_000, Look::Whole);
    judge.lock().expect_checksums(true);
    sink.transmit(Time::ZERO, &all_ones.expect("one in 65,536"));
    assert_eq!(judge.lock().seen().messages, 1);
}

#[test]
fn a_run_that_has_begun_knows_nothing_of_the_last() {
    let (mut sink, judge) = Numbered::sink();
    sink.transmit(Time::ZERO, &message(RUN, 0, 64));
    assert_eq!(judge.lock().seen().foreign, 1, "nothing is expected yet");
    for run in [RUN, RUN + 1] {
        judge.lock().begin(run, 2, Look::Whole);
        assert_eq!(judge.lock().seen(), Seen::default());
        (0..2).for_each(|sequence| sink.transmit(Time::ZERO, &message(run, sequence, 100)));
        assert_eq!(judge.lock().seen().wrong(2), None);
    }
    assert_eq!(sink.counters().tx_frames, 5);
}

proptest! {
    #[test]
    fn a_changed_byte_is_noticed(
        bytes in 16usize..2_000,
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut frame = message(RUN, 3, bytes);
        let at = at.index(frame.len());
        frame[at] ^= change;
        // The sender's own addresses and port are not judged, and a sequence number may be another's.
        let free = (6..12).contains(&at) || (34..36).contains(&at);
        let sequence = (50..58).contains(&at);
        let counted = |look| judged(look, [frame.clone()]).messages;
        if !sequence {
            prop_assert_eq!(counted(Look::Whole), u64::from(free), "byte {}", at);
            prop_assert_eq!(counted(Look::Head), u64::from(free || at >= 58), "byte {}", at);
        }
    }

    #[test]
    fn a_checksum_makes_every_changed_byte_of_headers_and_head_noticed(
        bytes in 16usize..2_000,
        at in 12usize..58,
        change in 1u8..,
    ) {
        let mut frame = summed(3, bytes);
        frame[at] ^= change;
        for look in [Look::Whole, Look::Head] {
            prop_assert_eq!(judged_with_checksums(look, &frame).messages, 0, "byte {}", at);
        }
    }

    #[test]
    fn any_order_of_any_messages_adds_up(
        sent in 1u64..200,
        chances in prop::array::uniform3(0u32..500_000_000),
        seed: u64,
    ) {
        let mut streams = 0..;
        let [mut lose, mut swap, mut double] = chances
            .map(|chance| Chance::new(Seed(seed), streams.next().unwrap_or(0), chance));
        let mut came: Vec<u64> = (0..sent).filter(|_| !lose.happens()).collect();
        for at in 1..came.len() {
            if swap.happens() {
                came.swap(at - 1, at);
            }
        }
        let again: Vec<u64> = came.iter().copied().filter(|_| double.happens()).collect();
        let seen = in_order(&[&came[..], &again].concat());
        let kept = came.len() as u64;
        prop_assert_eq!((seen.messages, seen.duplicated), (kept, again.len() as u64));
        prop_assert_eq!(seen.lost(sent), sent - kept);
        let sorted = came.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert_eq!(seen.reordered == 0, sorted);
    }

    #[test]
    fn any_frame_is_judged(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        let seen = judged(Look::Whole, [frame]);
        prop_assert_eq!((seen.messages, seen.corrupt + seen.foreign), (0, 1));
    }
}

#[test]
fn the_reserved_flag_of_ip_is_noticed_though_no_parsed_header_has_it() {
    let mut frame = message(RUN, 0, 64);
    frame[20] ^= 0x80;
    assert_eq!(judged(Look::Whole, [frame]).corrupt, 1);
}

/// A frame's datagram in fragments, each with so many bytes behind its headers.
fn fragments(frame: &[u8], bytes: usize, identification: u16) -> Vec<Vec<u8>> {
    const HEADERS: usize = 14 + 20;
    let (headers, data) = frame.split_at(HEADERS);
    let count = data.len().div_ceil(bytes);
    let fragment = |(number, part): (usize, &[u8])| {
        let mut fragment = [headers, part].concat();
        let more = if number + 1 < count { 0x2000 } else { 0 };
        let words = [20 + part.len(), identification.into(), more | (number * bytes / 8)];
        for (at, word) in [16, 18, 20].into_iter().zip(words) {
            fragment[at..at + 2].copy_from_slice(&(word as u16).to_be_bytes());
        }
        fragment[24..26].fill(0);
        let words =
            fragment[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        fragment[24..26].copy_from_slice(&checksum.to_be_bytes());
        fragment
    };
    data.chunks(bytes).enumerate().map(fragment).collect()
}

#[test]
fn a_datagram_in_fragments_is_one_message() {
    let frames = (0..20).flat_map(|sequence| {
        let whole = message(RUN, sequence, 5_000 + sequence as usize);
        fragments(&whole, 1_480, 7 + sequence as u16)
    });
    let seen = judged(Look::Whole, frames.chain([message(RUN, 20, 64)]));
    assert_eq!((seen.messages, seen.wrong(21)), (21, None));
}

#[test]
fn fragments_that_are_lost_swapped_doubled_or_of_two_datagrams_are_no_message() {
    let [a, b] = [0, 1]
        .map(|sequence| fragments(&message(RUN, sequence, 5_000), 1_480, 7 + sequence as u16));
    let seen = |frames: &[&Vec<u8>]| judged(Look::Whole, frames.iter().map(|&frame| frame.clone()));
    for wrong in [
        vec![&a[0], &a[1], &a[3]],
        vec![&a[0], &a[2], &a[1], &a[3]],
        vec![&a[0], &a[1], &a[1], &a[2], &a[3]],
        vec![&a[0], &a[1], &a[2], &b[3]],
        vec![&a[0], &b[1], &a[2], &a[3]],
        vec![&a[1], &a[2], &a[3]],
    ] {
        let seen = seen(&wrong);
        assert!(seen.messages == 0 && seen.corrupt > 0, "{seen:?}");
    }
    let unfinished = seen(&[&a[0], &a[1], &a[2], &b[0], &b[1], &b[2], &b[3]]);
    assert_eq!((unfinished.messages, unfinished.lost(2)), (1, 1));
    let mut changed = a.clone();
    changed[2][100] ^= 1;
    let seen = judged(Look::Whole, changed);
    assert_eq!((seen.messages, seen.corrupt), (0, 1));
}

/// Three messages of a stream, whose byte numbers come round to 0 in the first.
fn stream() -> Vec<Vec<u8>> {
    let first = 0_u32.wrapping_sub(700);
    let messages = [(0, 2_500), (1, 16), (2, 1_000)];
    let mut next = first;
    let frames = messages.map(|(sequence, bytes)| {
        let frames = segments(RUN, sequence, bytes, (next, 500));
        next = next.wrapping_add(bytes as u32);
        frames
    });
    frames.concat()
}

fn judged_as_stream(frames: &[Vec<u8>]) -> Seen {
    let (mut sink, judge) = Numbered::sink();
    judge.lock().begin(RUN, 1_000, Look::Whole);
    judge.lock().expect_stream(Some(500));
    frames.iter().for_each(|frame| sink.transmit(Time::ZERO, frame));
    judge.lock().seen()
}

#[test]
fn a_stream_of_messages_in_segments_is_right() {
    let seen = judged_as_stream(&stream());
    assert_eq!(seen.wrong(3), None);
    assert_eq!((seen.segments, seen.message_bytes), (5 + 1 + 2, 2_500 + 16 + 1_000));
    assert_eq!(seen.segments_per_message(), Some(8.0 / 3.0));
    let others = [message(RUN, 0, 64), [&[0xff; 12][..], &[0x08, 0x06], &[0; 46]].concat()];
    let seen = judged_as_stream(&others);
    assert_eq!((seen.corrupt, seen.foreign), (1, 1), "a datagram is no segment");
}

proptest! {
    /// Whatever segment is lost, comes twice, or comes late: it is noticed.
    #[test]
    fn a_segment_that_is_lost_doubled_or_late_is_noticed(at in 0usize..8, what in 0usize..3) {
        let mut frames = stream();
        match what {
            0 => drop(frames.remove(at)),
            1 => frames.insert(at, frames[at].clone()),
            _ => {
                let frame = frames.remove(at);
                frames.insert(if at == 7 { 0 } else { at + 1 }, frame);
            }
        }
        prop_assert!(judged_as_stream(&frames).wrong(3).is_some());
    }

    /// Whatever byte of it is changed, but the Ethernet address that it came from and what a link changes.
    #[test]
    fn a_changed_byte_of_a_segment_is_noticed(frame in 0usize..8, at: prop::sample::Index, by in 1u8..) {
        let mut frames = stream();
        let at = at.index(frames[frame].len());
        prop_assume!(!(6..12).contains(&at));
        frames[frame][at] ^= by;
        prop_assert!(judged_as_stream(&frames).wrong(3).is_some(), "byte {}", at);
    }

    #[test]
    fn no_bytes_make_a_stream_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..8) {
        let mut frames = stream();
        frames[cut].truncate(bytes.len());
        frames.push(bytes);
        judged_as_stream(&frames);
    }
}
