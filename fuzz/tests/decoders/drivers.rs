//! What a card writes for its driver: registers that it reads, descriptors that it gives back, and what a driver
//! finds that takes over. A target for each driver.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Result, Unstructured};
use warikomi_driver::state::{LocalWords, Predecessor, Shown, StateArea};
use warikomi_driver::{Hardware, NicDriver, RxSink, TxFrame};
use warikomi_pci::attach::area::{RX_SLOTS, TX_SLOTS, WORDS};
use warikomi_shared::Words;
use warikomi_testbench::drivers::Rig;
use warikomi_testbench::{
    DUO, GE10, LyingRegisters, OC48, OC192, RTL8139, RTL8168, Subject, TestCard, frame,
};

use crate::harness::{bounded, number, once_in, steps};

const BUFFERS: usize = 12;
const BUFFER_BYTES: u32 = 2_048;
/// What a poll takes at most.
const BUDGET: usize = 8;
/// Bytes of rings that are written over.
const RINGS: u64 = 0x8000;

/// Words of descriptors that the card writes over, near where the driver looks or anywhere.
fn scribble(rig: &Rig, from: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..from.int_in_range(1..=8u8)? {
        let near = !once_in(from, 4)?;
        let most = if near { 40 } else { RINGS / 4 - 1 };
        let ring = *from.choose(&[0, 0x1000, 0x2000, 0x3000, 0x4000])?;
        let at = rig.rings() + (ring + 4 * from.int_in_range(0..=most)?) % RINGS;
        let present = rig.bench.word(at);
        let word = match from.int_in_range(0..=6u8)? {
            // As a card gives a descriptor back: it is the driver's, whole, and of any length.
            0 => 0x3000_0000 | from.int_in_range(0..=0x3fff)?,
            1 => 0x6000_0000 | from.int_in_range(0..=0x3fff)?,
            2 => present & 0x7fff_0000 | 0x3000_0000 | from.int_in_range(0..=0xffff)?,
            3 => present ^ 1 << from.int_in_range(0..=31)?,
            4 => 0xb000_0000 | from.int_in_range(0..=0x3fff)?,
            5 => number(from)? as u32,
            _ => from.arbitrary()?,
        };
        rig.bench.put(at, &[word]);
    }
    Ok(())
}

/// Calls the driver with its card, or with registers that read as anything.
fn call<R>(
    rig: &mut Rig,
    from: &mut Unstructured<'_>,
    call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>, &mut dyn RxSink) -> R,
) -> Result<R> {
    if !once_in(from, 3)? {
        return Ok(rig.with_sink(|driver, hw, sink| call(driver, hw, sink)));
    }
    let mut answers = Vec::new();
    for _ in 0..from.int_in_range(1..=12u8)? {
        answers.push(number(from)?);
    }
    let mut registers = LyingRegisters::new(rig.driver.info().devices[0], answers);
    registers.gone = once_in(from, 8)?;
    let Rig { driver, sink, memory, .. } = rig;
    let mut hw = Hardware { mmio: &mut registers, memory };
    Ok(call(&mut **driver, &mut hw, sink))
}

/// What the driver has received lies in its buffer.
fn check(rig: &mut Rig) {
    for (buffer, frame) in std::mem::take(&mut rig.sink.frames) {
        assert!(frame.bytes <= buffer.bytes(), "{frame:?} in {buffer:?}");
    }
    assert!(rig.sink.out() <= BUFFERS);
}

