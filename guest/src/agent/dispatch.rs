//! From a line to its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde_json::Value;
use warikomi_protocol::Command;
use warikomi_protocol::answers::{Alive, Done};
use warikomi_protocol::lines::Line;
use warikomi_protocol::{Outcome, Request, Response};

use super::compute::Computer;
use super::error::{AgentError, Result};
use super::netif::Interface;
use super::programs::Programs;
use super::receive::Receiver;
use super::work::Worker;
use super::{
    boot, configure, counters, drivers, files, frames, joining, link, netdev, ping, pktgen, root,
    sys, transmit,
};

/// What the agent remembers between requests.
#[derive(Default)]
pub(super) struct Agent {
    /// The interface that the last `wait_interface` found.
    default_interface: Option<String>,
    receiver: Receiver,
    computer: Computer,
    worker: Worker,
    programs: Programs,
    memberships: link::Memberships,
    namespaces: joining::Namespaces,
}

/// What is done after the answer has gone out, and does not come back.
#[derive(Debug, Clone, Copy)]
pub(super) enum LastAct {
    Panic,
    Hang { busy: bool },
    PowerOff,
}

impl LastAct {
    /// Returns only if the kernel would not.
    pub(super) fn perform(self) {
        match self {
            // The tty has the answer, but the host gets it from a work queue: let that run.
            Self::Panic => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                if let Err(error) = super::error::write("/proc/sysrq-trigger", "c") {
                    eprintln!("warikomi-guest: {error}; leaving, which also panics the kernel");
                    std::process::exit(1);
                }
            }
            Self::Hang { busy: true } => loop {
                std::hint::spin_loop();
            },
            Self::Hang { busy: false } => loop {
                std::thread::park();
            },
            Self::PowerOff => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                boot::power_off();
            }
        }
    }
}

impl Agent {
    /// Answers one line, whatever is in it.
    pub(super) fn answer(&mut self, line: &Line) -> (Response, Option<LastAct>) {
        let envelope = match line.parse() {
            Ok(envelope) => envelope,
            Err((id, text)) => {
                return (Response { id, outcome: Outcome::Error(text) }, None);
            }
        };
        let last_act = last_act(&envelope.request);
        // A panic here would be the kernel's: the first program may not die. It would also say
        // nothing of use, so the request fails instead.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.execute(&envelope.request)));
        let outcome = match outcome {
            Ok(Ok(value)) => Outcome::Ok(value),
            Ok(Err(error)) => Outcome::Error(error.to_string()),
            Err(_) => {
                Outcome::Error("a bug in the guest agent; the console has the place".to_owned())
            }
        };
        (Response { id: envelope.id, outcome }, last_act)
    }

    fn execute(&mut self, request: &Request) -> Result<Value> {
        match request {
            Request::PingAgent(c) => {
                done(c, Alive { tsc: sys::counter(), uptime_ms: boot::uptime_ms() })
            }
            Request::LoadDriver(c) => done(c, drivers::load(c)?),
            Request::UnloadDriver(c) => done(c, drivers::unload(c)?),
            Request::WaitInterface(c) => {
                let found = link::wait_interface(c)?;
                self.default_interface = Some(found.interface.clone());
                done(c, found)
            }
            Request::ReceiveStart(c) => done(c, self.receiver.start(c)?),
            Request::ReceiveStatus(c) => done(c, self.receiver.status()?),
            Request::ReceiveStop(c) => done(c, self.receiver.stop()?),
            Request::ReceiveRuns(c) => done(c, self.receiver.runs(c)?),
            Request::ComputeStart(c) => done(c, self.computer.start(c)?),
            Request::ComputeStop(c) => done(c, self.computer.stop()?),
            Request::ComputeSamples(c) => done(c, self.computer.samples(c)?),
            Request::WorkStart(c) => done(c, self.worker.start(c)?),
            Request::WorkStatus(c) => done(c, self.worker.status()?),
            Request::WorkStop(c) => done(c, self.worker.stop()?),
            Request::Transmit(c) => done(c, transmit::udp(c, self.default_interface.as_deref())?),
            Request::TransmitTcp(c) => done(c, transmit::tcp(c)?),
            Request::Ping(c) => done(c, ping::ping(c)?),
            Request::NamespaceAdd(c) => done(c, self.namespaces.add(c)?),
            Request::NamespaceMove(c) => done(c, self.namespaces.move_into(c)?),
            Request::NamespaceEnter(c) => done(c, self.namespaces.enter(c)?),
            Request::BridgeAdd(c) => done(c, joining::bridge(c)?),
            Request::BondAdd(c) => done(c, joining::bond(c)?),
            Request::RouteAdd(c) => done(c, joining::route(c)?),
            Request::ReadFile(c) => done(c, files::read(c)?),
            Request::WriteFile(c) => done(c, files::write(c)?),
            Request::MountRoot(c) => done(c, root::mount_root(c)?),
            Request::ProgramStart(c) => done(c, self.programs.start(c)?),
            Request::ProgramOutput(c) => done(c, self.programs.said(c)?),
            Request::Panic(c) => done(c, Done {}),
            Request::Hang(c) => done(c, Done {}),
            Request::PowerOff(c) => done(c, Done {}),
            about_interface => self.execute_on_interface(about_interface),
        }
    }

