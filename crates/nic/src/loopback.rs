//! Frames that the PHY sends back instead of down the cable.

use std::collections::VecDeque;

/// Frames on their way, at most: more than drivers send before they look.
const MOST_FRAMES: usize = 1_024;

/// The loopback of a PHY: while it is on, what leaves comes back, none goes out and none comes in (IEEE 802.3,
/// 22.2.4.1.2).
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    frames: Option<VecDeque<Vec<u8>>>,
}

impl Loopback {
    /// It goes on or off: what is under way is lost.
    pub(crate) fn set(&mut self, on: bool) {
        if on != self.is_on() {
            self.frames = on.then(VecDeque::new);
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.frames.is_some()
    }

    /// Whether a frame is on its way.
    #[inline]
    pub(crate) fn has_frame(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| !frames.is_empty())
    }

    /// Takes a frame that leaves the card, if it is on. One that finds no room is lost.
    #[inline]
    pub(crate) fn takes(&mut self, frame: &[u8]) -> bool {
        let Some(frames) = &mut self.frames else { return false };
        if frames.len() < MOST_FRAMES {
            frames.push_back(frame.to_vec());
        }
        true
    }

    /// The frame that comes back next.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        self.frames.as_mut()?.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_comes_back_in_order_while_it_is_on() {
        let mut loopback = Loopback::default();
        assert!(!loopback.takes(&[1]) && !loopback.has_frame());
        loopback.set(true);
        assert!(!loopback.has_frame() && loopback.takes(&[2]));
        loopback.set(true);
        assert!(loopback.takes(&[3]) && loopback.has_frame());
        let back = [(); 3].map(|()| loopback.next());
        assert_eq!(back, [Some(vec![2]), Some(vec![3]), None]);
        (0..2 * MOST_FRAMES).for_each(|_| assert!(loopback.takes(&[4])));
        assert_eq!(std::iter::from_fn(|| loopback.next()).count(), MOST_FRAMES);
        assert!(loopback.takes(&[5]));
        loopback.set(false);
        loopback.set(true);
        assert_eq!(loopback.next(), None, "it was under way");
    }
}
