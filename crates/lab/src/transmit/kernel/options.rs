//! What is compared in a real kernel.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use warikomi_measure::texts;
use warikomi_protocol::commands::Coalesce;
use warikomi_protocol::payload::{HEAD_BYTES, MOST_BYTES};

use crate::error::Error;

/// IPv4 and UDP headers.
const INNER_HEADERS_BYTES: u32 = 28;
/// As the agent has it.
const MOST_BURST: u32 = 256;

/// What sends in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The kernel's packet generator: no socket, no stack, the driver alone.
    Pktgen,
    /// An application with a UDP socket, 64 datagrams a system call.
    Udp,
    /// An application that writes to a TCP connection.
    Tcp,
}

impl Sender {
    /// All, in the order in which they are shown.
    pub const ALL: [Sender; 3] = [Sender::Pktgen, Sender::Udp, Sender::Tcp];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Sender::Pktgen => "pktgen",
            Sender::Udp => "udp",
            Sender::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Sender {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Sender::ALL.into_iter().find(|sender| sender.name() == text.trim());
        found.ok_or_else(|| {
            Error::impossible(format!(
                "'{}' sends nothing in a kernel; choose of: pktgen, udp, tcp",
                text.trim()
            ))
        })
    }
}

/// When the device says that frames have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// At once, if it has an interrupt enabled: between that and the end of NAPI's poll there is none.
    Napi,
    /// When a number of frames has been sent or a time has passed, whatever comes first
    /// (`ethtool -C tx-usecs, tx-frames`).
    Coalesce {
        /// The time since the first of them, in microseconds.
        usecs: u32,
        /// The number of frames; 0 for none.
        frames: u32,
    },
}

impl Completion {
    /// As the guest is asked for it.
    pub(super) fn coalesce(self) -> Coalesce {
        let (usecs, frames) = match self {
            Completion::Napi => (0, 0),
            Completion::Coalesce { usecs, frames } => (usecs, frames),
        };
        Coalesce { tx_usecs: Some(usecs), tx_frames: Some(frames), ..Coalesce::default() }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completion::Napi => f.write_str("napi"),
            Completion::Coalesce { usecs, frames } => write!(f, "coalesce:{usecs}us/{frames}"),
        }
    }
}

impl FromStr for Completion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text == "napi" {
            return Ok(Completion::Napi);
        }
        let coalesce = || {
            let (usecs, frames) = text.strip_prefix("coalesce:")?.split_once("us/")?;
            let (usecs, frames) = (usecs.parse().ok()?, frames.parse().ok()?);
            (usecs > 0).then_some(Completion::Coalesce { usecs, frames })
        };
        coalesce().ok_or_else(|| {
            Error::impossible(format!(
                "'{text}' is no way in which a kernel's device completes; write napi, or coalesce:TIMEus/FRAMES \
                 with a time above 0, as in coalesce:100us/32 (0 frames: the time alone)"
            ))
        })
    }
}

/// What to compare: each sender with each size that it can send and each completion; pktgen with each
/// burst besides, and TCP with and without segmentation offload.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename = "kernel")]
pub struct Options {
    /// Lengths of messages in bytes: payloads, or writes to the connection. pktgen makes no fragments,
    /// so longer ones than a frame's payload it does not send.
    pub sizes_bytes: Vec<u32>,
    /// What sends.
    #[serde(serialize_with = "texts")]
    pub senders: Vec<Sender>,
    /// How often pktgen hands each packet to the driver; more than once with `xmit_more`.
    pub bursts: Vec<u32>,
    /// When the device says that it has sent.
    #[serde(serialize_with = "texts")]
    pub completions: Vec<Completion>,
    /// Segmentation offload (TSO) of TCP. r8169 has none for UDP.
    pub tso: Vec<bool>,
    /// Messages of each row, at most.
    pub count: u64,
    /// Bytes of each row, about, at most: long messages are fewer.
    pub most_bytes: u64,
    /// Time between two datagrams of the UDP application, in microseconds; 0 for as fast as it goes.
    pub interval_us: u64,
    /// How often each row is measured; the one in the middle is told.
    pub repeat: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sizes_bytes: vec![16, 64, 256, 1_024, 1_472, 4_096, 16_384, MOST_BYTES],
            senders: Sender::ALL.to_vec(),
            bursts: vec![1, 8, 32],
            completions: vec![Completion::Napi, Completion::Coalesce { usecs: 100, frames: 32 }],
            tso: vec![false, true],
            count: 50_000,
            most_bytes: 64_000_000,
            interval_us: 0,
            repeat: 3,
        }
    }
}

/// One row to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) sender: Sender,
    pub(super) size_bytes: u32,
    pub(super) completion: Completion,
    /// Of pktgen.
    pub(super) burst: Option<u32>,
    /// Of TCP.
    pub(super) tso: Option<bool>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, {}", self.sender, self.size_bytes, self.completion)?;
        match (self.burst, self.tso) {
            (Some(burst), _) => write!(f, ", bursts of {burst}"),
            (_, Some(tso)) => write!(f, ", TSO {}", if tso { "on" } else { "off" }),
            _ => Ok(()),
        }
    }
}

