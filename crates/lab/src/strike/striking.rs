//! What strikes at a place.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::Span;
use warikomi_inject::{FAULT_FORMS, Fault, FaultKind};
use warikomi_nic::Link;

use super::operation::{Operation, PARTNER};
use super::scene::Scene;
use crate::error::Error;

/// What strikes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Striking {
    /// A packet with its interrupt.
    #[default]
    Packet,
    /// An interrupt without a reason.
    Interrupt,
    /// The cable is pulled, or plugged in.
    Link(Link),
    /// Something goes wrong, as it is written and what it is; with a packet, so that there is an occasion.
    Fault(String, FaultKind),
    /// A call that configures the interface is made runnable.
    Configure(Operation),
}

/// Each way that is not a fault or a call, as it is written, and what it is.
const PLAIN: [(&str, Striking, &str); 4] = [
    ("packet", Striking::Packet, "a packet with its interrupt"),
    ("interrupt", Striking::Interrupt, "an interrupt without a reason"),
    (
        "link-down",
        Striking::Link(Link::Down),
        "the cable is pulled; it is plugged in again behind it",
    ),
    ("link-up", Striking::Link(PARTNER), "the cable, which was pulled before, is plugged in"),
];

/// The calls that can be made runnable.
const CALLS: [Operation; 3] = [Operation::Down, Operation::Mtu, Operation::Renegotiate];

/// How long the cable is out before it is plugged in at a place.
const OUT_BEFORE: Span = Span::from_ms(5);

/// How long it is waited until a fault is over that lasts.
const FAULT_OVER: Span = Span::from_ms(2_000);

impl fmt::Display for Striking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Striking::Fault(text, _) => write!(f, "fault:{text}"),
            Striking::Configure(call) => write!(f, "configure:{call}"),
            plain => {
                let known = PLAIN.iter().find(|(_, striking, _)| striking == plain);
                f.write_str(known.map_or("", |(name, _, _)| name))
            }
        }
    }
}

impl FromStr for Striking {
    type Err = String;

    fn from_str(text: &str) -> Result<Striking, String> {
        let text = text.trim();
        if let Some((_, plain, _)) = PLAIN.iter().find(|(name, _, _)| *name == text) {
            return Ok(plain.clone());
        }
        match text.split_once(':').map(|(what, rest)| (what, rest.trim())) {
            Some(("fault", fault)) => fault_of(fault),
            Some(("configure", call)) => {
                let known = call.parse().ok().filter(|call| CALLS.contains(call));
                known.map(Striking::Configure).ok_or_else(|| {
                    let calls = CALLS.map(|call| format!("'{call}'")).join(", ");
                    format!("'{call}' is no call that can be made runnable; there are {calls}")
                })
            }
            _ => {
                let names = PLAIN.map(|(name, _, _)| name).join(", ");
                Err(format!("there are: {names}, fault:KIND and configure:COMMAND"))
            }
        }
    }
}

/// A fault of this moment: as those of `inject`, without a time.
fn fault_of(text: &str) -> Result<Striking, String> {
    let separator = if text.contains(':') { ',' } else { ':' };
    let fault: Fault = format!("{text}{separator}at=0").parse().map_err(|error| {
        format!("{error} (at a place a fault has neither time nor probability)")
    })?;
    match fault.kind {
        FaultKind::DeviceGone | FaultKind::DeviceUnplugged { .. } => Err(format!(
            "after '{text}' there is no card to go on with; warikomi inject --fault has it, and here there are: {}",
            fault_names().collect::<Vec<_>>().join(", ")
        )),
        kind => Ok(Striking::Fault(text.to_owned(), kind)),
    }
}

fn fault_names() -> impl Iterator<Item = &'static str> {
    FAULT_FORMS.iter().map(|form| form.name).filter(|name| !name.starts_with("device-"))
}

