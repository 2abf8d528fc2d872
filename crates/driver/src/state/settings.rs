//! Header and settings: what the driver that set the device up has decided for those after it.

use std::sync::atomic::Ordering::{Relaxed, Release};

use warikomi_pci::attach::area::{self, header};

use super::error::{StateError, invalid, verify};
use super::words::StateArea;

/// What the settings of a state area say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// PCI vendor and device numbers.
    pub device: (u16, u16),
    /// Bus address of the rings.
    pub rings: u64,
    /// Receive slots in use.
    pub rx_slots: usize,
    /// Transmit slots in use.
    pub tx_slots: usize,
    /// The device's own address.
    pub mac_address: [u8; 6],
}

impl StateArea {
    /// From here on until the next [`write_settings`](Self::write_settings) nobody can go on with what is
    /// in here: before the device is reset.
    pub fn forget(&self) {
        // No magic number, so that not even a checksum that fits by chance helps.
        self.words.store(header::MAGIC, 0, Release);
    }

    /// Writes the settings, after everything that they let a successor believe: rings, slots, and a device
    /// that runs. `set_up_by` is the driver's name, of which 8 bytes are kept.
    pub fn write_settings(&self, settings: &Settings, set_up_by: &str) {
        let (vendor, device) = settings.device;
        let [a, b, c, d, e, f] = settings.mac_address;
        let mut name = [0; 8];
        name.iter_mut().zip(set_up_by.bytes()).for_each(|(place, byte)| *place = byte);
        for (at, value) in [
            (header::VERSION, self.version),
            (header::READABLE_FROM, area::OLDEST_VERSION),
            (header::BYTES, area::BYTES),
            (header::DEVICE, u64::from(vendor) << 16 | u64::from(device)),
            (header::RINGS, settings.rings),
            (header::RX_SLOTS, settings.rx_slots as u64),
            (header::TX_SLOTS, settings.tx_slots as u64),
            (header::MAC_ADDRESS, u64::from_le_bytes([a, b, c, d, e, f, 0, 0])),
            (header::SET_UP_BY, u64::from_le_bytes(name)),
        ] {
            self.words.store(at, value, Relaxed);
        }
        let below = (header::VERSION..header::CHECKSUM).map(|at| self.word(at));
        let checksum = area::checksum(std::iter::once(area::MAGIC).chain(below));
        self.words.store(header::CHECKSUM, checksum, Relaxed);
        self.words.store(header::MAGIC, area::MAGIC, Release);
    }

    /// Reads the settings.
    ///
    /// Refused are an area that nobody has set up (or whose device was being set up), another or a newer
    /// layout, a wrong checksum, and values that cannot be.
    pub fn settings(&self) -> Result<Settings, StateError> {
        let words: [u64; header::CHECKSUM + 1] = std::array::from_fn(|at| self.word(at));
        if words[header::MAGIC] != area::MAGIC {
            let text = "no driver has finished setting this device up: it has to be reset";
            return Err(StateError::Unreadable(text.to_owned()));
        }
        let (checksum, below) = (words[header::CHECKSUM], &words[..header::CHECKSUM]);
        verify("header", area::checksum(below.iter().copied()), checksum)?;
        self.check_version(words[header::VERSION], words[header::READABLE_FROM])?;
        if words[header::BYTES] != area::BYTES {
            let bytes = words[header::BYTES];
            return invalid(format!("it has {bytes} bytes, and should have {}", area::BYTES));
        }
        let slots = |at: usize| match words[at] {
            count @ 1..=MOST_SLOTS => Ok(count as usize),
            count => invalid(format!("a ring of {count} slots, where 1 to {MOST_SLOTS} can be")),
        };
        let device = u32::try_from(words[header::DEVICE]);
        let (Ok(device), 0) = (device, words[header::MAC_ADDRESS] >> 48) else {
            return invalid("the device's numbers or its address are too long".to_owned());
        };
        let [a, b, c, d, e, f, ..] = words[header::MAC_ADDRESS].to_le_bytes();
        Ok(Settings {
            device: ((device >> 16) as u16, device as u16),
            rings: words[header::RINGS],
            rx_slots: slots(header::RX_SLOTS)?,
            tx_slots: slots(header::TX_SLOTS)?,
            mac_address: [a, b, c, d, e, f],
        })
    }

    fn check_version(&self, version: u64, readable_from: u64) -> Result<(), StateError> {
        let known = self.version;
        if version < area::OLDEST_VERSION || readable_from > version {
            return invalid(format!("version {version}, readable from version {readable_from} on"));
        }
        if readable_from > known {
            return Err(StateError::Unreadable(format!(
                "the state area has version {version}, which drivers from version {readable_from} on can \
                 read; this one knows version {known}: replace by a newer driver, or by reloading"
            )));
        }
        Ok(())
    }
}

const MOST_SLOTS: u64 = area::MOST_SLOTS as u64;
