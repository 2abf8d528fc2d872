//! What ends a sleep, for the model checker; used by the models of every crate.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use warikomi_shared::{Wakeup, Woken};

/// As an eventfd: a wake-up that comes first ends the next sleep.
#[derive(Clone)]
pub(crate) struct ModelEvent(Arc<(Mutex<bool>, Condvar)>);

impl ModelEvent {
    pub(crate) fn new() -> Self {
        ModelEvent(Arc::new((Mutex::new(false), Condvar::new())))
    }

    pub(crate) fn wait(&self) -> Woken {
        let mut set = self.0.0.lock().unwrap();
        while !*set {
            set = self.0.1.wait(set).unwrap();
        }
        *set = false;
        Woken::Called
    }
}

impl Wakeup for ModelEvent {
    fn wake(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }
}
