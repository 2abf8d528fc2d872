//! One replacement of a kernel's driver under traffic.

use std::time::Duration;

use warikomi_clock::{Clock, Span, Time, read_tsc};
use warikomi_inject::{Addresses, FrameTemplate, NETWORK_IP, UDP_PORT};
use warikomi_protocol::answers::{ReceiveTotals, SendTime, WorkTotals};
use warikomi_protocol::commands::{
    ReceiveRuns, ReceiveStart, ReceiveStop, UnloadDriver, WorkDatagrams, WorkStart, WorkStop,
};
use warikomi_session::{Session, SessionOptions, bring_up};
use warikomi_target::{CardId, Target, TargetError};
use warikomi_wire::Responder;
use warikomi_wire::peer::workload::Seen;

use super::options::Options;
use super::traffic::Traffic;
use crate::error::Error;
use crate::replace::plan::Load;

/// Traffic goes on for so long before the driver is replaced, ...
const LEAD: Duration = Duration::from_millis(300);
/// ... for a random time longer, ...
const LONGEST_MOMENT: Duration = Duration::from_millis(200);
/// ... and for so long after the connection sends again.
const REST: Duration = Duration::from_millis(300);
/// A connection that has lost its interface tries again in growing intervals, at the latest after this
/// (four times 200 ms, doubled).
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// Time between two looks whether it does.
const LOOK: Duration = Duration::from_millis(20);
/// What is on its way when nothing more is sent has arrived by then.
const DRAIN: Duration = Duration::from_millis(100);
/// How long the guest may take for a command.
const ALLOWANCE: Duration = Duration::from_secs(5);
/// Runs of received datagrams that are recorded.
const MOST_RUNS: u32 = 1 << 18;

/// One send over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its length.
    pub(super) took: Span,
    /// When, seen from the replacement.
    pub(super) when: When,
}

/// When a send was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// It ended before the replacement began.
    Before,
    /// A part of the replacement fell into it.
    During,
    /// It began when the new driver was there.
    After,
}

/// What came of one replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trial {
    /// From the order to remove the module until the new one's link is up and its interface configured.
    pub(super) swap: Span,
    pub(super) sends: Vec<Sent>,
    pub(super) longest_send_gap: Option<Span>,
    pub(super) longest_receive_gap: Option<Span>,
    /// Numbered frames that the guest's application had.
    pub(super) received: u64,
    /// Frames of the workload on the wire.
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    pub(super) retransmitted: u64,
    /// Frames for which the card had no descriptor before or after.
    pub(super) no_descriptor: u64,
    /// Frames for which it had none meanwhile.
    pub(super) not_receiving: u64,
    pub(super) refused: Option<u64>,
    pub(super) connection_lost: bool,
}

/// Carries it out; `place`, 0 to 1, says when the driver is replaced. The inner error is the guest's reason why
/// its driver cannot be removed.
pub(super) fn run(
    session: &mut Session,
    brought_up: &SessionOptions,
    traffic: &Traffic,
    options: &Options,
    load: Load,
    place: f64,
) -> Result<Result<Trial, String>, Error> {
    let target = &mut *session.target;
    let run_id = read_tsc() as u32;
    traffic.expect(run_id);
    start_work(target, options, load, run_id)?;
    let card = Card::look(target)?;
    start_arrivals(target, traffic, options, load, run_id)?;
    target.serve_for(LEAD + LONGEST_MOMENT.mul_f64(place))?;
    let (begun, at_begin) = (target.clock().now(), Card::look(target)?);
    if let Err(reason) = swap(target, brought_up)? {
        end_work(target, load)?;
        end_arrivals(target, traffic, load)?;
        return Ok(Err(reason));
    }
    let (served, at_end) = (target.clock().now(), Card::look(target)?);
    wait_for_frames(target, traffic, load)?;
    let work = end_work(target, load)?;
    let arrivals = end_arrivals(target, traffic, load)?;
    let last = Card::look(target)?;
    let seen = traffic.seen();
    let clock = target.clock();
    let mut trial = Trial {
        swap: served.since(begun),
        longest_send_gap: seen.longest_gap,
        no_descriptor: at_begin.unplaced_since(&card) + last.unplaced_since(&at_end),
        not_receiving: at_end.unplaced_since(&at_begin),
        sent: seen.frames,
        ..Trial::default()
    };
    if let Some(work) = work {
        trial.judge_work(&work, &seen, load, |send| when(&clock, send, begun, served));
    }
    if let Some(arrivals) = arrivals {
        // What the card had no place for is told apart. Of others' frames, too, of which there are a few.
        trial.judge_arrivals(&arrivals, trial.no_descriptor + trial.not_receiving);
    }
    Ok(Ok(trial))
}

