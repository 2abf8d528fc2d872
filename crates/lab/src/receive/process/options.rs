//! What to compare.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use warikomi_clock::Span;
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_inject::{Plan, Receiver};
use warikomi_measure::{published, texts};
use warikomi_process::Orders;
use warikomi_session::PATH_BUFFER_BYTES;
use warikomi_stack::memory::{BUFFER_ALIGN_BYTES, MOST_BUFFER_BYTES};

use crate::Error;
use crate::receive::claim::Claim;
use crate::receive::row::Row;
use crate::receive::stall::Stall;
use crate::receive::traffic::Traffic;

/// Bytes of a receive buffer.
pub const BUFFER_BYTES: u64 = PATH_BUFFER_BYTES;
/// The longest message that has one buffer of packet memory: a check sequence stands behind it.
const LONGEST_MESSAGE_BYTES: usize = MOST_BUFFER_BYTES as usize - 4;

/// What to compare.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename = "process")]
pub struct Options {
    /// The ways to receive; each that polls for a time is tried with each of `polls_us`.
    #[serde(serialize_with = "texts")]
    pub strategies: Vec<Strategy>,
    /// Poll times in microseconds.
    pub polls_us: Vec<u32>,
    /// Receive buffers, all together, in bytes.
    pub buffers_bytes: Vec<u64>,
    /// Looks for the smallest receive buffer without loss, rather than trying those.
    pub find_smallest_buffer: bool,
    /// What arrives.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Packets to the application, or to the driver alone.
    pub receiver: Receiver,
    /// Whether a compute job wants the same core.
    pub compute: bool,
    /// What takes the core away.
    pub stall: Option<Stall>,
    /// What it may have of its core in each period of the scheduler.
    #[serde(serialize_with = "as_text")]
    pub quota: Option<CpuBudget>,
    /// Whether what receives has real-time priority: it comes before what takes the core away.
    pub real_time: bool,
    /// Whether each burst is one message: one frame, in one buffer.
    pub whole_messages: bool,
    /// The program that is the application, if that is the user's own.
    pub application: Option<PathBuf>,
    /// Whether processes that it has started are the compute job.
    pub own_compute: bool,
    /// What is asked.
    #[serde(serialize_with = "claim_name")]
    pub claim: Option<Claim>,
}

fn claim_name<S: Serializer>(claim: &Option<Claim>, serializer: S) -> Result<S::Ok, S::Error> {
    claim.map(Claim::name).serialize(serializer)
}

fn as_text<S: Serializer>(quota: &Option<CpuBudget>, serializer: S) -> Result<S::Ok, S::Error> {
    quota.map(|quota| quota.to_string()).serialize(serializer)
}

impl Default for Options {
    /// The poll times and buffers that were published.
    fn default() -> Self {
        let auto = Strategy::Auto { cpu_budget: CpuBudget::from_ppm(250_000) };
        Options {
            strategies: vec![
                Strategy::Interrupt,
                Strategy::Poll,
                Strategy::Napi { budget: 64 },
                Strategy::Hybrid { poll_time: Span::from_us(100) },
                auto,
            ],
            polls_us: vec![100, 140, 300],
            buffers_bytes: vec![7_000_000, 10_000_000, 15_000_000],
            find_smallest_buffer: false,
            traffic: Traffic { frame_bytes: 8_000, ..Traffic::default() },
            receiver: Receiver::Driver,
            compute: true,
            stall: None,
            quota: None,
            real_time: false,
            whole_messages: false,
            application: None,
            own_compute: false,
            claim: None,
        }
    }
}

/// Poll times below the published limit and above it, in microseconds, for the claim about them.
const ALL_POLLS_US: [u32; 7] = [10, 25, 50, 75, 100, 140, 300];
/// Its lengths of messages, over all of the published ones, in bytes, and its loads of the line.
const ALL_MESSAGES_BYTES: [usize; 9] =
    [1_000, 5_000, 10_000, 15_000, 20_000, 25_000, 35_000, 50_000, 65_000];
const ALL_LOADS: [f64; 3] = [0.25, 0.5, 0.9];

