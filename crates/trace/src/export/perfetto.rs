//! Everything as a timeline, in the Trace Event Format.
//!
//! One track each for packets, interrupts, register accesses and DMA, and one for each interrupt vector
//! besides the first. An interrupt is a slice from its message to the driver's first read of the
//! vector's status, and the handling a slice from there to the write that enables the vector again. All
//! else is an instant.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde_json::{Value, json};
use warikomi_clock::Time;
use warikomi_nic::register::Role;
use warikomi_nic::{ModelInfo, Reception};
use warikomi_pci::{Interrupt, Vector};

use super::error::ExportError;
use crate::register::register_name;
use crate::{Access, Event, EventKind, FrameBytes, Header, Reader};

const TRACKS: [&str; 4] = ["packets", "interrupts", "registers", "DMA"];

/// The number of the first track of [`TRACKS`]; that of a vector besides the first is as much higher
/// than the last of them.
const FIRST_TRACK: usize = 1;

/// Which of [`TRACKS`].
#[derive(Clone, Copy)]
enum Track {
    Packets,
    /// Of this vector: the first one's is that of all interrupts whose vector is not known.
    Interrupts(Vector),
    Registers,
    Dma,
}

impl Track {
    /// Number of the track in the file.
    fn number(self) -> usize {
        let index = match self {
            Track::Packets => 0,
            Track::Interrupts(Vector(0)) => 1,
            Track::Registers => 2,
            Track::Dma => 3,
            Track::Interrupts(Vector(vector)) => TRACKS.len() + usize::from(vector) - 1,
        };
        FIRST_TRACK + index
    }
}

/// How far the driver is with a vector's interrupt.
#[derive(Default)]
struct Handling {
    /// When the interrupt was sent that the driver has not looked at yet.
    sent: Option<Time>,
    /// When the driver looked at it.
    looked: Option<Time>,
}

pub(super) struct Timeline<'a> {
    to: &'a mut dyn Write,
    model: Option<&'static ModelInfo>,
    name: String,
    start: Time,
    written: u64,
    vectors: BTreeMap<Vector, Handling>,
    frame_bytes: usize,
    packet: u64,
}

/// Times count from the first event.
pub(super) fn write<R: Read>(mut trace: Reader<R>, to: &mut dyn Write) -> Result<u64, ExportError> {
    let header = trace.header().clone();
    let model = warikomi_nic::MODELS.iter().find(|info| info.name == header.model).copied();
    let first = trace.next_event()?;
    let start = first.as_ref().map_or(Time::ZERO, |event| event.at);
    let mut line = Timeline::new(to, model, &header, start).map_err(ExportError::Write)?;
    let mut next = first;
    while let Some(event) = next {
        line.event(&event).map_err(ExportError::Write)?;
        next = trace.next_event()?;
    }
    line.end().map_err(ExportError::Write)
}

