//! Descriptors and buffers that are the card's, as they were when the card first saw them.
//!
//! The card's are those in a row from the head of a queue on: behind one that is the driver's it does not
//! look, so a driver may hand over the later descriptors of a frame first. Each is kept as it was seen first.
//! When the card has used it, it goes; until then its words stay the same, and its buffer is given in no other
//! descriptor, of this queue or another.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use super::{FindingKind, Misuse, Place};
use crate::NicContext;

/// A descriptor that belongs to the card, by a look that costs the card nothing.
#[derive(Clone, Copy, Debug)]
pub struct Look<P> {
    /// The place behind it.
    pub next: P,
    /// Bus address of what it names.
    pub buffer: u64,
    /// Bytes there.
    pub bytes: usize,
    /// A frame begins with it; true of one to receive into.
    pub first: bool,
    /// A frame ends with it; true of one to receive into.
    pub last: bool,
    /// Its words in memory.
    pub words: [u32; 4],
}

/// Descriptors that are compared in one look, besides the first; all of them in turn.
const COMPARED: usize = 32;

/// The descriptors of a queue that are the card's.
#[derive(Debug)]
pub(crate) struct Watch<P> {
    owned: VecDeque<(P, Look<P>)>,
    /// End of each buffer by its begin, and the place that names it: of a receive queue.
    buffers: BTreeMap<u64, (u64, P)>,
    /// What the queue had completed when it was looked at last.
    completed: u64,
    /// Where comparing goes on.
    turn: usize,
    /// The words of the last descriptor seen, if its frame goes on.
    unfinished: Option<[u32; 4]>,
}

impl<P> Default for Watch<P> {
    fn default() -> Self {
        let (owned, buffers) = (VecDeque::new(), BTreeMap::new());
        Watch { owned, buffers, completed: 0, turn: 0, unfinished: None }
    }
}

/// Which other queue of the card has a part of the memory between two addresses, and in which descriptor.
pub(crate) type Elsewhere<'a, P> = dyn Fn(u64, u64) -> Option<(Place, P)> + 'a;

/// A queue, for a look at its descriptors.
pub(crate) struct Queue<'a, P> {
    pub(crate) place: Place,
    pub(crate) head: P,
    /// Counts what the card has completed: it changes with each descriptor that is used.
    pub(crate) completed: u64,
    /// Descriptors that it has at most.
    pub(crate) most: usize,
    /// What says what its descriptors look like.
    pub(crate) source: &'static str,
    /// The descriptor at a place, if it is the card's.
    pub(crate) look: &'a dyn Fn(&NicContext<'_>, P) -> Option<Look<P>>,
    /// What is wrong with one.
    pub(crate) misuse: fn(&Look<P>, Option<[u32; 4]>) -> Option<Misuse>,
    /// Of a queue whose buffers are the card's alone, because it writes to them.
    pub(crate) elsewhere: Option<&'a Elsewhere<'a, P>>,
    /// A mark says that a frame begins with a descriptor.
    pub(crate) marks_first: bool,
    /// The card may be using its descriptors at this moment.
    pub(crate) active: bool,
}

impl<P: Copy + PartialEq + Debug> Watch<P> {
    /// The ring goes away, or is switched off: the driver may do with it as it likes.
    pub(crate) fn forget(&mut self) {
        *self = Watch { completed: self.completed, ..Watch::default() };
    }

    /// Looks at the queue, and notes what the driver has done to what is the card's.
    pub(crate) fn inspect(&mut self, cx: &mut NicContext<'_>, queue: &Queue<'_, P>) {
        self.follow(queue.head, queue.completed);
        self.compare(cx, queue);
        self.extend(cx, queue);
    }

    /// Lets go what the card has used since: it is at `head`, and has `completed` that number.
    pub(crate) fn follow(&mut self, head: P, completed: u64) {
        let used = std::mem::replace(&mut self.completed, completed) != completed;
        let before = self.owned.len();
        while self.owned.front().is_some_and(|(place, _)| *place != head) {
            self.let_first_go();
        }
        // Once round, or more, and so all of them.
        if used && before == self.owned.len() {
            self.owned.clear();
            self.buffers.clear();
        }
    }

    fn let_first_go(&mut self) {
        let Some((place, look)) = self.owned.pop_front() else { return };
        self.release((place, look));
    }

