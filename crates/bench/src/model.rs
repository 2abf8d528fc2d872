//! The product's own way: NIC model, driver and socket.
//!
//! The support side writes frames into the model's ring as fast as descriptors become free, and a driver
//! in a process of its own on the target's core takes them to an application. What counts is what the
//! application says that it has received, and that must be every frame that found a descriptor, once.

use std::time::Duration;

use nix::unistd::gettid;
use serde_json::Map;
use warikomi_clock::{Span, Time, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Addresses, FrameTemplate, UDP_PORT};
use warikomi_nic::{Burst, FCS_BYTES, NicOptions, RxOutcome};
use warikomi_process::Orders;
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_protocol::commands::{ReceiveStart, ReceiveStop};
use warikomi_session::{OwnParts, PacketPath, ProcessSessionOptions, Session};
use warikomi_stack::{Topology, Waiting};
use warikomi_target::{CardId, Target};
use warikomi_wire::CountedSink;

use crate::way::{Failure, Running, Sample, Setup, Way, threads_of, waited_ns};

/// The driver, and the model that it drives.
const DRIVER: &str = warikomi_driver::DEFAULT_DRIVER;
/// What the buffers take together, within the limits of their number: as much as the bare ring's slots.
const BUFFERS_BYTES: usize = 256 * 1_024;
/// Limits of the number of buffers.
const BUFFERS: std::ops::RangeInclusive<usize> = 32..=256;
/// Buffers begin and end at multiples of this.
const BUFFER_ALIGN_BYTES: usize = 128;
/// Frames that go on the ring one behind the other, at most.
const MOST_BATCH: usize = 64;
/// What the application reads of a frame: the lines of the rest stay with the support side's core.
const READ_BYTES: usize = 128;
/// There are so many batches on the ring, so that both sides can work at a time.
const BATCHES: usize = 4;
/// Memory for the driver's rings; the buffers are elsewhere.
const DMA_BYTES: u64 = 1 << 20;
/// How long the driver may take for what is still on the ring at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Model, driver and application.
pub(super) struct ThroughModel {
    pub(super) parts: OwnParts,
    /// The application copies each payload out of its buffer.
    pub(super) copy_out: bool,
}

impl Way for ThroughModel {
    fn name(&self) -> &'static str {
        if self.copy_out { "model_copied" } else { "model" }
    }

    fn description(&self) -> &'static str {
        if self.copy_out {
            "the same, and the application copies each payload out of its buffer: each packet is copied \
             twice"
        } else {
            "NIC model, driver that polls and application in the driver's process; 32 to 256 buffers as \
             long as a packet, bursts of up to 64; each packet is copied once, by the model into the \
             application's buffer, and the application reads its headers"
        }
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Running>, Failure> {
        let buffer_bytes = (setup.size_bytes + FCS_BYTES).next_multiple_of(BUFFER_ALIGN_BYTES);
        let buffers = (BUFFERS_BYTES / buffer_bytes).clamp(*BUFFERS.start(), *BUFFERS.end());
        let orders = Orders {
            strategy: Strategy::Poll,
            buffers: buffers as u64,
            buffer_bytes: buffer_bytes as u64,
        };
        let options = ProcessSessionOptions {
            driver: DRIVER.into(),
            program: (self.parts.driver)(DRIVER),
            nic: NicOptions::of(DRIVER),
            make_nic: warikomi_nic::build,
            orders,
            settings: Map::new(),
            dma_bytes: DMA_BYTES,
            path: PacketPath {
                topology: Topology::Direct,
                waiting: Waiting::Hybrid { poll_ns: 0 },
                copy_out: self.copy_out,
                tcp_port: None,
                program: self.parts.above,
            },
            application: None,
            confined: true,
        };
        let batch = (buffers / BATCHES).min(MOST_BATCH);
        Ok(Box::new(Saturated { options, batch, setup: setup.clone() }))
    }
}

/// A path that is set up anew each time: between the rounds, nobody polls.
struct Saturated {
    options: ProcessSessionOptions,
    batch: usize,
    setup: Setup,
}

impl Running for Saturated {
    fn measure(&mut self) -> Result<Sample, Failure> {
        let (wire, interrupted) = (Box::new(CountedSink::new()), &self.setup.interrupted);
        let mut session = Session::start_process(&self.options, wire, interrupted, &mut |_| ())
            .map_err(Failure::own)?;
        let target = &mut *session.target;
        self.receive(target, self.setup.warm_up)?;
        let sample = self.receive(target, self.setup.measured)?;
        session.stop().map_err(Failure::own)?;
        Ok(sample)
    }
}