impl<'a> Timeline<'a> {
    /// A timeline with its head.
    pub(super) fn new(
        to: &'a mut dyn Write,
        model: Option<&'static ModelInfo>,
        header: &Header,
        start: Time,
    ) -> io::Result<Timeline<'a>> {
        to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        let name = json!({"name": format!("{} on {}", header.driver, header.model)});
        let process = json!({"name": "process_name", "ph": "M", "pid": 1, "args": name});
        to.write_all(process.to_string().as_bytes())?;
        let mut line = Timeline {
            to,
            model,
            name: header.model.clone(),
            start,
            written: 0,
            vectors: BTreeMap::new(),
            frame_bytes: 0,
            packet: 0,
        };
        for (index, name) in TRACKS.iter().enumerate() {
            line.name_track(FIRST_TRACK + index, name)?;
        }
        Ok(line)
    }

    fn name_track(&mut self, number: usize, name: &str) -> io::Result<()> {
        let name = json!({"name": name});
        let track =
            json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": name});
        write!(self.to, ",\n{track}")
    }

    /// Closes the file. Returns how many events it has.
    pub(super) fn end(self) -> io::Result<u64> {
        self.to.write_all(b"\n]}\n")?;
        Ok(self.written)
    }

    /// A vector's state; its track gets a name when it is first seen.
    fn vector(&mut self, vector: Vector) -> io::Result<&mut Handling> {
        if vector != Vector(0) && !self.vectors.contains_key(&vector) {
            let name = format!("interrupts of vector {}", vector.0);
            self.name_track(Track::Interrupts(vector).number(), &name)?;
        }
        Ok(self.vectors.entry(vector).or_default())
    }

    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        let at = event.at;
        match &event.what {
            EventKind::Read(access, value) => {
                if let Role::Status(vector) = self.role(*access)
                    && let Some(sent) = self.vector(vector)?.sent.take()
                {
                    self.slice("interrupt", Track::Interrupts(vector), sent, at)?;
                    self.vector(vector)?.looked = Some(at);
                }
                self.access("read", *access, at, *value)
            }
            EventKind::Write(access, value) => {
                self.access("write", *access, at, *value)?;
                if let Role::Mask(vector) = self.role(*access)
                    && let Some(looked) = self.vector(vector)?.looked.take_if(|_| *value != 0)
                {
                    self.slice("handling", Track::Interrupts(vector), looked, at)?;
                }
                Ok(())
            }
            EventKind::Interrupt(interrupt, vector) => self.interrupt(*interrupt, *vector, at),
            EventKind::DmaRead { address, len } => self.dma("read", *address, *len, at),
            EventKind::DmaWrite { address, len } => self.dma("write", *address, *len, at),
            EventKind::DmaFailed { address, len } => self.dma("failed", *address, *len, at),
            EventKind::DmaLoad { address, value } => self.word("load", *address, *value, at),
            EventKind::DmaStore { address, value } => self.word("store", *address, *value, at),
            EventKind::Arrived { frame, .. } => {
                if let FrameBytes::Whole(bytes) = frame {
                    self.frame_bytes = bytes.len();
                }
                Ok(())
            }
            EventKind::Placed(Reception { queue, outcome }) => {
                let about = json!({
                    "packet": self.packet, "size_bytes": self.frame_bytes, "queue": queue,
                    "outcome": outcome.to_string(),
                });
                self.packet += 1;
                self.instant("packet", Track::Packets, at, about)
            }
            EventKind::Damaged(fault) => {
                let about = json!({"fault": format!("{fault:?}")});
                self.instant("damaged", Track::Packets, at, about)
            }
            EventKind::Link(link) => {
                let about = json!({"link": format!("{link:?}")});
                self.instant("link", Track::Packets, at, about)
            }
            EventKind::PowerOn => self.instant("power on", Track::Registers, at, json!({})),
        }
    }

    fn interrupt(&mut self, what: Interrupt, vector: Option<Vector>, at: Time) -> io::Result<()> {
        let track = Track::Interrupts(vector.unwrap_or_default());
        match what {
            Interrupt::Msi(message) => {
                self.vector(vector.unwrap_or_default())?.sent.get_or_insert(at);
                let about = json!({"data": message.data, "vector": vector.map(|vector| vector.0)});
                self.instant("MSI", track, at, about)
            }
            Interrupt::Intx(level) => self.instant("INTx", track, at, json!({"asserted": level})),
        }
    }

    /// What the register is for at which an access begins.
    fn role(&self, access: Access) -> Role {
        let place = self.model.zip(access.bar);
        place.map_or(Role::Other, |(info, bar)| info.role(bar, access.offset.into()))
    }

    fn access(&mut self, how: &str, access: Access, at: Time, value: u64) -> io::Result<()> {
        let name = format!("{how} {}", register_name(&self.name, access));
        let about = json!({"value": format!("{value:#x}"), "width_bytes": access.width_bytes});
        self.instant(&name, Track::Registers, at, about)
    }

    fn dma(&mut self, how: &str, address: u64, len: u64, at: Time) -> io::Result<()> {
        let about = json!({"address": format!("{address:#x}"), "len_bytes": len});
        self.instant(how, Track::Dma, at, about)
    }

    fn word(&mut self, how: &str, address: u64, value: u32, at: Time) -> io::Result<()> {
        let about = json!({"address": format!("{address:#x}"), "value": format!("{value:#x}")});
        self.instant(how, Track::Dma, at, about)
    }

    fn instant(&mut self, name: &str, track: Track, at: Time, about: Value) -> io::Result<()> {
        self.put(json!({
            "name": name, "ph": "i", "s": "t", "pid": 1, "tid": track.number(),
            "ts": self.microseconds(at), "args": about,
        }))
    }

    fn slice(&mut self, name: &str, track: Track, from: Time, until: Time) -> io::Result<()> {
        self.put(json!({
            "name": name, "ph": "X", "pid": 1, "tid": track.number(),
            "ts": self.microseconds(from), "dur": until.since(from).as_ns() / 1e3,
        }))
    }

    /// The format's unit, with a fraction.
    fn microseconds(&self, at: Time) -> f64 {
        (at.as_ps() as i128 - self.start.as_ps() as i128) as f64 / 1e6
    }

    fn put(&mut self, event: Value) -> io::Result<()> {
        self.written += 1;
        write!(self.to, ",\n{event}")
    }
}
