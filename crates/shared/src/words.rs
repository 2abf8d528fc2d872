use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Words of 64 bits that two sides share, addressed by their number.
///
/// The places of a protocol in them are constants or were checked against [`len`](Words::len) when
/// the protocol's ends were made; a number beyond the last word is a bug of ours and panics.
pub trait Words {
    /// Number of words.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a word.
    fn load(&self, at: usize, order: Ordering) -> u64;

    /// Reads the words from `first` on, as many as `into` has room for (relaxed). One call for all of them: where the
    /// kind of words is not known, a call for each costs more than the reading.
    fn load_all(&self, first: usize, into: &mut [u64]) {
        for (number, word) in into.iter_mut().enumerate() {
            *word = self.load(first + number, Ordering::Relaxed);
        }
    }

    /// Writes a word.
    fn store(&self, at: usize, value: u64, order: Ordering);

    /// Writes a word and gives what it was.
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64;

    /// Everything before it is seen by others before anything behind it (a full fence).
    fn fence(&self);
}

impl<W: Words + ?Sized> Words for Rc<W> {
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        (**self).load(at, order)
    }

    #[inline]
    fn load_all(&self, first: usize, into: &mut [u64]) {
        (**self).load_all(first, into);
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        (**self).store(at, value, order);
    }

    #[inline]
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        (**self).swap(at, value, order)
    }

    #[inline]
    fn fence(&self) {
        (**self).fence();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::SharedWords;

    /// Words that are each their own number, and how often they were fenced.
    struct Numbers {
        len: usize,
        fences: Cell<u32>,
    }

    impl Words for Numbers {
        fn len(&self) -> usize {
            self.len
        }
        fn load(&self, at: usize, _: Ordering) -> u64 {
            at as u64
        }
        fn store(&self, _: usize, _: u64, _: Ordering) {}
        fn swap(&self, at: usize, _: u64, _: Ordering) -> u64 {
            at as u64
        }
        fn fence(&self) {
            self.fences.set(self.fences.get() + 1);
        }
    }

    #[test]
    fn what_a_kind_of_words_does_not_do_itself_is_done_word_by_word() {
        let numbers = |len| Rc::new(Numbers { len, fences: Cell::new(0) });
        assert!(numbers(0).is_empty() && !numbers(1).is_empty());
        let words = numbers(8);
        let mut into = [0; 3];
        words.load_all(4, &mut into);
        assert_eq!(into, [4, 5, 6]);
        let mut into = [0; 2];
        Numbers::load_all(&words, 1, &mut into);
        assert_eq!(into, [1, 2]);
        words.fence();
        assert_eq!(words.fences.get(), 1);
    }

    #[test]
    fn words_that_are_shared_are_the_same_words() {
        let words = Rc::new(SharedWords::anonymous(4_096));
        Words::store(&words, 7, 5, Relaxed);
        assert_eq!((Words::swap(&words, 7, 6, Relaxed), Words::load(&words, 7, Relaxed)), (5, 6));
        assert_eq!((Words::len(&words), Words::is_empty(&words)), (512, false));
        assert_eq!(SharedWords::load(&words, 7, Relaxed), 6);
    }
}
