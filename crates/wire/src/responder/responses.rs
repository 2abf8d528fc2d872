use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`Responder`] has seen, for callers that have no access to the responder itself.
#[derive(Debug, Default)]
pub struct Responses {
    pub(super) tcp_bytes: AtomicU64,
    pub(super) tcp_wrong_bytes: AtomicU64,
    pub(super) udp_datagrams: AtomicU64,
    pub(super) udp_bytes: AtomicU64,
    pub(super) udp_missing: AtomicU64,
    pub(super) udp_repeated: AtomicU64,
    pub(super) udp_malformed: AtomicU64,
}

impl Responses {
    /// Payload bytes received over TCP.
    pub fn tcp_bytes(&self) -> u64 {
        self.tcp_bytes.load(Ordering::Relaxed)
    }

    /// Of these, bytes that were not the number of their place in the connection's stream modulo 251.
    pub fn tcp_wrong_bytes(&self) -> u64 {
        self.tcp_wrong_bytes.load(Ordering::Relaxed)
    }

    /// Datagrams received on the UDP port.
    pub fn udp_datagrams(&self) -> u64 {
        self.udp_datagrams.load(Ordering::Relaxed)
    }

    /// Bytes of payload in these datagrams.
    pub fn udp_bytes(&self) -> u64 {
        self.udp_bytes.load(Ordering::Relaxed)
    }

    /// Numbers that were skipped. One that comes late counts here and in
    /// [`udp_repeated`](Self::udp_repeated).
    pub fn udp_missing(&self) -> u64 {
        self.udp_missing.load(Ordering::Relaxed)
    }

    /// Datagrams whose number was not above every earlier one.
    pub fn udp_repeated(&self) -> u64 {
        self.udp_repeated.load(Ordering::Relaxed)
    }

    /// Datagrams too short to hold a number.
    pub fn udp_malformed(&self) -> u64 {
        self.udp_malformed.load(Ordering::Relaxed)
    }
}

pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
