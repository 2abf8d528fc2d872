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

/// Who answers requests in a target.
pub trait Agent {
    /// Carries out a request of the agent's protocol and gives its answer, serving the driver
    /// meanwhile; `allowance` is how long the command itself may take. `ask` of `dyn Target` knows
    /// the types of the answers.
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError>;

    /// Whether there is an application above the driver that receives and answers requests.
    fn has_application(&self) -> bool;

    /// Says that an application in the target polls the device from now on, or does not any more. A
    /// guest's kernel then makes accesses with interrupts enabled at any time, and each interrupt has to
    /// wait for a moment at which it makes none.
    fn set_polled(&mut self, polled: bool) {
        let _ = polled;
    }

    /// From now on the target prints all that it has to say, to its console.
    fn print_all(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Marks of harm that the driver's system has noticed since it started, as bits of its own; 0 if
    /// there are none, or nobody who would notice.
    fn harm(&mut self) -> Result<u64, TargetError> {
        Ok(0)
    }
}

impl dyn Target + '_ {
    /// Sends a command to the [agent](Target::agent) and waits for the answer, serving the driver
    /// meanwhile. `allowance` is how long the command itself may take.
    pub fn ask<C: Command>(
        &mut self,
        command: C,
        allowance: Duration,
    ) -> Result<C::Answer, TargetError> {
        let request: Request = command.into();
        let name = command_name(&request);
        let value = match self.agent() {
            Some(agent) => agent.request(request, allowance)?,
            None => return Err(refused(self, name, "nobody answers in this target".to_owned())),
        };
        serde_json::from_value(value)
            .map_err(|error| refused(self, name, format!("its answer makes no sense: {error}")))
    }

    /// Whether there is an application above the driver that receives and answers requests.
    pub fn has_application(&mut self) -> bool {
        self.agent().is_some_and(|agent| agent.has_application())
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
    let Some(id) = line(target).map(AgentLine::next_id) else {
        let message = "this target has no application that could".to_owned();
        return Err(refused(target, command, message));
    };
    let text = Envelope::new(id, request).to_line();
    if text.len() > MAX_LINE_BYTES {
        let message = format!("it takes {} bytes, and the line {MAX_LINE_BYTES}", text.len());
        return Err(refused(target, command, message));
    }
    if let Some(line) = line(target) {
        line.send(&text);
    }
    let within = allowance + ANSWER_TIMEOUT;
    let answer = wait::until(target, within, |target| line(target)?.answer(id))?;
    match answer.map(|response| response.outcome) {
        Some(Outcome::Ok(value)) => Ok(value),
        Some(Outcome::Error(message)) => Err(refused(target, command, message)),
        None => {
            let console = target.console();
            Err(TargetError::Silent { command, within, console })
        }
    }
}

fn refused<T: Target + ?Sized>(target: &T, command: String, message: String) -> TargetError {
    TargetError::Refused { command, message, console: target.console() }
}

/// The command's name on the wire, for messages.
fn command_name(request: &Request) -> String {
    serde_json::to_value(request)
        .ok()
        .and_then(|value| Some(value.get("cmd")?.as_str()?.to_owned()))
        .unwrap_or_else(|| "a command".to_owned())
}
