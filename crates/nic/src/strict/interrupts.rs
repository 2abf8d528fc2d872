//! How a driver answers interrupts: it acknowledges each cause, once, and before it unmasks.
//!
//! Drivers do so in two ways. One reads the status and acknowledges what it has read; the other acknowledges
//! a fixed set of causes unseen, and looks at its rings afterwards. So a cause that does not stand may be
//! acknowledged (also all at once, before a reset), but not one that the driver has read and acknowledged, and
//! has not read since. That a driver has read all of its fixed set happens to those that acknowledge unseen, too: they
//! are known by having acknowledged the same set before with a cause that they had not read. And a driver that closes
//! the mask of a cause begins anew with it: it may be acknowledged unseen before the mask is opened.
//!
//! Causes that come while the mask is closed may stand when it is opened: the interrupt comes then. Those that the
//! driver knows of may not, because the interrupt would come for nothing.

use warikomi_clock::{Span, Time};

use super::FindingKind;

/// An interrupt that has stood so long without any answer was not acknowledged.
const ANSWER_WITHIN_MS: u64 = 1_000;

/// Sets of causes that are known to be acknowledged unseen, at most: a driver has a few of them.
const MOST_SETS: usize = 8;

/// A vector, as the driver has treated it.
#[derive(Clone, Debug, Default)]
pub(super) struct VectorWatch {
    /// Causes that the driver has read as set, and has not acknowledged since.
    read: u32,
    /// Causes that it has acknowledged since it read the status, alone or with others that it had read.
    acknowledged: u32,
    /// Sets that it has acknowledged with a cause in them that it had not read.
    unseen: Vec<u32>,
    /// Causes that stood when it closed the mask; none once it has acknowledged anything.
    closed_upon: u32,
    /// Since when the level has been high without an answer.
    unanswered_since: Option<Time>,
}

