//! The same of our own: a kernel with its driver on a card of ours.
//!
//! A handler begins where it first looks at its card, which is its first act. The application, its counter and the
//! frames are the same as in a guest of QEMU.

use warikomi_clock::{Span, Time, read_tsc};
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::Error;
use warikomi_lab::inject::{Application, Injected, inject};
use warikomi_session::Session;

use super::figures::{self, Figures};
use super::traffic::{COUNT, INTERVALS, RATE_SIZES, SIZE_BYTES};
use crate::rates::saturated_pps;

/// One round: the figures of each interval, and those of the whole.
pub(super) fn round(session: &mut Session) -> Result<(Vec<Figures>, Figures), Error> {
    let of_intervals =
        INTERVALS.iter().map(|&interval| paced(session, interval)).collect::<Result<_, _>>()?;
    let mut whole = Figures::new();
    for size_bytes in RATE_SIZES {
        whole.insert(format!("accepted_pps_{size_bytes}"), saturated_pps(session, size_bytes)?);
    }
    Ok((of_intervals, whole))
}

fn paced(session: &mut Session, interval: Span) -> Result<Figures, Error> {
    let plan = Plan {
        size_bytes: SIZE_BYTES,
        interval,
        count: COUNT,
        receiver: Receiver::Application,
        ..Plan::default()
    };
    let run = inject(session, &plan, Application::default(), read_tsc() as u32, &mut |_| ())?;
    run.check()?;
    Ok(of_run(&run, interval))
}

fn of_run(run: &Injected, interval: Span) -> Figures {
    let ns = |at: Time| at.as_ps() as f64 / 1e3;
    let sent: Vec<f64> = run.ledger.rows().filter_map(|row| row.injected).map(ns).collect();
    let mut application: Vec<f64> =
        run.ledger.rows().filter_map(|row| row.delivered).map(ns).collect();
    application.sort_by(f64::total_cmp);
    // Behind the last frame others may follow, of what the guest sends.
    let end = sent.last().copied().unwrap_or(0.0) + interval.as_ns();
    let handled = run.interrupts.iter().filter(|record| record.handled != Time::NEVER);
    let mut handled: Vec<f64> = handled
        .filter(|record| ns(record.raised) <= end)
        .map(|record| ns(record.handled))
        .collect();
    handled.sort_by(f64::total_cmp);
    let (requested, planned) = (interval.as_ns(), COUNT - 1);
    let mut found = figures::intervals("sent", &sent, requested, planned);
    found.extend(figures::intervals("handler", &handled, requested, planned));
    found.extend(figures::intervals("application", &application, requested, planned));
    let totals = run.ledger.totals();
    // The times of no more are kept than there are frames, and all are counted.
    let all = match (run.interrupts.len() as u64, &run.result.interrupts) {
        (COUNT.., Some(counted)) => counted.handled,
        _ => handled.len() as u64,
    };
    found.insert("interrupts_per_frame".into(), all as f64 / COUNT as f64);
    found.insert("delivered_share".into(), totals.delivered as f64 / COUNT as f64);
    found.insert("sent_share".into(), totals.injected as f64 / COUNT as f64);
    if let Some(took) = &run.result.inject_ns {
        found.insert("inject_ns".into(), took.p50);
    }
    found
}
