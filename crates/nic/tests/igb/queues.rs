//! Several queues of each direction, their vectors and their accounts.

use warikomi_nic::{Nic, RxOutcome};

use super::driver::{Lab, Mode, RING, frame_to, rx, tcp, tx, udp};

/// For each queue a port whose datagrams go there.
fn ports(lab: &mut Lab) -> Vec<u16> {
    let queues = lab.queues;
    let mut found = vec![0; queues as usize];
    for port in (1..2_000).rev() {
        let frame = udp(port);
        let queue = lab.host(|nic, host| nic.receive(host, warikomi_nic::Frame::new(&frame)).queue);
        found[usize::from(queue)] = port;
        lab.rx(queue.into());
    }
    lab.us(1_000);
    lab.irq_enable();
    lab.messages();
    lab.w32(0x1580, 0x3ff);
    lab.irq_enable();
    lab.messages();
    assert!(found.iter().all(|port| *port != 0), "{found:?}");
    found
}

fn progress(lab: &mut Lab, queue: u16) -> (u64, u64) {
    let counted = lab.host(|nic, host| nic.rx_queue_progress(host, queue, usize::MAX));
    (counted.on_ring, counted.accepted)
}

#[test]
fn each_queue_has_its_flows_its_vector_and_its_account() {
    for queues in [2, 4, 8] {
        let mut lab = Lab::open_queues(Mode::Msix, queues);
        let ports = ports(&mut lab);
        for queue in (0..queues).rev() {
            let before = progress(&mut lab, queue as u16);
            let frames: Vec<_> = (0..3).map(|_| udp(ports[queue as usize])).collect();
            for frame in &frames {
                assert_eq!(lab.receive(frame), RxOutcome::OnRing);
            }
            assert_eq!(lab.messages(), [1 + queue], "{queues} queues");
            let taken = lab.rx(queue);
            assert_eq!(taken.len(), 3);
            assert!(taken.iter().all(|frame| frame.words[0] & 0xf == 7), "a hash with UDP ports");
            let after = progress(&mut lab, queue as u16);
            assert_eq!((after.0 - before.0, after.1 - before.1), (3, 3));
        }
    }
}

#[test]
fn a_flow_stays_on_its_queue_and_what_has_no_hash_goes_to_the_first() {
    let mut lab = Lab::open_queues(Mode::Msix, 4);
    for port in [7, 8, 9, 10] {
        let to = |lab: &mut Lab, frame: &[u8]| {
            lab.host(|nic, host| nic.receive(host, warikomi_nic::Frame::new(frame)).queue)
        };
        let first = to(&mut lab, &tcp(port, &[1; 30]));
        assert!((0..4).all(|length| to(&mut lab, &tcp(port, &vec![2; 30 + length])) == first));
        assert_eq!(to(&mut lab, &frame_to([0xff; 6], 46)), 0);
        // MRQC: the queue of what has no hash.
        lab.w32(0x5818, 0x00f7_0002 | 3 << 3);
        assert_eq!(to(&mut lab, &frame_to([0xff; 6], 46)), 3);
        lab.w32(0x5818, 0x00f7_0002);
    }
    // Without the ports of UDP all datagrams between two hosts are one flow.
    lab.w32(0x5818, 0x0037_0002);
    let queues: Vec<_> = (1..50)
        .map(|port| {
            let frame = udp(port);
            lab.host(|nic, host| nic.receive(host, warikomi_nic::Frame::new(&frame)).queue)
        })
        .collect();
    assert!(queues.iter().all(|queue| *queue == queues[0]));
}

#[test]
fn a_full_queue_drops_its_frames_and_leaves_the_others_alone() {
    let mut lab = Lab::open_queues(Mode::Msix, 4);
    let ports = ports(&mut lab);
    for _ in 0..RING - 1 {
        assert_eq!(lab.receive(&udp(ports[2])), RxOutcome::OnRing);
    }
    for _ in 0..3 {
        assert_eq!(lab.receive(&udp(ports[2])), RxOutcome::NoDescriptor);
    }
    assert_eq!(lab.receive(&udp(ports[1])), RxOutcome::OnRing);
    assert_eq!([lab.r32(0xc0b0), lab.r32(0xc0b0)], [3, 0], "RQDPC of queue 2");
    assert_eq!((lab.r32(0x4010), lab.r32(rx(1, 0x30))), (0, 0), "MPC, and RQDPC of queue 1");
    let free = |lab: &mut Lab, queue| lab.host(|nic, host| nic.rx_queue_free(host, queue, 1_000));
    assert_eq!((free(&mut lab, 2), free(&mut lab, 1)), (0, RING as usize - 2));
    assert_eq!(free(&mut lab, 9), 1_000, "none goes there");
}

#[test]
fn all_sixteen_queues_receive_and_send() {
    let mut lab = Lab::open_queues(Mode::Msix, 16);
    let ports = ports(&mut lab);
    for queue in 0..16 {
        lab.receive(&udp(ports[queue as usize]));
        assert_eq!(lab.rx(queue).len(), 1);
        let frame = frame_to([queue as u8; 6], 46 + queue as usize);
        lab.xmit(queue, &[&frame[..20], &frame[20..]]);
        assert_eq!(lab.sent(), [frame]);
        assert_eq!([lab.tx_status(queue, 0), lab.tx_status(queue, 1)], [0, 1]);
        assert_eq!(lab.r32(tx(queue, 0x10)), 2, "TDH");
    }
}

#[test]
fn the_first_queues_have_their_registers_twice() {
    let mut lab = Lab::open_queues(Mode::Msix, 4);
    for queue in 0..4_u64 {
        for (low, high) in [(0x2800, 0xc000), (0x3800, 0xe000)] {
            for register in [0, 4, 8, 0xc, 0x10, 0x18, 0x28] {
                let places = [low + 0x100 * queue + register, high + 0x40 * queue + register];
                let [first, second] = places.map(|at| lab.r32(at));
                assert_eq!(first, second, "{places:x?}");
            }
        }
    }
    let frame = frame_to([0xff; 6], 46);
    lab.queue(3, &[&frame], super::driver::DATA | super::driver::IFCS, 0);
    lab.w32(0xe0d8, 1);
    assert_eq!(lab.sent(), [frame]);
}

#[test]
fn a_queue_that_is_off_takes_no_frame_and_sends_none() {
    let mut lab = Lab::open_queues(Mode::Msix, 2);
    let ports = ports(&mut lab);
    lab.w32(rx(1, 0x28), 0);
    lab.w32(tx(1, 0x28), 0);
    assert_eq!(lab.receive(&udp(ports[1])), RxOutcome::NotReceiving);
    assert_eq!(lab.receive(&udp(ports[0])), RxOutcome::OnRing);
    let frame = frame_to([3; 6], 46);
    lab.xmit(1, &[&frame]);
    assert!(lab.sent().is_empty());
    lab.w32(rx(1, 0x28), 1 << 25);
    lab.w32(tx(1, 0x28), 1 << 25);
    assert_eq!(lab.sent(), [frame], "it goes when its queue is on");
    assert_eq!(lab.receive(&udp(ports[1])), RxOutcome::OnRing);
}
