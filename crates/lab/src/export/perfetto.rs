//! Everything as a timeline, in the Trace Event Format.
//!
//! One track each for packets, interrupts, register accesses and DMA. An interrupt is a slice from its
//! message to the driver's first read of the interrupt status, and the handling a slice from there to
//! the write that enables interrupts again. All else is an instant.

use std::io::{self, Read, Write};

use serde_json::{Value, json};
use warikomi_clock::Time;
use warikomi_inject::trace::{Access, Event, FrameBytes, Happening, Reader};
use warikomi_nic::register::Role;
use warikomi_nic::{ModelInfo, Reception};
use warikomi_pci::Interrupt;

use super::ExportError;
use crate::replay::register_name;

const TRACKS: [&str; 4] = ["packets", "interrupts", "registers", "DMA"];

/// Which of [`TRACKS`], and its number in the file.
#[derive(Clone, Copy)]
enum Track {
    Packets = 1,
    Interrupts = 2,
    Registers = 3,
    Dma = 4,
}

struct Timeline<'a> {
    to: &'a mut dyn Write,
    model: Option<&'static ModelInfo>,
    name: String,
    start: Time,
    written: u64,
    /// When the interrupt was sent that the driver has not looked at yet.
    sent: Option<Time>,
    /// When the driver looked at it.
    looked: Option<Time>,
    frame_bytes: usize,
    packet: u64,
}

/// Times count from the first event.
pub(super) fn write<R: Read>(mut trace: Reader<R>, to: &mut dyn Write) -> Result<u64, ExportError> {
    let header = trace.header().clone();
    let first = trace.next_event()?;
    let model = warikomi_nic::MODELS.iter().find(|info| info.name == header.model).copied();
    let start = first.as_ref().map_or(Time::ZERO, |event| event.at);
    let mut line = Timeline {
        to,
        model,
        name: header.model.clone(),
        start,
        written: 0,
        sent: None,
        looked: None,
        frame_bytes: 0,
        packet: 0,
    };
    line.begin(&format!("{} on {}", header.driver, header.model)).map_err(ExportError::Write)?;
    let mut next = first;
    while let Some(event) = next {
        line.event(&event).map_err(ExportError::Write)?;
        next = trace.next_event()?;
    }
    line.to.write_all(b"\n]}\n").map_err(ExportError::Write)?;
    Ok(line.written)
}

impl Timeline<'_> {
    fn begin(&mut self, process: &str) -> io::Result<()> {
        self.to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        let name = json!({"name": process});
        let process = json!({"name": "process_name", "ph": "M", "pid": 1, "args": name});
        self.to.write_all(process.to_string().as_bytes())?;
        for (index, name) in TRACKS.iter().enumerate() {
            let (tid, name) = (index + 1, json!({"name": name}));
            let track =
                json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": name});
            write!(self.to, ",\n{track}")?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let at = event.at;
        match &event.what {
            Happening::Read(access, value) => {
                if matches!(self.role(*access), Role::Status(_))
                    && let Some(sent) = self.sent.take()
                {
                    self.slice("interrupt", Track::Interrupts, sent, at)?;
                    self.looked = Some(at);
                }
                self.access("read", *access, at, *value)
            }
            Happening::Write(access, value) => {
                self.access("write", *access, at, *value)?;
                let enables = matches!(self.role(*access), Role::Mask(_)) && *value != 0;
                match self.looked.take_if(|_| enables) {
                    Some(looked) => self.slice("handling", Track::Interrupts, looked, at),
                    None => Ok(()),
                }
            }
            Happening::Interrupt(Interrupt::Msi(message)) => {
                self.sent.get_or_insert(at);
                let data = json!({"data": message.data});
                self.instant("MSI", Track::Interrupts, at, data)
            }
            Happening::Interrupt(Interrupt::Intx(level)) => {
                self.instant("INTx", Track::Interrupts, at, json!({"asserted": level}))
            }
            Happening::DmaRead { address, len } => self.dma("read", *address, *len, at),
            Happening::DmaWrite { address, len } => self.dma("write", *address, *len, at),
            Happening::DmaFailed { address, len } => self.dma("failed", *address, *len, at),
            Happening::DmaLoad { address, value } => self.word("load", *address, *value, at),
            Happening::DmaStore { address, value } => self.word("store", *address, *value, at),
            Happening::Arrived { frame, .. } => {
                if let FrameBytes::Whole(bytes) = frame {
                    self.frame_bytes = bytes.len();
                }
                Ok(())
            }
            Happening::Placed(Reception { queue, outcome }) => {
                let about = json!({
                    "packet": self.packet, "size_bytes": self.frame_bytes, "queue": queue,
                    "outcome": outcome.to_string(),
                });
                self.packet += 1;
                self.instant("packet", Track::Packets, at, about)
            }
            Happening::Damaged(fault) => {
                let about = json!({"fault": format!("{fault:?}")});
                self.instant("damaged", Track::Packets, at, about)
            }
            Happening::Link(link) => {
                let about = json!({"link": format!("{link:?}")});
                self.instant("link", Track::Packets, at, about)
            }
            Happening::PowerOn => self.instant("power on", Track::Registers, at, json!({})),
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
            "name": name, "ph": "i", "s": "t", "pid": 1, "tid": track as u8,
            "ts": self.microseconds(at), "args": about,
        }))
    }

    fn slice(&mut self, name: &str, track: Track, from: Time, until: Time) -> io::Result<()> {
        self.put(json!({
            "name": name, "ph": "X", "pid": 1, "tid": track as u8,
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
