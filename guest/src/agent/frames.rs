//! Frames handed to the driver as they are, through a packet socket (packet(7), `PACKET_VNET_HDR`).

use nix::errno::Errno;
use warikomi_protocol::answers::Done;
use warikomi_protocol::commands::{RawFrame, TransmitFrames};

use super::error::{AgentError, Context, Result};
use super::netif::Interface;
use super::sys;

/// What a packet socket takes at once, in bytes.
const MOST_BYTES: u32 = 65_536;

pub(super) fn transmit(interface: &Interface, command: &TransmitFrames) -> Result<Done> {
    let name = match command.vlan {
        Some(id) => interface.vlan_name(id),
        None => interface.name.clone(),
    };
    let what = || format!("open a packet socket on {name}");
    let number = Interface::named(&name)?.number("ifindex").ok_or_else(|| {
        AgentError::Other(format!("the kernel gives the interface {name} no number"))
    })?;
    let is_crowd = command.crowd.is_some();
    let socket = sys::packet_sender(number, is_crowd).context(what)?;
    // Someone who listens, as tcpdump does, makes the driver's frames copies, whose headers it may not change.
    let listener = (!is_crowd).then(|| sys::packet_listener(number)).transpose();
    let _listener = listener.context(|| format!("listen on {name}"))?;
    let frames = command.frames.iter().map(message).collect::<Result<Vec<_>>>()?;
    for bytes in (0..command.crowd.unwrap_or(1)).flat_map(|_| &frames) {
        let sent = match nix::unistd::write(&socket, bytes) {
            // The driver has stopped its queue.
            Err(Errno::ENOBUFS) if is_crowd => continue,
            sent => sent.context(|| format!("send a frame on {name}"))?,
        };
        if sent != bytes.len() {
            return Err(AgentError::Other(format!("{name} took {sent} of {} bytes", bytes.len())));
        }
    }
    Ok(Done {})
}

/// A `struct virtio_net_hdr` (`linux/virtio_net.h`), and the frame.
fn message(frame: &RawFrame) -> Result<Vec<u8>> {
    const NEEDS_CHECKSUM: u8 = 1;
    const TCP_V4: u8 = 1;
    const TCP_V6: u8 = 4;
    let invalid = |what, expected, given: String| AgentError::Invalid { what, expected, given };
    if frame.zeros > MOST_BYTES {
        return Err(invalid("zeros", "0 to 65536", frame.zeros.to_string()));
    }
    let (kind, headers, segment) = match &frame.segments {
        None => (0, 0, 0),
        Some(cut) => match cut.version {
            4 => (TCP_V4, cut.headers_bytes, cut.bytes),
            6 => (TCP_V6, cut.headers_bytes, cut.bytes),
            other => return Err(invalid("version", "4 or 6", other.to_string())),
        },
    };
    let mut bytes = vec![u8::from(frame.checksum.is_some()) * NEEDS_CHECKSUM, kind];
    let (from, field) = frame.checksum.as_ref().map_or((0, 0), |open| (open.from, open.field));
    for number in [headers, segment, from, field] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(from_digits(&frame.head)?);
    bytes.resize(bytes.len() + frame.zeros as usize, 0);
    Ok(bytes)
}

fn from_digits(text: &str) -> Result<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    text.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>().ok_or_else(|| {
        AgentError::Invalid {
            what: "head",
            expected: "pairs of hexadecimal digits",
            given: text.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use warikomi_protocol::commands::{OpenChecksum, Segments};

    use super::*;

    fn frame(head: &str) -> RawFrame {
        RawFrame { head: head.to_owned(), zeros: 2, checksum: None, segments: None }
    }

    #[test]
    fn the_kernels_header_stands_before_the_frame() {
        assert_eq!(message(&frame("0aff")).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 255, 0, 0]);
        let cut = RawFrame {
            checksum: Some(OpenChecksum { from: 34, field: 16 }),
            segments: Some(Segments { version: 6, headers_bytes: 54, bytes: 1_400 }),
            ..frame("")
        };
        let [flags, kind, rest @ ..] = &message(&cut).unwrap()[..] else { panic!("no header") };
        assert_eq!((*flags, *kind), (1, 4));
        let numbers: Vec<_> =
            rest[..8].chunks(2).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect();
        assert_eq!(numbers, [54, 1_400, 34, 16]);
    }

    #[test]
    fn nonsense_is_refused() {
        for head in ["0", "0g", "é"] {
            assert!(message(&frame(head)).is_err(), "{head}");
        }
        let cut = Segments { version: 5, headers_bytes: 54, bytes: 1_400 };
        assert!(message(&RawFrame { segments: Some(cut), ..frame("") }).is_err());
        assert!(message(&RawFrame { zeros: MOST_BYTES + 1, ..frame("") }).is_err());
    }
}
