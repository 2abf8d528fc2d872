//! PCI functions, as sysfs shows them.

use std::fs;
use std::path::{Path, PathBuf};

use warikomi_protocol::answers::PciDevice;

use super::error::{self, Context, Result};

const DEVICES: &str = "/sys/bus/pci/devices";

/// Every function that the kernel found, by address.
pub(super) fn devices() -> Result<Vec<PciDevice>> {
    let entries = match fs::read_dir(DEVICES) {
        // No PCI bus was registered: there is no device.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.context(|| format!("list {DEVICES}"))?,
    };
    let mut devices = Vec::new();
    for entry in entries {
        devices.push(device(&entry.context(|| format!("list {DEVICES}"))?.path())?);
    }
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(devices)
}

fn device(path: &Path) -> Result<PciDevice> {
    Ok(PciDevice {
        address: file_name(path),
        vendor: narrow(hexadecimal(&path.join("vendor"))?),
        device: narrow(hexadecimal(&path.join("device"))?),
        revision: narrow(hexadecimal(&path.join("revision"))?),
        class: hexadecimal(&path.join("class"))?,
        driver: linked_name(&path.join("driver")),
    })
}

/// The kernel prints these in their own width, so nothing is lost; if it ever does, zero shows it.
fn narrow<T: TryFrom<u32> + Default>(value: u32) -> T {
    T::try_from(value).unwrap_or_default()
}

fn hexadecimal(path: &PathBuf) -> Result<u32> {
    let text = error::read(path)?;
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).map_err(|_| error::AgentError::Invalid {
        what: "a PCI id in sysfs",
        expected: "a hexadecimal number",
        given: text.clone(),
    })
}

/// The last part of what a symbolic link points to.
pub(super) fn linked_name(link: &Path) -> Option<String> {
    fs::read_link(link).ok().map(|target| file_name(&target))
}

/// The last part of a path.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
