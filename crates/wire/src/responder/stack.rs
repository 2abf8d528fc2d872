use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use warikomi_clock::{Span, Time};

use super::echo::{EchoClient, EchoPlan, Echoes};
use super::responses::{Responses, add};
use super::stream;
use crate::{MAX_FRAME_BYTES, NETWORK_MAC};

/// TCP port that reads and discards everything.
pub(super) const TCP_PORT: u16 = 5_001;
/// UDP port that counts datagrams.
pub(super) const UDP_PORT: u16 = 5_002;

fn instant(now: Time) -> Instant {
    let us = now.as_ps() / Span::from_us(1).as_ps();
    Instant::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

fn time(instant: Instant) -> Time {
    let us = u64::try_from(instant.total_micros()).unwrap_or(0);
    Time::ZERO + Span::from_us(us)
}

/// smoltcp, and the sockets.
pub(super) struct Stack {
    address: Ipv4Addr,
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: [SocketHandle; 8],
    /// How far the stream of each is.
    tcp_bytes: [u64; 8],
    udp: SocketHandle,
    echo: Option<EchoClient>,
}

impl Stack {
    pub(super) fn new(address: Ipv4Addr) -> Self {
        let mut cable = Cable::default();
        let mac = HardwareAddress::Ethernet(EthernetAddress(NETWORK_MAC));
        let mut interface = Interface::new(Config::new(mac), &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for at least one.
            let _ = addresses.push(IpCidr::new(address.into(), 24));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let tcp = std::array::from_fn(|_| {
            let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
            sockets.add(tcp::Socket::new(buffer(1 << 20), buffer(1 << 12)))
        });
        let buffer = |packets, bytes| {
            udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; packets], vec![0; bytes])
        };
        let mut socket = udp::Socket::new(buffer(64, 1 << 18), buffer(1, 1 << 10));
        // It cannot fail: the port is not 0, and the socket is not open yet.
        let _ = socket.bind(UDP_PORT);
        let udp = sockets.add(socket);
        Stack { address, cable, interface, sockets, tcp, tcp_bytes: [0; 8], udp, echo: None }
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(super) fn answer_for_all(&mut self) {
        self.interface.set_any_ip(true);
    }

    pub(super) fn add_echo_client(&mut self, plan: EchoPlan) -> Arc<Echoes> {
        let client = EchoClient::new(plan, &mut self.sockets);
        let seen = client.seen();
        self.echo = Some(client);
        seen
    }

    /// A frame that has come, for the next run.
    pub(super) fn arrived(&mut self, frame: Vec<u8>) {
        self.cable.arrived.push_back(frame);
    }

    /// Frames that the last run has sent.
    pub(super) fn sent(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.cable.sent.drain(..)
    }

    /// Lets the stack work. When it wants to work again.
    pub(super) fn run(&mut self, now: Time, seen: &Responses, next: &mut u64) -> Time {
        let at = instant(now);
        self.listen();
        if let Some(echo) = &mut self.echo {
            echo.send(now, self.interface.context(), &mut self.sockets);
        }
        self.interface.poll(at, &mut self.cable, &mut self.sockets);
        let sockets = &mut self.sockets;
        let echoed = self.echo.as_mut().is_some_and(|echo| echo.take(now, sockets));
        if self.drain_tcp(seen) || echoed {
            // The window is open again, which the sender must hear of.
            self.interface.poll(at, &mut self.cable, &mut self.sockets);
        }
        self.drain_udp(seen, next);
        let due = self.interface.poll_at(at, &self.sockets).map_or(Time::NEVER, time);
        self.echo.as_ref().map_or(due, |echo| due.min(echo.due()))
    }

    fn listen(&mut self) {
        for (handle, bytes) in self.tcp.into_iter().zip(&mut self.tcp_bytes) {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            if !socket.is_open() {
                // It cannot fail: the port is not 0, and the socket is closed.
                let _ = socket.listen(TCP_PORT);
                *bytes = 0;
            }
        }
    }

    /// Whether anything was taken out.
    fn drain_tcp(&mut self, seen: &Responses) -> bool {
        let mut drained = false;
        for (handle, at) in self.tcp.into_iter().zip(&mut self.tcp_bytes) {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            while socket.can_recv() {
                let judge = |bytes: &mut [u8]| {
                    (bytes.len(), (bytes.len() as u64, stream::wrong(*at, bytes)))
                };
                let Ok((count, wrong)) = socket.recv(judge) else { break };
                *at += count;
                add(&seen.tcp_bytes, count);
                add(&seen.tcp_wrong_bytes, wrong);
                drained = true;
            }
            if socket.state() == tcp::State::CloseWait {
                socket.close();
                drained = true;
            }
        }
        drained
    }

    fn drain_udp(&mut self, seen: &Responses, next: &mut u64) {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.udp);
        while let Ok((payload, _)) = socket.recv() {
            add(&seen.udp_datagrams, 1);
            add(&seen.udp_bytes, payload.len() as u64);
            let Some(number) = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else {
                add(&seen.udp_malformed, 1);
                continue;
            };
            match number.checked_sub(*next) {
                Some(skipped) => {
                    add(&seen.udp_missing, skipped);
                    *next = number.saturating_add(1);
                }
                None => add(&seen.udp_repeated, 1),
            }
        }
    }
}

/// What smoltcp takes for a network card.
#[derive(Default)]
struct Cable {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Device for Cable {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Sent<'_>)> {
        Some((Arrived(self.arrived.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME_BYTES;
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}
