//! Sending: UDP datagrams with sequence numbers, and TCP for segmentation.

use std::io::{IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg, setsockopt, sockopt};
use warikomi_protocol::answers::{Transmitted, TransmittedTcp};
use warikomi_protocol::commands::{Transmit, TransmitTcp};
use warikomi_protocol::payload::{FILLER_PERIOD, HEAD_BYTES, Head, MOST_BYTES, filler};
use warikomi_protocol::work::stream_bytes;

use super::error::{AgentError, Context, Result};
use super::netif::{self, Interface};

/// Datagrams a system call, where no interval is asked for.
const BATCH: u64 = 64;

const PAYLOAD_BYTES: std::ops::RangeInclusive<u32> = HEAD_BYTES as u32..=MOST_BYTES;
const WRITE_BYTES: std::ops::RangeInclusive<u32> = 1..=1 << 20;

pub(super) fn udp(command: &Transmit, default_interface: Option<&str>) -> Result<Transmitted> {
    if !PAYLOAD_BYTES.contains(&command.payload_bytes) {
        return Err(AgentError::Invalid {
            what: "payload_bytes",
            expected: "16 to 65507",
            given: command.payload_bytes.to_string(),
        });
    }
    let socket = open(command, default_interface)?;
    let mut sender = Sender {
        socket,
        run_id: command.run_id,
        fill: (HEAD_BYTES..command.payload_bytes as usize).map(filler).collect(),
        totals: Transmitted {
            sent: 0,
            errors: 0,
            last_errno: None,
            took_ns: 0,
            late: 0,
            timed_out: false,
        },
    };
    let started = Instant::now();
    if command.interval_us == 0 {
        sender.send_all(command.count)?;
    } else {
        sender.send_paced(command.count, Duration::from_micros(command.interval_us), started)?;
    }
    sender.totals.took_ns = nanoseconds(started.elapsed());
    Ok(sender.totals)
}

fn open(command: &Transmit, default_interface: Option<&str>) -> Result<UdpSocket> {
    let destination = netif::parse_destination(&command.destination)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .context(|| "open a sending socket".to_owned())?;
    if let Some(id) = command.vlan {
        let below = Interface::named(default_interface.ok_or(AgentError::NoInterface)?)?;
        let vlan = Interface::named(&below.vlan_name(id))?;
        setsockopt(&socket, sockopt::BindToDevice, &vlan.name.clone().into())
            .context(|| format!("send on {}", vlan.name))?;
    }
    let timeout = Duration::from_millis(command.timeout_ms.max(1));
    socket.set_write_timeout(Some(timeout)).context(|| "set the socket's timeout".to_owned())?;
    socket.connect(destination).context(|| format!("send to {destination}"))?;
    Ok(socket)
}

struct Sender {
    socket: UdpSocket,
    run_id: u32,
    /// What follows the head in every payload.
    fill: Vec<u8>,
    totals: Transmitted,
}

impl Sender {
    /// Sends as fast as possible.
    fn send_all(&mut self, count: u64) -> Result<()> {
        let mut next = 0;
        while next < count && !self.totals.timed_out {
            next += self.send(next, BATCH.min(count - next))?;
        }
        Ok(())
    }

    /// One at a time, each at its own deadline.
    fn send_paced(&mut self, count: u64, interval: Duration, started: Instant) -> Result<()> {
        let mut deadline = started;
        for sequence in 0..count {
            let now = Instant::now();
            match deadline.checked_duration_since(now) {
                Some(wait) => std::thread::sleep(wait),
                None => self.totals.late += u64::from(now - deadline > interval),
            }
            self.send(sequence, 1)?;
            if self.totals.timed_out {
                return Ok(());
            }
            deadline += interval;
        }
        Ok(())
    }

    /// Sends `count` datagrams from number `first`; how many numbers are done with.
    fn send(&mut self, first: u64, count: u64) -> Result<u64> {
        let heads: Vec<_> = (first..first + count)
            .map(|sequence| Head { run_id: self.run_id, sequence }.to_bytes())
            .collect();
        let parts: Vec<_> =
            heads.iter().map(|head| [IoSlice::new(head), IoSlice::new(&self.fill)]).collect();
        let addresses: Vec<Option<SockaddrIn>> = vec![None; heads.len()];
        let mut headers = MultiHeaders::preallocate(heads.len(), None);
        let result = sendmmsg(
            self.socket.as_raw_fd(),
            &mut headers,
            &parts,
            &addresses,
            [],
            MsgFlags::empty(),
        );
        match result {
            Ok(sent) => {
                let sent = sent.count() as u64;
                self.totals.sent += sent;
                Ok(sent)
            }
            Err(Errno::EINTR) => Ok(0),
            Err(Errno::EAGAIN) => {
                self.totals.timed_out = true;
                Ok(0)
            }
            // What the next datagram will meet as well: no sense in going on.
            Err(error @ (Errno::EMSGSIZE | Errno::EBADF | Errno::EINVAL | Errno::EPERM)) => {
                Err(error).context(|| {
                    format!("send {} bytes in a datagram", self.fill.len() + HEAD_BYTES)
                })
            }
            // The first of the batch was refused; it is done with.
            Err(error) => {
                self.totals.errors += 1;
                self.totals.last_errno = Some(error as i32);
                Ok(1)
            }
        }
    }
}

pub(super) fn tcp(command: &TransmitTcp) -> Result<TransmittedTcp> {
    let destination = netif::parse_destination(&command.destination)?;
    if !WRITE_BYTES.contains(&command.write_bytes) {
        return Err(AgentError::Invalid {
            what: "write_bytes",
            expected: "1 to 1048576",
            given: command.write_bytes.to_string(),
        });
    }
    let timeout = Duration::from_millis(command.timeout_ms.max(1));
    let mut stream = TcpStream::connect_timeout(&SocketAddr::V4(destination), timeout)
        .context(|| format!("connect to {destination}"))?;
    stream.set_write_timeout(Some(timeout)).context(|| "set the socket's timeout".to_owned())?;
    let write_bytes = command.write_bytes as usize;
    // What a write has begins anywhere in the first period.
    let mut bytes = vec![0; write_bytes + FILLER_PERIOD];
    stream_bytes(0, &mut bytes);
    let started = Instant::now();
    let mut sent_bytes = 0;
    while sent_bytes < command.count_bytes {
        let left = usize::try_from(command.count_bytes - sent_bytes).unwrap_or(usize::MAX);
        let first = (sent_bytes % FILLER_PERIOD as u64) as usize;
        let written = stream
            .write(&bytes[first..][..left.min(write_bytes)])
            .context(|| format!("send to {destination} (after {sent_bytes} bytes)"))?;
        if written == 0 {
            break;
        }
        sent_bytes += written as u64;
    }
    Ok(TransmittedTcp { sent_bytes, took_ns: nanoseconds(started.elapsed()) })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn each_byte_of_a_connection_is_known_by_its_place_whatever_a_write_has() {
        for write_bytes in [1, 250, 251, 1_000] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let command = TransmitTcp {
                count_bytes: 1_503,
                write_bytes,
                destination: listener.local_addr().unwrap().to_string(),
                timeout_ms: 60_000,
            };
            // The kernel has room for it, so it is sent before it is read.
            assert_eq!(tcp(&command).unwrap().sent_bytes, 1_503);
            let mut came = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut came).unwrap();
            let due: Vec<u8> = (0..1_503).map(|at| (at % 251) as u8).collect();
            assert_eq!(came, due, "in writes of {write_bytes} bytes");
        }
    }
}
