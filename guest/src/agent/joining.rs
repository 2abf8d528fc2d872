//! Interfaces that are parted from each other, or joined: network namespaces, bridges, bonds and routes, by rtnetlink
//! (`Documentation/netlink/specs/rt_link.yaml` and `rt_route.yaml` in the kernel's tree).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::SockProtocol;
use warikomi_protocol::answers::Done;
use warikomi_protocol::commands::{
    BondAdd, BondMode, BridgeAdd, MOST_NAMESPACES, NamespaceAdd, NamespaceEnter, NamespaceMove,
    RouteAdd,
};

use super::boot;
use super::error::{AgentError, Context, Result};
use super::netif::{self, Cidr, Interface};
use super::netlink::{NLM_F_ACK, Netlink, attribute};

/// `linux/netlink.h`: what is to be made must not be there yet.
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;

/// `linux/if_link.h`.
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;

/// `linux/if_bonding.h`.
const BOND_MODE_ACTIVEBACKUP: u8 = 1;
const BOND_MODE_BROADCAST: u8 = 3;

const MOST_MIIMON_MS: u32 = 10_000;
/// Ports of a bridge, or slaves of a bond: more cards than a guest has.
const MOST_MEMBERS: usize = 16;
/// The longest name of an interface (IFNAMSIZ, less the NUL byte).
const NAME_BYTES: usize = 15;

/// The network namespaces of the guest.
#[derive(Default)]
pub(super) struct Namespaces {
    /// The one that the guest began in, once it has been left.
    first: Option<File>,
    made: BTreeMap<String, File>,
}

