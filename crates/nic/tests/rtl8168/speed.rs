//! What a reception costs. Not a test of anything: run it with
//! `cargo test --release -p warikomi-nic --test rtl8168 -- --ignored --nocapture speed`.

use std::time::{Duration, Instant};

use warikomi_nic::{Frame, Nic, RxOutcome};
use warikomi_pci::{DmaMemory, Host, SharedMemory};
use warikomi_testbench::Bench;

use super::driver::{Lab, RX_BUFFERS, STATION, STRIDE};

const ROUNDS: usize = 4_000;
const BATCH: u16 = 64;

/// An IPv4/UDP frame without UDP checksum.
fn udp_frame(bytes: usize) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], STATION)
        .ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64)
        .udp(5_000, 5_001);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vec![0x5a; bytes - 42]).unwrap();
    frame[40..42].fill(0);
    frame
}

fn per_frame(total: Duration, frames: usize) -> f64 {
    total.as_secs_f64() * 1e9 / frames as f64
}

fn receive(frame: &[u8]) -> f64 {
    let mut lab = Lab::open();
    let frame = Frame::new(frame);
    let (mut total, mut frames) = (Duration::ZERO, 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        let Bench { nic, memory, line, now, .. } = &mut *lab;
        let mut host = Host { now: *now, memory, interrupts: line, looks: None };
        for _ in 0..BATCH {
            assert_eq!(nic.receive(&mut host, frame), RxOutcome::OnRing);
        }
        if round >= ROUNDS / 4 {
            total += start.elapsed();
            frames += usize::from(BATCH);
        }
        for _ in 0..BATCH {
            lab.mark_to_asic(lab.cur_rx);
            lab.cur_rx = (lab.cur_rx + 1) % lab.rx_len;
        }
    }
    per_frame(total, frames)
}

/// The same bytes into the same places, by a plain copy, or through the memory's interface.
fn copy(frame: &[u8], plain: bool) -> f64 {
    let memory = SharedMemory::anonymous(0, 8 << 20).unwrap();
    let mut buffers = vec![0u8; 8 << 20];
    let (mut total, mut frames, mut slot) = (Duration::ZERO, 0, 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..BATCH {
            let at = RX_BUFFERS + STRIDE * slot;
            if plain {
                let at = at as usize;
                std::hint::black_box(&mut buffers[at..at + frame.len()]).copy_from_slice(frame);
            } else {
                memory.write(at, frame).unwrap();
            }
            slot = (slot + 1) % 256;
        }
        if round >= ROUNDS / 4 {
            total += start.elapsed();
            frames += usize::from(BATCH);
        }
    }
    per_frame(total, frames)
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    for bytes in [60, 1_024, 1_500, 4_096, 16_000] {
        let frame = udp_frame(bytes);
        let (plain, shared, model) = (copy(&frame, true), copy(&frame, false), receive(&frame));
        println!(
            "{bytes:6} bytes: copy {plain:7.1} ns, dma {shared:7.1} ns, frame_rx {model:7.1} ns"
        );
    }
}
