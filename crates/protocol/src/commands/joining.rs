//! Commands that part interfaces from each other, or join them: network namespaces, bridges, bonds, routes. A kernel
//! that lacks one of these refuses, and the error has its own words.

use serde::{Deserialize, Serialize};

command! {
    /// Makes a network namespace, with its loopback interface up; at most [`MOST_NAMESPACES`] of them. It stays until
    /// the guest stops.
    NamespaceAdd {
        /// What it is called from now on: 1 to 15 letters, digits, `_`, `-` and `.`.
        namespace: String,
    }
}

command! {
    /// Moves an interface out of the namespace that commands are about into another. It is down then, without addresses.
    NamespaceMove {
        /// Name of the interface.
        interface: String,
        /// The namespace that it is moved into.
        namespace: String,
    }
}

command! {
    /// All later commands are about this namespace: its interfaces, addresses, routes and sockets. What goes on beside
    /// them (a reception, work) stays where it was started.
    NamespaceEnter {
        /// The namespace, or `None` for the one that the guest began in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
    }
}

command! {
    /// Makes a bridge (`bridge.ko`, which must be loaded), without a spanning tree, and brings it and its ports up.
    BridgeAdd {
        /// Name of the bridge's own interface.
        bridge: String,
        /// Its ports, interfaces that are there.
        ports: Vec<String>,
    }
}

command! {
    /// Makes a bond (`bonding.ko`, which must be loaded), and brings it and its slaves up.
    BondAdd {
        /// Name of the bond's own interface.
        bond: String,
        /// How it uses its slaves.
        mode: BondMode,
        /// Its slaves, interfaces that are there. Each is taken down first.
        slaves: Vec<String>,
        /// How often it looks at the carriers of its slaves, in milliseconds, 1 to 10,000.
        miimon_ms: u32,
    }
}

/// How a bond uses its slaves, as `Documentation/networking/bonding.rst` calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// One slave sends and receives; another takes over when it has no carrier any more.
    ActiveBackup,
    /// Each slave that has a carrier sends every packet.
    Broadcast,
}

command! {
    /// Makes a route to a network behind a gateway.
    RouteAdd {
        /// IPv4 address and prefix length of the network, as `10.9.2.0/24`.
        destination_cidr: String,
        /// IPv4 address of the gateway, which must be in a network of an interface.
        gateway: String,
    }
}

/// Namespaces besides the one that the guest began in.
pub const MOST_NAMESPACES: usize = 16;
