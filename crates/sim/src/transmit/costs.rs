//! What the parts of a sender take: declared, put into every result, and measured by
//! [`calibrate`](crate::calibrate).

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_driver::transmit::Work;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::MOST_MESSAGE_BYTES;

/// What application, protocols and driver take on the core that sends, and the way between it and the
/// device.
///
/// The defaults are round numbers of what `warikomi calibrate` measures of a driver process on a server of
/// about 2023 (2.5 GHz).
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
    /// Each byte of a copy up to `copy_near_bytes`, in picoseconds.
    pub copy_ps_per_byte: u64,
    /// So many bytes of a copy are near: what the nearest cache holds of source and target.
    pub copy_near_bytes: u64,
    /// Each byte beyond that, in picoseconds.
    pub copy_far_ps_per_byte: u64,
    /// Each byte that is summed up for a checksum in a pass of its own, in picoseconds.
    pub sum_ps_per_byte: u64,
    /// Each byte that is summed up while it is copied, besides its copy, in picoseconds.
    pub sum_copied_ps_per_byte: u64,
    /// Taking a buffer (an mbuf, a cluster, a contiguous one) from its pool, in nanoseconds.
    pub take_ns: u64,
    /// Giving it back, in nanoseconds.
    pub free_ns: u64,
    /// Looking at a buffer of a packet on the way down, its link among it, in nanoseconds.
    pub visit_ns: u64,
    /// What a contiguous buffer takes besides, in nanoseconds. No step of it is counted, so only costs that are
    /// fitted to a published result have any.
    pub contiguous_more_ns: u64,
    /// Describing a piece to the device, without the register accesses, in nanoseconds.
    pub describe_ns: u64,
    /// Looking at whether a packet was sent, or has come, without the register accesses, in nanoseconds: once for each
    /// that was, and once for the first that was not.
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
            register_write_ns: 10,
            register_posted_ns: 110,
            register_read_ns: 220,
            system_call_ns: 180,
            headers_ns: 25,
            copy_ns: 2,
            copy_ps_per_byte: 20,
            copy_near_bytes: 16_384,
            copy_far_ps_per_byte: 120,
            sum_ps_per_byte: 45,
            sum_copied_ps_per_byte: 35,
            take_ns: 10,
            free_ns: 10,
            visit_ns: 15,
            contiguous_more_ns: 0,
            describe_ns: 5,
            reclaim_ns: 10,
            interrupt_ns: 200,
            handler_ns: 5,
            switch_ns: 1_500,
            wake_up_ns: 1_000,
        }
    }
}

/// Lengths of messages in bytes, from 16 bytes to the longest payload of a UDP datagram ("64 KB").
pub const SIZES_BYTES: [u32; 14] = [
    16,
    64,
    128,
    212,
    256,
    512,
    1_024,
    1_472,
    2_048,
    4_096,
    8_192,
    16_384,
    32_768,
    MOST_MESSAGE_BYTES,
];

/// Costs that can be asked for by name.
pub const PRESETS: [(&str, SendCosts); 1] = [("fitted-bsd-2004", SendCosts::FITTED_BSD_2004)];

impl SendCosts {
    /// A server of about 2004 on the bus `fitted-2004`, as a study of adaptive transmission had it. Its costs were not
    /// published; these are **fitted** to what was (`[adaptive_transmit]` of the published results): they say what
    /// costs such results would have, and are no evidence for them. A test holds what comes of them.
    ///
    /// - Short messages are limited by the processor. Adaptive completion had 70% more throughput with mbufs
    ///   and 50% more with contiguous buffers, so what an interrupt takes besides (handler, acknowledging and
    ///   asking, 2.8 us) is 0.7 of what a message in an mbuf takes (3.9 us: call, headers, one mbuf, three
    ///   register accesses) and 0.5 of what one in a contiguous buffer does (5.5 us). The difference, 1.6 us,
    ///   is what the contiguous buffer takes more (`contiguous_more_ns`: nothing that is counted). A register read is 47 clocks of the
    ///   bus, 0.7 us.
    /// - At 16 KB chains cost 12% where the processor is the limit (a line of 10 Gbit/s): 0.9 us for each
    ///   cluster and the mbuf that holds it. What it takes to visit them is in that, and what checksums take in the
    ///   copies.
    /// - At 4 KB a bounce buffer gains 10%: the bus needs 18 us for three transfers, and the processor must be
    ///   done with two copies in 16.5, which leaves 1.25 ns a byte. At 64 KB copying everything gained
    ///   nothing and two copies took longer than 263 us: beyond the 4 KB whose source and target the nearest
    ///   cache of 8 KB holds, a byte takes 2.5 ns (400 MB/s).
    ///
    /// What the bus alone decides follows from the bus, which is fitted as well.
    pub const FITTED_BSD_2004: SendCosts = SendCosts {
        register_write_ns: 150,
        register_posted_ns: 300,
        register_read_ns: 700,
        system_call_ns: 500,
        headers_ns: 2_100,
        copy_ns: 100,
        copy_ps_per_byte: 1_250,
        copy_near_bytes: 4_096,
        copy_far_ps_per_byte: 2_500,
        sum_ps_per_byte: 0,
        sum_copied_ps_per_byte: 0,
        take_ns: 270,
        free_ns: 200,
        visit_ns: 0,
        contiguous_more_ns: 1_630,
        describe_ns: 200,
        reclaim_ns: 50,
        interrupt_ns: 1_000,
        handler_ns: 1_900,
        switch_ns: 2_500,
        wake_up_ns: 2_000,
    };

