//! One cycle of a sweep, and where its figures come from: a session, or the file of an earlier,
//! unfinished sweep.

use std::io::Write;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{MAX_COUNT, Plan};

use super::{SATURATING_CYCLES, SweepPlan};
use crate::Error;
use crate::Session;
use crate::inject::{Application, inject};

/// How often a cycle that lost something while others had a core is made, at most.
const MAX_ATTEMPTS: u32 = 3;

/// The longest file of cycles that is read, in bytes: some million cycles.
const MAX_CYCLES_BYTES: u64 = 256 << 20;

/// What a cycle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// As fast as possible.
    Saturated,
    /// Of the pass with growing intervals.
    Coarse,
    /// Of the search for the shortest interval at which the driver loses nothing.
    Driver,
    /// The same for the application.
    EndToEnd,
    /// Over the plan's line.
    Line,
}

/// Which cycle is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) size_bytes: usize,
    pub(super) phase: Phase,
    pub(super) repeat: u32,
    pub(super) interval_ns: f64,
}

/// A cycle and what it showed: a line of `cycles.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// The line that it went over, in bit/s.
    pub line_rate_bps: Option<u64>,
    /// What it was for.
    pub phase: Phase,
    /// Which repetition: 1, 2 and so on.
    pub repeat: u32,
    /// The interval; 0 for as fast as possible.
    pub interval_ns: f64,
    /// Packets injected.
    pub injected: u64,
    /// Of these: accepted by the driver.
    pub accepted: u64,
    /// Of these: delivered to the application; absent where there is none.
    pub delivered: Option<u64>,
    /// `accepted` by `injected`.
    pub driver_share: f64,
    /// `delivered` by `injected`.
    pub end_to_end_share: Option<f64>,
    /// Bits of accepted frames in a second.
    pub throughput_bps: f64,
    /// Median time to inject a packet.
    pub send_ns: f64,
    /// Packets that are not accounted for; always 0 in a sweep that has a result.
    pub unaccounted: u64,
    /// Time that the host took from the cores.
    pub stolen_percent: Option<f64>,
    /// Whether it lost something while others had the cores, and was made again. Such a cycle
    /// decides nothing.
    pub disturbed: bool,
}

/// The share of the pace that was asked for that must have been kept; what it lacks is the way of the
/// last packets, which a cycle's time includes.
const PACE_KEPT_SHARE: f64 = 0.9;

impl Cycle {
    /// Whether packets came as closely as they were asked to: at a pace that our own side cannot keep, to
    /// lose nothing shows nothing.
    pub(super) fn kept_pace(&self) -> bool {
        let asked_bits = self.size_bytes as f64 * 8.0;
        let bits = self.throughput_bps * self.interval_ns / 1e9;
        self.interval_ns == 0.0 || bits >= PACE_KEPT_SHARE * asked_bits
    }

    /// A cycle in which nothing has happened yet.
    pub(super) fn of(request: &Request) -> Cycle {
        Cycle {
            size_bytes: request.size_bytes,
            line_rate_bps: None,
            phase: request.phase,
            repeat: request.repeat,
            interval_ns: request.interval_ns,
            injected: 0,
            accepted: 0,
            delivered: None,
            driver_share: 0.0,
            end_to_end_share: None,
            throughput_bps: 0.0,
            send_ns: 0.0,
            unaccounted: 0,
            stolen_percent: None,
            disturbed: false,
        }
    }

    fn answers(&self, request: &Request) -> bool {
        self.size_bytes == request.size_bytes
            && self.phase == request.phase
            && self.repeat == request.repeat
            && self.interval_ns == request.interval_ns
    }

    fn is_perfect(&self) -> bool {
        self.accepted == self.injected
            && self.delivered.is_none_or(|delivered| delivered == self.injected)
    }
}

/// Something that makes cycles.
pub(super) trait Cycles {
    fn run(&mut self, request: Request) -> Result<Cycle, Error>;
}

/// Makes cycles on a session and writes each down as it is done.
pub(super) struct Live<'a> {
    pub(super) plan: &'a SweepPlan,
    pub(super) session: &'a mut Session,
    pub(super) application: Application,
    /// Those of an earlier sweep, in order: taken instead of new ones as long as they last.
    pub(super) earlier: std::vec::IntoIter<Cycle>,
    pub(super) log: &'a mut CycleLog,
    pub(super) done: &'a mut dyn FnMut(&Cycle),
}

impl Cycles for Live<'_> {
    fn run(&mut self, request: Request) -> Result<Cycle, Error> {
        for attempt in 1..=MAX_ATTEMPTS {
            let cycle = match self.earlier.next() {
                Some(cycle) if cycle.answers(&request) => cycle,
                Some(_) => return Err(Error::OtherSweep),
                None => {
                    let cycle = self.make(&request, attempt)?;
                    self.log.append(&cycle)?;
                    cycle
                }
            };
            (self.done)(&cycle);
            if !cycle.disturbed {
                return Ok(cycle);
            }
        }
        unreachable!("the last attempt is never one to be made again")
    }
}

