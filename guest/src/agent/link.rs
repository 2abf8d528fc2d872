//! Bringing an interface up and down, and what lies around it.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use warikomi_protocol::answers::{self, Done, LinkIsUp, SelfTested, VlanAdded};
use warikomi_protocol::commands::{JoinMulticast, LinkUp, Neighbour, VlanAdd, WaitInterface};

use super::error::{AgentError, Context, Result};
use super::ethtool::Ethtool;
use super::netif::{self, Cidr, Interface};
use super::pci;

/// How often a wait looks again.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Calls `look` until it finds something or the time is over.
fn wait_for<T>(timeout_ms: u64, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let started = Instant::now();
    let timeout = Duration::from_millis(timeout_ms);
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if started.elapsed() >= timeout {
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(super) fn wait_interface(command: &WaitInterface) -> Result<answers::Interface> {
    let found = wait_for(command.timeout_ms, || Ok(interface_of(command)))?;
    found.ok_or_else(|| nothing_bound(command))
}

fn interface_of(command: &WaitInterface) -> Option<answers::Interface> {
    netif::names().into_iter().find_map(|name| {
        let device = Path::new("/sys/class/net").join(&name).join("device");
        let bound = pci::linked_name(&device.join("driver"))?;
        let pci_address = pci::linked_name(&device)?;
        let wanted = command.pci_address.as_ref().is_none_or(|wanted| *wanted == pci_address);
        if bound != command.driver || !wanted {
            return None;
        }
        let interface = Interface::named(&name).ok()?;
        let mac = interface.mac().ok()?;
        Some(answers::Interface { interface: name, mac, driver: bound, pci_address })
    })
}

fn nothing_bound(command: &WaitInterface) -> AgentError {
    let devices: Vec<String> = pci::devices()
        .unwrap_or_default()
        .iter()
        .map(|device| {
            let driver = device.driver.as_deref().unwrap_or("no driver");
            format!("{} [{:04x}:{:04x}] {driver}", device.address, device.vendor, device.device)
        })
        .collect();
    let there =
        if devices.is_empty() { "there is no PCI device".to_owned() } else { devices.join("; ") };
    let known = Path::new("/sys/bus/pci/drivers").join(&command.driver).exists();
    let driver = if known { "is there but has no interface" } else { "is not loaded" };
    let of = match &command.pci_address {
        Some(address) => format!("{} at {address}", command.driver),
        None => command.driver.clone(),
    };
    AgentError::Other(format!(
        "no interface of {of} after {} ms: the driver {driver} (PCI devices: {there}); the console \
         may say why its probe failed",
        command.timeout_ms
    ))
}

pub(super) fn up(interface: &Interface, command: &LinkUp) -> Result<LinkIsUp> {
    let cidr = command.address_cidr.as_deref().map(Cidr::parse).transpose()?;
    let started = Instant::now();
    if let Some(cidr) = &cidr {
        interface.set_address(cidr)?;
    }
    interface.set_up(true)?;
    let carried = wait_for(command.timeout_ms, || {
        let state = state(interface)?;
        Ok(state.carrier.then_some(state))
    })?;
    let took_ms = started.elapsed().as_secs_f64() * 1e3;
    let state = match carried {
        Some(state) => state,
        None if command.timeout_ms == 0 => state(interface)?,
        None => {
            return Err(AgentError::Other(format!(
                "{} is up but has no carrier after {} ms",
                interface.name, command.timeout_ms
            )));
        }
    };
    Ok(LinkIsUp { took_ms, state })
}

pub(super) fn down(interface: &Interface) -> Result<answers::LinkState> {
    interface.set_up(false)?;
    state(interface)
}

pub(super) fn state(interface: &Interface) -> Result<answers::LinkState> {
    let up = interface.flags()? & libc::IFF_UP != 0;
    // The kernel refuses to tell these of an interface that is down, and says -1 for unknown.
    let speed: Option<i64> = interface.number("speed");
    let duplex = super::error::read(interface.sysfs("duplex")).ok();
    Ok(answers::LinkState {
        up,
        carrier: interface.number::<u8>("carrier") == Some(1),
        speed_mbps: speed.and_then(|speed| u32::try_from(speed).ok()),
        duplex: duplex.map(|text| text.trim().to_owned()).filter(|text| text != "unknown"),
        carrier_changes: interface.number("carrier_changes").unwrap_or(0),
    })
}

pub(super) fn renegotiate(interface: &Interface) -> Result<Done> {
    Ethtool::new(interface).renegotiate()?;
    Ok(Done {})
}

pub(super) fn self_test(interface: &Interface) -> Result<SelfTested> {
    let (passed, results) = Ethtool::new(interface).self_test()?;
    Ok(SelfTested { passed, results })
}

pub(super) fn neighbour(interface: &Interface, command: &Neighbour) -> Result<Done> {
    interface.set_neighbour(netif::parse_ip(&command.ip)?, netif::parse_mac(&command.mac)?)?;
    Ok(Done {})
}

pub(super) fn vlan_add(interface: &Interface, command: &VlanAdd) -> Result<VlanAdded> {
    if !(1..=4094).contains(&command.vlan) {
        return Err(AgentError::Invalid {
            what: "the VLAN id",
            expected: "1 to 4094",
            given: command.vlan.to_string(),
        });
    }
    let cidr = Cidr::parse(&command.address_cidr)?;
    let name = interface.add_vlan(command.vlan)?;
    let vlan = Interface::named(&name)?;
    if command.header_with_tag {
        vlan.keep_tag_in_header()?;
    }
    vlan.set_address(&cidr)?;
    vlan.set_up(true)?;
    Ok(VlanAdded { interface: name })
}

/// A membership of an IP group lasts as long as its socket.
#[derive(Default)]
pub(super) struct Memberships {
    sockets: Vec<UdpSocket>,
}

impl Memberships {
    pub(super) fn join(&mut self, interface: &Interface, command: &JoinMulticast) -> Result<Done> {
        if let Ok(group) = command.group.parse::<Ipv4Addr>() {
            self.join_group(interface, group)?;
        } else {
            interface.add_multicast(netif::parse_mac(&command.group)?)?;
        }
        Ok(Done {})
    }

    fn join_group(&mut self, interface: &Interface, group: Ipv4Addr) -> Result<()> {
        use nix::sys::socket::{IpMembershipRequest, setsockopt, sockopt};
        let what = || format!("join {group} on {}", interface.name);
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context(what)?;
        // The interface is chosen by its address, which it therefore must have.
        let local = address_of(&interface.name).ok_or_else(|| {
            AgentError::Other(format!("cannot {}: it has no address yet (link_up)", what()))
        })?;
        let request = IpMembershipRequest::new(group, Some(local));
        setsockopt(&socket, sockopt::IpAddMembership, &request).context(what)?;
        self.sockets.push(socket);
        Ok(())
    }
}

fn address_of(name: &str) -> Option<Ipv4Addr> {
    nix::ifaddrs::getifaddrs()
        .ok()?
        .filter(|entry| entry.interface_name == name)
        .find_map(|entry| Some(entry.address?.as_sockaddr_in()?.ip()))
}
