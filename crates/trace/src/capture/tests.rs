use std::borrow::Cow;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use proptest::prelude::*;
use warikomi_clock::Time;
use warikomi_inject::Source;

use super::*;

const PCAP_HEADER_BYTES: u64 = 24;
const RECORD_HEADER_BYTES: u64 = 16;

/// Frames as (seconds, fraction, original length, bytes).
type Packet = (u32, u32, u32, Vec<u8>);

fn pcap(packets: &[Packet], ts_resolution: TsResolution) -> Vec<u8> {
    // Big-endian, as the library has it unless told otherwise.
    let header = PcapHeader { ts_resolution, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (ts_sec, ts_frac, orig_len, data) in packets {
        let packet = RawPcapPacket {
            ts_sec: *ts_sec,
            ts_frac: *ts_frac,
            incl_len: data.len() as u32,
            orig_len: *orig_len,
            data: Cow::Borrowed(data),
        };
        writer.write_raw_packet(&packet).unwrap();
    }
    writer.into_writer()
}

/// Times in the unit that the option says; a millionth of a second without one.
fn pcapng(ticks: &[u64], unit: Option<u8>, linktype: DataLink) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    let options = unit.map(InterfaceDescriptionOption::IfTsResol).into_iter().collect();
    let interface = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
    writer.write_block(&interface.into_block()).unwrap();
    for &ticks in ticks {
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(ticks),
            original_len: 60,
            data: Cow::Borrowed(&[7; 60]),
            options: vec![],
        };
        writer.write_block(&packet.into_block()).unwrap();
    }
    writer.into_inner()
}

fn times_ps(schedule: &Schedule) -> Vec<u64> {
    schedule.arrivals().iter().map(|arrival| arrival.after.as_ps()).collect()
}

#[test]
fn a_pcap_keeps_its_times_and_bytes() {
    let packets =
        [(9, 999_999_000, 60, vec![1; 60]), (10, 0, 70, vec![2; 70]), (10, 7, 61, vec![3; 61])];
    let nano = read(&pcap(&packets, TsResolution::NanoSecond)).unwrap();
    assert_eq!(times_ps(&nano.schedule), [0, 1_000_000, 1_007_000]);
    let mut schedule = nano.schedule.at_speed(1.0).unwrap().from(Time::ZERO);
    for (number, packet) in packets.iter().enumerate() {
        let frame = schedule.frame(number as u64);
        assert_eq!((frame.bytes, frame.fcs), (&packet.3[..], fcs(&packet.3)));
    }
    let packets = [(9, 999_999, 60, vec![1; 60]), (10, 2, 70, vec![2; 70])];
    let micro = read(&pcap(&packets, TsResolution::MicroSecond)).unwrap();
    assert_eq!(times_ps(&micro.schedule), [0, 3_000_000]);
    assert_eq!(micro.counts, CaptureCounts { frames: 2, ..CaptureCounts::default() });
}

#[test]
fn a_pcapng_has_the_unit_that_it_says() {
    for (unit, ticks, wanted) in [
        (Some(9), 1_000_000_123, 123_000),
        (None, 1_000_000_123, 123_000_000),
        (Some(6), 1_000_000_123, 123_000_000),
        (Some(12), 1_000_000_123, 123),
        (Some(0x80 | 20), 1_000_000_000 + (1 << 20), 1_000_000_000_000),
    ] {
        let file = pcapng(&[1_000_000_000, ticks], unit, DataLink::ETHERNET);
        let capture = read(&file).unwrap();
        assert_eq!(times_ps(&capture.schedule), [0, wanted], "{unit:?}");
    }
}

