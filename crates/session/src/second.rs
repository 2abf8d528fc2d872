//! A second card in the same guest, to whose wire the guest's kernel forwards what comes at the first.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use warikomi_inject::{Departures, FAR_HOST, Forwarding};
use warikomi_nic::{MakeNic, Nic};
use warikomi_protocol::commands::{BridgeAdd, Configure, LinkUp, LoadDriver, Neighbour, WriteFile};
use warikomi_target::{CardId, Target, TargetError};
use warikomi_wire::peer::{Judged, JudgingPeer};

use crate::error::SessionError;
use crate::interface::{
    BIND_TIMEOUT, LINK_TIMEOUT, PREFIX_BITS, checked_driver, interface_of, no_link, not_bound,
};
use crate::options::{SecondCard, SessionOptions};

/// The guest's own address in the network of the second card.
const SECOND_GUEST_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);

/// The bridge's interface, and its module.
const BRIDGE: &str = "br0";
const BRIDGE_MODULE: &str = "bridge";

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
        self.forwarding == Forwarding::Bridge || warikomi_kernel::needs_more_drivers(&self.driver)
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
        let routes = self.forwarding == Forwarding::Route;
        let up = LinkUp {
            interface: Some(interface.clone()),
            address_cidr: routes.then(|| format!("{SECOND_GUEST_IP}/{PREFIX_BITS}")),
            timeout_ms: LINK_TIMEOUT.as_millis() as u64,
        };
        target.ask(up, LINK_TIMEOUT).map_err(no_link)?;
        // Later commands are about the first card unless they name another.
        let first = interface_of(target, &options.driver, CardId::FIRST)?;
        match self.forwarding {
            Forwarding::Route => route_to(target, &interface)?,
            Forwarding::Bridge => bridge(target, [&first, &interface])?,
        }
        Ok(Exit { forwarding: self.forwarding, interface, departures })
    }
}

fn route_to(target: &mut dyn Target, interface: &str) -> Result<(), TargetError> {
    let (ip, mac) = FAR_HOST;
    target.ask(Neighbour::of(Some(interface), ip, mac), Duration::ZERO)?;
    let forward = WriteFile { path: "/proc/sys/net/ipv4/ip_forward".into(), text: "1".into() };
    target.ask(forward, Duration::ZERO).map(|_| ())
}

fn bridge(target: &mut dyn Target, ports: [&str; 2]) -> Result<(), TargetError> {
    let load = LoadDriver { name: BRIDGE_MODULE.into(), params: vec![] };
    target.ask(load, BIND_TIMEOUT).map_err(|error| match error {
        TargetError::Refused { command, message, console } => TargetError::Refused {
            command,
            message: format!(
                "{message}; `warikomi kernel build --more-drivers` makes kernels that have it"
            ),
            console,
        },
        other => other,
    })?;
    let ports = ports.map(str::to_owned).to_vec();
    target.ask(BridgeAdd { bridge: BRIDGE.into(), ports }, BIND_TIMEOUT).map(|_| ())
}