impl Live<'_> {
    fn make(&mut self, request: &Request, attempt: u32) -> Result<Cycle, Error> {
        let plan = self.cycle_plan(request);
        let run_id = read_tsc() as u32;
        let injected = inject(self.session, &plan, self.application, run_id, &mut |_| ())?;
        injected.check()?;
        let totals = injected.ledger.totals();
        let success = injected.result.success.unwrap_or_default();
        let mut cycle = Cycle {
            line_rate_bps: plan.line_rate_bps,
            injected: totals.injected,
            accepted: totals.accepted,
            delivered: success.end_to_end.map(|_| totals.delivered),
            driver_share: success.driver,
            end_to_end_share: success.end_to_end,
            throughput_bps: injected.result.throughput_bps.unwrap_or(0.0),
            send_ns: injected.result.inject_ns.map_or(f64::NAN, |times| times.p50),
            unaccounted: totals.unaccounted,
            stolen_percent: injected.result.machine.stolen_percent,
            ..Cycle::of(request)
        };
        // To be saturated is to lose.
        let may_lose = matches!(request.phase, Phase::Saturated | Phase::Line);
        cycle.disturbed = attempt < MAX_ATTEMPTS
            && !may_lose
            && !cycle.is_perfect()
            && injected.result.machine.was_disturbed();
        Ok(cycle)
    }

    fn cycle_plan(&self, request: &Request) -> Plan {
        let plan = Plan {
            interval: Span::from_ps((request.interval_ns * 1e3) as u64),
            ..self.plan.cycle(request.size_bytes)
        };
        match request.phase {
            Phase::Saturated => {
                Plan { count: plan.count.saturating_mul(SATURATING_CYCLES).min(MAX_COUNT), ..plan }
            }
            Phase::Line => Plan { line_rate_bps: self.plan.line_rate_bps, ..plan },
            Phase::Coarse | Phase::Driver | Phase::EndToEnd => plan,
        }
    }
}

/// `cycles.csv`: a line for each cycle, written when it is done, so that a sweep that is stopped can
/// be continued.
pub struct CycleLog {
    writer: csv::Writer<Box<dyn Write>>,
}

impl CycleLog {
    /// Writes to `file`, which is empty or has what [`read_cycles`] has read.
    pub fn new(file: Box<dyn Write>, is_empty: bool) -> CycleLog {
        CycleLog { writer: csv::WriterBuilder::new().has_headers(is_empty).from_writer(file) }
    }

    fn append(&mut self, cycle: &Cycle) -> Result<(), Error> {
        self.writer.serialize(cycle).map_err(std::io::Error::from)?;
        Ok(self.writer.flush()?)
    }
}

/// Reads the cycles of an earlier sweep. Returns them and the length of the file up to the last line
/// that is whole: a sweep that was killed may have left half a line.
pub fn read_cycles(text: &[u8]) -> Result<(Vec<Cycle>, usize), Error> {
    if text.len() as u64 > MAX_CYCLES_BYTES {
        return Err(Error::Cycles { line: 1, what: "the file is too big".into() });
    }
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut reader = csv::Reader::from_reader(&text[..whole]);
    let mut cycles = Vec::new();
    for row in reader.deserialize() {
        let cycle = row.map_err(|error: csv::Error| Error::Cycles {
            line: error.position().map_or(0, csv::Position::line),
            what: error.to_string(),
        })?;
        cycles.push(cycle);
    }
    Ok((cycles, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn cycle(interval_ns: f64) -> Cycle {
        let request = Request { size_bytes: 1_500, phase: Phase::EndToEnd, repeat: 2, interval_ns };
        Cycle {
            injected: 5_000,
            accepted: 4_999,
            delivered: Some(4_000),
            driver_share: 0.9998,
            end_to_end_share: Some(0.8),
            ..Cycle::of(&request)
        }
    }

    fn written() -> (Vec<Cycle>, Vec<u8>) {
        let file = Shared::default();
        let mut log = CycleLog::new(Box::new(file.clone()), true);
        let cycles: Vec<_> = [100.0, 1_234.5].map(cycle).into();
        cycles.iter().for_each(|cycle| log.append(cycle).unwrap());
        let text = file.0.borrow().clone();
        (cycles, text)
    }

    #[test]
    fn what_is_written_is_read_also_without_its_last_half_line() {
        let (cycles, text) = written();
        assert_eq!(read_cycles(&text).unwrap(), (cycles.clone(), text.len()));
        let (read, whole) = read_cycles(&text[..text.len() - 3]).unwrap();
        assert_eq!(read, cycles[..1]);
        assert!(whole < text.len() - 3 && text[whole - 1] == b'\n');
        assert_eq!(read_cycles(b"").unwrap(), (vec![], 0));
    }

    #[test]
    fn a_damaged_line_is_named() {
        let (_, text) = written();
        let text = String::from_utf8(text).unwrap().replace("1234.5", "fast");
        let error = read_cycles(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }

    proptest! {
        #[test]
        fn never_panics_on_any_file(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = read_cycles(&bytes);
        }
    }
}
