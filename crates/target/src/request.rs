//! Requests to the agent, or to whatever answers in its place.

use std::time::Duration;

use serde_json::Value;
use warikomi_protocol::{Command, Envelope, Outcome, Request};

use crate::agent::AgentLine;
use crate::{Target, TargetError, wait};

/// How long a request may take to be answered, beyond what a command itself may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A longer line makes a kernel's serial driver throttle, and UML then drops the line for good.
const MAX_LINE_BYTES: usize = 3_072;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CardId, ConsoleTail, Pass, Slot, TargetCounters};
    use warikomi_clock::{Clock, Span, Time, TscClock};
    use warikomi_nic::Nic;
    use warikomi_pci::{Host, SharedMemory};
    use warikomi_protocol::commands::LinkState;

    /// A target that has a device's side and nothing else. A pass of it takes 5 ms.
    #[derive(Default)]
    struct Bare {
        passes: u64,
    }

    impl Target for Bare {
        fn poll(&mut self) -> Result<Pass, TargetError> {
            self.passes += 1;
            Ok(Pass::idle(Time::ZERO + Span::from_ms(5) * self.passes))
        }

        fn housekeep(&mut self) -> Result<(), TargetError> {
            Ok(())
        }

        fn cards(&self) -> usize {
            0
        }

        fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
            Err(TargetError::NoCard { card, cards: 0 })
        }

        fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
            Err(TargetError::NoCard { card, cards: 0 })
        }

        fn memory(&self, _: CardId) -> Option<&SharedMemory> {
            None
        }

        fn clock(&self) -> Clock {
            Clock::Real(TscClock::with_frequency(0, 1e9))
        }

        fn console(&self) -> ConsoleTail {
            ConsoleTail(vec!["its last line".into()])
        }

        fn counters(&self) -> TargetCounters {
            TargetCounters::default()
        }

        fn process_id(&self) -> u32 {
            0
        }

        fn shares_a_core(&self) -> bool {
            false
        }

        fn stop(&mut self) -> Result<(), TargetError> {
            Ok(())
        }
    }

    /// A wait has a deadline, and Ctrl-C is looked at, whatever a pass serves.
    #[test]
    fn a_wait_looks_up_soon_where_a_pass_takes_long() {
        let (mut target, mut looks) = (Bare::default(), 0);
        let found = wait::until(&mut target, Duration::from_secs(3_600), |_| {
            looks += 1;
            (looks == 3).then_some(())
        });
        assert_eq!(found.unwrap(), Some(()));
        assert!(target.passes <= 8, "{} passes between three looks", target.passes);
    }

    #[test]
    fn where_nobody_answers_a_request_is_refused_by_its_name() {
        let target: &mut dyn Target = &mut Bare::default();
        let asked = target.ask(LinkState { interface: None }, Duration::ZERO);
        let error = asked.unwrap_err().to_string();
        let parts = ["'link_state'", "nobody answers", "its last line"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!target.has_application() && target.handlers(CardId::FIRST).is_none());
    }
}
