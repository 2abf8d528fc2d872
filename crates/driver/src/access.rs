//! What every driver does with its device's configuration space and registers; for drivers that live
//! elsewhere, too.

use warikomi_pci::{Mmio, Width};

use crate::{DriverError, DriverInfo};

/// Reads of a register that should change soon, before it is given up.
pub const PATIENCE: usize = 1_000;
/// Capabilities that fit into configuration space (PCI 3.0, 6.7).
const MOST_CAPABILITIES: usize = 48;
/// Where messages go. Nobody listens there: the support side takes any message for the interrupt.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

/// Configuration space: PCI Local Bus Specification 3.0, chapter 6.
mod config {
    pub(super) const ID: u16 = 0x00;
    pub(super) const COMMAND: u16 = 0x04;
    pub(super) const CAPABILITIES: u16 = 0x34;

    // Command register (6.2.2).
    pub(super) const MEMORY: u64 = 1 << 1;
    pub(super) const BUS_MASTER: u64 = 1 << 2;
    pub(super) const INTX_DISABLE: u64 = 1 << 10;

    // The MSI capability (6.8.1): control word at 2, address from 4 on.
    pub(super) const MSI_ID: u64 = 0x05;
    pub(super) const MSI_ENABLE: u64 = 1 << 0;
    pub(super) const MSI_64BIT: u64 = 1 << 7;

    // The MSI-X capability (6.8.2): control word at 2, the table's place at 4; an entry is address, data and
    // vector control.
    pub(super) const MSIX_ID: u64 = 0x11;
    pub(super) const MSIX_ENABLE: u64 = 1 << 15;
    pub(super) const MSIX_LAST: u64 = 0x7ff;
    pub(super) const MSIX_ENTRY: u64 = 16;
}

/// Without bus mastering a device reaches no memory even if it does not listen to its registers.
pub fn cut_off(mmio: &mut dyn Mmio) -> Result<(), DriverError> {
    let command = config::MEMORY | config::INTX_DISABLE;
    Ok(mmio.config_write(config::COMMAND, Width::B2, command)?)
}

/// Makes sure of the device, and switches decoding, bus mastering and its interrupts on: by MSI-X if it has that, each
/// vector with its number as data; otherwise one by MSI, and if it has no messages, its pin.
pub fn enable(mmio: &mut dyn Mmio, info: &DriverInfo) -> Result<(), DriverError> {
    let id = mmio.config_read(config::ID, Width::B4)?;
    let (vendor, device) = (id as u16, (id >> 16) as u16);
    if !info.devices.contains(&(vendor, device)) {
        return Err(DriverError::WrongDevice { driver: info.name, vendor, device });
    }
    let command = config::MEMORY | config::BUS_MASTER | config::INTX_DISABLE;
    if let Some((at, control)) = capability(mmio, config::MSIX_ID)? {
        // The table is in a BAR, which answers from here on.
        mmio.config_write(config::COMMAND, Width::B2, command)?;
        return enable_vectors(mmio, at, control);
    }
    if let Some((at, control)) = capability(mmio, config::MSI_ID)? {
        enable_messages(mmio, at, control)?;
        return Ok(mmio.config_write(config::COMMAND, Width::B2, command)?);
    }
    let by_pin = config::MEMORY | config::BUS_MASTER;
    Ok(mmio.config_write(config::COMMAND, Width::B2, by_pin)?)
}

/// Where a capability is, and its control word.
fn capability(mmio: &mut dyn Mmio, id: u64) -> Result<Option<(u16, u64)>, DriverError> {
    let mut at = mmio.config_read(config::CAPABILITIES, Width::B1)? & !3;
    for _ in 0..MOST_CAPABILITIES {
        if at == 0 {
            break;
        }
        let header = mmio.config_read(at as u16, Width::B4)?;
        if header & 0xff == id {
            return Ok(Some((at as u16, header >> 16)));
        }
        at = header >> 8 & 0xfc;
    }
    Ok(None)
}

fn enable_vectors(mmio: &mut dyn Mmio, at: u16, control: u64) -> Result<(), DriverError> {
    let place = mmio.config_read(at + 4, Width::B4)?;
    let (bar, table) = ((place & 7) as u8, place & !7);
    for vector in 0..=control & config::MSIX_LAST {
        let entry = table + config::MSIX_ENTRY * vector;
        let words = [MESSAGE_ADDRESS & 0xffff_ffff, MESSAGE_ADDRESS >> 32, vector, 0];
        for (offset, word) in (entry..).step_by(4).zip(words) {
            mmio.bar_write(bar, offset, Width::B4, word)?;
        }
    }
    Ok(mmio.config_write(at + 2, Width::B2, config::MSIX_ENABLE)?)
}

fn enable_messages(mmio: &mut dyn Mmio, at: u16, control: u64) -> Result<(), DriverError> {
    mmio.config_write(at + 4, Width::B4, MESSAGE_ADDRESS & 0xffff_ffff)?;
    let data = if control & config::MSI_64BIT != 0 {
        mmio.config_write(at + 8, Width::B4, MESSAGE_ADDRESS >> 32)?;
        at + 12
    } else {
        at + 8
    };
    mmio.config_write(data, Width::B2, 0)?;
    Ok(mmio.config_write(at + 2, Width::B2, config::MSI_ENABLE)?)
}

/// Reads a register until `done` says that it has changed, a bounded number of times; `what` is named when it
/// does not.
pub fn wait_until(
    mmio: &mut dyn Mmio,
    what: &'static str,
    register: u64,
    width: Width,
    done: impl Fn(u64) -> bool,
) -> Result<(), DriverError> {
    for _ in 0..PATIENCE {
        if done(mmio.read(register, width)?) {
            return Ok(());
        }
    }
    Err(DriverError::TimedOut { what })
}

/// Writes a register of a byte.
#[inline]
pub fn write8(mmio: &mut dyn Mmio, register: u64, value: u8) -> Result<(), DriverError> {
    Ok(mmio.write(register, Width::B1, value.into())?)
}

/// Writes a register of two bytes.
#[inline]
pub fn write16(mmio: &mut dyn Mmio, register: u64, value: u16) -> Result<(), DriverError> {
    Ok(mmio.write(register, Width::B2, value.into())?)
}

/// Writes a register of four bytes.
#[inline]
pub fn write32(mmio: &mut dyn Mmio, register: u64, value: u32) -> Result<(), DriverError> {
    Ok(mmio.write(register, Width::B4, value.into())?)
}

/// Writes a register of eight bytes.
#[inline]
pub fn write64(mmio: &mut dyn Mmio, register: u64, value: u64) -> Result<(), DriverError> {
    Ok(mmio.write(register, Width::B8, value)?)
}