    /// The costs of that name; `None` if there are none.
    pub fn preset(name: &str) -> Option<SendCosts> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|(_, costs)| *costs)
    }

    /// The name of these costs, if they are fitted to a published result.
    pub fn fitted_name(&self) -> Option<&'static str> {
        let fitted = |name: &str| name.starts_with(warikomi_nic::bus::FITTED);
        PRESETS.iter().find(|(name, costs)| fitted(name) && costs == self).map(|(name, _)| *name)
    }

    /// What this takes with these buffers.
    #[inline]
    pub(super) fn of(&self, work: Work, buffers: BufferKind) -> Span {
        let take_ns = match buffers {
            BufferKind::Mbuf { .. } => self.take_ns,
            BufferKind::Contiguous => self.take_ns + self.contiguous_more_ns,
        };
        match work {
            Work::SystemCall => Span::from_ns(self.system_call_ns),
            Work::Headers => Span::from_ns(self.headers_ns),
            Work::Copy { bytes } => self.copy(bytes as u64),
            Work::Take { buffers } => Span::from_ns(take_ns) * buffers as u64,
            Work::Free { buffers } => Span::from_ns(self.free_ns) * buffers as u64,
            Work::Visit { buffers } => Span::from_ns(self.visit_ns) * buffers as u64,
            Work::Sum { bytes } => Span::from_ps(self.sum_ps_per_byte) * bytes as u64,
            Work::SumCopied { bytes } => Span::from_ps(self.sum_copied_ps_per_byte) * bytes as u64,
            Work::Describe { pieces } => Span::from_ns(self.describe_ns) * pieces as u64,
            Work::Reclaim { packets } => Span::from_ns(self.reclaim_ns) * (packets as u64 + 1),
            Work::Interrupt => Span::from_ns(self.handler_ns),
            Work::Switch => Span::from_ns(self.switch_ns),
            // A look at a descriptor is one, whatever it is of.
            Work::Receive { packets } => Span::from_ns(self.reclaim_ns) * (packets as u64 + 1),
            Work::Compute { span } => span,
        }
    }

    #[inline]
    fn copy(&self, bytes: u64) -> Span {
        let near = bytes.min(self.copy_near_bytes);
        Span::from_ns(self.copy_ns)
            + Span::from_ps(self.copy_ps_per_byte) * near
            + Span::from_ps(self.copy_far_ps_per_byte) * (bytes - near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_by_number_and_by_byte_and_by_kind_of_buffer_only_if_fitted() {
        let costs = SendCosts {
            copy_ns: 10,
            copy_ps_per_byte: 500,
            copy_near_bytes: 1_000,
            copy_far_ps_per_byte: 900,
            sum_ps_per_byte: 40,
            sum_copied_ps_per_byte: 10,
            take_ns: 3,
            visit_ns: 5,
            contiguous_more_ns: 4,
            ..SendCosts::default()
        };
        let mbufs = BufferKind::Mbuf { cluster_bytes: 2_048 };
        assert_eq!(costs.of(Work::Copy { bytes: 1_000 }, mbufs), Span::from_ns(510));
        assert_eq!(costs.of(Work::Copy { bytes: 3_000 }, mbufs), Span::from_ns(2_310));
        let looks = Span::from_ns(4 * costs.reclaim_ns);
        assert_eq!(costs.of(Work::Reclaim { packets: 3 }, mbufs), looks);
        assert_eq!(costs.of(Work::Take { buffers: 4 }, mbufs), Span::from_ns(12));
        assert_eq!(costs.of(Work::Take { buffers: 1 }, BufferKind::Contiguous), Span::from_ns(7));
        assert_eq!(costs.of(Work::Visit { buffers: 4 }, mbufs), Span::from_ns(20));
        assert_eq!(costs.of(Work::Sum { bytes: 1_000 }, mbufs), Span::from_ns(40));
        assert_eq!(costs.of(Work::SumCopied { bytes: 1_000 }, mbufs), Span::from_ns(10));
        assert_eq!(SendCosts::default().contiguous_more_ns, 0, "not counted, and not fitted");
    }

    #[test]
    fn a_misspelt_cost_is_refused_and_a_preset_has_its_name() {
        assert!(serde_json::from_str::<SendCosts>(r#"{"register_red_ns": 1}"#).is_err());
        assert_eq!(SendCosts::preset("fitted-bsd-2004"), Some(SendCosts::FITTED_BSD_2004));
        assert_eq!(SendCosts::preset("bsd"), None);
    }
}
