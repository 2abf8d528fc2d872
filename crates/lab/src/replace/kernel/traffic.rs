//! The other end of a kernel's cable: numbered frames for the guest, whatever its driver is doing, and a
//! judge of what the guest sends.

use warikomi_clock::{Span, Time};
use warikomi_inject::FrameTemplate;
use warikomi_wire::Responder;
use warikomi_wire::peer::numbered::Look;
use warikomi_wire::peer::talker::{Talk, Talker};
use warikomi_wire::peer::workload::{Seen, Workload};
use warikomi_wire::peer::{Judged, JudgingPeer};

/// Most datagrams of one trial.
const MOST_DATAGRAMS: u64 = 1 << 26;

/// A host at the other end of the cable. It judges the guest's datagrams and answers none; what else
/// comes, such as ARP and TCP, is answered as [`Responder`] does.
pub type TrafficHost = Talker<JudgingPeer<Workload, Responder>>;

/// Tells the wire what to send, and reads what came.
pub struct Traffic {
    judged: Judged<Workload>,
    talk: Talk,
}

impl Traffic {
    /// A host that is quiet, and what tells it what to send.
    pub fn with_host() -> (TrafficHost, Traffic) {
        let (host, judged) = JudgingPeer::new(Workload::default(), Responder::default());
        let (host, talk) = Talker::new(host);
        (host, Traffic { judged, talk })
    }

    /// Forgets what came, and expects the datagrams of `run_id`.
    pub(super) fn expect(&self, run_id: u32) {
        self.talk.end();
        let mut judge = self.judged.lock();
        *judge = Workload::default();
        judge.datagrams.begin(run_id, MOST_DATAGRAMS, Look::Number);
    }

    /// From `start` on sends a frame every `interval`.
    pub(super) fn begin(&self, mut template: FrameTemplate, interval: Span, start: Time) {
        self.talk.begin(move |number| template.frame(number).bytes.to_vec(), interval, start);
    }

    /// Sends no more frames; how many it has sent.
    pub(super) fn end(&self) -> u64 {
        self.talk.end()
    }

    /// What has come so far.
    pub(super) fn seen(&self) -> Seen {
        self.judged.lock().seen()
    }
}
