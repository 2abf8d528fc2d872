//! The other end of the control socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::request::{Answer, Request};

/// The longest answer, in bytes.
const MOST_ANSWER_BYTES: u64 = 1 << 20;
/// A replacement may take as long as a driver may take to be ready; everything else is answered at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a service did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody is there.
    #[error(
        "no service is controlled by {path} ({error}); start one with 'warikomi live', or say with \
         --control where it is"
    )]
    NotRunning {
        /// The socket.
        path: String,
        /// What came of connecting to it.
        error: io::Error,
    },
    /// Another user listens there.
    #[error(
        "{path} is the socket of another user's process; say with --control where your service is"
    )]
    Stranger {
        /// The socket.
        path: String,
    },
    /// The service refused, with this reason.
    #[error("{0}")]
    Refused(String),
    /// The service does not answer.
    #[error("the service has not answered within {} s", PATIENCE.as_secs())]
    Silent,
    /// It ended before it answered.
    #[error("the service ended before it answered")]
    Ended,
    /// It answers something else.
    #[error("what the service answers makes no sense: {0}; is it of another version?")]
    Malformed(String),
}

/// Asks the service that is controlled by the socket at `path`, and waits for the answer: the result, `Null`
/// if there is none. A service that was asked to stop is waited for until it has.
pub fn ask(path: &Path, request: &Request) -> Result<Value, AskError> {
    let name = || path.display().to_string();
    let stream =
        UnixStream::connect(path).map_err(|error| AskError::NotRunning { path: name(), error })?;
    if !warikomi_shared::is_peer_trusted(&stream) {
        return Err(AskError::Stranger { path: name() });
    }
    let (answer, mut rest) = exchange(&stream, request).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AskError::Silent,
        _ => AskError::Ended,
    })?;
    if answer.is_empty() {
        return Err(AskError::Ended);
    }
    let answer =
        Answer::from_line(&answer).map_err(|error| AskError::Malformed(error.to_string()))?;
    if !answer.ok {
        return Err(AskError::Refused(answer.error.unwrap_or_else(|| "it says no".to_owned())));
    }
    if *request == (Request::Stop {}) {
        // It hangs up when all of it is gone.
        let _ = rest.read(&mut [0]);
    }
    Ok(answer.result.unwrap_or(Value::Null))
}

fn exchange<'a>(
    mut stream: &'a UnixStream,
    request: &Request,
) -> io::Result<(String, impl Read + use<'a>)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.to_line().as_bytes())?;
    let mut lines = BufReader::new(stream.take(MOST_ANSWER_BYTES));
    let mut answer = String::new();
    lines.read_line(&mut answer)?;
    Ok((answer, lines))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Asks one who says just this, and then hangs up.
    fn answered(says: &'static [u8]) -> Result<Value, AskError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let service = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).unwrap();
            stream.write_all(says).unwrap();
            asked
        });
        let answer = ask(&path, &Request::Status {});
        assert_eq!(service.join().unwrap(), "{\"cmd\":\"status\"}\n");
        answer
    }

    #[test]
    fn answers_are_results_or_reasons() {
        assert_eq!(answered(b"{\"ok\":true,\"result\":7}\n").unwrap(), 7);
        assert_eq!(answered(b"{\"ok\":true}\n").unwrap(), Value::Null);
        let refused = answered(b"{\"ok\":false,\"error\":\"a replacement is going on\"}\n");
        assert_eq!(refused.unwrap_err().to_string(), "a replacement is going on");
        assert!(matches!(answered(b""), Err(AskError::Ended)));
        assert!(matches!(answered(b"hello\n"), Err(AskError::Malformed(_))));
    }

    #[test]
    fn who_finds_nobody_is_told_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let nobody = ask(&path, &Request::Stop {}).unwrap_err().to_string();
        assert!(nobody.contains("start one with 'warikomi live'"), "{nobody}");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(ask(&path, &Request::Stop {}), Err(AskError::NotRunning { .. })));
    }
}
