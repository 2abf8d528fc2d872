//! The other end of a kernel's cable: judges what the guest's senders send, and answers the rest as a host
//! does. Rates are by the times at which it saw the first frame and the last; the guest's processor time is
//! noted in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warikomi_measure::CpuTime;
use warikomi_wire::peer::in_turn::{Expected, InTurn, Seen};
use warikomi_wire::peer::{Judged, JudgingPeer};
use warikomi_wire::{Responder, Responses};

/// A host at the other end of the cable. It judges UDP and answers none; what else comes, such as ARP
/// and TCP, is answered as [`Responder`] does.
pub type JudgingHost = JudgingPeer<InTurn, Responder>;

/// Bytes of all connections so far.
#[derive(Clone, Copy)]
pub(super) struct Received {
    pub(super) bytes: u64,
    /// Of these, bytes that are not what the guest sends there.
    pub(super) wrong_bytes: u64,
}

/// Tells the wire what comes next, and reads what came.
pub struct Judge {
    judged: Judged<InTurn>,
    responses: Arc<Responses>,
    cpu: Arc<Mutex<Option<CpuTime>>>,
}

impl Judge {
    /// A host that expects nothing yet, and its judge.
    pub fn with_host() -> (JudgingHost, Judge) {
        let host = Responder::default();
        let responses = host.responses();
        let (host, judged) = JudgingPeer::new(InTurn::default(), host);
        (host, Judge { judged, responses, cpu: Arc::default() })
    }

    /// From now on this is expected; `cpu`, if there is one, is noted while it comes.
    pub(super) fn begin(&self, expected: Expected, cpu: Option<CpuTime>) {
        *lock(&self.cpu) = cpu;
        let cpu = Arc::clone(&self.cpu);
        self.judged.lock().begin(expected, move || {
            if let Some(cpu) = &mut *lock(&cpu) {
                cpu.note_from_time_to_time();
            }
        });
    }

    /// What has come since.
    pub(super) fn seen(&self) -> Seen {
        self.judged.lock().seen().clone()
    }

    /// The share of the time (0 to 1) between the first frame and the last in which the guest had a
    /// processor; `None` if that was too short to tell.
    pub(super) fn cpu_share(&self) -> Option<f64> {
        lock(&self.cpu).as_ref().and_then(CpuTime::share)
    }

    /// What the host has received over TCP.
    pub(super) fn received(&self) -> Received {
        Received {
            bytes: self.responses.tcp_bytes(),
            wrong_bytes: self.responses.tcp_wrong_bytes(),
        }
    }
}

fn lock(cpu: &Mutex<Option<CpuTime>>) -> MutexGuard<'_, Option<CpuTime>> {
    // Notes are only added: a thread that panicked has left sound ones.
    cpu.lock().unwrap_or_else(PoisonError::into_inner)
}
