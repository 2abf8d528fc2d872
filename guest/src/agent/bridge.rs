//! Our PCI bridge, where the card is behind one.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::kmod::{ModuleInitFlags, finit_module};

use super::error::{AgentError, Context, Result};

/// The virtio device that the bridge binds to, as sysfs shows it: 1235.
const DEVICE: &str = "0x04d3";
const VIRTIO_DEVICES: &str = "/sys/bus/virtio/devices";
/// The card, on the bridge's bus.
const CARD: &str = "/sys/bus/pci/devices/0000:01:00.0";
const PATIENCE: Duration = Duration::from_secs(15);

/// Loads it into this kernel, if there is a device for it, and waits for the card.
pub(super) fn load(kernel_release: &str) -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let path = format!("/lib/modules/{kernel_release}/extra/warikomi_bridge.ko");
    let file = File::open(&path).context(|| format!("open {path}"))?;
    finit_module(&file, c"", ModuleInitFlags::empty()).context(|| format!("load {path}"))?;
    let begun = Instant::now();
    while !Path::new(CARD).exists() {
        if begun.elapsed() > PATIENCE {
            let within = PATIENCE.as_secs();
            return Err(AgentError::Other(format!("{CARD} did not appear within {within} s")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn has_device() -> bool {
    let Ok(entries) = fs::read_dir(VIRTIO_DEVICES) else { return false };
    entries.flatten().any(|entry| {
        fs::read_to_string(entry.path().join("device")).is_ok_and(|id| id.trim() == DEVICE)
    })
}
