//! A second card in the same guest, to whose wire the guest's kernel forwards what comes at the first.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use warikomi_inject::{Departures, FAR_HOST, Forwarding};
use warikomi_nic::{MakeNic, Nic};
use warikomi_protocol::commands::{
    BondAdd, BondMode, BridgeAdd, Configure, LoadDriver, Neighbour, ReadFile, WriteFile,
};
use warikomi_target::{CardId, Target, TargetError};
use warikomi_wire::peer::{Judged, JudgingPeer};

use crate::error::SessionError;
use crate::interface::{BIND_TIMEOUT, checked_driver, interface_of, not_bound, up, wait_carrier};
use crate::options::{SecondCard, SessionOptions};

/// The guest's own address in the network of the second card.
const SECOND_GUEST_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);

/// The bridge's interface, and its module.
const BRIDGE: &str = "br0";
const BRIDGE_MODULE: &str = "bridge";

/// The same of the bond, and how often it looks at its cards' carriers.
const BOND: &str = "bond0";
const BOND_MODULE: &str = "bonding";
const MIIMON_MS: u32 = 10;

/// A second card that is up.
pub struct Exit {
    /// How packets come to it.
    pub forwarding: Forwarding,
    /// Its interface.
    pub interface: String,
    /// What leaves it.
    pub departures: Judged<Departures>,
}

impl Exit {
    /// Which card it is.
    pub const CARD: CardId = CardId(1);
}

impl SecondCard {
    /// Whether it needs a kernel that `kernel build --more-drivers` made.
    pub(crate) fn needs_more_drivers(&self) -> bool {
        self.forwarding != Forwarding::Route || warikomi_kernel::needs_more_drivers(&self.driver)
    }

    /// The card on its wire, and who judges what passes there.
    pub(crate) fn make(
        &self,
        make_nic: MakeNic,
    ) -> Result<(Box<dyn Nic>, Judged<Departures>), SessionError> {
        let wire = self.wire.build().map_err(SessionError::Wire)?;
        let (peer, departures) = JudgingPeer::new(Departures::default(), wire);
        let nic = make_nic(&self.nic, Box::new(peer))?;
        checked_driver(&*nic, &self.driver)?;
        Ok((nic, departures))
    }

    /// What a result says about it.
    pub(crate) fn settings(&self) -> [(String, Value); 3] {
        let said = [
            ("through", self.forwarding.name()),
            ("second_driver", &*self.driver),
            ("second_model", &*self.nic.model),
        ];
        said.map(|(name, value)| (name.to_owned(), value.into()))
    }

    /// Loads its driver, brings its link up, and has the kernel forward to it what comes at the first card, which is up.
    pub(crate) fn bring_up(
        &self,
        target: &mut dyn Target,
        options: &SessionOptions,
        departures: Judged<Departures>,
    ) -> Result<Exit, TargetError> {
        let settings = &options.settings;
        let load = LoadDriver { name: self.driver.clone(), params: vec![] };
        target.ask(load, BIND_TIMEOUT).map_err(|error| not_bound(error, &self.driver))?;
        let interface = interface_of(target, &self.driver, Exit::CARD)?;
        let wanted = Configure {
            interface: Some(interface.clone()),
            mtu: settings.mtu,
            gro: settings.gro,
            napi_defer_hard_irqs: settings.napi_defer_hard_irqs,
            gro_flush_timeout_ns: settings.gro_flush_timeout_ns,
            ..Configure::report_only()
        };
        target.ask(wanted, Duration::ZERO)?;
        let address = (self.forwarding == Forwarding::Route).then_some(SECOND_GUEST_IP);
        up(target, Some(&interface), address)?;
        // Later commands are about the first card unless they name another.
        let first = interface_of(target, &options.driver, CardId::FIRST)?;
        match self.forwarding {
            Forwarding::Route => route_to(target, &interface)?,
            Forwarding::Bridge => bridge(target, [&first, &interface])?,
            Forwarding::Bond => bond(target, [&first, &interface], settings.mtu)?,
        }
        Ok(Exit { forwarding: self.forwarding, interface, departures })
    }
}

fn write(target: &mut dyn Target, path: &str, text: &str) -> Result<(), TargetError> {
    let write = WriteFile { path: path.into(), text: text.into() };
    target.ask(write, Duration::ZERO).map(|_| ())
}

fn route_to(target: &mut dyn Target, interface: &str) -> Result<(), TargetError> {
    let (ip, mac) = FAR_HOST;
    target.ask(Neighbour::of(Some(interface), ip, mac), Duration::ZERO)?;
    write(target, "/proc/sys/net/ipv4/ip_forward", "1")
}

fn bridge(target: &mut dyn Target, ports: [&str; 2]) -> Result<(), TargetError> {
    load(target, BRIDGE_MODULE, &[])?;
    let ports = ports.map(str::to_owned).to_vec();
    target.ask(BridgeAdd { bridge: BRIDGE.into(), ports }, BIND_TIMEOUT).map(|_| ())
}

/// The first card keeps its address, which receives nothing any more: all that comes in is the bond's.
fn bond(target: &mut dyn Target, slaves: [&str; 2], mtu: Option<u32>) -> Result<(), TargetError> {
    load(target, BOND_MODULE, &["max_bonds=0"])?;
    let add = BondAdd {
        bond: BOND.into(),
        mode: BondMode::Broadcast,
        slaves: slaves.map(str::to_owned).to_vec(),
        miimon_ms: MIIMON_MS,
    };
    target.ask(add, BIND_TIMEOUT)?;
    // Slaves get the bond's MTU when they join it, so the one that is wanted is set once more.
    let wanted = Configure { interface: Some(BOND.into()), mtu, ..Configure::report_only() };
    target.ask(wanted, Duration::ZERO)?;
    up(target, Some(BOND), Some(SECOND_GUEST_IP))?;
    for slave in slaves {
        wait_for_carrier(target, slave)?;
    }
    // Packets leave by the interface that they came by, of which a router would tell their sender.
    for interface in ["all", BOND] {
        write(target, &format!("/proc/sys/net/ipv4/conf/{interface}/send_redirects"), "0")?;
    }
    route_to(target, BOND)
}

/// Waits until the bond has seen that this slave has a carrier.
fn wait_for_carrier(target: &mut dyn Target, slave: &str) -> Result<(), TargetError> {
    let path = format!("/sys/class/net/{slave}/bonding_slave/mii_status");
    wait_carrier(target, &format!("{BOND} sees no carrier of {slave}"), |target| {
        let read = ReadFile { path: path.clone() };
        Ok(target.ask(read, Duration::ZERO)?.text.trim() == "up")
    })
}

/// Loads a module that only some kernels have.
fn load(target: &mut dyn Target, module: &str, params: &[&str]) -> Result<(), TargetError> {
    let params = params.iter().map(|&param| param.to_owned()).collect();
    let load = LoadDriver { name: module.into(), params };
    target.ask(load, BIND_TIMEOUT).map(|_| ()).map_err(|error| match error {
        TargetError::Refused { command, message, console } => TargetError::Refused {
            command,
            message: format!(
                "{message}; `warikomi kernel build --more-drivers` makes kernels that have it"
            ),
            console,
        },
        other => other,
    })
}
