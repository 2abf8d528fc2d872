//! Transmitting: when completed transfers are noticed ([`Completion`]), and what is copied together
//! before it is handed over ([`Bounce`]).
//!
//! The same code runs in real and in virtual time. What tells the time, and is told what was
//! done, is a [`CostClock`].

mod bounce;
mod completion;
mod transmitter;
mod watching;

pub use bounce::{Bounce, ParseBounceError};
pub use completion::{Completer, Completion, ParseCompletionError, Thresholds};
pub use transmitter::{Packet, Transmitter, TransmitterCounts, TransmitterOptions};

use warikomi_clock::{Span, Time};

/// Something that takes the processor's time. In real time it simply does; in virtual time it costs
/// what a declared model says. Register accesses are not among it: they cost by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The application calls the system to send a message.
    SystemCall,
    /// The headers of a datagram are made.
    Headers,
    /// Bytes are copied by the processor.
    Copy {
        /// Bytes to copy.
        bytes: usize,
    },
    /// Bytes are summed up for a checksum, in a pass of their own.
    Sum {
        /// Bytes to sum up.
        bytes: usize,
    },
    /// The same while they are copied, in one pass.
    SumCopied {
        /// Bytes to sum up.
        bytes: usize,
    },
    /// Buffers of a packet are looked at on a walk along it: by protocols, and by the driver when it gathers.
    Visit {
        /// Number of buffers: mbufs, or the contiguous one.
        buffers: usize,
    },
    /// Buffers (small mbufs, clusters, contiguous ones) are taken from their pools.
    Take {
        /// Number of buffers.
        buffers: usize,
    },
    /// Buffers go back to their pools.
    Free {
        /// Number of buffers.
        buffers: usize,
    },
    /// The driver looks at a packet's pieces and describes them to the device.
    Describe {
        /// Number of pieces.
        pieces: usize,
    },
    /// The driver looks at what the device has sent.
    Reclaim {
        /// How many packets it takes off its list.
        packets: usize,
    },
    /// An interrupt is taken: entry, the handler without its register accesses, exit.
    Interrupt,
    /// The sender goes to sleep, or wakes up: a system call and a change of context.
    Switch,
    /// The receive ring is looked at.
    Receive {
        /// How many packets it takes off the ring.
        packets: usize,
    },
    /// The application computes.
    Compute {
        /// For how long.
        span: Span,
    },
}

/// The clock of a sender. In virtual time, work that is charged to it moves it on.
pub trait CostClock {
    /// The time.
    fn now(&mut self) -> Time;

    /// Charges the cost of `work` that was done.
    fn spend(&mut self, work: Work);
}
