//! Each unmodified driver on the card that it drives, path by path: the cells of docs/fidelity.md.

mod paths;
mod table;

use warikomi_kernel::Image;
use warikomi_lab::inject::Backlog;
use warikomi_nic::NicOptions;
use warikomi_protocol::answers::InterruptKind;
use warikomi_session::{Session, SessionOptions};
use warikomi_testbench::skipped;

use crate::bring::{image, image_with_more_drivers, options_with, sink, started};

/// A driver and its card.
#[derive(Debug)]
struct Pair {
    driver: &'static str,
    /// The longest packet, without its Ethernet header, that is tried with it.
    mtu_bytes: u32,
    model: &'static str,
    /// What the PCI device says that it is.
    device: &'static str,
    /// What it asks for where all kinds can be had.
    interrupts: InterruptKind,
    backlog: Backlog,
    /// The kernel has it only if it was built with more drivers.
    further: bool,
    /// The highest speed of the line, in Mbit/s.
    mbps: u32,
    /// The name by which ethtool shows the card's own count of received frames, if it counts them.
    counter: Option<&'static str>,
}

impl Pair {
    /// How the driver is brought up, if this kernel has it and cards are attached so that its interrupts reach it.
    fn options(&self) -> Option<SessionOptions> {
        self.options_on(&if self.further { image_with_more_drivers()? } else { image() })
    }

    fn options_on(&self, image: &Image) -> Option<SessionOptions> {
        let options = options_with(image);
        if !options.bridge && self.interrupts == InterruptKind::Intx {
            skipped("virt-pci has no INTx");
            return None;
        }
        Some(SessionOptions {
            driver: self.driver.into(),
            nic: NicOptions::of(self.model),
            ..options
        })
    }

    /// A session that is up, and the other end keeps nothing.
    fn with_sink(&self) -> Option<Session> {
        Some(started(&self.options()?, sink()))
    }
}

/// A path that a driver or its card does not have, and why.
type Without = (&'static str, &'static str);

/// A driver, the paths that are tried, and those that are not.
struct Column {
    pair: &'static Pair,
    tried: &'static [&'static str],
    without: &'static [Without],
}

/// A test for each path of each driver, and the columns that they make.
macro_rules! cells {
    ($($name:ident: $pair:expr, [$($path:ident)*], without [$($absent:ident: $why:literal)*];)*) => {
        $(mod $name {
            use super::*;

            pub(super) const PAIR: Pair = $pair;

            $(#[test]
            fn $path() {
                if paths::$path(&PAIR).is_some() {
                    table::passed(&PAIR, stringify!($path));
                }
            })*
        })*

        const COLUMNS: &[Column] = &[$(Column {
            pair: &$name::PAIR,
            tried: &[$(stringify!($path)),*],
            without: &[$((stringify!($absent), $why)),*],
        }),*];
    };
}

cells! {
    rtl8168: Pair {
        driver: "r8169",
        mtu_bytes: 6_122,
        model: "rtl8168",
        device: "0x8168",
        interrupts: InterruptKind::Msi,
        backlog: Backlog::Taken,
        further: false,
        mbps: 1_000,
        counter: Some("rx_packets"),
    }, [probe link_flap receive transmit jumbo vlan segmentation statistics overrun reload unbind suspend], without [
        self_test: "the driver has none"
    ];

    rtl8139: Pair {
        driver: "8139too",
        mtu_bytes: 1_500,
        model: "rtl8139",
        device: "0x8139",
        interrupts: InterruptKind::Intx,
        backlog: Backlog::LeftBeyond(64),
        further: false,
        mbps: 100,
        counter: None,
    }, [probe link_flap receive transmit vlan statistics overrun reload unbind suspend], without [
        jumbo: "its four slots and its driver take no more than 1,514 bytes"
        segmentation: "the card does not segment"
        self_test: "the driver has none"
    ];

    rtl8139cp: Pair {
        driver: "8139cp",
        mtu_bytes: 4_078,
        model: "rtl8139cp",
        device: "0x8139",
        interrupts: InterruptKind::Intx,
        backlog: Backlog::Taken,
        further: true,
        mbps: 100,
        counter: Some("rx_ok"),
    }, [probe link_flap receive transmit jumbo vlan segmentation statistics overrun reload unbind suspend], without [
        self_test: "the driver has none"
    ];

    e1000e: Pair {
        driver: "e1000e",
        mtu_bytes: 9_000,
        model: "e1000e",
        device: "0x10d3",
        interrupts: InterruptKind::MsiX,
        backlog: Backlog::Taken,
        further: true,
        mbps: 1_000,
        counter: Some("rx_packets"),
    }, [probe link_flap receive transmit jumbo vlan segmentation statistics self_test overrun reload unbind suspend], without [];

    igb: Pair {
        driver: "igb",
        mtu_bytes: 9_000,
        model: "igb",
        device: "0x10c9",
        interrupts: InterruptKind::MsiX,
        further: true,
        mbps: 1_000,
        counter: Some("rx_packets"),
        backlog: Backlog::Taken,
    }, [probe link_flap receive transmit jumbo vlan segmentation statistics self_test overrun reload unbind suspend], without [];
}
