//! ICMP echo from a raw socket.

use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use warikomi_protocol::answers::Pinged;
use warikomi_protocol::commands::Ping;

use super::error::{AgentError, Context, Result};
use super::netif;

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const HEAD_BYTES: usize = 8;
/// Tells our replies from anybody else's; there is nobody else in this guest.
const IDENTIFIER: u16 = 0x574b;
const MOST_PAYLOAD: u32 = 65_000;
const MOST_PINGS: u32 = 1_000_000;

/// What became of one request.
enum Reply {
    Good(Duration),
    Corrupted,
    None,
}

pub(super) fn ping(command: &Ping) -> Result<Pinged> {
    let address = netif::parse_ip(&command.address)?;
    if command.payload_bytes > MOST_PAYLOAD || command.count > MOST_PINGS {
        return Err(AgentError::Invalid {
            what: "the ping",
            expected: "at most 65000 payload bytes and 1000000 requests",
            given: format!("{} bytes, {} requests", command.payload_bytes, command.count),
        });
    }
    let socket = open()?;
    let to = SockaddrIn::from(SocketAddrV4::new(address, 0));
    let timeout = Duration::from_millis(command.timeout_ms.max(1));
    let mut rtts = Vec::new();
    let mut corrupted = 0;
    let mut next = Instant::now();
    for sequence in 0..command.count {
        if let Some(wait) = next.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        next += Duration::from_millis(command.interval_ms);
        // The number in the packet has 16 bits; with one request under way at a time that does.
        let packet = request(sequence as u16, command.payload_bytes as usize);
        let sent = Instant::now();
        sendto(socket.as_raw_fd(), &packet, &to, MsgFlags::empty())
            .context(|| format!("send an echo request to {address}"))?;
        match await_reply(&socket, &packet, sent, timeout)? {
            Reply::Good(rtt) => rtts.push(rtt.as_secs_f64() * 1e6),
            Reply::Corrupted => corrupted += 1,
            Reply::None => {}
        }
    }
    let received = rtts.len() as u32 + corrupted;
    let mean = (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / rtts.len() as f64);
    Ok(Pinged {
        sent: command.count,
        received,
        corrupted,
        rtt_min_us: rtts.iter().copied().reduce(f64::min),
        rtt_avg_us: mean,
        rtt_max_us: rtts.iter().copied().reduce(f64::max),
    })
}

fn open() -> Result<OwnedFd> {
    socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)
        .context(|| "open an ICMP socket".to_owned())
}

/// Waits for the reply to `packet`; skips whatever else comes.
fn await_reply(socket: &OwnedFd, packet: &[u8], sent: Instant, timeout: Duration) -> Result<Reply> {
    let mut buffer = vec![0; 65_536];
    loop {
        let Some(left) = timeout.checked_sub(sent.elapsed()).filter(|left| !left.is_zero()) else {
            return Ok(Reply::None);
        };
        // Zero would mean to wait for ever.
        let left = TimeVal::microseconds(left.as_micros().max(1) as i64);
        setsockopt(socket, sockopt::ReceiveTimeout, &left)
            .context(|| "set the socket's timeout".to_owned())?;
        match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(count) => match matches(&buffer[..count], packet) {
                Some(true) => return Ok(Reply::Good(sent.elapsed())),
                Some(false) => return Ok(Reply::Corrupted),
                None => {}
            },
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context(|| "receive an echo reply".to_owned()),
        }
    }
}

/// `None` if the IP packet is not the reply to `request`, else whether the payload is the same.
fn matches(packet: &[u8], request: &[u8]) -> Option<bool> {
    let head = usize::from(packet.first()? & 0xf) * 4;
    let icmp = packet.get(head..)?;
    // Identifier and sequence number.
    let ours = *icmp.first()? == ECHO_REPLY && icmp.get(4..HEAD_BYTES)? == &request[4..HEAD_BYTES];
    ours.then(|| icmp[HEAD_BYTES..] == request[HEAD_BYTES..])
}

fn request(sequence: u16, payload_bytes: usize) -> Vec<u8> {
    let mut packet = vec![ECHO_REQUEST, 0, 0, 0];
    packet.extend(IDENTIFIER.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend((0..payload_bytes).map(|index| index as u8));
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(request: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet.extend_from_slice(request);
        packet[20] = ECHO_REPLY;
        packet
    }

    #[test]
    fn a_requests_checksum_is_right_for_odd_lengths_too() {
        for payload in [0, 1, 56, 1471] {
            assert_eq!(checksum(&request(3, payload)), 0);
        }
    }

    #[test]
    fn only_the_reply_to_the_request_counts() {
        let sent = request(3, 8);
        assert_eq!(matches(&reply(&sent), &sent), Some(true));
        assert_eq!(matches(&reply(&request(4, 8)), &sent), None);
        let mut damaged = reply(&sent);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(matches(&damaged, &sent), Some(false));
        for length in 0..27 {
            assert_ne!(matches(&reply(&sent)[..length], &sent), Some(true));
        }
    }
}
