//! Wires that keep or judge what a card sends.

use std::sync::{Arc, Mutex, MutexGuard};

use warikomi_clock::Time;
use warikomi_wire::{Wire, WireCounters};

/// A frame that was sent, and when.
pub type Sent = (Time, Vec<u8>);

/// Judges the frame with this number (from 0, of those that were right so far).
type Judge = Box<dyn FnMut(u64, &[u8]) -> Result<(), String> + Send>;

#[derive(Default)]
struct State {
    judge: Option<Judge>,
    kept: Vec<Sent>,
    right: u64,
    wrong: Option<String>,
    counters: WireCounters,
}

/// A wire with nothing at its end that keeps every frame, or judges each and keeps the first complaint.
///
/// Every clone is the same wire: the card has one, the test another.
#[derive(Clone, Default)]
pub struct JudgingWire(Arc<Mutex<State>>);

impl JudgingWire {
    /// A wire that keeps what is sent, with its times.
    pub fn keeping() -> JudgingWire {
        JudgingWire::default()
    }

    /// A wire that shows each frame to `judge`, with the number of frames that were right before it, and
    /// keeps none. An error says what is wrong with it.
    pub fn judging(
        judge: impl FnMut(u64, &[u8]) -> Result<(), String> + Send + 'static,
    ) -> JudgingWire {
        let state = State { judge: Some(Box::new(judge)), ..State::default() };
        JudgingWire(Arc::new(Mutex::new(state)))
    }

    /// A wire on which these frames must come, each once and in this order, and no other.
    pub fn expecting(frames: Vec<Vec<u8>>) -> JudgingWire {
        JudgingWire::judging(move |number, frame| match frames.get(number as usize) {
            Some(expected) if expected == frame => Ok(()),
            Some(_) => Err(format!("{} bytes in place of frame {number}", frame.len())),
            None => Err(format!("{} bytes after the last frame", frame.len())),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no judge has panicked")
    }

    /// Takes the frames that were kept since the last time, each with its time.
    pub fn sent_at(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state().kept)
    }

    /// Takes the frames that were kept since the last time.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent_at().into_iter().map(|(_, frame)| frame).collect()
    }

    /// Frames that were right, or kept, so far.
    pub fn right(&self) -> u64 {
        self.state().right
    }

    /// What was wrong with the first frame that was not right.
    pub fn wrong(&self) -> Option<String> {
        self.state().wrong.clone()
    }
}

impl Wire for JudgingWire {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        let state = &mut *self.state();
        state.counters.tx_frames += 1;
        state.counters.tx_bytes += frame.len() as u64;
        let verdict = match &mut state.judge {
            Some(judge) => judge(state.right, frame),
            None => {
                state.kept.push((now, frame.to_vec()));
                Ok(())
            }
        };
        match verdict {
            Ok(()) => state.right += 1,
            Err(wrong) => state.wrong = state.wrong.take().or(Some(wrong)),
        }
    }

    fn next_arrival(&self) -> Time {
        Time::NEVER
    }

    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }

    fn counters(&self) -> WireCounters {
        self.state().counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_keeps_frames_with_their_times() {
        let wire = JudgingWire::keeping();
        wire.clone().transmit(Time::from_ps(7), &[1, 2]);
        assert_eq!(wire.sent_at(), [(Time::from_ps(7), vec![1, 2])]);
        assert!(wire.sent().is_empty());
        assert_eq!((wire.right(), wire.counters().tx_bytes), (1, 2));
    }

    #[test]
    fn order_repetition_and_bytes_are_judged() {
        let frames = vec![vec![1], vec![2]];
        let after = |sent: &[u8]| {
            let mut wire = JudgingWire::expecting(frames.clone());
            sent.iter().for_each(|byte| wire.transmit(Time::ZERO, &[*byte]));
            (wire.right(), wire.wrong())
        };
        assert_eq!(after(&[1, 2]), (2, None));
        assert_eq!(after(&[2, 1]), (1, Some("1 bytes in place of frame 0".to_owned())));
        assert_eq!(after(&[1, 1]), (1, Some("1 bytes in place of frame 1".to_owned())));
        assert_eq!(after(&[1, 2, 2]), (2, Some("1 bytes after the last frame".to_owned())));
    }
}