/// Everything that can strike, for help.
pub(crate) fn striking_help() -> String {
    let mut help = "What strikes; one of:\n".to_owned();
    for (name, _, what) in PLAIN {
        help.push_str(&format!("\n- {name}: {what}"));
    }
    let faults = fault_names().collect::<Vec<_>>().join(", ");
    help.push_str(&format!(
        "\n- fault:KIND: a packet on which this fault strikes, or which it comes with, as fault:dma-error or \
         fault:interrupt-delayed:by=2ms: {faults}"
    ));
    let calls = CALLS.map(|call| format!("'{call}'")).join(", ");
    help.push_str(&format!(
        "\n- configure:COMMAND: the guest is told there to make a call, which it does when its scheduler lets it: {calls}"
    ));
    help
}

impl Striking {
    /// Whether packets may be lost because of it.
    pub(super) fn may_lose(&self) -> bool {
        !matches!(self, Striking::Packet | Striking::Interrupt)
    }

    /// Refuses what cannot meet this operation.
    pub(crate) fn check(&self, operation: Operation) -> Result<(), Error> {
        let refused = |why: &str| {
            Err(Error::Impossible(format!(
                "--deliver '{self}' and --operation '{operation}': {why}"
            )))
        };
        match self {
            Striking::Link(Link::Up { .. }) if operation.needs_cable() => {
                refused("while the cable is out no packet comes or goes; give another operation")
            }
            Striking::Configure(_) if operation.is_of_agent() => refused(
                "the guest makes one call at a time, so one would begin when the other has ended; give --operation \
                 ping, 'bad frames' or cable",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses what cannot strike twice.
    pub(crate) fn check_then(&self, is_twice: bool) -> Result<(), Error> {
        if is_twice && self.may_lose() {
            return Err(Error::Impossible(format!(
                "at two places strikes a packet or an interrupt, and not '{self}'; leave --deliver out"
            )));
        }
        Ok(())
    }

    /// Puts the card into the state in which it can strike.
    pub(super) fn prepare(&self, scene: &mut Scene) -> Result<(), Error> {
        if let Striking::Link(Link::Up { .. }) = self {
            scene.set_link(Link::Down)?;
            scene.serve_until(OUT_BEFORE, |_| false)?;
        }
        Ok(())
    }

    /// Puts everything back, before the operation does; whether it struck or not. Whether what was to strike had an
    /// occasion.
    pub(super) fn restore(&self, scene: &mut Scene) -> Result<bool, Error> {
        match self {
            Striking::Packet | Striking::Interrupt => {}
            Striking::Link(_) => scene.set_link(PARTNER)?,
            Striking::Fault(..) => return scene.end_fault(FAULT_OVER),
            Striking::Configure(call) => call.restore(scene)?,
        }
        Ok(true)
    }

    /// Whether the cable was out, so that the carrier must be waited for.
    pub(super) fn moves_the_cable(&self) -> bool {
        matches!(self, Striking::Link(_) | Striking::Fault(_, FaultKind::LinkFlap { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strikes_is_read_as_it_is_written() {
        for text in [
            "packet",
            "interrupt",
            "link-down",
            "link-up",
            "fault:dma-error",
            "fault:interrupt-delayed:by=2ms",
            "configure:ip link set eth0 down",
        ] {
            assert_eq!(text.parse::<Striking>().unwrap().to_string(), text);
        }
        let help = striking_help();
        assert!(help.contains("interrupt-storm") && !help.contains("device-gone"), "{help}");
    }

    #[test]
    fn what_cannot_strike_is_refused_with_what_can() {
        for (text, says) in [
            ("nothing", "link-down"),
            ("fault:nothing", "dma-error"),
            ("fault:device-gone", "inject --fault"),
            ("fault:dma-error:at=5ms", "neither time nor probability"),
            ("configure:ping", "'ip link set eth0 down'"),
            ("configure:rm", "'ip link set eth0 down'"),
        ] {
            let error = text.parse::<Striking>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let call: Striking = "configure:ethtool -r eth0".parse().unwrap();
        assert!(call.check(Operation::Ping).is_ok());
        assert!(
            call.check(Operation::Down).unwrap_err().to_string().contains("one call at a time")
        );
        let up: Striking = "link-up".parse().unwrap();
        assert!(up.check(Operation::Up).is_ok() && up.check(Operation::Ping).is_err());
    }
}