impl VectorWatch {
    pub(super) fn status_read(&mut self, causes: u32) {
        self.read |= causes;
        self.acknowledged = 0;
    }

    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        bits: u32,
        status: u32,
    ) -> Option<(FindingKind, String)> {
        let unseen = self.unseen.contains(&bits);
        let again = bits != 0 && !unseen && bits & !self.acknowledged == 0 && bits & status == 0;
        if bits & !self.read == 0 {
            self.acknowledged |= bits;
        } else if !unseen && bits & self.acknowledged == 0 && self.unseen.len() < MOST_SETS {
            self.unseen.push(bits);
        }
        self.read &= !bits;
        self.closed_upon = 0;
        self.answered(now);
        again.then(|| {
            let what =
                format!("causes {bits:#x} acknowledged a second time after one read of them");
            (FindingKind::AcknowledgedTwice, what)
        })
    }

    pub(super) fn masked(
        &mut self,
        now: Time,
        before: u32,
        after: u32,
        status: u32,
    ) -> Option<(FindingKind, String)> {
        let (opened, closed) = (after & !before & status, before & !after & status);
        let (read, closed_upon) = (opened & self.read, opened & self.closed_upon);
        self.closed_upon |= closed;
        self.acknowledged &= !(before & !after);
        self.answered(now);
        let what = if read != 0 {
            format!("unmasked while causes {read:#x} stood that it had read and not acknowledged")
        } else if closed_upon != 0 {
            format!("masked and unmasked while causes {closed_upon:#x} stood, none acknowledged")
        } else {
            return None;
        };
        Some((FindingKind::MaskOpened, what))
    }

    pub(super) fn raised(&mut self, now: Time) {
        self.unanswered_since = Some(now);
    }

    fn answered(&mut self, now: Time) {
        if let Some(since) = &mut self.unanswered_since {
            *since = now;
        }
    }

    pub(super) fn pass(&mut self, now: Time, high: bool) -> Option<(FindingKind, String)> {
        self.unanswered_since = self.unanswered_since.filter(|_| high);
        if now.since(self.unanswered_since?) < Span::from_ms(ANSWER_WITHIN_MS) {
            return None;
        }
        self.unanswered_since = None;
        let what = format!(
            "neither acknowledged nor masked within {ANSWER_WITHIN_MS} ms of the interrupt"
        );
        Some((FindingKind::NotAcknowledged, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RX: u32 = 1;
    const TX: u32 = 4;
    const ALL: u32 = 0xff;

    fn at(ms: u64) -> Time {
        Time::from_ps(ms * 1_000_000_000)
    }

    fn kind(found: Option<(FindingKind, String)>) -> Option<FindingKind> {
        found.map(|(kind, _)| kind)
    }

    /// Linux's r8169: reads, masks, acknowledges what it read, polls, unmasks.
    #[test]
    fn a_handler_that_acknowledges_what_it_has_read_is_in_order() {
        let mut watch = VectorWatch::default();
        for _ in 0..3 {
            watch.status_read(RX);
            // Another cause comes before the mask is closed, and stands until it is opened.
            assert_eq!(watch.masked(at(0), ALL, 0, RX | TX), None);
            assert_eq!(watch.acknowledged(at(0), RX, RX | TX), None);
            assert_eq!(watch.masked(at(0), 0, ALL, TX), None);
            watch.status_read(TX);
            assert_eq!(watch.masked(at(0), ALL, 0, TX), None);
            assert_eq!(watch.acknowledged(at(0), TX, TX), None);
            assert_eq!(watch.masked(at(0), 0, ALL, RX), None, "a frame that came meanwhile");
        }
    }

    #[test]
    fn a_handler_that_acknowledges_unseen_is_in_order() {
        let mut watch = VectorWatch::default();
        for status in [RX, 0, TX] {
            assert_eq!(watch.masked(at(0), ALL, 0, status), None);
            assert_eq!(watch.acknowledged(at(0), RX | TX, status), None);
            assert_eq!(watch.acknowledged(at(0), RX | TX, 0), None, "before it unmasks, again");
            assert_eq!(watch.masked(at(0), 0, ALL, RX), None);
            watch.status_read(RX);
        }
        assert_eq!(watch.acknowledged(at(0), TX, 0), None, "one of them alone");
        assert_eq!(watch.acknowledged(at(0), ALL, 0), None, "everything, before a reset");
    }

    #[test]
    fn a_mask_is_not_opened_upon_a_cause_that_is_known() {
        let mut read = VectorWatch::default();
        read.status_read(RX);
        read.masked(at(0), ALL, 0, RX);
        let opened = read.masked(at(0), 0, ALL, RX);
        assert_eq!(kind(opened), Some(FindingKind::MaskOpened));
        let mut unseen = VectorWatch::default();
        unseen.masked(at(0), ALL, 0, RX);
        let opened = unseen.masked(at(0), 0, ALL, RX);
        assert_eq!(kind(opened), Some(FindingKind::MaskOpened));
    }

    #[test]
    fn what_was_read_is_acknowledged_once() {
        let mut watch = VectorWatch::default();
        watch.status_read(RX);
        assert_eq!(watch.acknowledged(at(0), RX, RX), None);
        let again = watch.acknowledged(at(0), RX, 0);
        assert_eq!(kind(again), Some(FindingKind::AcknowledgedTwice));
        assert_eq!(watch.acknowledged(at(0), RX, RX), None, "it has come again");
    }

    /// Our drivers: what was read before, to look for a change of the link, may be all that they acknowledge.
    #[test]
    fn one_that_acknowledges_unseen_may_have_read_all_of_it() {
        let mut watch = VectorWatch::default();
        assert_eq!(watch.acknowledged(at(0), RX | TX, RX), None);
        assert_eq!(watch.masked(at(0), 0, ALL, 0), None);
        watch.status_read(RX | TX);
        assert_eq!(watch.masked(at(0), ALL, 0, RX | TX), None);
        assert_eq!(watch.acknowledged(at(0), RX | TX, RX | TX), None);
        assert_eq!(watch.acknowledged(at(0), RX | TX, 0), None, "before it unmasks, again");
        assert_eq!(watch.masked(at(0), 0, ALL, 0), None);
        watch.status_read(RX);
        assert_eq!(watch.acknowledged(at(0), RX, RX), None);
        let again = watch.acknowledged(at(0), RX, 0);
        assert_eq!(kind(again), Some(FindingKind::AcknowledgedTwice), "another set");
        let again = watch.acknowledged(at(0), RX, 0);
        assert_eq!(kind(again), Some(FindingKind::AcknowledgedTwice), "and each time");
    }

    /// A sender that lets transmissions interrupt from time to time: each time it acknowledges first.
    #[test]
    fn a_cause_whose_mask_was_closed_may_be_acknowledged_before_it_is_opened() {
        let mut watch = VectorWatch::default();
        watch.status_read(TX);
        for _ in 0..3 {
            assert_eq!(watch.acknowledged(at(0), TX, 0), None);
            assert_eq!(watch.masked(at(0), RX, RX | TX, 0), None);
            assert_eq!(watch.masked(at(0), RX | TX, RX, 0), None);
        }
        let mut watch = VectorWatch::default();
        watch.status_read(TX);
        assert_eq!(watch.acknowledged(at(0), TX, 0), None);
        assert_eq!(watch.masked(at(0), RX, RX | TX, 0), None);
        let again = watch.acknowledged(at(0), TX, 0);
        assert_eq!(kind(again), Some(FindingKind::AcknowledgedTwice), "opened, not closed");
    }

    #[test]
    fn an_interrupt_without_an_answer_is_found_once() {
        let mut watch = VectorWatch::default();
        watch.raised(at(0));
        assert_eq!(watch.pass(at(999), true), None);
        watch.masked(at(999), ALL, RX, RX);
        assert_eq!(watch.pass(at(1_500), true), None, "it has done something");
        let found = watch.pass(at(2_000), true);
        assert_eq!(kind(found), Some(FindingKind::NotAcknowledged));
        assert_eq!(watch.pass(at(9_000), true), None);
        watch.raised(at(9_000));
        assert_eq!(watch.pass(at(9_500), false), None, "the level has fallen");
        assert_eq!(watch.pass(at(20_000), true), None);
    }
}
