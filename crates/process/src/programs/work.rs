//! The application at work: over one connection it sends, computes, and begins again; beside it, it sends
//! datagrams.
//!
//! All of it goes on between two looks at the channel: a step never waits, and never computes for longer
//! than a slice.

use std::net::SocketAddrV4;

use warikomi_clock::{Span, Time, TscClock, read_tsc};
use warikomi_protocol::answers::WorkTotals;
use warikomi_protocol::commands::{WorkDatagrams, WorkStart};
use warikomi_protocol::payload::HEAD_BYTES;
use warikomi_protocol::work::{self, Computing};
use warikomi_stack::Destination;

use super::network::{Network, Purpose, Returned};

/// The longest time that a step computes, in microseconds: received packets wait for so long.
const SLICE_US: u64 = 20;
/// Datagrams of one step.
const BATCH: u64 = 32;
/// How long to wait for buffers that nobody says anything about.
const PATIENCE: Span = Span::from_ms(1);
/// How long to wait for what ends a sleep.
const LONG_PATIENCE: Span = Span::from_ms(50);

/// The work, going on or over.
pub(super) struct Work {
    command: WorkStart,
    clock: TscClock,
    computing: Computing,
    phase: Phase,
    /// Where to connect, until it was said.
    to: Option<Destination>,
    bytes: Vec<u8>,
    /// Bytes of the stream that were handed over.
    given_bytes: u64,
    /// What had come back of the stream before this work.
    before: Returned,
    beside: Option<SideDatagrams>,
    totals: WorkTotals,
}

enum Phase {
    Sending(Sending),
    Computing {
        steps: u64,
    },
    /// The end of the stream is to be said.
    Ending,
    Over,
}

struct Sending {
    tsc: u64,
    begun: Time,
    /// Bytes that were handed over.
    done: usize,
}

impl Work {
    /// Work that is about to begin. Measures how fast this processor computes, for about a millisecond.
    pub(super) fn new(command: &WorkStart, network: &Network) -> Result<Work, String> {
        work::check(command)?;
        if network.in_flight(Purpose::Stream) > 0 {
            return Err(
                "the last work's connection still waits to be opened, or for room".to_owned()
            );
        }
        let clock = *network.vi.clock();
        let beside =
            command.datagrams.as_ref().map(|it| SideDatagrams::new(it, network)).transpose()?;
        let mut work = Work {
            to: Some(destination(&command.destination)?),
            computing: Computing::calibrate(|| clock.now().since(Time::ZERO).as_ps() / 1_000),
            phase: Phase::Over,
            bytes: vec![0; command.send_bytes as usize],
            given_bytes: 0,
            before: network.returned(Purpose::Stream),
            beside,
            totals: WorkTotals::default(),
            clock,
            command: command.clone(),
        };
        work.begin_send();
        Ok(work)
    }

    /// What has been done so far.
    pub(super) fn totals(&self) -> &WorkTotals {
        &self.totals
    }

    /// Whether it computes, and has nothing to do beside it: so a program keeps the processor until its slice is over,
    /// or until somebody comes who is before it.
    pub(super) fn only_computes(&self) -> bool {
        self.beside.is_none() && matches!(self.phase, Phase::Computing { .. })
    }

    /// Says the end of its connection, if it has not been said: nobody will ask for another step.
    pub(super) fn leave(&mut self, network: &mut Network) {
        if let Phase::Ending = self.phase {
            self.step(network);
        }
    }

    /// Ends it where it is.
    pub(super) fn stop(&mut self, network: &mut Network) {
        if !self.totals.over {
            self.end(None);
            self.step(network);
        }
    }

    /// Does what there is to do now: how long nothing is to be done unless something comes; `None` for
    /// ever.
    pub(super) fn step(&mut self, network: &mut Network) -> Option<Span> {
        let now = self.clock.now();
        let idle = match &mut self.phase {
            Phase::Sending(_) => self.send(network, now),
            Phase::Computing { steps } => {
                let slice = self.computing.steps(SLICE_US).clamp(1, (*steps).max(1));
                Computing::run(slice);
                *steps = steps.saturating_sub(slice);
                if *steps == 0 {
                    self.begin_send();
                }
                Some(Span::ZERO)
            }
            Phase::Ending => {
                if network.end_stream() {
                    self.phase = Phase::Over;
                    None
                } else {
                    Some(PATIENCE)
                }
            }
            Phase::Over => None,
        };
        if self.totals.over {
            return idle;
        }
        let beside = self.beside.as_mut().map(|beside| beside.step(network, now, &mut self.totals));
        [idle, beside].into_iter().flatten().min()
    }

