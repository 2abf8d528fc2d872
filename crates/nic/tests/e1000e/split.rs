//! Packet split: a header buffer and up to three pages in a descriptor, as e1000e has it for long frames.

use etherparse::PacketBuilder;
use warikomi_nic::{Burst, Frame, RxOutcome};

use super::driver::{Lab, Mode, RX_BUFFERS, RX_RING, STATION, frame_to};

const BUFFERS: [u64; 4] =
    [RX_BUFFERS, RX_BUFFERS + 0x1000, RX_BUFFERS + 0x3000, RX_BUFFERS + 0x5000];

/// e1000_setup_rctl and e1000_configure_rx for pages of 4 KB, and one descriptor for the card.
fn open() -> Lab {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0x100, 0);
    lab.w32(0x2170, 0x0404_0401);
    lab.w32(0x2810, 0);
    lab.w32(0x2818, 0);
    for place in 0..2 {
        let words: Vec<u32> = BUFFERS.iter().flat_map(|at| [*at as u32, 0]).collect();
        lab.put(RX_RING + 32 * place, &words);
    }
    lab.w32(0x100, 0x0400_8422);
    // Head and tail count in halves of such a descriptor.
    lab.w32(0x2818, 2);
    lab
}

fn words(lab: &Lab, place: u64) -> [u32; 6] {
    [0, 4, 8, 12, 16, 20].map(|at| lab.word(RX_RING + 32 * place + at))
}

/// Of a burst all of the descriptor was read before.
#[test]
fn the_header_goes_to_its_own_buffer_and_the_rest_to_the_pages() {
    for announced in [0, 1, 2] {
        let mut lab = open();
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], STATION)
            .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
            .tcp(1, 9, 1, 100)
            .write(&mut frame, &[7; 6_000])
            .unwrap();
        let outcomes = lab.host(|nic, host| {
            let mut burst = Burst::new(nic, host, announced, frame.len());
            [(); 2].map(|()| burst.receive(Frame::new(&frame)).outcome)
        });
        assert_eq!(outcomes, [RxOutcome::OnRing, RxOutcome::NoDescriptor]);
        let [.., status, length, split, rest] = words(&lab, 0);
        assert_eq!(status & 0x63, 0x63, "DD, EOP, TCPCS, IPCS");
        assert_eq!(length & 0xffff, 54);
        assert_eq!(split, 4_096 << 16 | 0x8000 | 54, "split, and the length of the first page");
        assert_eq!(rest, 6_000 - 4_096);
        let mut whole = lab.bytes(BUFFERS[0], 54);
        whole.extend(lab.bytes(BUFFERS[1], 4_096));
        whole.extend(lab.bytes(BUFFERS[2], 6_000 - 4_096));
        assert!(whole == frame);
        assert_eq!(lab.r32(0x2810), 2);
    }
}

#[test]
fn what_has_no_such_header_fills_one_buffer_behind_the_other() {
    let mut lab = open();
    let frame = frame_to(STATION, 986);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    let [.., length, split, rest] = words(&lab, 0);
    assert_eq!((length & 0xffff, split, rest), (128, 872 << 16, 0));
    assert_eq!(lab.bytes(BUFFERS[0], 128), frame[..128]);
    assert_eq!(lab.bytes(BUFFERS[1], 872), frame[128..]);
}