    /// The commands that name an interface.
    fn execute_on_interface(&mut self, request: &Request) -> Result<Value> {
        match request {
            Request::Configure(c) => {
                done(c, configure::configure(&self.interface(c.interface.as_ref())?, c)?)
            }
            Request::LinkUp(c) => done(c, link::up(&self.interface(c.interface.as_ref())?, c)?),
            Request::LinkDown(c) => done(c, link::down(&self.interface(c.interface.as_ref())?)?),
            Request::LinkState(c) => done(c, link::state(&self.interface(c.interface.as_ref())?)?),
            Request::Renegotiate(c) => {
                done(c, link::renegotiate(&self.interface(c.interface.as_ref())?)?)
            }
            Request::SelfTest(c) => {
                done(c, link::self_test(&self.interface(c.interface.as_ref())?)?)
            }
            Request::Neighbour(c) => {
                done(c, link::neighbour(&self.interface(c.interface.as_ref())?, c)?)
            }
            Request::JoinMulticast(c) => {
                let interface = self.interface(c.interface.as_ref())?;
                done(c, self.memberships.join(&interface, c)?)
            }
            Request::VlanAdd(c) => {
                done(c, link::vlan_add(&self.interface(c.interface.as_ref())?, c)?)
            }
            Request::Pktgen(c) => done(c, pktgen::run(&self.interface(c.interface.as_ref())?, c)?),
            Request::TransmitFrames(c) => {
                done(c, frames::transmit(&self.interface(c.interface.as_ref())?, c)?)
            }
            Request::SuspendInterrupts(c) => {
                done(c, netdev::suspend_interrupts(&self.interface(c.interface.as_ref())?, c)?)
            }
            Request::Counters(c) => {
                done(c, counters::counters(&self.interface(c.interface.as_ref())?)?)
            }
            other => Err(AgentError::Other(format!("no handler for {other:?}"))),
        }
    }

    fn interface(&self, named: Option<&String>) -> Result<Interface> {
        let name = named.or(self.default_interface.as_ref()).ok_or(AgentError::NoInterface)?;
        Interface::named(name)
    }
}

/// Ties the answer's type to the command's, so that the two sides cannot drift apart.
fn done<C: Command>(_command: &C, answer: C::Answer) -> Result<Value> {
    serialize(&answer)
}

fn serialize(answer: &impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| AgentError::Other(error.to_string()))
}

fn last_act(request: &Request) -> Option<LastAct> {
    match request {
        Request::Panic(_) => Some(LastAct::Panic),
        Request::Hang(hang) => Some(LastAct::Hang { busy: hang.busy }),
        Request::PowerOff(_) => Some(LastAct::PowerOff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_protocol::NO_REQUEST_ID;

    fn answer(text: &[u8]) -> Response {
        Agent::default().answer(&Line::Text(text.to_vec())).0
    }

    fn error_of(response: &Response) -> &str {
        match &response.outcome {
            Outcome::Error(text) => text,
            Outcome::Ok(value) => panic!("expected an error, got {value}"),
        }
    }

    #[test]
    fn garbage_is_answered_with_an_error() {
        for garbage in [
            &b""[..],
            b"\xff\xfe\0",
            b"nonsense",
            b"[1,2",
            b"{\"id\":0,\"cmd\":\"ping_agent\"}",
            b"{\"id\":-1}",
            b"null",
            b"\"text\"",
        ] {
            let response = answer(garbage);
            assert_eq!(response.id, NO_REQUEST_ID);
            assert!(!error_of(&response).is_empty());
        }
        let response = Agent::default().answer(&Line::TooLong).0;
        assert!(error_of(&response).contains("3072"));
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_stack_overflow() {
        let response = answer("[".repeat(60_000).as_bytes());
        assert_eq!(response.id, NO_REQUEST_ID);
        error_of(&response);
    }

    #[test]
    fn a_bad_request_keeps_its_id() {
        let response = answer(br#"{"id":9,"cmd":"no_such"}"#);
        assert_eq!(response.id, 9);
        assert!(error_of(&response).contains("no_such"));
    }

    #[test]
    fn an_interface_must_be_known() {
        let response = answer(br#"{"id":9,"cmd":"link_state"}"#);
        assert!(error_of(&response).contains("wait_interface"));
    }
}
