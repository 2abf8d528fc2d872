//! A queue of a fixed length. A receive queue uses it for every frame: it takes a few instructions, and the one of the
//! standard library, which grows, takes calls.

/// First in, first out.
#[derive(Debug)]
pub(super) struct Fifo<T> {
    /// A power of two of them, so that the place of each is found with a mask.
    slots: Box<[T]>,
    first: usize,
    count: usize,
}

impl<T: Copy + Default> Fifo<T> {
    /// An empty one with room for `count` at least.
    pub(super) fn with_room(count: usize) -> Fifo<T> {
        let slots = vec![T::default(); count.next_power_of_two()];
        Fifo { slots: slots.into_boxed_slice(), first: 0, count: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn index(&self, number: usize) -> usize {
        self.first.wrapping_add(number) & (self.slots.len() - 1)
    }

    /// The oldest.
    #[inline]
    pub(super) fn front(&self) -> Option<T> {
        (self.count > 0).then(|| self.slots[self.index(0)])
    }

    /// Takes the oldest away, if there is one.
    #[inline]
    pub(super) fn pop(&mut self) {
        let taken = usize::from(self.count > 0);
        (self.first, self.count) = (self.first.wrapping_add(taken), self.count - taken);
    }

    /// Adds one; there must be room.
    #[inline]
    pub(super) fn push(&mut self, value: T) {
        debug_assert!(self.count < self.slots.len());
        let index = self.index(self.count);
        self.slots[index] = value;
        self.count += 1;
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_what_that_of_the_standard_library_does(
            room in 1usize..9,
            steps in prop::collection::vec(prop_oneof![8 => (0u16..999).prop_map(Some), 7 => Just(None)], 0..200),
        ) {
            let (mut ours, mut theirs) = (Fifo::with_room(room), VecDeque::new());
            for step in steps {
                match step {
                    Some(value) if theirs.len() < room => {
                        ours.push(value);
                        theirs.push_back(value);
                    }
                    Some(0..99) => {
                        ours.clear();
                        theirs.clear();
                    }
                    _ => {
                        ours.pop();
                        theirs.pop_front();
                    }
                }
                prop_assert_eq!((ours.len(), ours.front()), (theirs.len(), theirs.front().copied()));
            }
        }
    }
}
