//! Cache lines that will be written or read soon.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Asks for the cache lines of the `bytes` bytes from `first` on, to be written: they are on their way from whichever
/// core has them while this one does other things. Nothing is read or written, whatever is there. A store that has to
/// fetch its line holds up those behind it, which leave a core in order.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no other form")]
pub fn prefetch_to_write(first: *const u8, bytes: usize) {
    const LINE_BYTES: usize = 64;
    let (mut line, end) =
        (first.wrapping_sub(first.addr() % LINE_BYTES), first.wrapping_add(bytes));
    while line < end {
        // SAFETY: a prefetch is a hint. It changes neither memory nor registers nor flags, and faults nowhere (AMD64
        // Architecture Programmer's Manual, volume 3, PREFETCHW).
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        line = line.wrapping_add(LINE_BYTES);
    }
}

/// Asks for the cache line that `place` is in, to be read. Unlike a load, which is in the way of what is behind it until
/// its line has come, it holds nothing up.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no safe form")]
pub fn prefetch_to_read(place: *const u8) {
    // SAFETY: a prefetch is a hint. It changes neither memory nor registers nor flags, and faults nowhere (AMD64
    // Architecture Programmer's Manual, volume 3, PREFETCHlevel).
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}