    fn begin_send(&mut self) {
        if self.command.sends > 0 && self.totals.sends == self.command.sends {
            self.end(None);
            return;
        }
        work::stream_bytes(self.given_bytes, &mut self.bytes);
        let begun = self.clock.now();
        self.phase = Phase::Sending(Sending { tsc: read_tsc(), begun, done: 0 });
    }

    /// Hands over what there are buffers for; the send ends when all of them have come back.
    fn send(&mut self, network: &mut Network, now: Time) -> Option<Span> {
        let Phase::Sending(sending) = &mut self.phase else { return None };
        let most = network.vi.buffer_bytes().min(u32::from(u16::MAX)) as usize;
        while sending.done < self.bytes.len() {
            let end = self.bytes.len().min(sending.done + most);
            if !network.send_stream(&self.bytes[sending.done..end], self.to) {
                break;
            }
            self.to = None;
            self.given_bytes += (end - sending.done) as u64;
            sending.done = end;
        }
        let took = self.clock.now().since(sending.begun);
        if network.returned(Purpose::Stream).failed > self.before.failed {
            let bytes = self.totals.sent_bytes;
            self.end(Some(format!("the connection was lost, or refused, after {bytes} bytes")));
        } else if sending.done == self.bytes.len() && network.in_flight(Purpose::Stream) == 0 {
            let ns = took.as_ps() / 1_000;
            work::note_send(&mut self.totals, sending.tsc, ns, self.command.send_bytes);
            self.phase = Phase::Computing { steps: self.computing.steps(self.command.compute_us) };
        } else if now.since(sending.begun) > Span::from_ms(self.command.timeout_ms) {
            let ms = self.command.timeout_ms;
            self.end(Some(format!("the connection has taken nothing for {ms} ms")));
        } else {
            // What was handed over comes back, and ends a sleep; nobody says that there are buffers again.
            let is_handed_over = sending.done == self.bytes.len();
            return Some(if is_handed_over { LONG_PATIENCE } else { PATIENCE });
        }
        Some(Span::ZERO)
    }

    fn end(&mut self, failure: Option<String>) {
        self.phase = if failure.is_none() { Phase::Ending } else { Phase::Over };
        self.totals.failure = failure;
        self.totals.over = true;
    }
}

/// Datagrams beside it.
struct SideDatagrams {
    command: WorkDatagrams,
    to: Destination,
    payload: Vec<u8>,
    interval: Span,
    due: Time,
    sequence: u64,
    before: Returned,
}

impl SideDatagrams {
    fn new(command: &WorkDatagrams, network: &Network) -> Result<SideDatagrams, String> {
        Ok(SideDatagrams {
            to: destination(&command.destination)?,
            payload: work::payload(command),
            interval: Span::from_us(command.interval_us),
            due: network.vi.clock().now(),
            sequence: 0,
            before: network.returned(Purpose::Beside),
            command: command.clone(),
        })
    }

    /// Sends what is due; how long nothing will be.
    fn step(&mut self, network: &mut Network, now: Time, totals: &mut WorkTotals) -> Span {
        let mut handed = 0;
        let mut idle = Span::ZERO;
        while handed < BATCH && self.due <= now {
            let head = work::head(&self.command, self.sequence);
            if !network.send_datagram(
                Purpose::Beside,
                [&head, &self.payload[HEAD_BYTES..]],
                self.to,
            ) {
                // Those that have been sent come back, and end a sleep.
                idle = PATIENCE;
                break;
            }
            self.sequence += 1;
            self.due += self.interval;
            handed += 1;
        }
        totals.datagram_errors = network.returned(Purpose::Beside).failed - self.before.failed;
        totals.datagrams = self.sequence - totals.datagram_errors;
        idle.max(self.due.since(now))
    }
}

fn destination(text: &str) -> Result<Destination, String> {
    let address: SocketAddrV4 = text
        .parse()
        .map_err(|_| format!("{text} is no address and port, such as 10.9.0.2:5001"))?;
    let port = address.port();
    Ok(Destination { address: *address.ip(), port, source_port: port })
}
