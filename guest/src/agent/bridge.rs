//! Our PCI bridge, where cards are behind one.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::kmod::{ModuleInitFlags, finit_module};

use super::error::{AgentError, Context, Result};

/// The virtio device that the bridge binds to, as sysfs shows it: 1235.
const DEVICE: &str = "0x04d3";
const VIRTIO_DEVICES: &str = "/sys/bus/virtio/devices";
const PATIENCE: Duration = Duration::from_secs(15);

/// Loads it into this kernel, if there is a device for it, and waits for the cards: one for each device.
pub(super) fn load(kernel_release: &str) -> Result<()> {
    let cards = devices();
    if cards == 0 {
        return Ok(());
    }
    let path = format!("/lib/modules/{kernel_release}/extra/warikomi_bridge.ko");
    let file = File::open(&path).context(|| format!("open {path}"))?;
    finit_module(&file, c"", ModuleInitFlags::empty()).context(|| format!("load {path}"))?;
    let begun = Instant::now();
    // Each is alone on a bus of the bridge's, which begin behind that of virt-pci.
    for bus in 1..=cards {
        let card = format!("/sys/bus/pci/devices/0000:{bus:02x}:00.0");
        while !Path::new(&card).exists() {
            if begun.elapsed() > PATIENCE {
                let within = PATIENCE.as_secs();
                return Err(AgentError::Other(format!("{card} did not appear within {within} s")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn devices() -> usize {
    let Ok(entries) = fs::read_dir(VIRTIO_DEVICES) else { return 0 };
    let ids = entries.flatten().map(|entry| fs::read_to_string(entry.path().join("device")));
    ids.filter(|id| id.as_ref().is_ok_and(|id| id.trim() == DEVICE)).count()
}
