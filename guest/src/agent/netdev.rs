//! The receive contexts (NAPI) of an interface, by netdev's generic netlink
//! (`Documentation/netlink/specs/netdev.yaml` in the kernel's tree).

use std::io;

use nix::sys::socket::SockProtocol;
use warikomi_protocol::answers::InterruptsSuspended;
use warikomi_protocol::commands::SuspendInterrupts;

use super::error::{AgentError, Context, Result};
use super::netif::Interface;
use super::netlink::{NLM_F_ACK, NLM_F_DUMP, Netlink, attribute, attributes};

/// `linux/genetlink.h`.
const GENL_ID_CTRL: u16 = 0x10;
const GENL_HEAD_BYTES: usize = 4;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// `linux/netdev.h`.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;

/// Sets how long interrupts may stay suspended, for every receive context of the interface.
pub(super) fn suspend_interrupts(
    interface: &Interface,
    command: &SuspendInterrupts,
) -> Result<InterruptsSuspended> {
    let index: u32 = interface
        .number("ifindex")
        .ok_or_else(|| AgentError::Other(format!("{} has no index", interface.name)))?;
    let mut netdev = Netdev::open()?;
    let napi_ids = netdev.napi_ids(index)?;
    if napi_ids.is_empty() {
        return Err(AgentError::Other(format!(
            "{} has no receive context that can be named; is it up?",
            interface.name
        )));
    }
    for id in &napi_ids {
        netdev.set_suspend_timeout(*id, command.timeout_ns)?;
    }
    Ok(InterruptsSuspended { napi_ids })
}

/// A socket to the kernel's netdev family.
struct Netdev {
    netlink: Netlink,
    family: u16,
}

impl Netdev {
    fn open() -> Result<Netdev> {
        let netlink = Netlink::open(SockProtocol::NetlinkGeneric)?;
        let mut netdev = Netdev { netlink, family: GENL_ID_CTRL };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answers = netdev
            .ask(CTRL_CMD_GETFAMILY, NLM_F_ACK, &name)
            .context(|| "find netdev's generic netlink".to_owned())?;
        let id = answers.iter().find_map(|answer| {
            attributes(answer).find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)?.1.try_into().ok()
        });
        netdev.family = id.map(u16::from_ne_bytes).ok_or_else(|| {
            AgentError::Other("netdev's generic netlink has no number".to_owned())
        })?;
        Ok(netdev)
    }

    fn napi_ids(&mut self, interface: u32) -> Result<Vec<u32>> {
        let wanted = attribute(NETDEV_A_NAPI_IFINDEX, &interface.to_ne_bytes());
        let answers = self
            .ask(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &wanted)
            .context(|| "list the receive contexts (netdev's napi-get)".to_owned())?;
        let id = |answer: &Vec<u8>| {
            let id = attributes(answer).find(|(kind, _)| *kind == NETDEV_A_NAPI_ID)?.1;
            id.try_into().ok().map(u32::from_ne_bytes)
        };
        Ok(answers.iter().filter_map(id).collect())
    }

    fn set_suspend_timeout(&mut self, napi_id: u32, timeout_ns: u64) -> Result<()> {
        let mut wanted = attribute(NETDEV_A_NAPI_ID, &napi_id.to_ne_bytes());
        wanted.extend(attribute(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &timeout_ns.to_ne_bytes()));
        self.ask(NETDEV_CMD_NAPI_SET, NLM_F_ACK, &wanted).map(|_| ()).context(|| {
            "suspend interrupts (netdev's napi-set with irq-suspend-timeout)".to_owned()
        })
    }

    /// Sends a request, and collects the attributes of the answers.
    fn ask(&mut self, command: u8, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let message = [&[command, 1, 0, 0], body].concat();
        let answers = self.netlink.ask(self.family, flags, &message)?;
        let behind_head = |answer: &Vec<u8>| answer.get(GENL_HEAD_BYTES..).map(<[u8]>::to_vec);
        Ok(answers.iter().filter_map(behind_head).collect())
    }
}