impl Saturated {
    /// One reception: from its first frame until the application has the last.
    fn receive(&self, target: &mut dyn Target, span: Duration) -> Result<Sample, Failure> {
        let (run_id, clock) = (read_tsc() as u32, target.clock());
        let addresses =
            Addresses::to_guest(target.card(CardId::FIRST).map_err(Failure::own)?.0.mac_address());
        let mut template = FrameTemplate::new(&addresses, self.setup.size_bytes, run_id)
            .map_err(|error| Failure::Own(error.to_string()))?;
        let start = ReceiveStart { max_runs: 1, ..ReceiveStart::on_port(UDP_PORT, run_id) };
        target.ask(start, Duration::ZERO).map_err(Failure::own)?;
        let mut threads: Vec<u32> = target.process_ids().into_iter().flat_map(threads_of).collect();
        threads.push(gettid().as_raw() as u32);
        let waited_before = waited_ns(&threads);
        let begun = clock.now();
        let until = begun + Span::from_ns(span.as_nanos() as u64);
        let sent = self.saturate(target, &mut template, until)?;
        drain(target)?;
        let waited = waited_ns(&threads).saturating_sub(waited_before);
        let totals = target.ask(ReceiveStop {}, Duration::ZERO).map_err(Failure::own)?;
        complete(&totals, sent)?;
        let seconds = clock.at(totals.last_tsc).since(begun).as_secs();
        Ok(Sample {
            packets_per_second: totals.delivered as f64 / seconds,
            waited_share: waited as f64 / 1e9 / (2.0 * seconds),
        })
    }

    /// Puts frames on the ring until then; how many.
    fn saturate(
        &self,
        target: &mut dyn Target,
        template: &mut FrameTemplate,
        until: Time,
    ) -> Result<u64, Failure> {
        let shared = target.shares_a_core();
        let mut sent = 0;
        while target.poll().map_err(Failure::own)?.at < until {
            // Not moved: see `NicContext`.
            let mut card = target.card(CardId::FIRST);
            let (nic, host) = match &mut card {
                Ok((nic, host)) => (&mut **nic, host),
                Err(_) => return card.map(|_| sent).map_err(Failure::own),
            };
            let read = self.setup.size_bytes.min(READ_BYTES);
            let mut burst = Burst::new(nic, host, self.batch, read);
            let found = burst.found();
            // A look takes lines with descriptors away from the driver, which is filling them: not for a few frames.
            if found < self.batch.div_ceil(2) {
                if shared {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
                continue;
            }
            for _ in 0..found {
                match burst.receive(template.frame(sent)).outcome {
                    RxOutcome::OnRing => sent += 1,
                    outcome => return Err(Failure::Own(format!("frame {sent}: {outcome:?}"))),
                }
            }
        }
        Ok(sent)
    }
}

/// Serves the driver until it has taken every frame from the ring.
fn drain(target: &mut dyn Target) -> Result<(), Failure> {
    const STEP: Duration = Duration::from_micros(100);
    for _ in 0..DRAIN_TIMEOUT.as_micros() / STEP.as_micros() {
        let (nic, mut host) = target.card(CardId::FIRST).map_err(Failure::own)?;
        let counters = nic.rx_progress(&mut host, usize::MAX);
        if counters.accepted == counters.on_ring {
            return Ok(());
        }
        target.serve_for(STEP).map_err(Failure::own)?;
    }
    let within = DRAIN_TIMEOUT.as_secs();
    Err(Failure::Own(format!("the driver left frames on its ring for {within} s")))
}

/// Every frame has come, once and in order.
fn complete(totals: &ReceiveTotals, sent: u64) -> Result<(), Failure> {
    let odd = totals.duplicates + totals.out_of_order + totals.foreign + totals.short;
    if totals.delivered == sent && odd == 0 {
        return Ok(());
    }
    Err(Failure::Own(format!("{sent} frames were injected, and this came of them: {totals:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_must_be_what_was_sent() {
        let all = ReceiveTotals { delivered: 7, ..ReceiveTotals::default() };
        assert!(complete(&all, 7).is_ok());
        assert!(complete(&all, 8).is_err());
        assert!(complete(&ReceiveTotals { duplicates: 1, ..all }, 7).is_err());
        assert!(complete(&ReceiveTotals { out_of_order: 1, ..all }, 7).is_err());
    }
}
