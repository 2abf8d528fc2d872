use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether the user has asked us to stop.
///
/// Signals only set a flag: whoever waits looks at it and returns an error, and destructors clean
/// up. A second Ctrl-C ends the process at once; the guard process then ends the target.
#[derive(Clone, Debug, Default)]
pub struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// Sets the flag on Ctrl-C, SIGTERM and SIGHUP from now on.
    pub fn on_signals() -> std::io::Result<Self> {
        let flag = Interrupted::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal finds the flag clear and sets it, the second finds it
            // set and ends the process.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag.0))?;
            signal_hook::flag::register(signal, Arc::clone(&flag.0))?;
        }
        Ok(flag)
    }

    /// Sets the flag by hand.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for whoever waits elsewhere.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether the user has asked us to stop.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
