//! The way of a packet between a driver and an application: buffers, channels, sockets, TCP/IP.
//!
//! All parts share [`PacketMemory`]. The application posts buffers ([`Vi`]); they go down through
//! channels ([`UserEnd`], [`ProviderEnd`]), with a stack ([`Path`]) in between or without, to the driver
//! ([`ChannelUpper`]); the NIC writes into them; and they come back up. No payload is copied.
//!
//! [`Chain`] prepares packet memory, events and sockets for the processes. What runs in them is in the
//! crate `process`.

mod account;
pub mod buffers;
mod chain;
mod channel;
mod checksum;
mod custody;
mod datagram;
mod entry;
mod error;
mod fragment;
mod invitation;
mod ip;
pub mod memory;
mod path;
mod receiver;
mod round_trip;
mod segment;
pub mod send;
mod socket;
mod upper;
mod vi;
mod wait;

pub use account::UserAccount;
pub use chain::{Chain, ChainOptions, DriverInvitation, Part, Topology};
pub use channel::{ChannelPlace, ProviderEnd, Refusals, UserEnd, words};
pub use custody::{Custody, Place};
pub use datagram::{
    Arrived, Content, Datagram, HEADER_BYTES, Headers, Malformed, Station, headers, parse,
};
pub use entry::{Destination, HEADROOM_BYTES, Slice, flags};
pub use error::StackError;
pub use invitation::{Invitation, POLL_VARIABLE, PREFIX, Settings, Waiting, poll_time};
pub use ip::{Connection, General};
pub use memory::{MemoryError, PacketMemory, Shape};
pub use path::{Hosts, Path};
pub use receiver::Receiver;
pub use round_trip::{RoundTripCounts, RoundTripPlan, RoundTrips};
pub use segment::Stream;
pub use socket::{OrdersWords, Socket, SocketCounters, SocketOrders};
pub use upper::ChannelUpper;
pub use vi::{CHECK_INTERVAL, Vi};
pub use wait::{Event, Neighbour, Watch};
