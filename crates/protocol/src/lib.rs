//! The protocol between the support side and the guest agent (`warikomi-guest`, `/init` in a
//! kernel target).
//!
//! One JSON object a line, over a raw serial line, one request at a time ([`MAX_REQUEST_BYTES`]
//! says why):
//!
//! ```text
//! support → guest   {"id":1,"cmd":"link_up","address_cidr":"10.9.0.1/24","timeout_ms":5000}
//! guest → support   {"id":1,"ok":{"took_ms":12.5,"state":{...}}}
//!                   {"id":1,"error":"..."}
//! guest → support   {"event":"ready",...}          (unsolicited)
//! ```
//!
//! Each command is a type of its own ([`commands`]) that implements [`Command`], which says what
//! its answer looks like; a client therefore needs one generic `call`:
//!
//! ```
//! use warikomi_protocol::{Command, Envelope, Response, commands::PingAgent};
//!
//! let line = Envelope::new(7, PingAgent {}).to_line();
//! assert_eq!(line, "{\"id\":7,\"cmd\":\"ping_agent\"}\n");
//!
//! let response = Response::parse(r#"{"id":7,"ok":{"tsc":123,"uptime_ms":20}}"#).unwrap();
//! let answer: <PingAgent as Command>::Answer = response.into_answer().unwrap();
//! assert_eq!(answer.uptime_ms, 20);
//! ```
//!
//! Whatever comes in is untrusted: a line that is too long or is not a request is answered with
//! an error that carries the id 0, which no request may use.
//!
//! The two sides always speak the same version: the initramfs of a cached kernel is rewritten when the agent
//! in the library is another.

pub mod answers;
mod coalesce;
pub mod commands;
pub mod lines;
mod message;
pub mod payload;
pub mod record;
mod wait;
pub mod work;

pub use commands::{Command, Request};
pub use message::{Envelope, Event, FromGuest, Outcome, ProtocolError, Ready, Response};

/// Longest request line that the agent accepts, in bytes, newline included.
///
/// Short, and one request at a time (wait for the answer before the next), because of the line:
/// the kernel's terminal holds 4,096 bytes, and once it is nearly full and throttles, User Mode
/// Linux takes the line's descriptor out of its poll set and never puts it back (seen in 6.1,
/// `line_throttle` in `arch/um/drivers/line.c`). The line is then dead.
pub const MAX_REQUEST_BYTES: usize = 3 * 1024;

/// Longest line that the agent sends, in bytes, newline included.
pub const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// The id of an answer to something that was not a request. No request may use it.
pub const NO_REQUEST_ID: u64 = 0;

/// The kernel parameter that names the agent's line, as in `warikomi.channel=ttyS0` (the default).
pub const CHANNEL_PARAMETER: &str = "warikomi.channel";
