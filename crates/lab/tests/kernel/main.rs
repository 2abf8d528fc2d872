//! A real Linux kernel, its unmodified driver, and our NIC.
//!
//! The kernel is the one that `warikomi kernel build` made; `WARIKOMI_TEST_KERNEL` chooses the
//! version, such as 6.1. Each test starts a kernel of its own. They need both cores, so they run
//! one at a time (`--test-threads=1`).

mod accuracy;
mod ask;
mod bridge;
mod bring;
mod cards;
mod cost;
mod device;
mod drivers;
mod e1000e;
mod faults;
mod forwarding;
mod guest;
mod hotplug;
mod igb;
mod joined;
mod known_bugs;
#[path = "../common/options.rs"]
mod options;
#[path = "../common/perfect.rs"]
mod perfect;
mod receive;
#[path = "../common/release.rs"]
mod release;
mod replace;
mod replay;
mod rtl8139;
mod sandbox;
mod send;
mod sizes;
mod strategies;
mod stress;
mod strict;
mod sweep;
mod transmit;
mod trouble;
mod vectors;