impl Trial {
    fn judge_work(
        &mut self,
        work: &WorkTotals,
        seen: &Seen,
        load: Load,
        when: impl Fn(&SendTime) -> When,
    ) {
        let sent = |send: &SendTime| Sent { took: Span::from_ns(send.1), when: when(send) };
        self.sends = work.send_times.iter().map(sent).collect();
        self.retransmitted += work.retransmitted.unwrap_or(0);
        self.connection_lost = work.failure.is_some();
        if load == Load::Heavy {
            self.refused = Some(work.datagram_errors);
            let came = &seen.datagrams;
            self.judge(work.datagrams, came.messages, came.duplicated, came.reordered);
        }
    }

    /// `unplaced` frames never went on the ring.
    fn judge_arrivals(&mut self, arrivals: &Arrivals, unplaced: u64) {
        self.received = arrivals.totals.delivered;
        let (came, placed) = (&arrivals.totals, arrivals.sent.saturating_sub(unplaced));
        self.judge(placed, came.delivered, came.duplicates, came.out_of_order);
        self.longest_receive_gap = arrivals.longest_gap;
    }

    /// Of so many numbered datagrams these came.
    fn judge(&mut self, sent: u64, came: u64, duplicated: u64, reordered: u64) {
        self.lost += sent.saturating_sub(came);
        self.duplicated += duplicated;
        self.reordered += reordered;
    }
}

/// When a send was, if the replacement was from `begun` to `served`.
fn when(clock: &Clock, send: &SendTime, begun: Time, served: Time) -> When {
    let start = clock.at(send.0);
    match () {
        () if start + Span::from_ns(send.1) < begun => When::Before,
        () if start > served => When::After,
        () => When::During,
    }
}

/// Removes the driver and brings it up again. The inner error says why it cannot be removed.
fn swap(
    target: &mut dyn Target,
    brought_up: &SessionOptions,
) -> Result<Result<(), String>, TargetError> {
    match target.ask(UnloadDriver { name: brought_up.driver.clone() }, ALLOWANCE) {
        Ok(_) => bring_up(target, brought_up).map(|_| Ok(())),
        Err(TargetError::Refused { message, .. }) => Ok(Err(message)),
        Err(other) => Err(other),
    }
}

/// Waits until the workload is on the wire again, and a while longer.
fn wait_for_frames(
    target: &mut dyn Target,
    traffic: &Traffic,
    load: Load,
) -> Result<(), TargetError> {
    let before = traffic.seen().segments;
    for _ in 0..LONGEST_SILENCE.as_millis() / LOOK.as_millis() {
        if load == Load::Idle || traffic.seen().segments > before {
            break;
        }
        target.serve_for(LOOK)?;
    }
    target.serve_for(REST)
}

fn start_work(
    target: &mut dyn Target,
    options: &Options,
    load: Load,
    run_id: u32,
) -> Result<(), TargetError> {
    if load == Load::Idle {
        return Ok(());
    }
    let datagrams = (load == Load::Heavy).then(|| WorkDatagrams {
        destination: format!("{NETWORK_IP}:{UDP_PORT}"),
        payload_bytes: options.send_bytes,
        run_id,
        interval_us: options.interval.as_us() as u64,
    });
    let work = WorkStart {
        destination: format!("{NETWORK_IP}:{}", Responder::TCP_PORT),
        sends: 0,
        send_bytes: options.send_bytes,
        compute_us: options.compute.as_us() as u64,
        datagrams,
        timeout_ms: LONGEST_SILENCE.as_millis() as u64,
    };
    target.ask(work, LONGEST_SILENCE).map(|_| ())
}

fn end_work(target: &mut dyn Target, load: Load) -> Result<Option<WorkTotals>, TargetError> {
    if load == Load::Idle {
        return Ok(None);
    }
    let totals = target.ask(WorkStop {}, ALLOWANCE)?;
    target.serve_for(DRAIN)?;
    Ok(Some(totals))
}

/// Numbered frames that were sent to the guest, and what its application had of them.
struct Arrivals {
    sent: u64,
    totals: ReceiveTotals,
    longest_gap: Option<Span>,
}

