//! Commands that make the guest receive, and compute meanwhile.

use serde::{Deserialize, Serialize};

use super::Wait;

command! {
    /// Starts receiving UDP datagrams in a thread of its own, on every address of the guest. One
    /// reception at a time; what the last one recorded is forgotten.
    ReceiveStart {
        /// UDP port.
        port: u16,
        /// Which run's datagrams to account for; others count as `foreign`.
        run_id: u32,
        /// Where in the payload its head ([`crate::payload`]) starts, in bytes.
        #[serde(default)]
        sequence_offset_bytes: u32,
        /// Size of the socket's receive buffer, in bytes (as `SO_RCVBUFFORCE`, which the kernel
        /// doubles).
        #[serde(default = "default_buffer_bytes")]
        buffer_bytes: u32,
        /// How much of each datagram is copied to the application, in bytes, at most 65,535. Longer
        /// ones are received all the same, their full length counted in `bytes`, and counted as
        /// `truncated`.
        #[serde(default = "default_datagram_bytes")]
        max_datagram_bytes: u32,
        /// Datagrams a system call, 1 to 1024. System calls are dear in this kernel (some
        /// microseconds each), so few small batches cost more than many datagrams.
        #[serde(default = "default_batch")]
        batch: u32,
        /// How many runs are kept at most (24 bytes each), up to 4,194,304. Beyond that, datagrams
        /// that continue the last run are still recorded, with that run's time; others are only
        /// counted (`unrecorded`).
        #[serde(default = "default_max_runs")]
        max_runs: u32,
        /// Runs as important as everything else, rather than behind it.
        #[serde(default)]
        equal_priority: bool,
        /// How it waits for datagrams.
        #[serde(default)]
        wait: Wait,
    }
}

fn default_buffer_bytes() -> u32 {
    8 << 20
}

fn default_datagram_bytes() -> u32 {
    16384
}

fn default_batch() -> u32 {
    128
}

fn default_max_runs() -> u32 {
    1 << 19
}

impl ReceiveStart {
    /// A reception with the usual sizes.
    pub fn on_port(port: u16, run_id: u32) -> Self {
        Self {
            port,
            run_id,
            sequence_offset_bytes: 0,
            buffer_bytes: default_buffer_bytes(),
            max_datagram_bytes: default_datagram_bytes(),
            batch: default_batch(),
            max_runs: default_max_runs(),
            equal_priority: false,
            wait: Wait::default(),
        }
    }
}

command! {
    /// The totals so far of the running (or the last) reception.
    ReceiveStatus {}
}

command! {
    /// Stops the reception, after everything that the socket still holds has been taken.
    ReceiveStop {}
}

command! {
    /// What a stopped reception recorded, a part at a time.
    ReceiveRuns {
        /// Index of the first run wanted.
        from: u64,
        /// How many at most; the agent gives no more than 4,096.
        #[serde(default = "default_runs")]
        max: u32,
    }
}

impl ReceiveRuns {
    /// Most runs in one answer; keeps its line within [`crate::MAX_RESPONSE_BYTES`].
    pub const MOST: u32 = 4096;
}

fn default_runs() -> u32 {
    1000
}

command! {
    /// Starts a job that computes as much as it is let, in a thread of its own with the usual
    /// priority, and notes from time to time how far it has come.
    ComputeStart {
        /// Time between two notes, in ticks of the time-stamp counter, 100,000 or more.
        sample_every_ticks: u64,
        /// How many notes are kept at most, up to 1,048,576; then the job goes on without.
        max_samples: u32,
    }
}

command! {
    /// Stops the job.
    ComputeStop {}
}

command! {
    /// What the running (or the last) job noted, a part at a time.
    ComputeSamples {
        /// Index of the first note wanted.
        from: u64,
        /// How many at most; the agent gives no more than 4,096.
        max: u32,
    }
}

impl ComputeSamples {
    /// Most notes in one answer; keeps its line within [`crate::MAX_RESPONSE_BYTES`].
    pub const MOST: u32 = 4096;
}