fn serves(rig: &mut Rig, from: &mut Unstructured<'_>) {
    let mut sending = BTreeSet::new();
    // Frames of which a driver that failed may have handed some descriptors over.
    let mut doubtful = BTreeSet::new();
    steps(from, 60, |from| {
        match from.int_in_range(0..=8u8)? {
            0..=2 => scribble(rig, from)?,
            3 => {
                let _ = rig.bench.receive(&frame(60 + from.int_in_range(0..=1_000)?, 0));
            }
            4 => {
                let polled = call(rig, from, |driver, hw, sink| driver.poll(hw, BUDGET, sink))?;
                assert!(polled.is_err() || polled.is_ok_and(|count| count <= BUDGET));
                check(rig);
            }
            5 => {
                let token = from.int_in_range(0..=30)?;
                if sending.contains(&token) {
                    return Ok(());
                }
                let pieces = [(rig.tx_buffers(), 64); 3];
                let frame = TxFrame { pieces: &pieces, token, segments: None };
                let taken = call(rig, from, |driver, hw, _| driver.transmit(hw, frame))?;
                match taken {
                    Ok(true) => _ = sending.insert(token),
                    Ok(false) => {}
                    Err(_) => _ = doubtful.insert(token),
                }
                let _ = call(rig, from, |driver, hw, _| driver.kick(hw))?;
            }
            6 => {
                let mut sent = Vec::new();
                let _ = call(rig, from, |driver, hw, _| {
                    driver.reclaim(hw, &mut |token| sent.push(token))
                })?;
                for token in sent {
                    let its = sending.remove(&token) || doubtful.contains(&token);
                    assert!(its, "{token} comes back, and is not the device's");
                }
            }
            7 => {
                let _ = call(rig, from, |driver, hw, _| driver.on_interrupt(hw, 0))?;
                let _ = call(rig, from, |driver, hw, _| driver.acknowledge(hw, 0))?;
                let _ = call(rig, from, |driver, hw, _| driver.arm(hw))?;
            }
            _ => {
                let _ = call(rig, from, |driver, hw, _| driver.link(hw))?;
                let _ = rig.bench.step();
            }
        }
        Ok(())
    });
    let (_, sent) = rig.quiesce();
    for token in sent {
        let its = sending.remove(&token) || doubtful.contains(&token);
        assert!(its, "{token} comes back, and is not the device's");
    }
    check(rig);
    assert_eq!((rig.sink.out(), sending.len()), (0, 0), "what a driver is given comes back");
}

/// Another driver takes over what this one leaves, with words of it changed.
fn is_followed(rig: &mut Rig, area: &StateArea, from: &mut Unstructured<'_>) -> Result<()> {
    let card = rig.driver.info().name;
    for _ in 0..from.int_in_range(0..=6u8)? {
        let _ = rig.bench.receive(&frame(100, 0));
    }
    let polled = rig.poll(BUDGET).unwrap_or_default() as u64;
    if once_in(from, 2)? {
        let _ = rig.driver.hand_over(1);
    }
    for _ in 0..from.int_in_range(0..=4u8)? {
        let at = match from.int_in_range(0..=3u8)? {
            0 => RX_SLOTS + from.int_in_range(0..=BUFFERS)?,
            1 => TX_SLOTS + from.int_in_range(0..=BUFFERS)?,
            _ => from.int_in_range(0..=WORDS - 1)?,
        };
        area.words().store(at, number(from)?, Relaxed);
        scribble(rig, from)?;
    }
    let given = if once_in(from, 4)? { number(from)? } else { polled };
    let shown = Shown { given, sent: 0 };
    for predecessor in [Predecessor::Died, Predecessor::HandedOver] {
        let mut driver = warikomi_driver::by_name(card).expect("a driver");
        driver.keep_state(area.clone(), shown).expect("a driver that can be followed");
        let taken = rig.with(|_, hw| {
            let _ = driver.rehearse(hw, shown);
            driver.take_over(hw, predecessor, shown)
        });
        if let Ok(held) = taken {
            let all: BTreeSet<_> = held.posted.iter().chain(&held.sending).collect();
            assert_eq!(
                all.len(),
                held.posted.len() + held.sending.len(),
                "a buffer is in one place"
            );
            assert_eq!(held.posts_taken, shown.given.wrapping_add(held.posted.len() as u64));
        }
    }
    Ok(())
}

fn survives_anything(card: &'static dyn TestCard, input: &[u8]) {
    let mut from = Unstructured::new(input);
    let mut rig = Rig::new(&Subject::of(card), BUFFERS, BUFFER_BYTES);
    let area = StateArea::new(Rc::new(LocalWords::new()));
    let followed = rig.driver.info().live && from.int_in_range(0..=2u8) == Ok(0);
    if followed {
        rig.driver
            .keep_state(area.clone(), Shown::default())
            .expect("a driver that can be followed");
    }
    rig.init(BUFFERS).expect("a driver that opens its card");
    bounded(|| {
        if followed {
            let _ = is_followed(&mut rig, &area, &mut from);
        } else {
            serves(&mut rig, &mut from);
        }
    });
}

macro_rules! targets {
    ($($name:ident: $card:expr),+ $(,)?) => {
        $(#[test]
        fn $name() {
            bolero::check!()
                .with_max_len(1_024)
                .for_each(|input: &[u8]| survives_anything($card, input));
        })+
    };
}

targets! {
    rtl8168: RTL8168,
    rtl8139: RTL8139,
    oc48: OC48,
    oc192: OC192,
    ge10: GE10,
    duo: DUO,
}
