//! Frames whose descriptors the chip completes late, because somebody asked for this fault.
//!
//! Their bytes are in memory and their descriptors still the chip's, so for the account and for the
//! ring they are neither free nor given back.

use warikomi_clock::{Span, Time};

use super::alarm::Alarm;
use super::{Rtl8168, TIMER_LATE};
use crate::NicContext;

/// A frame that waits for its completion.
#[derive(Debug)]
pub(super) struct LateFrame {
    pub(super) index: u16,
    /// Its descriptor's address.
    pub(super) at: u64,
    /// The first two words that go there.
    pub(super) words: [u32; 2],
    /// Its status bits, for the counters.
    pub(super) status: u32,
}

/// All of these; no more than the ring has descriptors, because each descriptor waits once.
#[derive(Debug)]
pub(super) struct Late {
    frames: Vec<(Time, LateFrame)>,
    alarm: Alarm,
}

impl Late {
    pub(super) const fn new() -> Self {
        Late { frames: Vec::new(), alarm: Alarm::new(TIMER_LATE) }
    }

    /// Whether this descriptor waits.
    #[inline]
    pub(super) fn holds(&self, index: u16) -> bool {
        !self.frames.is_empty() && self.frames.iter().any(|(_, frame)| frame.index == index)
    }

    pub(super) fn add(&mut self, cx: &mut NicContext<'_>, by: Span, frame: LateFrame) {
        self.frames.push((cx.now() + by, frame));
        self.set_alarm(cx);
    }

    /// The ring goes away.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.alarm.cancel();
    }

    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        match self.frames.iter().map(|(due, _)| *due).min() {
            None | Some(Time::NEVER) => self.alarm.cancel(),
            Some(due) => self.alarm.set(cx, due),
        }
    }
}

impl Rtl8168 {
    /// The alarm: completes what is due. One that can no longer be written stays the chip's.
    pub(super) fn complete_late(&mut self, cx: &mut NicContext<'_>) {
        if !self.rx.late.alarm.event(cx) {
            return;
        }
        let now = cx.now();
        let mut at = 0;
        while let Some((due, frame)) = self.rx.late.frames.get_mut(at) {
            if *due > now {
                at += 1;
                continue;
            }
            let [opts1, opts2] = frame.words;
            let written = cx
                .dma_write(frame.at.wrapping_add(4), &opts2.to_le_bytes())
                .and_then(|()| cx.dma_store_u32(frame.at, opts1));
            let (status, done) = (frame.status, written.is_ok());
            if done {
                self.rx.late.frames.remove(at);
            } else {
                *due = Time::NEVER;
            }
            self.received(cx, written.map(|()| true), status);
        }
        self.rx.late.set_alarm(cx);
    }
}