impl Options {
    /// What is usual when this is asked.
    pub(in crate::receive) fn asking(claim: Option<Claim>) -> Options {
        let usual = Options::default();
        let Some(asked) = claim else { return usual };
        let delay = published::hybrid_receive().scheduling_delay_ms;
        let polling = Options {
            strategies: vec![Strategy::Hybrid { poll_time: Span::from_us(100) }],
            stall: Some(Stall {
                long: Span::from_ms(delay),
                every: Span::from_ms(10 * delay),
                random: false,
            }),
            find_smallest_buffer: asked.is_about_need(),
            claim,
            ..usual
        };
        match asked {
            Claim::Below100us => Options {
                polls_us: ALL_POLLS_US.to_vec(),
                traffic: Traffic {
                    bursts_bytes: ALL_MESSAGES_BYTES.to_vec(),
                    loads: ALL_LOADS.to_vec(),
                    ..polling.traffic
                },
                ..polling
            },
            _ => polling,
        }
    }
}

/// One row to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::receive) struct Case {
    pub(in crate::receive) strategy: Strategy,
    pub(in crate::receive) buffer_bytes: u64,
    pub(in crate::receive) burst_bytes: usize,
    pub(in crate::receive) load: f64,
    pub(in crate::receive) setting: Setting,
}

/// What a claim compares besides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::receive) struct Setting {
    /// Another line, in bit/s.
    pub(in crate::receive) line_rate_bps: Option<u64>,
    /// Another processor, so many times as fast as declared.
    pub(in crate::receive) cpu_speed: Option<f64>,
    /// Whether what receives has real-time priority, where that is asked.
    pub(in crate::receive) real_time: Option<bool>,
}

impl Case {
    pub(super) fn poll_us(&self) -> Option<u64> {
        match self.strategy {
            Strategy::Hybrid { poll_time } => Some(poll_time.as_ps() / 1_000_000),
            _ => None,
        }
    }

    /// Orders for a driver that has buffers of this length.
    pub(super) fn orders(&self, each_bytes: u64) -> Orders {
        let buffers = (self.buffer_bytes / each_bytes).max(1);
        Orders { strategy: self.strategy, buffers, buffer_bytes: each_bytes }
    }

    /// A row of which nothing is known yet but what it is of. What was published stands beside the buffer that was
    /// asked for, and not beside the whole buffers that there are of it.
    pub(in crate::receive) fn row(&self, poll_us: Option<u64>, buffer_bytes: u64) -> Row {
        let burst_bytes = self.burst_bytes as u64;
        Row {
            asked_buffer_bytes: (self.buffer_bytes != buffer_bytes).then_some(self.buffer_bytes),
            load_share: Some(self.load),
            line_rate_bps: self.setting.line_rate_bps,
            cpu_speed: self.setting.cpu_speed,
            real_time: self.setting.real_time,
            published_lost_share: Row::published_loss(poll_us, self.buffer_bytes, burst_bytes),
            ..Row::new(self.strategy.name(), poll_us, buffer_bytes, burst_bytes)
        }
    }
}

impl Options {
    /// Each strategy with each of its poll times.
    fn ways(&self) -> Vec<Strategy> {
        let with_polls = |&strategy: &Strategy| match strategy {
            Strategy::Hybrid { .. } => {
                let polls = self.polls_us.iter();
                polls.map(|&us| Strategy::Hybrid { poll_time: Span::from_us(us.into()) }).collect()
            }
            other => vec![other],
        };
        self.strategies.iter().flat_map(with_polls).collect()
    }

    pub(in crate::receive) fn cases(&self) -> Vec<Case> {
        let largest = self.buffers_bytes.iter().max().copied();
        let buffers = match self.find_smallest_buffer {
            // The search begins at the largest.
            true => largest.into_iter().collect(),
            false => self.buffers_bytes.clone(),
        };
        let mut cases = Vec::new();
        for setting in self.settings() {
            for strategy in self.ways() {
                for &buffer_bytes in &buffers {
                    cases.extend(self.traffic.each().map(|(burst_bytes, load)| Case {
                        strategy,
                        buffer_bytes,
                        burst_bytes,
                        load,
                        setting,
                    }));
                }
            }
        }
        cases
    }

