//! Which processes come first on the target's core, where we may say so.
//!
//! Parts of a live target share a core. The driver comes before what is above it, as drivers do in
//! microkernel systems; one that is being started comes after everything, because its start takes
//! milliseconds of the processor. Both need a right that root has (CAP_SYS_NICE): to raise a process again.
//! Without it all parts are equal, and sends and replacements now and then wait for a start.

use rustix::process::{Pid, setpriority_process};

/// A driver's claim on a processor: nice -10.
const DRIVER: i32 = -10;
/// The claim of a process that is being started.
const STARTING: i32 = 10;

/// Whether processes may be raised.
pub(crate) fn may_be_raised() -> bool {
    // In a thread of its own, whose claim ends with it.
    std::thread::spawn(|| setpriority_process(None, DRIVER).is_ok()).join().unwrap_or(false)
}

/// Lowers the calling thread, and whatever process it starts.
pub(crate) fn lower_this_thread() {
    let _ = setpriority_process(None, STARTING);
}

/// Gives a process a driver's claim.
pub(crate) fn raise(process_id: u32) {
    if let Some(pid) = i32::try_from(process_id).ok().and_then(Pid::from_raw) {
        // One that has ended needs none.
        let _ = setpriority_process(Some(pid), DRIVER);
    }
}
