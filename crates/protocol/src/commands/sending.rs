//! Commands that make the guest send.

use serde::{Deserialize, Serialize};

command! {
    /// Sends UDP datagrams whose payload starts with a [`crate::payload::Head`], sequence numbers
    /// from 0; byte i of the payload behind it is i modulo 251. The agent answers nothing else
    /// meanwhile.
    Transmit {
        /// Number of datagrams.
        count: u64,
        /// Payload of each, in bytes, 16 to 65,507.
        payload_bytes: u32,
        /// IPv4 address and UDP port, as `10.9.0.2:5001`.
        destination: String,
        /// Run id in the payloads.
        run_id: u32,
        /// Time between two starts, in microseconds, kept with absolute deadlines; 0 sends
        /// batches as fast as it goes.
        #[serde(default)]
        interval_us: u64,
        /// Sends on this VLAN's interface (see [`super::VlanAdd`]) rather than where the route goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
        /// Longest wait for room in the socket's buffer, in milliseconds; then the answer is what
        /// has been sent so far, with `timed_out`.
        #[serde(default = "default_send_timeout_ms")]
        timeout_ms: u64,
    }
}

command! {
    /// Connects over TCP and sends: the way to make a driver segment (TSO). Byte i of the connection's stream is
    /// i modulo 251.
    TransmitTcp {
        /// Bytes to send.
        count_bytes: u64,
        /// Bytes handed over in one system call, 1 to 1,048,576.
        #[serde(default = "default_write_bytes")]
        write_bytes: u32,
        /// IPv4 address and port.
        destination: String,
        /// Longest wait for the connection, and for each write, in milliseconds.
        #[serde(default = "default_send_timeout_ms")]
        timeout_ms: u64,
    }
}

command! {
    /// Sends UDP datagrams with the kernel's own packet generator (pktgen), which hands frames to the
    /// driver without a socket and without the stack. Each payload starts with pktgen's head (16 bytes:
    /// 0xbe9be955, sequence number, seconds, microseconds, most significant byte first); the rest is
    /// zeros. The sequence number is that of the frame for which the packet was made: a packet that is
    /// handed over several times keeps it. The agent answers nothing else meanwhile.
    Pktgen {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// How many frames, 1 to 9,999,999,999; the last burst is sent whole.
        count: u64,
        /// Payload of each, in bytes, 16 to what the interface's MTU has room for.
        payload_bytes: u32,
        /// How often each packet is handed to the driver, 1 to 256: all but the last time with the word
        /// that more is to come (`xmit_more`), so that the driver can save doorbells.
        burst: u32,
        /// IPv4 address and UDP port, as `10.9.0.2:9`.
        destination: String,
        /// Hardware address of the destination.
        destination_mac: String,
        /// Longest time for all of it, in milliseconds; then the answer is what has been sent so far,
        /// with `timed_out`.
        timeout_ms: u64,
    }
}

command! {
    /// Hands frames to the driver as they are, as a virtual machine's packets come to its host's driver: through a
    /// packet socket with a header (`struct virtio_net_hdr`) that says which checksum is still to be made, and
    /// whether the frame is to be cut into segments.
    TransmitFrames {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// Sends on this VLAN's interface (see [`super::VlanAdd`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
        /// The frames.
        frames: Vec<RawFrame>,
        /// Sends them this many times, past the interface's queue, and goes on though the driver takes no more: what it
        /// does not take is left out. `None`: once, through the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        crowd: Option<u16>,
    }
}

command! {
    /// A frame with all its headers.
    RawFrame {
        /// Its first bytes, in hexadecimal digits.
        head: String,
        /// Zeros behind them, in bytes.
        zeros: u32,
        /// A checksum that is still to be made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checksum: Option<OpenChecksum>,
        /// How it is to be cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        segments: Option<Segments>,
    }
}

command! {
    /// A checksum that is still to be made; its field has that of the pseudo header.
    OpenChecksum {
        /// The first byte that it counts, from the frame's beginning.
        from: u16,
        /// Its field, in bytes from there.
        field: u16,
    }
}

command! {
    /// How TCP is to be cut into segments.
    Segments {
        /// IP version, 4 or 6.
        version: u8,
        /// Headers of the frame, in bytes.
        headers_bytes: u16,
        /// Payload of a segment, in bytes.
        bytes: u16,
    }
}

fn default_write_bytes() -> u32 {
    65_536
}

fn default_send_timeout_ms() -> u64 {
    10_000
}

command! {
    /// An application at work, beside which other commands and receptions go on: over one TCP
    /// connection it sends, computes, and begins again; beside it, if asked for, it sends datagrams. Byte
    /// i of the connection's stream is i modulo 251.
    WorkStart {
        /// IPv4 address and port to connect to.
        destination: String,
        /// How often to send; 0 for until it is stopped.
        sends: u64,
        /// Bytes sent each time, 1 to 65,536. A send ends when the stack has taken all of them.
        send_bytes: u32,
        /// Computing between two sends, in microseconds: a loop whose length was measured when nothing
        /// else ran.
        compute_us: u64,
        /// Datagrams beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        datagrams: Option<WorkDatagrams>,
        /// Longest wait for the connection, and for each send, in milliseconds.
        #[serde(default = "default_send_timeout_ms")]
        timeout_ms: u64,
    }
}

command! {
    /// Datagrams that are sent beside: payloads as in [`Transmit`].
    WorkDatagrams {
        /// IPv4 address and UDP port.
        destination: String,
        /// Payload of each, in bytes, 16 to 65,507.
        payload_bytes: u32,
        /// Run id in the payloads.
        run_id: u32,
        /// Time between two starts, in microseconds; 0 for as fast as it goes.
        interval_us: u64,
    }
}

command! {
    /// Asks how far the work is.
    WorkStatus {}
}

command! {
    /// Ends the work; answers with its totals.
    WorkStop {}
}

command! {
    /// Sends small messages, one after the other, each when the answer to the one before has come, and keeps how long
    /// each took; other commands go on beside it. Payloads are as in [`Transmit`], and an answer is the same payload.
    RoundTripsStart {
        /// IPv4 address and UDP port of whom answers.
        destination: String,
        /// Payload of each message, in bytes.
        payload_bytes: u32,
        /// Run id in the payloads.
        run_id: u32,
        /// Messages at the beginning whose time is not kept.
        warmup: u64,
        /// Messages behind them.
        count: u64,
        /// After this time without an answer a message is lost, in microseconds.
        timeout_us: u64,
    }
}

command! {
    /// Asks what became of the messages of [`RoundTripsStart`].
    RoundTripsStatus {
        /// Of those that are over, the times from this one on are wanted.
        from: u64,
    }
}
