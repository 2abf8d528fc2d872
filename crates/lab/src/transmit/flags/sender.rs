//! Flags that say what sends, and who cuts segments.

use std::str::FromStr;

use clap::Args;
use warikomi_session::flags::given;
use warikomi_stack::send::Transport;

use super::super::kernel::Sender;
use crate::error::Error;

/// What sends.
#[derive(Args)]
#[command(next_help_heading = "What sends")]
pub(super) struct SenderArguments {
    /// What sends, with commas: udp (an application), tcp (one that writes to a connection); of a kernel also pktgen
    /// (its packet generator). A process sends one of udp and tcp in a run [default: udp; of a kernel all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(super) senders: Vec<Sender>,
    /// TCP with segmentation offload, with commas: on (the card cuts segments: ge10, rtl8168), off (the stack does).
    /// r8169 has none for UDP [default: off,on]
    #[arg(long, value_name = "ON|OFF,...", value_delimiter = ',')]
    tso: Vec<OnOff>,
}

impl SenderArguments {
    /// Whether the card cuts segments, each with rows of its own; nothing for what is usual.
    pub(super) fn tso(&self) -> Vec<bool> {
        self.tso.iter().map(|on| on.0).collect()
    }

    /// Flags that were given and mean nothing to a mixed load, which is of datagrams.
    pub(super) fn of_one_load(&self) -> Vec<&'static str> {
        let others = self.senders.iter().any(|sender| *sender != Sender::Udp);
        given([("--senders", others), ("--tso", !self.tso.is_empty())])
    }

    /// What carries the messages of a process, each with rows of its own.
    pub(super) fn transports(&self) -> Result<Vec<Transport>, Error> {
        match self.senders[..] {
            [] | [Sender::Udp] if self.tso.is_empty() => Ok(vec![Transport::Udp]),
            [] | [Sender::Udp] => Err(Error::impossible(
                "--tso is of TCP: datagrams are cut by IP alone; add --senders tcp, or leave --tso out",
            )),
            [Sender::Tcp] => {
                let usual = [false, true];
                let tso = self.tso();
                let tso = if tso.is_empty() { &usual[..] } else { &tso[..] };
                let transport = |&on: &bool| if on { Transport::TcpTso } else { Transport::Tcp };
                Ok(tso.iter().map(transport).collect())
            }
            _ if self.senders.contains(&Sender::Pktgen) => Err(Error::impossible(
                "pktgen is a kernel's packet generator; a process sends udp or tcp. Leave pktgen out, or add \
                 --target kernel",
            )),
            _ => Err(Error::impossible(
                "a process sends one of udp and tcp in a run, because their rows differ; give one of them to \
                 --senders, and compare two runs by `warikomi compare`",
            )),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct OnOff(bool);

impl FromStr for OnOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "on" => Ok(OnOff(true)),
            "off" => Ok(OnOff(false)),
            other => Err(format!("'{other}' is neither on nor off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_is_on_and_off_is_off() {
        let read = |text: &str| text.parse::<OnOff>().map(|on| on.0);
        assert_eq!((read("on"), read(" off")), (Ok(true), Ok(false)));
        assert!(read("yes").unwrap_err().contains("neither on nor off"));
    }

    #[test]
    fn a_process_sends_udp_or_tcp_and_tcp_with_and_without_tso() {
        let of = |senders: &[Sender], tso: &[bool]| {
            let tso = tso.iter().copied().map(OnOff).collect();
            SenderArguments { senders: senders.to_vec(), tso }.transports()
        };
        let refused = |senders: &[Sender], tso: &[bool]| of(senders, tso).unwrap_err().to_string();
        assert_eq!(of(&[], &[]).unwrap(), [Transport::Udp]);
        assert_eq!(of(&[Sender::Udp], &[]).unwrap(), [Transport::Udp]);
        assert_eq!(of(&[Sender::Tcp], &[]).unwrap(), [Transport::Tcp, Transport::TcpTso]);
        assert_eq!(of(&[Sender::Tcp], &[true]).unwrap(), [Transport::TcpTso]);
        assert!(refused(&[], &[true]).contains("add --senders tcp"));
        assert!(refused(&[Sender::Pktgen], &[]).contains("Leave pktgen out"));
        assert!(refused(&[Sender::Udp, Sender::Tcp], &[]).contains("one of udp and tcp"));
    }
}