    fn release(&mut self, (place, look): (P, Look<P>)) {
        if self.buffers.get(&look.buffer).is_some_and(|(_, by)| *by == place) {
            self.buffers.remove(&look.buffer);
        }
    }

    /// Compares the first descriptor, and some of the others, with what they were.
    fn compare(&mut self, cx: &mut NicContext<'_>, queue: &Queue<'_, P>) {
        let len = self.owned.len();
        let others = (self.turn..).take(COMPARED.min(len)).map(|index| index % len);
        self.turn = if len > 0 { (self.turn + COMPARED) % len } else { 0 };
        for index in std::iter::once(0).chain(others) {
            let Some(&(place, before)) = self.owned.get(index) else { return };
            let now = (queue.look)(cx, place);
            if now.is_some_and(|now| now.words == before.words) {
                continue;
            }
            let which = (FindingKind::DescriptorChanged, queue.place);
            let Some(now) = now else {
                if queue.active {
                    cx.note(which, queue.source, || {
                        format!("descriptor {place:?} taken back: it was {:08x?}", before.words)
                    });
                }
                self.owned.split_off(index).into_iter().for_each(|entry| self.release(entry));
                return;
            };
            cx.note(which, queue.source, || {
                format!("descriptor {place:?} from {:08x?} to {:08x?}", before.words, now.words)
            });
            self.owned[index].1.words = now.words;
        }
    }

    /// Takes up what has been handed over since.
    fn extend(&mut self, cx: &mut NicContext<'_>, queue: &Queue<'_, P>) {
        let mut next = self.owned.back().map_or(queue.head, |(_, look)| look.next);
        while self.owned.len() < queue.most && (self.owned.is_empty() || next != queue.head) {
            let Some(look) = (queue.look)(cx, next) else { return };
            self.judge(cx, queue, (next, &look));
            self.owned.push_back((next, look));
            next = look.next;
        }
    }

    /// Notes what is wrong with a descriptor that has just been handed over.
    fn judge(
        &mut self,
        cx: &mut NicContext<'_>,
        queue: &Queue<'_, P>,
        (place, look): (P, &Look<P>),
    ) {
        let before = std::mem::replace(&mut self.unfinished, (!look.last).then_some(look.words));
        let began = before.is_some();
        let wrong = match () {
            () if look.bytes == 0 => Some("names no bytes"),
            () if !queue.marks_first => None,
            () if queue.elsewhere.is_none() && began && look.first => {
                Some("begins a frame within another")
            }
            () if !began && !look.first => Some("goes on with a frame that has not begun"),
            () => None,
        };
        let (kind, source) = (FindingKind::Descriptor, queue.source);
        let misuse = wrong.map(|what| Misuse { kind, what, source });
        for Misuse { kind, what, source } in misuse.into_iter().chain((queue.misuse)(look, before))
        {
            cx.note((kind, queue.place), source, || {
                format!("descriptor {place:?} {what}: {:08x?}", look.words)
            });
        }
        if let Some(elsewhere) = queue.elsewhere {
            self.take_buffer(cx, queue, elsewhere, (place, look));
        }
    }

    /// The descriptor of a receive queue whose buffer has a part of this memory.
    pub(crate) fn holder(&self, begin: u64, end: u64) -> Option<P> {
        let (_, &(ends, place)) = self.buffers.range(..end).next_back()?;
        (ends > begin).then_some(place)
    }

    fn take_buffer(
        &mut self,
        cx: &mut NicContext<'_>,
        queue: &Queue<'_, P>,
        elsewhere: &Elsewhere<'_, P>,
        (place, look): (P, &Look<P>),
    ) {
        let (begin, end) = (look.buffer, look.buffer.saturating_add(look.bytes as u64));
        if begin == end {
            return;
        }
        let which = (FindingKind::GivenTwice, queue.place);
        let what = format_args!("the buffer at {begin:#x} of descriptor {place:?}");
        if let Some(earlier) = self.holder(begin, end) {
            return cx.note(which, queue.source, || format!("{what} is in {earlier:?} too"));
        }
        self.buffers.insert(begin, (end, place));
        if let Some((other, earlier)) = elsewhere(begin, end) {
            cx.note(which, queue.source, || format!("{what} is in {earlier:?} of {other} too"));
        }
    }
}
