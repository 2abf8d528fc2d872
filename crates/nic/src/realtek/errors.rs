//! What is wrong with a frame that arrives, and whether the receiver takes it all the same.
//!
//! The check sequence is not recomputed, which would cost more than the rest of the reception: the caller that
//! damages a frame says so ([`RxFault`]).

use super::filter::{ACCEPT_ERR, ACCEPT_RUNT};
use crate::{FCS_BYTES, MIN_FRAME_BYTES, RxError, RxFault};

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameErrors {
    pub(crate) crc: bool,
    pub(crate) alignment: bool,
    pub(crate) runt: bool,
    pub(crate) too_long: bool,
}

/// The errors of a frame of `bytes` bytes without check sequence, of which at most `max_bytes` with check sequence are
/// wanted; `None` if it is not let in. `accept` is the low byte of RxConfig.
#[cold]
pub(crate) fn judge(
    accept: u8,
    max_bytes: usize,
    bytes: usize,
    fault: Option<RxFault>,
) -> Option<FrameErrors> {
    let mut errors = FrameErrors {
        crc: matches!(fault, Some(RxFault::Crc | RxFault::Alignment)),
        alignment: fault == Some(RxFault::Alignment),
        runt: bytes < MIN_FRAME_BYTES,
        too_long: bytes + FCS_BYTES > max_bytes,
    };
    let damaged = errors.crc || errors.too_long;
    let let_in =
        (!damaged || accept & ACCEPT_ERR != 0) && (!errors.runt || accept & ACCEPT_RUNT != 0);
    match fault {
        Some(RxFault::Reported(RxError::Crc)) => errors.crc = true,
        Some(RxFault::Reported(RxError::Runt)) => errors.runt = true,
        Some(RxFault::Reported(RxError::TooLong)) => errors.too_long = true,
        _ => {}
    }
    let_in.then_some(errors)
}

/// Whether the receiver would not have taken a frame with the error that its descriptor was made to tell.
pub(crate) fn is_unwanted(accept: u8, fault: RxFault) -> bool {
    match fault {
        RxFault::Reported(RxError::Crc) => accept & ACCEPT_ERR == 0,
        RxFault::Reported(RxError::Runt) => accept & ACCEPT_RUNT == 0,
        RxFault::Reported(RxError::TooLong) => true,
        _ => false,
    }
}

/// Whether a fault is one of the frame, and so of what its descriptor tells of it.
#[inline]
pub(crate) fn damages(fault: Option<RxFault>) -> bool {
    matches!(fault, Some(RxFault::Crc | RxFault::Alignment | RxFault::Reported(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_own_permission() {
        let judged = |accept, bytes, fault| judge(accept, 1_518, bytes, fault);
        assert_eq!(judged(0, 1_514, None), Some(FrameErrors::default()));
        for (bytes, fault, permission) in [
            (59, None, ACCEPT_RUNT),
            (1_515, None, ACCEPT_ERR),
            (60, Some(RxFault::Crc), ACCEPT_ERR),
            (60, Some(RxFault::Alignment), ACCEPT_ERR),
        ] {
            assert_eq!(judged(0x3f & !permission, bytes, fault), None, "{bytes} {fault:?}");
            assert!(judged(permission, bytes, fault).is_some(), "{bytes} {fault:?}");
        }
        let reported = RxFault::Reported(RxError::Runt);
        let errors = judged(0, 60, Some(reported)).unwrap();
        assert!(errors.runt && is_unwanted(0, reported) && !is_unwanted(ACCEPT_RUNT, reported));
    }
}
