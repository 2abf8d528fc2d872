//! Shared words, for the model checker; used by the models of every crate that needs them all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU64, fence};
use warikomi_shared::Words;

#[derive(Clone)]
pub(crate) struct ModelWords(Arc<Vec<AtomicU64>>);

impl ModelWords {
    pub(crate) fn new(len: usize) -> Self {
        ModelWords(Arc::new((0..len).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Words for ModelWords {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0[at].load(order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0[at].store(value, order);
    }
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.0[at].swap(value, order)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}
