use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::str::FromStr;

use super::{CountedSink, Datagrams, Loopback, PcapWriter, Responder, Wire};

/// A wire by name: `sink`, `loopback`, `responder`, `socket:OURS,THEIRS`, or `pcap:FILE` around one of them
/// (`pcap:run.pcap+responder`; without a `+` around a sink).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// [`CountedSink`].
    Sink,
    /// [`Loopback`].
    Loopback,
    /// [`Responder`].
    Responder,
    /// [`Datagrams`].
    Socket(Box<Sockets>),
    /// [`PcapWriter`].
    Pcap {
        /// The file to write; one that exists is replaced.
        path: PathBuf,
        /// The wire that is recorded.
        inner: Box<WireKind>,
    },
}

/// The two ends of a cable to another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// The file of our socket, which is made.
    pub ours: PathBuf,
    /// That of the program at the other end.
    pub theirs: PathBuf,
}

/// Why a text names no wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseWireError {
    /// No wire has this name.
    #[error(
        "there is no wire '{0}'; choose sink, loopback, responder, socket:OURS,THEIRS, or pcap:FILE[+WIRE]"
    )]
    Unknown(String),
    /// `socket` without two files.
    #[error(
        "'{0}' does not say between which sockets; write socket:OURS,THEIRS, such as socket:card.sock,net.sock"
    )]
    NoSockets(String),
    /// `pcap` without a file.
    #[error("'{0}' does not say which file to write; write pcap:FILE, such as pcap:run.pcap")]
    NoFile(String),
}

impl WireKind {
    /// Makes the wire. An error is that of creating the file.
    pub fn build(&self) -> io::Result<Box<dyn Wire>> {
        Ok(match self {
            WireKind::Sink => Box::new(CountedSink::new()),
            WireKind::Loopback => Box::<Loopback>::default(),
            WireKind::Responder => Box::<Responder>::default(),
            WireKind::Socket(ends) => Box::new(Datagrams::between(&ends.ours, &ends.theirs)?),
            WireKind::Pcap { path, inner } => {
                let inner = inner.build()?;
                let file = BufWriter::new(File::create(path)?);
                Box::new(PcapWriter::new(file, inner)?)
            }
        })
    }

    /// Whether frames come from another program, at times that are not ours to say.
    pub fn is_outside(&self) -> bool {
        match self {
            WireKind::Sink | WireKind::Loopback | WireKind::Responder => false,
            WireKind::Socket(_) => true,
            WireKind::Pcap { inner, .. } => inner.is_outside(),
        }
    }

    /// A wire that is around no other.
    fn simple(text: &str) -> Option<WireKind> {
        match text {
            "sink" => Some(WireKind::Sink),
            "loopback" => Some(WireKind::Loopback),
            "responder" => Some(WireKind::Responder),
            _ => match text.strip_prefix("socket:")?.split_once(',')? {
                ("", _) | (_, "") => None,
                (ours, theirs) => {
                    let ends = Sockets { ours: ours.into(), theirs: theirs.into() };
                    Some(WireKind::Socket(Box::new(ends)))
                }
            },
        }
    }
}

impl FromStr for WireKind {
    type Err = ParseWireError;

    fn from_str(text: &str) -> Result<WireKind, ParseWireError> {
        let text = text.trim();
        if let Some(kind) = WireKind::simple(text) {
            return Ok(kind);
        }
        if text == "socket" || text.starts_with("socket:") {
            return Err(ParseWireError::NoSockets(text.to_owned()));
        }
        let rest = match text.strip_prefix("pcap") {
            Some("") => "",
            Some(rest) => match rest.strip_prefix(':') {
                Some(file) => file,
                None => return Err(ParseWireError::Unknown(text.to_owned())),
            },
            None => return Err(ParseWireError::Unknown(text.to_owned())),
        };
        // A plus sign may be part of the file's name: it counts only before a wire's name.
        let (file, inner) = rest
            .rsplit_once('+')
            .and_then(|(file, inner)| Some((file, WireKind::simple(inner)?)))
            .unwrap_or((rest, WireKind::Sink));
        if file.is_empty() {
            return Err(ParseWireError::NoFile(text.to_owned()));
        }
        Ok(WireKind::Pcap { path: file.into(), inner: Box::new(inner) })
    }
}

impl fmt::Display for WireKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireKind::Sink => f.write_str("sink"),
            WireKind::Loopback => f.write_str("loopback"),
            WireKind::Responder => f.write_str("responder"),
            WireKind::Socket(ends) => {
                write!(f, "socket:{},{}", ends.ours.display(), ends.theirs.display())
            }
            WireKind::Pcap { path, inner } => write!(f, "pcap:{}+{inner}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcap(path: &str, inner: WireKind) -> WireKind {
        WireKind::Pcap { path: path.into(), inner: Box::new(inner) }
    }

    fn socket(ours: &str, theirs: &str) -> WireKind {
        WireKind::Socket(Box::new(Sockets { ours: ours.into(), theirs: theirs.into() }))
    }

    #[test]
    fn names_are_read() {
        for (text, kind) in [
            ("sink", WireKind::Sink),
            ("loopback", WireKind::Loopback),
            (" responder ", WireKind::Responder),
            ("socket:a,b", socket("a", "b")),
            ("pcap:a.pcap+socket:a,b", pcap("a.pcap", socket("a", "b"))),
            ("pcap:a.pcap", pcap("a.pcap", WireKind::Sink)),
            ("pcap:a.pcap+responder", pcap("a.pcap", WireKind::Responder)),
            ("pcap:a+b.pcap", pcap("a+b.pcap", WireKind::Sink)),
        ] {
            assert_eq!(text.parse(), Ok(kind));
        }
    }

    #[test]
    fn a_mistake_is_answered_with_what_there_is() {
        let message = |text: &str| text.parse::<WireKind>().unwrap_err().to_string();
        assert!(message("cable").contains("sink, loopback, responder"), "{}", message("cable"));
        assert!(message("pcapx").contains("no wire 'pcapx'"));
        assert!(message("pcap:").contains("which file"));
        assert!(message("pcap").contains("which file"));
        assert!(message("pcap:+sink").contains("which file"));
        for text in ["socket", "socket:", "socket:a", "socket:a,", "socket:,b"] {
            assert!(message(text).contains("which sockets"), "{text}");
        }
    }

    #[test]
    fn what_is_displayed_can_be_read_again() {
        for kind in [pcap("x.pcap", WireKind::Loopback), pcap("x", socket("a", "b"))] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn every_kind_can_be_built() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.pcap");
        let socket = socket(folder.path().join("s").to_str().unwrap(), "none");
        for inner in [WireKind::Sink, WireKind::Loopback, WireKind::Responder, socket] {
            let kind = WireKind::Pcap { path: path.clone(), inner: Box::new(inner) };
            kind.build().unwrap().finish().unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 24, "a pcap header");
        assert!(pcap("/no/such/folder/t", WireKind::Sink).build().is_err());
    }
}