impl Namespaces {
    pub(super) fn add(&mut self, command: &NamespaceAdd) -> Result<Done> {
        let name = checked_name(&command.namespace)?;
        if self.made.contains_key(name) || self.made.len() >= MOST_NAMESPACES {
            return Err(AgentError::Other(format!(
                "cannot make the namespace {name}: there are {} of {MOST_NAMESPACES} already ({})",
                self.made.len(),
                self.names()
            )));
        }
        // A thread makes it and is in it alone; the file keeps it when the thread has ended.
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .context(|| "make a network namespace (CONFIG_NET_NS)".to_owned())?;
            Interface::named("lo")?.set_up(true)?;
            current_namespace()
        });
        let ended = || AgentError::Other("making a network namespace failed".to_owned());
        let file = made.join().map_err(|_| ended())??;
        self.made.insert(name.to_owned(), file);
        Ok(Done {})
    }

    pub(super) fn enter(&mut self, command: &NamespaceEnter) -> Result<Done> {
        if self.first.is_none() {
            self.first = Some(current_namespace()?);
        }
        let file = match &command.namespace {
            None => self.first.as_ref(),
            Some(name) => Some(self.named(name)?),
        };
        if let Some(file) = file {
            setns(file, CloneFlags::CLONE_NEWNET)
                .context(|| "enter a network namespace".to_owned())?;
        }
        // A mount of sysfs shows the interfaces of the namespace that it was made in.
        boot::mount_sysfs_anew()?;
        Ok(Done {})
    }

    pub(super) fn move_into(&self, command: &NamespaceMove) -> Result<Done> {
        let interface = Interface::named(&command.interface)?;
        let file = self.named(&command.namespace)?;
        let into = attribute(libc::IFLA_NET_NS_FD, &file.as_raw_fd().to_ne_bytes());
        Links::open()?.set(&interface, &into).context(|| {
            format!("move {} into the namespace {}", interface.name, command.namespace)
        })?;
        Ok(Done {})
    }

    fn named(&self, name: &str) -> Result<&File> {
        self.made.get(name).ok_or_else(|| {
            AgentError::Other(format!(
                "there is no namespace {name:?} (there are: {})",
                self.names()
            ))
        })
    }

    fn names(&self) -> String {
        self.made.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

fn current_namespace() -> Result<File> {
    let path = "/proc/thread-self/ns/net";
    File::open(path).context(|| format!("open {path} (CONFIG_NET_NS)"))
}

pub(super) fn bridge(command: &BridgeAdd) -> Result<Done> {
    let name = checked_name(&command.bridge)?;
    let ports = members(&command.ports)?;
    let mut links = Links::open()?;
    let bridge = links.add(name, "bridge", &[])?;
    for port in &ports {
        links.enslave(port, &bridge)?;
        port.set_up(true)?;
    }
    bridge.set_up(true)?;
    Ok(Done {})
}

pub(super) fn bond(command: &BondAdd) -> Result<Done> {
    let name = checked_name(&command.bond)?;
    if !(1..=MOST_MIIMON_MS).contains(&command.miimon_ms) {
        return Err(AgentError::Invalid {
            what: "the time between two looks at carriers",
            expected: "1 to 10,000 ms",
            given: command.miimon_ms.to_string(),
        });
    }
    let slaves = members(&command.slaves)?;
    let mode = match command.mode {
        BondMode::ActiveBackup => BOND_MODE_ACTIVEBACKUP,
        BondMode::Broadcast => BOND_MODE_BROADCAST,
    };
    let options = [
        attribute(IFLA_BOND_MODE, &[mode]),
        attribute(IFLA_BOND_MIIMON, &command.miimon_ms.to_ne_bytes()),
    ];
    let mut links = Links::open()?;
    let bond = links.add(name, "bond", &options.concat())?;
    for slave in &slaves {
        // The bond brings it up again.
        slave.set_up(false)?;
        links.enslave(slave, &bond)?;
    }
    bond.set_up(true)?;
    Ok(Done {})
}

pub(super) fn route(command: &RouteAdd) -> Result<Done> {
    let network = Cidr::parse(&command.destination_cidr)?;
    let gateway = netif::parse_ip(&command.gateway)?;
    let message = route_message(&network, gateway);
    Netlink::open(SockProtocol::NetlinkRoute)?
        .ask(libc::RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &message)
        .context(|| format!("make a route to {} by way of {gateway}", command.destination_cidr))?;
    Ok(Done {})
}

/// `struct rtmsg` and its attributes.
fn route_message(network: &Cidr, gateway: std::net::Ipv4Addr) -> Vec<u8> {
    let mut message = vec![
        libc::AF_INET as u8,
        network.prefix as u8,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_UNIVERSE,
        libc::RTN_UNICAST,
    ];
    message.extend(0u32.to_ne_bytes());
    message.extend(attribute(libc::RTA_DST, &network.address.octets()));
    message.extend(attribute(libc::RTA_GATEWAY, &gateway.octets()));
    message
}

/// The kernel's interfaces, to be made and joined.
struct Links(Netlink);

impl Links {
    fn open() -> Result<Links> {
        Netlink::open(SockProtocol::NetlinkRoute).map(Links)
    }

    /// Makes an interface of this kind.
    fn add(&mut self, name: &str, kind: &str, options: &[u8]) -> Result<Interface> {
        let info = [
            attribute(libc::IFLA_INFO_KIND, kind.as_bytes()),
            attribute(libc::IFLA_INFO_DATA, options),
        ];
        let message = [
            link_head(0),
            attribute(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat()),
            attribute(libc::IFLA_LINKINFO, &info.concat()),
        ];
        self.0
            .ask(libc::RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &message.concat())
            .context(|| format!("make the {kind} {name} (has its module been loaded?)"))?;
        Interface::named(name)
    }

    /// Makes `member` a port, or a slave, of `master`.
    fn enslave(&mut self, member: &Interface, master: &Interface) -> Result<()> {
        let of = attribute(libc::IFLA_MASTER, &index(master)?.to_ne_bytes());
        self.set(member, &of).context(|| format!("join {} to {}", member.name, master.name))
    }

    fn set(&mut self, interface: &Interface, attributes: &[u8]) -> std::io::Result<()> {
        let index = index(interface).map_err(std::io::Error::other)?;
        let message = [&link_head(index), attributes].concat();
        self.0.ask(libc::RTM_SETLINK, NLM_F_ACK, &message).map(|_| ())
    }
}

/// `struct ifinfomsg`: family, type, index, flags, and which of these change.
fn link_head(index: u32) -> Vec<u8> {
    let mut head = vec![0; 4];
    head.extend(index.to_ne_bytes());
    head.extend([0; 8]);
    head
}

fn index(interface: &Interface) -> Result<u32> {
    let index = interface.number("ifindex");
    index.ok_or_else(|| AgentError::Other(format!("{} has no index", interface.name)))
}

fn members(names: &[String]) -> Result<Vec<Interface>> {
    if names.is_empty() || names.len() > MOST_MEMBERS {
        return Err(AgentError::Invalid {
            what: "the number of interfaces that are joined",
            expected: "1 to 16",
            given: names.len().to_string(),
        });
    }
    names.iter().map(|name| Interface::named(name)).collect()
}

fn checked_name(name: &str) -> Result<&str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let dots = name.chars().all(|c| c == '.');
    if dots || name.len() > NAME_BYTES || !name.chars().all(fine) {
        return Err(AgentError::Invalid {
            what: "the name",
            expected: "1 to 15 letters, digits, _, - and .",
            given: name.to_owned(),
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_the_kernel_takes() {
        for bad in ["", ".", "..", "a/b", "sixteen-letters.", "a b", "é"] {
            assert!(checked_name(bad).is_err(), "{bad}");
        }
        assert_eq!(checked_name("fifteen_letters").unwrap(), "fifteen_letters");
    }

    #[test]
    fn what_is_asked_has_bounds() {
        let none = BridgeAdd { bridge: "br0".into(), ports: vec![] };
        assert!(bridge(&none).is_err_and(|error| error.to_string().contains("1 to 16")));
        for miimon_ms in [0, MOST_MIIMON_MS + 1] {
            let mode = BondMode::ActiveBackup;
            let never = BondAdd { bond: "bond0".into(), mode, slaves: vec![], miimon_ms };
            assert!(bond(&never).is_err_and(|error| error.to_string().contains("10,000 ms")));
        }
        let nowhere = RouteAdd { destination_cidr: "10.9.2.0".into(), gateway: "10.9.0.2".into() };
        assert!(route(&nowhere).is_err());
    }

    #[test]
    fn a_namespace_must_be_known() {
        let namespaces = Namespaces::default();
        let command = NamespaceMove { interface: "lo".into(), namespace: "other".into() };
        let refused = namespaces.move_into(&command).unwrap_err().to_string();
        assert!(refused.contains("no namespace \"other\""), "{refused}");
    }

    #[test]
    fn messages_have_the_kernels_lengths() {
        let network = Cidr::parse("10.9.2.0/24").unwrap();
        let route = route_message(&network, "10.9.0.2".parse().unwrap());
        assert_eq!((route.len(), link_head(7).len()), (12 + 8 + 8, 16));
        assert_eq!(route[..2], [2, 24]);
        assert_eq!(route[24..], [10, 9, 0, 2]);
    }
}
