//! Frames of many sizes.

use warikomi_clock::Span;
use warikomi_lab::inject::Backlog;
use warikomi_session::Session;

use crate::bring::plan;
use crate::perfect::perfect_if;

/// The shortest and the longest of usual frames, those next to them, and some between.
pub(crate) const USUAL_BYTES: [usize; 7] = [60, 61, 64, 300, 1_024, 1_513, 1_514];

/// Five hundred frames of each of these sizes arrive; `None` if others have the cores too often to tell.
#[track_caller]
pub(crate) fn all_arrive(
    session: &mut Session,
    sizes_bytes: &[usize],
    backlog: Backlog,
) -> Option<()> {
    let mut repeated = Vec::new();
    for &size in sizes_bytes {
        let plan = plan(size, Span::from_us(200), 500);
        let totals = perfect_if(session, &plan, &mut repeated, backlog)?.ledger.totals();
        let seen = (totals.accepted, totals.delivered, totals.unaccounted);
        assert_eq!(seen, (500, 500, 0), "{size} bytes: {totals:?}");
    }
    Some(())
}
