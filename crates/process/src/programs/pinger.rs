//! Messages that are answered, sent by an application in the driver's process: their buffers, and whom they go to.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use warikomi_clock::{Span, Time, TscClock};
use warikomi_driver::Transmit;
use warikomi_protocol::answers::{MOST_ROUND_TRIPS, RoundTripsTotals};
use warikomi_protocol::commands::RoundTripsStart;
use warikomi_stack::{
    Arrived, Destination, PacketMemory, RoundTripPlan, RoundTrips, Settings, Station,
};

/// Buffers to send from: one message is on its way at a time, and the card may be behind with saying that it has
/// sent the ones before.
const SENDING_BUFFERS: usize = 4;

/// Who sends them.
pub(super) struct Pinger {
    station: Station,
    hosts: Vec<(Ipv4Addr, [u8; 6])>,
    trips: Option<RoundTrips>,
    /// Buffers of its own: with the driver, and free.
    with_driver: Vec<u32>,
    free: Vec<u32>,
    /// A payload as it was found in a buffer.
    copy: Box<[u8]>,
}

impl Pinger {
    pub(super) fn new(settings: &Settings) -> Pinger {
        Pinger {
            station: settings.station,
            hosts: settings.hosts.clone(),
            trips: None,
            with_driver: Vec::with_capacity(SENDING_BUFFERS),
            free: Vec::with_capacity(SENDING_BUFFERS),
            copy: vec![0; RoundTripPlan::MOST_PAYLOAD_BYTES as usize].into_boxed_slice(),
        }
    }

    /// Begins; `receive` are free buffers, of which it keeps some to send from. The port that answers come to.
    pub(super) fn begin(
        &mut self,
        command: &RoundTripsStart,
        receive: &mut Vec<u32>,
    ) -> Result<u16, String> {
        if self.trips.as_ref().is_some_and(|trips| !trips.is_over()) {
            return Err("messages of the last round trips are on their way".to_owned());
        }
        let to: SocketAddrV4 = command
            .destination
            .parse()
            .map_err(|_| format!("{} is no address and port", command.destination))?;
        let host = self.hosts.iter().find(|(address, _)| address == to.ip());
        let (_, mac) = *host.ok_or_else(|| format!("the host {} is not known", to.ip()))?;
        let plan = RoundTripPlan {
            payload_bytes: command.payload_bytes,
            run_id: command.run_id,
            warmup: command.warmup,
            count: command.count,
            timeout: Span::from_us(command.timeout_us.min(RoundTripPlan::MOST_MESSAGES * 100)),
        };
        let (address, port) = (*to.ip(), to.port());
        let to = Destination { address, port, source_port: port };
        let trips = RoundTrips::new(plan, &self.station, to, mac)?;
        while self.free.len() + self.with_driver.len() < SENDING_BUFFERS {
            let none = "the card has all buffers to receive into, and none is left to send from";
            self.free.push(receive.pop().ok_or_else(|| none.to_owned())?);
        }
        self.trips = Some(trips);
        Ok(port)
    }

    /// Takes a datagram that has come, whose payload is these bytes of the frame.
    #[inline]
    pub(super) fn take(&mut self, frame: &Arrived<'_>, payload: Range<usize>, clock: &TscClock) {
        let Some(trips) = &mut self.trips else { return };
        trips.take(frame.look(payload.start, payload.len(), &mut self.copy), clock.now());
    }

    /// Gives up what is not answered in time.
    #[inline]
    pub(super) fn look(&mut self, now: Time) {
        if let Some(trips) = &mut self.trips {
            trips.look(now);
        }
    }

    /// The next message, if it is due and there is a buffer for it.
    #[inline]
    pub(super) fn next_transmit(
        &mut self,
        memory: &PacketMemory,
        clock: &TscClock,
    ) -> Option<Transmit> {
        let trips = self.trips.as_mut().filter(|trips| trips.is_due())?;
        let token = *self.free.last()?;
        let bytes = trips.frame_bytes() as u32;
        let (address, place) =
            (memory.bus_address(token, 0, bytes)?, memory.bytes(token, 0, bytes)?);
        let transmit = Transmit::new(&[(address, bytes)], token)?;
        place.copy_from(trips.request(clock.now())?);
        self.free.pop();
        self.with_driver.push(token);
        Some(transmit)
    }

    /// The driver is done with a buffer; `false` if it had none of this name.
    pub(super) fn sent(&mut self, token: u32) -> bool {
        let Some(at) = self.with_driver.iter().position(|&it| it == token) else { return false };
        self.with_driver.swap_remove(at);
        self.free.push(token);
        true
    }

    /// Whether it would send, if it was asked.
    pub(super) fn has_something_to_send(&self) -> bool {
        !self.free.is_empty() && self.trips.as_ref().is_some_and(RoundTrips::is_due)
    }

    /// What became of the messages.
    pub(super) fn totals(&self, from: u64) -> Result<RoundTripsTotals, String> {
        let trips = self.trips.as_ref().ok_or("no round trips were begun")?;
        let counts = trips.counts();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let kept = trips.round_trips_ns().iter().filter(|_| trips.is_over());
        Ok(RoundTripsTotals {
            over: trips.is_over(),
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost,
            strays: counts.strays,
            round_trips_ns: kept.skip(from).take(MOST_ROUND_TRIPS).copied().collect(),
        })
    }
}
