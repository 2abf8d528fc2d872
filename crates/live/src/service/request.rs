//! What a service is asked for and what it answers: one JSON object a line.
//!
//! ```text
//! {"cmd":"status"}
//! {"cmd":"replace","driver":"/usr/lib/drivers/new"}
//! {"cmd":"rollback"}
//! {"cmd":"metrics"}
//! {"cmd":"stop"}
//! ```
//!
//! Each line is answered by one: `{"ok":true,"result":...}` or `{"ok":false,"error":"..."}`. A replacement is
//! answered when it has ended, however it has.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest line of a request, in bytes, without its end.
pub const MOST_REQUEST_BYTES: usize = 8_192;

/// A request to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How it goes; answered by a [`StatusReport`](super::StatusReport).
    Status {},
    /// Replaces the driver; answered by a [`ReplacementReport`](super::ReplacementReport).
    Replace {
        /// The name of one of ours, or the absolute path of a program.
        driver: String,
    },
    /// Replaces the driver by the program that ran before it.
    Rollback {},
    /// Metrics in Prometheus's text format, as one string.
    Metrics {},
    /// Ends the service.
    Stop {},
}

impl Request {
    /// Reads a line without its end. The error says what is wrong with it.
    pub fn from_line(line: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(line).map_err(|error| {
            format!(
                "this is no request: {error}; write an object whose cmd is status, replace (with a \
                 driver), rollback, metrics or stop, on one line"
            )
        })
    }

    /// The line, with its end.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

/// The service's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Whether the request was carried out.
    pub ok: bool,
    /// What came of it, if anything can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it was not carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Answer {
    /// It was done, and this came of it.
    pub fn done(result: &impl Serialize) -> Answer {
        match serde_json::to_value(result) {
            Ok(Value::Null) => Answer { ok: true, result: None, error: None },
            Ok(value) => Answer { ok: true, result: Some(value), error: None },
            Err(error) => Answer::refused(format!("the answer cannot be written: {error}")),
        }
    }

    /// The answer to a request that was not carried out.
    pub fn refused(error: impl ToString) -> Answer {
        Answer { ok: false, result: None, error: Some(error.to_string()) }
    }

    /// Reads a line without its end.
    pub fn from_line(line: &str) -> Result<Answer, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The line, with its end.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

fn line_of(what: &impl Serialize) -> String {
    // Strings and numbers of ours are always JSON; an empty line would be answered as malformed.
    let mut line = serde_json::to_string(what).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_as_documented() {
        let replace = Request::Replace { driver: "/usr/lib/drivers/new".into() };
        for (line, request) in [
            (r#"{"cmd":"status"}"#, Request::Status {}),
            (r#"{"cmd":"replace","driver":"/usr/lib/drivers/new"}"#, replace),
            (r#"{"cmd":"rollback"}"#, Request::Rollback {}),
            (r#" { "cmd" : "metrics" } "#, Request::Metrics {}),
            (r#"{"cmd":"stop"}"#, Request::Stop {}),
        ] {
            assert_eq!(Request::from_line(line.as_bytes()), Ok(request), "{line}");
        }
        for line in [
            "",
            "status",
            "{}",
            r#"{"cmd":"reboot"}"#,
            r#"{"cmd":"replace"}"#,
            r#"{"cmd":"replace","driver":7}"#,
            r#"{"cmd":"status","driver":"x"}"#,
            r#"{"cmd":"status"} {"cmd":"stop"}"#,
        ] {
            let error = Request::from_line(line.as_bytes()).unwrap_err();
            assert!(error.contains("status, replace"), "{line}: {error}");
        }
    }

    #[test]
    fn answers_are_as_documented() {
        let line = Answer::done(&serde_json::json!({"generation": 2})).to_line();
        assert_eq!(line, "{\"ok\":true,\"result\":{\"generation\":2}}\n");
        assert_eq!(Answer::done(&()).to_line(), "{\"ok\":true}\n");
        let line = Answer::refused("no").to_line();
        assert_eq!(line, "{\"ok\":false,\"error\":\"no\"}\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(driver in ".*") {
            let request = Request::Replace { driver };
            let line = request.to_line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(Request::from_line(line.trim_end().as_bytes()), Ok(request));
        }

        #[test]
        fn any_bytes_are_a_request_or_an_error(line in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(request) = Request::from_line(&line) {
                let again = request.to_line();
                prop_assert_eq!(Request::from_line(again.trim_end().as_bytes()), Ok(request));
            }
        }

        #[test]
        fn near_misses_are_errors_or_make_sense(
            cmd in "status|replace|rollback|metrics|stop|[a-z]{0,8}",
            driver in prop::option::of("\\PC{0,20}"),
            depth in 0usize..400,
        ) {
            let mut object = serde_json::json!({ "cmd": cmd });
            if let Some(driver) = driver {
                object["driver"] = driver.into();
            }
            let _ = Request::from_line(object.to_string().as_bytes());
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            prop_assert!(Request::from_line(deep.as_bytes()).is_err());
        }
    }
}
