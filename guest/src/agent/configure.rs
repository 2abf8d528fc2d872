//! Settings of an interface: change what is asked, report what is in force.

use std::fmt::Display;

use warikomi_protocol::answers::{Configured, Settings};
use warikomi_protocol::commands::Configure;

use super::boot;
use super::error::{self, AgentError, Result};
use super::ethtool::Ethtool;
use super::netif::{self, Interface};

pub(super) fn configure(interface: &Interface, command: &Configure) -> Result<Configured> {
    let before = settings(interface)?;
    apply(interface, command)?;
    Ok(Configured { before, after: settings(interface)? })
}

fn apply(interface: &Interface, command: &Configure) -> Result<()> {
    if let Some(address) = &command.address {
        interface.set_mac(netif::parse_mac(address)?)?;
    }
    if let Some(mtu) = command.mtu {
        interface.set_mtu(mtu)?;
    }
    let mut offloads = command.offloads.clone();
    if let Some(gro) = command.gro {
        offloads.insert("gro".to_owned(), gro);
    }
    if !offloads.is_empty() {
        Ethtool::new(interface).set_features(&offloads)?;
    }
    if let Some(coalesce) = &command.coalesce {
        Ethtool::new(interface).set_coalesce(coalesce)?;
    }
    if let Some(channels) = command.channels {
        Ethtool::new(interface).set_channels(channels)?;
    }
    if let Some(on) = command.steer_by_udp_ports {
        Ethtool::new(interface).steer_by_udp_ports(on)?;
    }
    set_sysfs(interface, "napi_defer_hard_irqs", command.napi_defer_hard_irqs)?;
    set_sysfs(interface, "gro_flush_timeout", command.gro_flush_timeout_ns)?;
    set_sysfs(interface, "threaded", command.threaded_napi.map(u8::from))?;
    if let Some(on) = command.promiscuous {
        interface.set_flag(libc::IFF_PROMISC, on)?;
    }
    if let Some(on) = command.allmulti {
        interface.set_flag(libc::IFF_ALLMULTI, on)?;
    }
    Ok(())
}

fn set_sysfs(interface: &Interface, file: &str, value: Option<impl Display>) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let path = interface.sysfs(file);
    if !path.exists() {
        return Err(AgentError::Other(format!(
            "this kernel ({}) has no setting {file}",
            boot::kernel_release()
        )));
    }
    error::write(path, &value.to_string())
}

fn settings(interface: &Interface) -> Result<Settings> {
    let flags = interface.flags()?;
    let offloads = Ethtool::new(interface).features()?;
    Ok(Settings {
        mtu: interface.number("mtu").unwrap_or(0),
        address: interface.mac()?,
        gro: offloads.get("rx-gro").copied().unwrap_or(false),
        napi_defer_hard_irqs: interface.number("napi_defer_hard_irqs"),
        gro_flush_timeout_ns: interface.number("gro_flush_timeout"),
        threaded_napi: interface.number::<u8>("threaded").map(|threaded| threaded != 0),
        coalesce: Ethtool::new(interface).coalesce()?,
        channels: Ethtool::new(interface).channels()?,
        offloads,
        promiscuous: flags & libc::IFF_PROMISC != 0,
        allmulti: flags & libc::IFF_ALLMULTI != 0,
    })
}
