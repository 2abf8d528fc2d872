//! What everything takes: declared, put into every result, and measured by [`calibrate`](super::calibrate).

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_target::kernel::GuestCosts;

/// What the parts of a receiver take on the target's core, and the device beside it.
///
/// The defaults are declared, not measured: round numbers of a server of about 2020.
/// [`calibrate`](super::calibrate::calibrate) measures those of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostModel {
    /// The driver's time to post a register write, in nanoseconds.
    pub register_write_ns: u64,
    /// From there until the write takes effect in the device, in nanoseconds.
    pub register_posted_ns: u64,
    /// A register read, which waits for its answer and for all writes before it, in nanoseconds.
    pub register_read_ns: u64,
    /// A look at the receive ring that finds nothing, in nanoseconds.
    pub poll_empty_ns: u64,
    /// Taking a frame from the ring and putting a new buffer there, in nanoseconds.
    pub driver_packet_ns: u64,
    /// The driver's interrupt handler without its register accesses, in nanoseconds.
    pub handler_ns: u64,
    /// From the NIC's message until the driver can see it, in nanoseconds.
    pub interrupt_ns: u64,
    /// The device's time for a frame: descriptor and bookkeeping, in nanoseconds.
    pub dma_packet_ns: u64,
    /// The device's time for each byte of a frame, in picoseconds.
    pub dma_ps_per_byte: u64,
    /// Taking a packet from a channel between two processes, in nanoseconds.
    pub channel_packet_ns: u64,
    /// What the protocols take for a packet, in nanoseconds.
    pub protocol_packet_ns: u64,
    /// The application's time for a packet, in nanoseconds.
    pub copy_packet_ns: u64,
    /// The application's time for each byte of a packet, in picoseconds.
    pub copy_ps_per_byte: u64,
    /// Ringing the bell of a sleeper, a system call, in nanoseconds.
    pub bell_ns: u64,
    /// Going to sleep, a system call, in nanoseconds.
    pub sleep_ns: u64,
    /// From the bell until the sleeper may run, in nanoseconds.
    pub wake_up_ns: u64,
    /// From one process to another on the same core, in nanoseconds.
    pub context_switch_ns: u64,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            register_write_ns: 20,
            register_posted_ns: 150,
            register_read_ns: 500,
            poll_empty_ns: 60,
            driver_packet_ns: 80,
            handler_ns: 200,
            interrupt_ns: 200,
            dma_packet_ns: 100,
            dma_ps_per_byte: 100,
            channel_packet_ns: 50,
            protocol_packet_ns: 500,
            copy_packet_ns: 50,
            copy_ps_per_byte: 150,
            bell_ns: 1_500,
            sleep_ns: 1_500,
            wake_up_ns: 5_000,
            context_switch_ns: 1_500,
        }
    }
}

impl CostModel {
    /// What the device takes to put a frame of `bytes` into memory.
    pub fn dma(&self, bytes: usize) -> Span {
        per_packet(self.dma_packet_ns, self.dma_ps_per_byte, bytes)
    }

    /// What the application takes for a packet of `bytes`.
    pub fn application(&self, bytes: usize) -> Span {
        per_packet(self.copy_packet_ns, self.copy_ps_per_byte, bytes)
    }

    /// The same on a processor that is so many times as fast: what the device takes for itself stays as it is.
    #[must_use]
    pub fn with_cpu_speed(mut self, speed: f64) -> CostModel {
        let CostModel { register_posted_ns, interrupt_ns, dma_packet_ns, dma_ps_per_byte, .. } =
            self;
        self.vary(|cost| (cost as f64 / speed).round() as u64);
        CostModel { register_posted_ns, interrupt_ns, dma_packet_ns, dma_ps_per_byte, ..self }
    }

