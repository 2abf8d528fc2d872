//! What the parts of a sender take: declared, put into every result, and measured by
//! [`calibrate`](crate::virtual_time::calibrate).

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_driver::transmit::Work;
use warikomi_stack::buffers::BufferKind;

/// What application, protocols and driver take on the core that sends, and the way between it and the
/// device.
///
/// The defaults are round numbers of what `warikomi calibrate` measured on a server of 2023.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SendCosts {
    /// The driver's time to post a register write, in nanoseconds.
    pub register_write_ns: u64,
    /// From there until the write takes effect in the device, in nanoseconds.
    pub register_posted_ns: u64,
    /// A register read, which waits for its answer and for all writes before it, in nanoseconds.
    pub register_read_ns: u64,
    /// The application's call of the system for a message, and whatever else a message takes that is not
    /// named here, in nanoseconds. In one process there is no system call, only the rest.
    pub system_call_ns: u64,
    /// Making the headers of a datagram, in nanoseconds.
    pub headers_ns: u64,
    /// A copy, whatever its length, in nanoseconds.
    pub copy_ns: u64,
    /// Each byte of a copy, in picoseconds.
    pub copy_ps_per_byte: u64,
    /// Taking an mbuf or a cluster from its pool, in nanoseconds.
    pub mbuf_take_ns: u64,
    /// Giving it back, in nanoseconds.
    pub mbuf_free_ns: u64,
    /// Taking a contiguous buffer from its pool, in nanoseconds.
    pub contiguous_take_ns: u64,
    /// Giving it back, in nanoseconds.
    pub contiguous_free_ns: u64,
    /// Describing a piece to the device, without the register accesses, in nanoseconds.
    pub describe_ns: u64,
    /// Taking a sent packet off the driver's list, without the register accesses, in nanoseconds.
    pub reclaim_ns: u64,
    /// From the device's message until the processor can see it, in nanoseconds.
    pub interrupt_ns: u64,
    /// Taking an interrupt: entry, handler without its register accesses, exit, in nanoseconds.
    pub handler_ns: u64,
    /// Going to sleep, or waking up: a system call and a change of context, in nanoseconds.
    pub switch_ns: u64,
    /// From the interrupt that ends a sleep until the sleeper may run, in nanoseconds.
    pub wake_up_ns: u64,
}

impl Default for SendCosts {
    fn default() -> Self {
        SendCosts {
            register_write_ns: 20,
            register_posted_ns: 150,
            register_read_ns: 300,
            system_call_ns: 0,
            headers_ns: 10,
            copy_ns: 20,
            copy_ps_per_byte: 80,
            mbuf_take_ns: 5,
            mbuf_free_ns: 5,
            contiguous_take_ns: 5,
            contiguous_free_ns: 5,
            describe_ns: 5,
            reclaim_ns: 5,
            interrupt_ns: 200,
            handler_ns: 50,
            switch_ns: 1_500,
            wake_up_ns: 5_000,
        }
    }
}

/// Costs that can be asked for by name.
pub const PRESETS: [(&str, SendCosts); 1] = [("bsd-2004", SendCosts::BSD_2004)];

impl SendCosts {
    /// A server of about 2004 with a 64-bit, 66 MHz PCI bus, as a study of adaptive transmission had it.
    pub const BSD_2004: SendCosts = SendCosts {
        register_write_ns: 150,
        register_posted_ns: 300,
        register_read_ns: 900,
        system_call_ns: 800,
        headers_ns: 2_000,
        copy_ns: 100,
        copy_ps_per_byte: 1_000,
        mbuf_take_ns: 400,
        mbuf_free_ns: 300,
        contiguous_take_ns: 2_000,
        contiguous_free_ns: 1_500,
        describe_ns: 200,
        reclaim_ns: 100,
        interrupt_ns: 1_000,
        handler_ns: 3_500,
        switch_ns: 2_500,
        wake_up_ns: 2_000,
    };

    /// The costs of that name; `None` if there are none.
    pub fn preset(name: &str) -> Option<SendCosts> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|(_, costs)| *costs)
    }

    /// What this takes with these buffers.
    #[inline]
    pub(super) fn of(&self, work: Work, buffers: BufferKind) -> Span {
        let (take_ns, free_ns) = match buffers {
            BufferKind::Mbuf { .. } => (self.mbuf_take_ns, self.mbuf_free_ns),
            BufferKind::Contiguous => (self.contiguous_take_ns, self.contiguous_free_ns),
        };
        match work {
            Work::SystemCall => Span::from_ns(self.system_call_ns),
            Work::Headers => Span::from_ns(self.headers_ns),
            Work::Copy { bytes } => {
                Span::from_ns(self.copy_ns) + Span::from_ps(self.copy_ps_per_byte) * bytes as u64
            }
            Work::Take { buffers } => Span::from_ns(take_ns) * buffers as u64,
            Work::Free { buffers } => Span::from_ns(free_ns) * buffers as u64,
            Work::Describe { pieces } => Span::from_ns(self.describe_ns) * pieces as u64,
            Work::Reclaim { packets } => Span::from_ns(self.reclaim_ns) * packets as u64,
            Work::Interrupt => Span::from_ns(self.handler_ns),
            Work::Switch => Span::from_ns(self.switch_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_by_number_and_by_byte_and_by_kind_of_buffer() {
        let costs = SendCosts {
            copy_ns: 10,
            copy_ps_per_byte: 500,
            mbuf_take_ns: 3,
            contiguous_take_ns: 7,
            ..SendCosts::default()
        };
        let mbufs = BufferKind::Mbuf { cluster_bytes: 2_048 };
        assert_eq!(costs.of(Work::Copy { bytes: 1_000 }, mbufs), Span::from_ns(510));
        assert_eq!(costs.of(Work::Take { buffers: 4 }, mbufs), Span::from_ns(12));
        assert_eq!(costs.of(Work::Take { buffers: 1 }, BufferKind::Contiguous), Span::from_ns(7));
    }

    #[test]
    fn a_misspelt_cost_is_refused_and_a_preset_has_its_name() {
        assert!(serde_json::from_str::<SendCosts>(r#"{"register_red_ns": 1}"#).is_err());
        assert_eq!(SendCosts::preset("bsd-2004"), Some(SendCosts::BSD_2004));
        assert_eq!(SendCosts::preset("bsd"), None);
    }
}