    /// As usual, and then under the condition that is asked about.
    fn settings(&self) -> Vec<Setting> {
        let line = self.traffic.line_rate_bps;
        let on = |rate: u64| Setting { line_rate_bps: Some(rate), ..Setting::default() };
        let at = |speed: f64| Setting { cpu_speed: Some(speed), ..Setting::default() };
        let with = |real_time: bool| Setting { real_time: Some(real_time), ..Setting::default() };
        let mut settings = match self.claim {
            Some(Claim::LineDoubled) => vec![on(line), on(line.saturating_mul(2))],
            Some(Claim::CpuHalved) => vec![at(1.0), at(0.5)],
            Some(Claim::RealTimePriority) => return vec![with(false), with(true)],
            Some(Claim::Below100us) | None => vec![Setting::default()],
        };
        if self.real_time {
            settings.iter_mut().for_each(|setting| setting.real_time = Some(true));
        }
        settings
    }

    /// The traffic of a case.
    pub(in crate::receive) fn traffic_of(&self, case: &Case) -> Traffic {
        let whole = self.whole_messages.then_some(case.burst_bytes);
        Traffic {
            frame_bytes: whole.unwrap_or(self.traffic.frame_bytes),
            line_rate_bps: case.setting.line_rate_bps.unwrap_or(self.traffic.line_rate_bps),
            ..self.traffic.clone()
        }
    }

    /// The plan of a case.
    pub(super) fn plan(&self, case: &Case) -> Result<Plan, Error> {
        let plan = self.traffic_of(case).plan(case.burst_bytes, case.load)?;
        Ok(Plan { receiver: self.receiver, ..plan })
    }

    /// Bytes of each buffer: of a message that is not cut there is one, and a frame's check sequence fits behind it.
    pub(super) fn buffer_bytes_of(&self, case: &Case) -> u64 {
        match self.whole_messages {
            true => (case.burst_bytes as u64 + 4).next_multiple_of(BUFFER_ALIGN_BYTES.into()),
            false => BUFFER_BYTES,
        }
    }

    /// Refuses what cannot be with a card whose frames have at most so many bytes.
    pub(in crate::receive) fn check(&self, longest_frame_bytes: usize) -> Result<(), Error> {
        let longest = longest_frame_bytes.min(LONGEST_MESSAGE_BYTES);
        let mut messages = self.traffic.bursts_bytes.iter().filter(|_| self.whole_messages);
        if let Some(long) = messages.find(|&&bytes| bytes > longest) {
            return Err(Error::impossible(format!(
                "a message of {long} bytes does not fit into one frame of this card and one buffer: {longest} bytes \
                 at most; with --driver oc48 they have up to {LONGEST_MESSAGE_BYTES}"
            )));
        }
        if let Some(stall) = &self.stall {
            stall.check(self.traffic.duration, self.traffic.seed)?;
        }
        let never_sleeps =
            |strategy: &Strategy| matches!(strategy, Strategy::Poll | Strategy::Awake);
        let real_time = self.real_time || self.claim == Some(Claim::RealTimePriority);
        if real_time && let Some(strategy) = self.strategies.iter().find(|it| never_sleeps(it)) {
            return Err(Error::impossible(format!(
                "with real-time priority '{strategy}' would leave nothing of the core to anybody, because it never \
                 sleeps; give --strategies without it, such as hybrid"
            )));
        }
        self.cases().iter().try_for_each(|case| self.plan(case).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_row_for_each_of_its_parameters() {
        let options = Options::default();
        assert_eq!(options.cases().len(), (4 + 3) * 3);
        let searching = Options { find_smallest_buffer: true, ..options };
        let cases = searching.cases();
        assert_eq!(cases.len(), 4 + 3);
        assert!(cases.iter().all(|case| case.buffer_bytes == 15_000_000));
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["strategies"].as_array().unwrap().len(), 5);
        assert_eq!(plan["frame_bytes"].as_u64(), Some(8_000));
    }
}
