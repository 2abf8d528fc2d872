//! Words of a driver's own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use warikomi_pci::attach::area;
use warikomi_shared::Words;

/// Words that no other process sees: the state of a driver whose successor gets it through a store, and
/// everything in virtual time.
#[derive(Clone)]
pub struct LocalWords(Rc<[Cell<u64>]>);

impl LocalWords {
    /// As many zeros as a state area has words.
    pub fn new() -> LocalWords {
        LocalWords::of(area::WORDS)
    }

    /// Memory of `words` words, all 0.
    pub fn of(words: usize) -> LocalWords {
        LocalWords(vec![Cell::new(0); words].into())
    }
}

impl Default for LocalWords {
    fn default() -> LocalWords {
        LocalWords::new()
    }
}

impl Words for LocalWords {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn load(&self, at: usize, _order: Ordering) -> u64 {
        self.0[at].get()
    }

    #[inline]
    fn store(&self, at: usize, value: u64, _order: Ordering) {
        self.0[at].set(value);
    }

    #[inline]
    fn swap(&self, at: usize, value: u64, _order: Ordering) -> u64 {
        self.0[at].replace(value)
    }

    /// Nobody else sees them in any order.
    #[inline]
    fn fence(&self) {}
}
