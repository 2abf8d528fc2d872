//! What has to be there before the first request: file systems, loopback, generous limits.

use std::path::Path;
use std::process::ExitCode;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use warikomi_protocol::Ready;

use super::error::{self, Context};
use super::{bridge, netif, pci};

/// Every setting raised at the start: what it is, where, and to what. A queue of the kernel's own
/// must not be what loses a datagram when the driver is under test.
const LIMITS: [(&str, &str); 4] = [
    ("/proc/sys/net/core/rmem_max", "268435456"),
    ("/proc/sys/net/core/wmem_max", "67108864"),
    ("/proc/sys/net/core/netdev_max_backlog", "100000"),
    // 4 KiB pages: 1, 2 and 3 quarters of a 256 MiB guest would be the default's sixteenths.
    ("/proc/sys/net/ipv4/udp_mem", "65536 131072 262144"),
];

/// Where the kernel's tracer is seen; kernels without one do not have this directory.
const TRACER: &str = "/sys/kernel/tracing";

/// Mounts, raises, brings up. What fails is returned, not fatal: the request that needs it will
/// say so too.
pub(super) fn set_up() -> Vec<String> {
    let mut warnings = Vec::new();
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")]
    {
        if let Err(error) = mount_one(kind, target) {
            warnings.push(error.to_string());
        }
    }
    if let Err(error) = mount_tracer() {
        warnings.push(error.to_string());
    }
    for (path, value) in LIMITS {
        if let Err(error) = error::write(path, value) {
            warnings.push(error.to_string());
        }
    }
    if let Err(error) = netif::Interface::named("lo").and_then(|lo| lo.set_up(true)) {
        warnings.push(error.to_string());
    }
    if let Err(error) = bridge::load(&kernel_release()) {
        warnings.push(error.to_string());
    }
    warnings
}

/// The kernel's tracer, where it has one.
fn mount_tracer() -> error::Result<()> {
    if Path::new(TRACER).is_dir() { mount_one("tracefs", TRACER) } else { Ok(()) }
}

/// Mounts sysfs as the network namespace that this thread is in has it.
pub(super) fn mount_sysfs_anew() -> error::Result<()> {
    umount2("/sys", MntFlags::MNT_DETACH).context(|| "unmount /sys".to_owned())?;
    mount_one("sysfs", "/sys")?;
    mount_tracer()
}

fn mount_one(kind: &str, target: &str) -> error::Result<()> {
    // The directories are in the initramfs; an older image may lack one.
    if !Path::new(target).is_dir() {
        std::fs::create_dir_all(target).context(|| format!("make {target}"))?;
    }
    match mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>) {
        // The kernel may have mounted devtmpfs itself.
        Err(nix::errno::Errno::EBUSY) => Ok(()),
        result => result.context(|| format!("mount {kind} at {target}")),
    }
}

/// What the first event tells.
pub(super) fn ready(mut warnings: Vec<String>) -> Ready {
    let pci_devices = pci::devices().unwrap_or_else(|error| {
        warnings.push(error.to_string());
        Vec::new()
    });
    Ready {
        kernel_release: kernel_release(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: uptime_ms(),
        memory_bytes: memory_bytes(),
        pci_devices,
        warnings,
    }
}

/// `uname -r`.
pub(super) fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Since the kernel started.
pub(super) fn uptime_ms() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        time.tv_sec().unsigned_abs() * 1000 + time.tv_nsec().unsigned_abs() / 1_000_000
    })
}

fn memory_bytes() -> u64 {
    let text = error::read("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.unwrap_or(0) * 1024
}

/// Ends the guest. Returns only if the kernel refuses, which then panics as its first program
/// exits.
pub(super) fn power_off() -> ExitCode {
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("warikomi-guest: cannot power off: {error}");
    ExitCode::FAILURE
}
