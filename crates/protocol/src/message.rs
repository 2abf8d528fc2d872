//! Lines: what wraps a command on the way in, an answer or an event on the way out.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answers::PciDevice;
use crate::commands::Request;

/// Why a line is not what it should be, or a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The line is not JSON, or not of the expected shape.
    #[error("the guest agent sent a line that is no answer ({source}): {line:?}")]
    NotAnAnswer {
        /// What the JSON parser says.
        source: serde_json::Error,
        /// The start of the line.
        line: String,
    },
    /// The agent refused or failed; its own words.
    #[error("the guest agent says: {0}")]
    Refused(String),
    /// The answer has another shape than the command's; agent and library differ in version.
    #[error(
        "the guest agent's answer has an unexpected shape ({0}); rebuild the kernel image \
         with `warikomi kernel build`"
    )]
    UnexpectedShape(serde_json::Error),
}

/// A request with the id that its answer will carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Chosen by the support side; not 0 ([`crate::NO_REQUEST_ID`]).
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

impl Envelope {
    /// Wraps a command.
    pub fn new(id: u64, request: impl Into<Request>) -> Self {
        Self { id, request: request.into() }
    }

    /// The line to send, with its newline.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done; the answer, in the shape that the command's [`crate::Command::Answer`] gives.
    Ok(Value),
    /// Refused or failed, and why.
    Error(String),
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The request's id; 0 for something that was not a request.
    pub id: u64,
    /// Outcome of the request.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Response {
    /// Reads a line. [`FromGuest::parse`] also takes events.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        serde_json::from_str(line).map_err(|source| not_an_answer(source, line))
    }

    /// The typed answer, or the agent's error.
    pub fn into_answer<T: DeserializeOwned>(self) -> Result<T, ProtocolError> {
        match self.outcome {
            Outcome::Ok(value) => {
                serde_json::from_value(value).map_err(ProtocolError::UnexpectedShape)
            }
            Outcome::Error(text) => Err(ProtocolError::Refused(text)),
        }
    }

    /// The line to send, with its newline.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

/// The first event: the agent has set up the guest and takes requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// `uname -r` of the kernel.
    pub kernel_release: String,
    /// Version of the agent.
    pub agent_version: String,
    /// Time since the kernel started, in milliseconds.
    pub uptime_ms: u64,
    /// Memory that the kernel manages, in bytes.
    pub memory_bytes: u64,
    /// Every PCI function that the kernel found.
    pub pci_devices: Vec<PciDevice>,
    /// What the agent could not set up, each with the reason; nothing here stops it.
    pub warnings: Vec<String>,
}

/// What the agent says unasked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Sent once, at the start.
    Ready(Ready),
}

impl Event {
    /// The line to send, with its newline.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

/// Any line from the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum FromGuest {
    /// An event that answers no request.
    Event(Event),
    /// The answer to a request.
    Response(Response),
}

impl FromGuest {
    /// Reads a line, with or without its newline.
    pub fn parse(line: &str) -> Result<Self, ProtocolError> {
        let value: Value =
            serde_json::from_str(line).map_err(|source| not_an_answer(source, line))?;
        let parsed = if value.get("event").is_some() {
            serde_json::from_value(value).map(Self::Event)
        } else {
            serde_json::from_value(value).map(Self::Response)
        };
        parsed.map_err(|source| not_an_answer(source, line))
    }
}

fn not_an_answer(source: serde_json::Error, line: &str) -> ProtocolError {
    ProtocolError::NotAnAnswer { source, line: line.chars().take(200).collect() }
}

fn line_of(message: &impl Serialize) -> String {
    // These types have string keys and no failing serializer, so this cannot fail.
    let mut line = serde_json::to_string(message).expect("a message is always valid JSON");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{LinkUp, ReceiveRuns, VlanAdd};

    #[test]
    fn requests_look_as_documented() {
        let line = Envelope::new(
            1,
            LinkUp { interface: None, address_cidr: Some("10.9.0.1/24".into()), timeout_ms: 5000 },
        )
        .to_line();
        assert_eq!(
            line,
            "{\"id\":1,\"cmd\":\"link_up\",\"address_cidr\":\"10.9.0.1/24\",\"timeout_ms\":5000}\n"
        );
        let back: Envelope = serde_json::from_str(&line).unwrap();
        assert_eq!(back.id, 1);
        assert!(matches!(back.request, Request::LinkUp(_)));
    }

    #[test]
    fn large_numbers_survive_the_envelope() {
        let line = format!("{{\"id\":{0},\"cmd\":\"receive_runs\",\"from\":{0}}}", u64::MAX);
        let back: Envelope = serde_json::from_str(&line).unwrap();
        assert_eq!(back.id, u64::MAX);
        assert_eq!(back.request, Request::ReceiveRuns(ReceiveRuns { from: u64::MAX, max: 1000 }));
    }

    #[test]
    fn a_command_with_a_number_of_its_own_keeps_it() {
        let vlan = VlanAdd {
            interface: None,
            vlan: 7,
            address_cidr: "10.9.7.1/24".into(),
            header_with_tag: false,
        };
        let line = Envelope::new(3, vlan.clone()).to_line();
        let back: Envelope = serde_json::from_str(&line).unwrap();
        assert_eq!((back.id, back.request), (3, Request::VlanAdd(vlan)));
    }

    #[test]
    fn answers_and_errors_look_as_documented() {
        let ok = Response { id: 3, outcome: Outcome::Ok(serde_json::json!({"a": 1})) };
        assert_eq!(ok.to_line(), "{\"id\":3,\"ok\":{\"a\":1}}\n");
        let error = Response { id: 3, outcome: Outcome::Error("no".into()) };
        assert_eq!(error.to_line(), "{\"id\":3,\"error\":\"no\"}\n");
        assert_eq!(FromGuest::parse(&error.to_line()).unwrap(), FromGuest::Response(error));
    }

    #[test]
    fn garbage_is_an_error_and_quotes_only_its_start() {
        let line = "x".repeat(5000);
        let error = FromGuest::parse(&line).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }

    #[test]
    fn an_unknown_field_or_command_is_refused() {
        assert!(serde_json::from_str::<Envelope>(r#"{"id":1,"cmd":"nonsense"}"#).is_err());
        assert!(serde_json::from_str::<Envelope>(r#"{"cmd":"ping_agent"}"#).is_err());
        assert!(
            serde_json::from_str::<Envelope>(r#"{"id":1,"cmd":"link_up","timout_ms":1}"#).is_err()
        );
    }
}