    /// The same of a kernel, whose interrupt handling, driver, protocols and copies are each charged at once.
    pub fn of_kernel(&self) -> GuestCosts {
        GuestCosts {
            access: Span::from_ns(self.register_read_ns),
            interrupt: Span::from_ns(self.interrupt_ns + self.handler_ns),
            frame: Span::from_ns(
                self.driver_packet_ns + self.protocol_packet_ns + self.copy_packet_ns,
            ),
            byte: Span::from_ps(self.copy_ps_per_byte),
        }
    }

    /// Changes every cost.
    pub(super) fn vary(&mut self, mut change: impl FnMut(u64) -> u64) {
        let CostModel {
            register_write_ns,
            register_posted_ns,
            register_read_ns,
            poll_empty_ns,
            driver_packet_ns,
            handler_ns,
            interrupt_ns,
            dma_packet_ns,
            dma_ps_per_byte,
            channel_packet_ns,
            protocol_packet_ns,
            copy_packet_ns,
            copy_ps_per_byte,
            bell_ns,
            sleep_ns,
            wake_up_ns,
            context_switch_ns,
        } = self;
        let all = [
            register_write_ns,
            register_posted_ns,
            register_read_ns,
            poll_empty_ns,
            driver_packet_ns,
            handler_ns,
            interrupt_ns,
            dma_packet_ns,
            dma_ps_per_byte,
            channel_packet_ns,
            protocol_packet_ns,
            copy_packet_ns,
            copy_ps_per_byte,
            bell_ns,
            sleep_ns,
            wake_up_ns,
            context_switch_ns,
        ];
        all.into_iter().for_each(|cost| *cost = change(*cost));
    }

    /// What the protocols take for a packet.
    pub fn protocol(&self) -> Span {
        Span::from_ns(self.protocol_packet_ns)
    }
}

fn per_packet(fixed_ns: u64, ps_per_byte: u64, bytes: usize) -> Span {
    Span::from_ns(fixed_ns) + Span::from_ps(ps_per_byte) * bytes as u64
}

/// How the processes of the target's one core share it.
///
/// Fair by the time used: when a time slice ends, the task that has used the least goes on. Who wakes up
/// counts as having used at least what the least of the others has, less a credit, and takes the core
/// at once if that is less than what the running process has used, by more than a granularity. So one
/// that mostly sleeps runs as soon as it wakes, and one that takes its full share waits for the end of
/// a slice. (Linux's CFS in small.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerModel {
    /// A time slice, in microseconds.
    pub time_slice_us: u64,
    /// By how much a process that wakes up must be behind to take the core at once, in microseconds.
    pub wake_up_granularity_us: u64,
    /// What a sleeper is given at most for having slept, in microseconds.
    pub sleeper_credit_us: u64,
}

impl Default for SchedulerModel {
    /// Linux 6 with a tick of 250 Hz, roughly.
    fn default() -> Self {
        SchedulerModel {
            time_slice_us: 3_000,
            wake_up_granularity_us: 1_000,
            sleeper_credit_us: 6_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_by_packet_and_by_byte() {
        let costs = CostModel { copy_packet_ns: 10, copy_ps_per_byte: 500, ..CostModel::default() };
        assert_eq!(costs.application(1_000), Span::from_ns(510));
    }

    #[test]
    fn half_the_processor_takes_twice_as_long_and_the_device_as_long_as_before() {
        let (usual, half) = (CostModel::default(), CostModel::default().with_cpu_speed(0.5));
        assert_eq!(half.copy_ps_per_byte, 2 * usual.copy_ps_per_byte);
        assert_eq!(half.context_switch_ns, 2 * usual.context_switch_ns);
        assert_eq!(half.dma(1_500), usual.dma(1_500));
        assert_eq!(half.with_cpu_speed(2.0), usual);
    }

    #[test]
    fn a_misspelt_cost_is_refused_and_one_left_out_has_its_default() {
        assert!(serde_json::from_str::<CostModel>(r#"{"register_red_ns": 1}"#).is_err());
        let costs: CostModel = serde_json::from_str(r#"{"register_read_ns": 1}"#).unwrap();
        assert_eq!(costs, CostModel { register_read_ns: 1, ..CostModel::default() });
    }
}