fn start_arrivals(
    target: &mut dyn Target,
    traffic: &Traffic,
    options: &Options,
    load: Load,
    run_id: u32,
) -> Result<(), Error> {
    if load != Load::Heavy {
        return Ok(());
    }
    let start = ReceiveStart {
        max_runs: MOST_RUNS,
        equal_priority: true,
        ..ReceiveStart::on_port(UDP_PORT, run_id)
    };
    target.ask(start, Duration::ZERO)?;
    let addresses = Addresses::to_guest(target.card(CardId::FIRST)?.0.mac_address());
    let template = FrameTemplate::new(&addresses, options.frame_bytes, run_id)?;
    traffic.begin(template, options.interval, target.clock().now());
    Ok(())
}

fn end_arrivals(
    target: &mut dyn Target,
    traffic: &Traffic,
    load: Load,
) -> Result<Option<Arrivals>, TargetError> {
    if load != Load::Heavy {
        return Ok(None);
    }
    let sent = traffic.end();
    target.serve_for(DRAIN)?;
    let totals = target.ask(ReceiveStop {}, ALLOWANCE)?;
    let clock = target.clock();
    let (mut from, mut last, mut longest_gap) = (0, None, None);
    while from < totals.runs {
        let part = ReceiveRuns { from, max: ReceiveRuns::MOST };
        let runs = target.ask(part, ALLOWANCE)?.runs;
        if runs.is_empty() {
            break;
        }
        from += runs.len() as u64;
        for run in runs {
            let at = clock.at(run.2);
            let gap = last.replace(at).map(|last| at.since(last));
            longest_gap = longest_gap.max(gap);
        }
    }
    Ok(Some(Arrivals { sent, totals, longest_gap }))
}

/// What the card has been offered, and what it found a place for.
struct Card {
    offered: u64,
    on_ring: u64,
}

impl Card {
    fn look(target: &mut dyn Target) -> Result<Card, TargetError> {
        let (nic, mut host) = target.card(CardId::FIRST)?;
        let on_ring = nic.rx_progress(&mut host, usize::MAX).on_ring;
        Ok(Card { offered: nic.wire().counters().rx_frames, on_ring })
    }

    /// Frames since then for which the card had no descriptor, if only because it had no driver.
    fn unplaced_since(&self, before: &Card) -> u64 {
        let (offered, on_ring) = (self.offered - before.offered, self.on_ring - before.on_ring);
        offered.saturating_sub(on_ring)
    }
}

#[cfg(test)]
mod tests {
    use warikomi_wire::peer::numbered;

    use super::*;

    #[test]
    fn a_send_is_during_a_replacement_if_they_overlap() {
        let clock = Clock::Real(warikomi_clock::TscClock::with_frequency(0, 1e9));
        let at = |ns: u64| Time::ZERO + Span::from_ns(ns);
        for (start, took, expected) in [
            (0, 99, When::Before),
            (0, 100, When::During),
            (150, 1, When::During),
            (200, 9, When::During),
            (201, 9, When::After),
        ] {
            let send = SendTime(start, took);
            assert_eq!(when(&clock, &send, at(100), at(200)), expected, "{send:?}");
        }
    }

    #[test]
    fn what_the_card_was_offered_and_did_not_place_is_counted() {
        let card = |offered, on_ring| Card { offered, on_ring };
        assert_eq!(card(110, 57).unplaced_since(&card(100, 50)), 3);
        assert_eq!(card(100, 51).unplaced_since(&card(100, 50)), 0);
    }

    #[test]
    fn what_was_sent_and_did_not_come_is_lost() {
        let mut trial = Trial::default();
        let came = ReceiveTotals {
            delivered: 90,
            duplicates: 2,
            out_of_order: 3,
            ..ReceiveTotals::default()
        };
        // The card had no place for four of them.
        trial.judge_arrivals(&Arrivals { sent: 104, totals: came, longest_gap: None }, 4);
        let work = WorkTotals { datagrams: 50, datagram_errors: 7, ..WorkTotals::default() };
        let seen = Seen {
            datagrams: numbered::Seen { messages: 45, ..numbered::Seen::default() },
            ..Seen::default()
        };
        trial.judge_work(&work, &seen, Load::Heavy, |_| When::Before);
        assert_eq!((trial.lost, trial.duplicated, trial.reordered), (15, 2, 3));
        assert_eq!((trial.refused, trial.connection_lost), (Some(7), false));
        assert_eq!(trial.received, 90);
        let broken = WorkTotals { failure: Some("reset by peer".into()), ..WorkTotals::default() };
        trial.judge_work(&broken, &seen, Load::Busy, |_| When::Before);
        assert!(trial.connection_lost && trial.lost == 15);
    }
}
