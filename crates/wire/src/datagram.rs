//! A cable to another program: each frame is a datagram between two sockets, as QEMU's `-netdev dgram` sends it.

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use warikomi_clock::{Span, Time};
use warikomi_shared::datagram_at;

use super::{HEADER_BYTES, LONGEST_FRAME_BYTES, Wire, WireCounters};

/// How often the socket is looked at, while nothing comes: a look is a system call.
const LOOK_EVERY: Span = Span::from_us(10);

/// The end of a cable whose other end is another program's socket. The file of its own socket is this user's alone, and
/// is removed with it.
#[derive(Debug)]
pub struct Datagrams {
    socket: UnixDatagram,
    ours: PathBuf,
    theirs: PathBuf,
    next_look: Time,
    buffer: Vec<u8>,
    counters: WireCounters,
}

impl Datagrams {
    /// Binds a socket to the file `ours`, which is not there yet. Frames go to the one at `theirs`: while there is none,
    /// and when it does not take more, they are dropped.
    pub fn between(ours: &Path, theirs: &Path) -> io::Result<Datagrams> {
        let socket = datagram_at(ours).map_err(|error| named(ours, &error))?;
        Ok(Datagrams {
            socket,
            ours: ours.to_owned(),
            theirs: theirs.to_owned(),
            next_look: Time::ZERO,
            // One byte more, by which one that is too long is told.
            buffer: vec![0; LONGEST_FRAME_BYTES + 1],
            counters: WireCounters::default(),
        })
    }
}

/// The error with the file that it is about.
fn named(file: &Path, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "a file is there already; remove it, or name another".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{}: {what}", file.display()))
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.ours);
    }
}

impl Wire for Datagrams {
    fn transmit(&mut self, _: Time, frame: &[u8]) {
        self.counters.sent(frame);
        if self.socket.send_to(frame, &self.theirs).is_err() {
            self.counters.dropped += 1;
        }
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.next_look
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        if now < self.next_look {
            return None;
        }
        let Ok(bytes) = self.socket.recv(&mut self.buffer) else {
            self.next_look = now + LOOK_EVERY;
            return None;
        };
        // There may be another behind it.
        self.next_look = now;
        if !(HEADER_BYTES..=LONGEST_FRAME_BYTES).contains(&bytes) {
            self.counters.dropped += 1;
            return None;
        }
        let frame = self.buffer[..bytes].to_vec();
        self.counters.received(&frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_both_ways_and_what_is_no_frame_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));
        let mut wire = Datagrams::between(&ours, &theirs).unwrap();
        // There is no peer yet.
        wire.transmit(Time::ZERO, &[1; 60]);
        assert_eq!((wire.receive(Time::ZERO), wire.counters().dropped), (None, 1));
        let peer = UnixDatagram::bind(&theirs).unwrap();
        wire.transmit(Time::ZERO, &[2; 61]);
        let mut frame = [0; 100];
        assert_eq!((peer.recv(&mut frame).unwrap(), frame[0]), (61, 2));
        for bytes in [0, 13, LONGEST_FRAME_BYTES + 1, 14, LONGEST_FRAME_BYTES] {
            peer.send_to(&vec![3; bytes], &ours).unwrap();
        }
        // It is looked at again after a while, and then as long as there is something.
        assert_eq!(wire.receive(Time::ZERO + Span::from_us(9)), None);
        let now = Time::ZERO + LOOK_EVERY;
        assert_eq!(wire.next_arrival(), now);
        let received: Vec<_> = (0..6).filter_map(|_| wire.receive(now)).collect();
        assert_eq!(received, [vec![3; 14], vec![3; LONGEST_FRAME_BYTES]]);
        let counters = wire.counters();
        assert_eq!((counters.tx_frames, counters.rx_frames, counters.dropped), (2, 2, 4));
        drop(wire);
        assert!(!ours.exists() && theirs.exists());
    }

    #[test]
    fn a_peer_that_takes_nothing_costs_its_frames_and_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));
        let mut wire = Datagrams::between(&ours, &theirs).unwrap();
        let _peer = UnixDatagram::bind(&theirs).unwrap();
        for _ in 0..10_000 {
            wire.transmit(Time::ZERO, &[1; 1_514]);
        }
        assert!((1..10_000).contains(&wire.counters().dropped), "{:?}", wire.counters());
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("ours");
        fs::write(&ours, "precious").unwrap();
        let refused = Datagrams::between(&ours, Path::new("theirs")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("ours: a file is there already"), "{refused}");
        assert_eq!(fs::read_to_string(&ours).unwrap(), "precious");
    }
}
