//! Shared words, for the model checker; used by the models of every crate that needs them all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU64, fence};
use warikomi_shared::Words;

#[derive(Clone)]
pub(crate) struct ModelWords {
    words: Arc<Vec<AtomicU64>>,
    swapped: Option<usize>,
}

impl ModelWords {
    /// Words that are 0, of which one at most is ever swapped.
    ///
    /// loom 0.7 takes a plain store for one that may have come before a swap whose value it has replaced (its issue 254),
    /// and then finds a sleeper whose word is seen as it was before. A store to that word is a swap, too, therefore: it
    /// comes behind what it replaces, and is ordered no better.
    pub(crate) fn new(len: usize, swapped: Option<usize>) -> Self {
        let words = (0..len).map(|_| AtomicU64::new(0)).collect();
        ModelWords { words: Arc::new(words), swapped }
    }
}

impl Words for ModelWords {
    fn len(&self) -> usize {
        self.words.len()
    }
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.words[at].load(order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        if Some(at) == self.swapped {
            self.words[at].swap(value, order);
        } else {
            self.words[at].store(value, order);
        }
    }
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        assert_eq!(Some(at), self.swapped);
        self.words[at].swap(value, order)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}
