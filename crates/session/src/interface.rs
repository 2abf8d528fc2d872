//! An interface of the guest: bound to its driver, with its address and a carrier.

use std::net::Ipv4Addr;
use std::time::Duration;

use warikomi_inject::{GUEST_IP, NETWORK_IP, NETWORK_MAC};
use warikomi_nic::Nic;
use warikomi_protocol::commands::{LinkState, LinkUp, Neighbour, WaitInterface};
use warikomi_target::{CardId, Target, TargetError};

use crate::error::SessionError;

/// Length of the guest's network prefix in bits.
pub(crate) const PREFIX_BITS: u8 = 24;

/// How long a driver may take to bind once it is loaded.
pub(crate) const BIND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the link may take to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// An error unless this driver of Linux drives the card.
pub(crate) fn checked_driver(nic: &dyn Nic, driver: &str) -> Result<(), SessionError> {
    let model = nic.info();
    if model.linux_drivers.contains(&driver) {
        return Ok(());
    }
    Err(SessionError::WrongDriver {
        driver: driver.to_owned(),
        model: model.name,
        choices: model.linux_drivers,
    })
}

/// Waits until a driver has made its interface.
pub(crate) fn wait_interface(target: &mut dyn Target, driver: &str) -> Result<(), TargetError> {
    let wait = WaitInterface::of(driver, BIND_TIMEOUT.as_millis() as u64);
    target.ask(wait, BIND_TIMEOUT).map(|_| ()).map_err(|error| not_bound(error, driver))
}

/// The interface that a driver made for this card, from now on the default of all commands.
pub(crate) fn interface_of(
    target: &mut dyn Target,
    driver: &str,
    card: CardId,
) -> Result<String, TargetError> {
    let pci_address = Some(card.pci_address());
    let timeout_ms = BIND_TIMEOUT.as_millis() as u64;
    let wait = WaitInterface { driver: driver.to_owned(), pci_address, timeout_ms };
    let found = target.ask(wait, BIND_TIMEOUT).map_err(|error| not_bound(error, driver))?;
    Ok(found.interface)
}

pub(crate) fn not_bound(error: TargetError, driver: &str) -> TargetError {
    match error {
        TargetError::Refused { message, console, .. } => {
            TargetError::NotBound { driver: driver.into(), message, console }
        }
        other => other,
    }
}

/// Gives the interface its address, brings it up and waits for the carrier.
pub fn link_up(target: &mut dyn Target) -> Result<(), TargetError> {
    up(target, None, Some(GUEST_IP))?;
    target.ask(Neighbour::of(None, NETWORK_IP, NETWORK_MAC), Duration::ZERO).map(|_| ())
}

/// Brings an interface up, with this address if one is given, and waits for its carrier.
pub(crate) fn up(
    target: &mut dyn Target,
    interface: Option<&str>,
    address: Option<Ipv4Addr>,
) -> Result<(), TargetError> {
    let up = LinkUp {
        interface: interface.map(str::to_owned),
        address_cidr: address.map(|address| format!("{address}/{PREFIX_BITS}")),
        timeout_ms: LINK_TIMEOUT.as_millis() as u64,
    };
    target.ask(up, LINK_TIMEOUT).map(|_| ()).map_err(no_link)
}

/// Waits until the driver says that the link is up.
pub(crate) fn wait_link(target: &mut dyn Target) -> Result<(), TargetError> {
    wait_carrier(target, "the driver reports no carrier", |target| {
        Ok(target.ask(LinkState { interface: None }, Duration::ZERO)?.carrier)
    })
}

/// Waits until there is a carrier; `missing` says who sees none.
pub(crate) fn wait_carrier(
    target: &mut dyn Target,
    missing: &str,
    mut is_there: impl FnMut(&mut dyn Target) -> Result<bool, TargetError>,
) -> Result<(), TargetError> {
    const LOOK: Duration = Duration::from_millis(5);
    for _ in 0..LINK_TIMEOUT.as_millis() / LOOK.as_millis() {
        if is_there(target)? {
            return Ok(());
        }
        target.serve_for(LOOK)?;
    }
    let message = format!("{missing} after {} s", LINK_TIMEOUT.as_secs());
    Err(TargetError::NoLink { message, console: target.console() })
}

fn no_link(error: TargetError) -> TargetError {
    match error {
        TargetError::Refused { message, console, .. } => TargetError::NoLink { message, console },
        other => other,
    }
}
