//! Requests to the agent, or to whatever answers in its place.

use std::time::Duration;

use serde_json::Value;
use warikomi_guest::{Command, Envelope, Outcome, Request};

use crate::line::AgentLine;
use crate::{Target, TargetError, wait};

/// How long a request may take to be answered, beyond what a command itself may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A longer line makes a kernel's serial driver throttle, and UML then drops the line for good.
const MAX_LINE_BYTES: usize = 3_072;

impl dyn Target + '_ {
    /// Sends a command and waits for the answer, serving the driver meanwhile. `allowance` is how
    /// long the command itself may take.
    pub fn ask<C: Command>(
        &mut self,
        command: C,
        allowance: Duration,
    ) -> Result<C::Answer, TargetError> {
        let request: Request = command.into();
        let name = command_name(&request);
        let value = self.request(request, allowance)?;
        serde_json::from_value(value).map_err(|error| TargetError::Refused {
            command: name,
            message: format!("its answer makes no sense: {error}"),
            console: self.console(),
        })
    }
}

/// Sends `request` over the line that `line` finds in the target, and waits for the answer.
pub fn over_line<T: Target>(
    target: &mut T,
    line: impl Fn(&mut T) -> Option<&mut AgentLine>,
    request: Request,
    allowance: Duration,
) -> Result<Value, TargetError> {
    let command = command_name(&request);
    let refused = |target: &T, message| {
        Err(TargetError::Refused { command: command.clone(), message, console: target.console() })
    };
    let Some(id) = line(target).map(AgentLine::next_id) else {
        return refused(target, "this target has no application that could".to_owned());
    };
    let text = Envelope::new(id, request).to_line();
    if text.len() > MAX_LINE_BYTES {
        let message = format!("it takes {} bytes, and the line {MAX_LINE_BYTES}", text.len());
        return refused(target, message);
    }
    if let Some(line) = line(target) {
        line.send(&text);
    }
    let within = allowance + ANSWER_TIMEOUT;
    let answer = wait::until(target, within, |target| line(target)?.answer(id))?;
    match answer.map(|response| response.outcome) {
        Some(Outcome::Ok(value)) => Ok(value),
        Some(Outcome::Error(message)) => refused(target, message),
        None => {
            let console = target.console();
            Err(TargetError::Silent { command: command.clone(), within, console })
        }
    }
}

/// The command's name on the wire, for messages.
pub fn command_name(request: &Request) -> String {
    serde_json::to_value(request)
        .ok()
        .and_then(|value| Some(value.get("cmd")?.as_str()?.to_owned()))
        .unwrap_or_else(|| "a command".to_owned())
}
