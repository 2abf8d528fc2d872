//! Cache lines that will be written soon.

use std::sync::atomic::AtomicU32;

/// Asks for the cache line of `place`, to be written: it is on its way from whichever core has it while this one does
/// other things. Nothing is read or written. A store that has to fetch its line holds up those behind it, which leave a
/// core in order.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no other form")]
pub fn prefetch_to_write(place: &AtomicU32) {
    // SAFETY: a prefetch is a hint. It changes neither memory nor registers nor flags, and faults nowhere (AMD64
    // Architecture Programmer's Manual, volume 3, PREFETCHW).
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
}