#[test]
fn frames_that_no_nic_could_take_are_counted_and_others_made_whole() {
    let packets = [
        (0, 0, 60, vec![1; 60]),
        (0, 1, 42, vec![2; 42]),
        (0, 2, 9_000, vec![3; 96]),
        (0, 3, 40_000, vec![4; 200]),
        (0, 4, 8, vec![5; 8]),
        (0, 1, 60, vec![6; 60]),
    ];
    let Capture { mut schedule, counts } = read(&pcap(&packets, TsResolution::NanoSecond)).unwrap();
    let wanted =
        CaptureCounts { frames: 6, too_long: 1, too_short: 1, padded: 1, cut: 1, out_of_order: 1 };
    assert_eq!(counts, wanted);
    assert_eq!(schedule.sizes_bytes().collect::<Vec<_>>(), [60, 60, 9_000, 60]);
    assert_eq!(times_ps(&schedule), [0, 1_000, 2_000, 2_000]);
    assert_eq!(schedule.frame(1).bytes, [&[2; 42][..], &[0; 18]].concat());
    assert_eq!(schedule.frame(2).bytes[95..97], [3, 0]);
}

#[test]
fn what_is_no_ethernet_or_no_capture_is_refused() {
    let file = pcapng(&[1], None, DataLink::LINUX_SLL);
    assert!(matches!(read(&file), Err(CaptureError::NotEthernet(113))));
    for other in [&b""[..], b"\x89WKT\r\n\x1a\n", b"GIF89a"] {
        assert!(matches!(read(other), Err(CaptureError::Foreign)) && !is_capture(other));
    }
}

#[test]
fn a_capture_that_is_cut_off_is_refused_at_the_byte_that_is_missing() {
    let packets = [(0, 0, 60, vec![1; 60]), (0, 9, 60, vec![2; 60])];
    let file = pcap(&packets, TsResolution::NanoSecond);
    let second = PCAP_HEADER_BYTES + RECORD_HEADER_BYTES + 60;
    for len in second + 1..file.len() as u64 {
        match read(&file[..len as usize]) {
            Err(CaptureError::Truncated { begin, offset }) => {
                assert_eq!((begin, offset), (second, len));
            }
            other => panic!("{len}: {other:?}"),
        }
    }
    let file = pcapng(&[1, 2], Some(9), DataLink::ETHERNET);
    for len in file.len() - 91..file.len() {
        match read(&file[..len]) {
            Err(CaptureError::Truncated { begin, offset }) => {
                assert_eq!((begin, offset), (file.len() as u64 - 92, len as u64));
            }
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn a_damaged_record_is_refused_where_it_begins() {
    let packets = [(0, 0, 60, vec![1; 60]), (0, 9, 60, vec![2; 60])];
    let second = PCAP_HEADER_BYTES + RECORD_HEADER_BYTES + 60;
    // Its nanoseconds, then its length on the wire, which is less than that in the file.
    for (place, value) in [(second + 4, 0xff), (second + 15, 1)] {
        let mut file = pcap(&packets, TsResolution::NanoSecond);
        file[place as usize] = value;
        match read(&file) {
            Err(CaptureError::Damaged { offset, .. }) => assert_eq!(offset, second),
            other => panic!("{other:?}"),
        }
    }
    let mut file = pcapng(&[1, 2], Some(9), DataLink::ETHERNET);
    let second = file.len() - 92;
    // The interface that it came from.
    file[second + 9] = 9;
    match read(&file) {
        Err(CaptureError::Damaged { offset, .. }) => assert_eq!(offset, second as u64),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_never_a_crash(
        bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..3,
    ) {
        let magics = [&b"\x0a\x0d\x0d\x0a"[..], b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xc3\xd4"];
        let _ = read(&[magics[magic], &bytes].concat());
    }

    #[test]
    fn a_capture_with_any_byte_changed_is_never_a_crash(
        at in 0usize..300, value: u8, ng: bool,
    ) {
        let packets = [(0, 0, 60, vec![1; 60]), (0, 9, 60, vec![2; 60])];
        let mut file = if ng {
            pcapng(&[1, 2], Some(9), DataLink::ETHERNET)
        } else {
            pcap(&packets, TsResolution::NanoSecond)
        };
        let at = at % file.len();
        file[at] = value;
        let _ = read(&file);
    }
}