fn nothing(missing: &str) -> Error {
    Error::impossible(format!("nothing is left to compare: give {missing}"))
}

impl Options {
    /// Refuses what cannot be, before a kernel is started for it.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(&bytes) =
            self.sizes_bytes.iter().find(|size| !(HEAD_BYTES as u32..=MOST_BYTES).contains(*size))
        {
            return Err(Error::impossible(format!(
                "messages of {bytes} bytes are not possible: choose 16 to 65,507"
            )));
        }
        if let Some(&burst) = self.bursts.iter().find(|burst| !(1..=MOST_BURST).contains(*burst)) {
            return Err(Error::impossible(format!(
                "bursts of {burst} packets are not possible: choose 1 to 256"
            )));
        }
        for (is_empty, what) in [
            (self.sizes_bytes.is_empty(), "a size"),
            (self.senders.is_empty(), "a sender"),
            (self.completions.is_empty(), "a completion"),
            (self.bursts.is_empty(), "a burst"),
            (self.tso.is_empty(), "on or off for TSO"),
            (self.count == 0, "a count of 1 or more"),
            (self.repeat == 0, "1 repetition or more"),
        ] {
            if is_empty {
                return Err(nothing(what));
            }
        }
        Ok(())
    }

    /// The rows on an interface with this MTU.
    pub(super) fn cases(&self, mtu_bytes: u32) -> Result<Vec<Case>, Error> {
        self.check()?;
        let mut cases = Vec::new();
        for &sender in &self.senders {
            for &size_bytes in &self.sizes_bytes {
                for &completion in &self.completions {
                    let case = Case { sender, size_bytes, completion, burst: None, tso: None };
                    let bursts = self.bursts.iter().map(|&n| Case { burst: Some(n), ..case });
                    let tsos = self.tso.iter().map(|&on| Case { tso: Some(on), ..case });
                    match sender {
                        Sender::Pktgen if size_bytes + INNER_HEADERS_BYTES > mtu_bytes => {}
                        Sender::Pktgen => cases.extend(bursts),
                        Sender::Udp => cases.push(case),
                        Sender::Tcp => cases.extend(tsos),
                    }
                }
            }
        }
        if cases.is_empty() {
            return Err(nothing(
                "pktgen a size that fits into a frame (the MTU less 28 bytes of headers)",
            ));
        }
        Ok(cases)
    }

    /// How many rows there are where each size fits.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.cases(u32::MAX).map_or(0, |cases| cases.len())
    }

    /// How many messages of this length a row has.
    pub(super) fn messages(&self, size_bytes: u32) -> u64 {
        (self.most_bytes / u64::from(size_bytes.max(1))).clamp(1, self.count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_has_the_rows_that_it_can_have() {
        let options = Options::default();
        let cases = options.cases(1_500).unwrap();
        let of = |sender| cases.iter().filter(|case| case.sender == sender).count();
        assert_eq!((of(Sender::Pktgen), of(Sender::Udp), of(Sender::Tcp)), (5 * 3 * 2, 16, 32));
        assert!(cases.iter().all(|case| case.burst.is_some() == (case.sender == Sender::Pktgen)));
        let long = Options {
            sizes_bytes: vec![1_473],
            senders: vec![Sender::Pktgen],
            ..Options::default()
        };
        assert!(long.cases(1_500).unwrap_err().to_string().contains("fits into a frame"));
        assert_eq!(long.cases(1_501).unwrap().len(), 6);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_range() {
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(|o| o.sizes_bytes.push(15)).contains("16 to 65,507"));
        assert!(refused(|o| o.sizes_bytes.push(65_508)).contains("16 to 65,507"));
        assert!(refused(|o| o.bursts.push(0)).contains("1 to 256"));
        assert!(refused(|o| o.bursts.push(257)).contains("1 to 256"));
        assert!(refused(|o| o.count = 0).contains("1 or more"));
        assert!(refused(|o| o.repeat = 0).contains("repetition"));
        assert!(refused(|o| o.tso.clear()).contains("TSO"));
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for sender in Sender::ALL {
            assert_eq!(sender.to_string().parse::<Sender>().unwrap(), sender);
        }
        for completion in Options::default().completions {
            assert_eq!(completion.to_string().parse::<Completion>().unwrap(), completion);
        }
        for text in ["", "coalesce", "coalesce:0us/32", "coalesce:100/32", "coalesce:us/", "napi:1"]
        {
            let refused = text.parse::<Completion>().unwrap_err().to_string();
            assert!(refused.contains("coalesce:100us/32"), "{refused}");
        }
        assert!("raw".parse::<Sender>().unwrap_err().to_string().contains("pktgen, udp, tcp"));
    }

    #[test]
    fn long_messages_are_fewer_but_never_none() {
        let options = Options::default();
        assert_eq!(options.messages(16), 50_000);
        assert_eq!(options.messages(65_507), 976);
        assert_eq!(Options { most_bytes: 1, ..options }.messages(65_507), 1);
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["completions"][1].as_str(), Some("coalesce:100us/32"));
        assert_eq!(plan["senders"].as_array().unwrap().len(), 3);
        assert_eq!(plan["tso"][1].as_bool(), Some(true));
        assert_eq!(plan["repeat"].as_u64(), Some(3));
    }
}
