//! What can be replayed, from a file.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use warikomi_clock::{Span, Time};
use warikomi_inject::{Receiver, Schedule, ScheduleError};
use warikomi_measure::Warning;
use warikomi_trace::capture::{self, CaptureCounts, CaptureError};
use warikomi_trace::{Behaviour, EventKind, FrameBytes, Frames, Header, Reader};

use crate::Error;

/// Where arrivals come from.
#[derive(Debug)]
pub enum Origin {
    /// A recorded run.
    Trace {
        /// What it says about itself.
        header: Box<Header>,
        /// What the driver did.
        behaviour: Box<Behaviour>,
    },
    /// Real traffic.
    Capture(CaptureCounts),
}

impl Origin {
    /// What a trace says about itself.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Origin::Trace { header, .. } => Some(header),
            Origin::Capture(_) => None,
        }
    }

    /// `trace` or `capture`.
    pub fn name(&self) -> &'static str {
        match self {
            Origin::Trace { .. } => "trace",
            Origin::Capture(_) => "capture",
        }
    }
}

/// Arrivals that can be replayed.
#[derive(Debug)]
pub struct Replayable {
    /// What arrives when.
    pub schedule: Schedule,
    /// Where it comes from.
    pub origin: Origin,
    /// How many times as fast as it was.
    pub speed: f64,
    /// What is to be said about it.
    pub remarks: Vec<Warning>,
}

impl Replayable {
    /// How far its packets go: as they went, if they are those of a run of ours. The account of others ends at the driver.
    pub fn receiver(&self) -> Receiver {
        let ours = self.origin.header().filter(|header| self.schedule.is_run(header.run_id));
        ours.map_or(Receiver::Driver, |header| header.plan.clone().unwrap_or_default().receiver)
    }
}

/// Reads a trace, a pcap or a pcapng file; which of them, its first bytes say. `speed` is how many
/// times as fast it is to be replayed.
pub fn load(path: &Path, speed: f64) -> Result<Replayable, Error> {
    let mut file = File::open(path).map_err(Error::Recording)?;
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).map_err(Error::Recording)?;
    file.rewind().map_err(Error::Recording)?;
    let (schedule, origin, remarks) =
        if capture::is_capture(&magic) { from_capture(file)? } else { from_trace(file)? };
    let schedule = schedule.at_speed(speed).map_err(CaptureError::from)?;
    Ok(Replayable { schedule, origin, speed, remarks })
}

type Loaded = (Schedule, Origin, Vec<Warning>);

fn from_capture(file: File) -> Result<Loaded, Error> {
    let mut bytes = Vec::new();
    let most = capture::MAX_CAPTURE_BYTES + 1;
    file.take(most).read_to_end(&mut bytes).map_err(Error::Recording)?;
    let capture = capture::read(&bytes)?;
    let remarks = remarks(&capture.counts);
    Ok((capture.schedule, Origin::Capture(capture.counts), remarks))
}

fn remarks(counts: &CaptureCounts) -> Vec<Warning> {
    let mut remarks = Vec::new();
    let mut say = |count: u64, what: &str, hint: &str| {
        if count > 0 {
            remarks.push(Warning {
                what: format!("{count} of {} frames {what}", counts.frames),
                hint: hint.to_owned(),
            });
        }
    };
    say(
        counts.too_long,
        "were left out: they are longer than any that the NIC takes",
        "capture with segmentation offload switched off (ethtool -K IF tso off gso off gro off)",
    );
    say(
        counts.too_short,
        "were left out: they are shorter than an Ethernet header",
        "look at the capture; such frames are no Ethernet",
    );
    say(
        counts.cut,
        "have zeros in place of bytes that the capture does not have",
        "capture whole frames (tcpdump -s 0)",
    );
    say(
        counts.out_of_order,
        "are earlier than the frame before them, and come at the same time as that",
        "sort the capture by time (reordercap), if that matters",
    );
    remarks
}

fn from_trace(file: File) -> Result<Loaded, Error> {
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file))?;
    let header = reader.header().clone();
    let mut behaviour = Behaviour::new(&header.model);
    let mut arrivals = Arrivals::default();
    while let Some(event) = reader.next_event()? {
        if let EventKind::Arrived { frame, fcs } = &event.what {
            arrivals.add(event.at, frame, *fcs).map_err(CaptureError::from)?;
        }
        behaviour.record(event);
    }
    let bursts = header.plan.as_ref().map_or(1, |plan| plan.packets_per_interrupt);
    let mut remarks = Vec::new();
    let dropped = reader.summary().unwrap_or_default().dropped;
    if dropped > 0 {
        remarks.push(Warning {
            what: format!(
                "the trace was full before its run was over: {dropped} events are missing"
            ),
            hint: "take this as a replay of the part that it has".into(),
        });
    }
    let origin = Origin::Trace { header: Box::new(header), behaviour: Box::new(behaviour) };
    Ok((arrivals.schedule.in_bursts_of(bursts), origin, remarks))
}

#[derive(Default)]
struct Arrivals {
    schedule: Schedule,
    frames: Frames,
    first: Option<Time>,
    base: Option<u32>,
}

impl Arrivals {
    fn add(&mut self, at: Time, frame: &FrameBytes, fcs: u32) -> Result<(), ScheduleError> {
        let first = *self.first.get_or_insert(at);
        let after: Span = at.since(first);
        let bytes = self.frames.bytes(frame);
        let base = match (frame, self.base) {
            (FrameBytes::Numbered(_), Some(base)) => base,
            _ => *self.base.insert(self.schedule.add_base(bytes)?),
        };
        // A whole frame is of our own kind as well, if it is one: its number is at the same place.
        let number = Schedule::number_in(bytes);
        self.schedule.add(after, base, number, fcs)
    }
}
