//! Interrupts. Moderation (IntrMitigate) holds RxOK and TxOK back; errors and link changes are never
//! held.

use warikomi_clock::Span;

use super::{regs, timers};
use crate::NicContext;
use crate::queue::Causes;

// What is moderated.
pub(super) const RX: usize = 0;
pub(super) const TX: usize = 1;

/// Nothing pending, everything masked, no moderation.
pub(super) fn causes() -> Causes<2> {
    Causes::new(regs::VECTOR, regs::INTR_ALL, [regs::RX_OK, regs::TX_OK], timers::MODERATION)
}

/// The driver writes IntrMitigate or CPlusCmd, or the speed changes. What one step of the time fields
/// lasts is a base that depends on the speed, times 1, 8, 16 or 32 (Linux 6.1 r8169_main.c,
/// rtl_coalesce_info_8168_8136).
pub(super) fn moderate(
    causes: &mut Causes<2>,
    cx: &mut NicContext<'_>,
    [mitigate, cplus]: [u16; 2],
    mbps: u32,
) {
    let base = match mbps {
        10 => Span::from_ns(40_960),
        100 => Span::from_ns(2_560),
        _ => Span::from_ns(5_000),
    };
    let unit = base * [1, 8, 16, 32][usize::from(cplus & regs::CPLUS_TIMER_SCALE)];
    let field = |shift: u32| u32::from(mitigate >> shift & 0xf);
    causes.moderate(cx, TX, unit * u64::from(field(12)), 4 * field(8));
    causes.moderate(cx, RX, unit * u64::from(field(4)), 4 * field(0));
}
