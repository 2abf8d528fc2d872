//! What the NAPI of a driver in a guest's kernel does, read from the kernel's memory.
//!
//! Every driver hands its NAPI contexts to the kernel, which keeps them in a list of the network device, and all
//! network devices in one of the namespace. So nothing of the driver itself needs to be known, only where the members
//! of three structures of the kernel are (debug information).

use warikomi_debugger::{Code, Program};

/// What NAPI does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NapiState {
    /// A poll is under way, or will be.
    Scheduled,
    /// No poll is under way.
    Idle,
    /// The driver has disabled it.
    Disabled,
}

const NAMES: [(&str, NapiState); 3] = [
    ("scheduled", NapiState::Scheduled),
    ("idle", NapiState::Idle),
    ("disabled", NapiState::Disabled),
];

/// Bits of `napi_struct.state` (Linux include/linux/netdevice.h, since 4.10). Who disables NAPI holds both.
const SCHEDULED: u64 = 1 << 0;
const HELD: u64 = 1 << 3;

/// The most entries of a list that are looked at: it may be changing.
const MOST_ENTRIES: usize = 1_024;

impl NapiState {
    pub(super) fn named(name: &str) -> Option<NapiState> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, state)| *state)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, state)| *state == self).map_or("", |(name, _)| name)
    }

    fn of(bits: u64) -> NapiState {
        match bits & (SCHEDULED | HELD) {
            0 | HELD => NapiState::Idle,
            SCHEDULED => NapiState::Scheduled,
            _ => NapiState::Disabled,
        }
    }
}

/// Where in the kernel's structures things are, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// `net.dev_base_head`
    devices: u64,
    /// `net_device.dev_list`, `net_device.dev_addr` and `net_device.napi_list`
    next_device: u64,
    address: u64,
    contexts: u64,
    /// `napi_struct.dev_list` and `napi_struct.state`
    next_context: u64,
    state: u64,
}

impl Layout {
    /// As this code was compiled; `None` if it has no debug information of them.
    pub(super) fn of(code: &Code) -> Option<Layout> {
        Some(Layout {
            devices: code.offset_of("net", "dev_base_head")?,
            next_device: code.offset_of("net_device", "dev_list")?,
            address: code.offset_of("net_device", "dev_addr")?,
            contexts: code.offset_of("net_device", "napi_list")?,
            next_context: code.offset_of("napi_struct", "dev_list")?,
            state: code.offset_of("napi_struct", "state")?,
        })
    }

    /// The network device with this address.
    pub(super) fn device(
        &self,
        word: &dyn Fn(u64) -> Option<u64>,
        program: &Program,
        mac: [u8; 6],
    ) -> Option<u64> {
        let namespace = program.parts.iter().find_map(|code| code.variable("init_net"))?;
        let devices = entries(word, namespace.address.wrapping_add(self.devices), self.next_device);
        devices.into_iter().find(|device| {
            let place = word(device.wrapping_add(self.address));
            let bytes = place.and_then(word).map(u64::to_le_bytes);
            bytes.is_some_and(|bytes| bytes[..6] == mac)
        })
    }

    /// What the NAPI of a device does: of several contexts, that of the busiest. `None` if it has none.
    pub(super) fn state(
        &self,
        word: &dyn Fn(u64) -> Option<u64>,
        device: u64,
    ) -> Option<NapiState> {
        let contexts = entries(word, device.wrapping_add(self.contexts), self.next_context);
        let bits = contexts.into_iter().filter_map(|at| word(at.wrapping_add(self.state)));
        let states: Vec<_> = bits.map(NapiState::of).collect();
        let ranked = [NapiState::Scheduled, NapiState::Idle, NapiState::Disabled];
        ranked.into_iter().find(|state| states.contains(state))
    }
}

/// The structures in a list of the kernel (`struct list_head`, include/linux/list.h), which have its links so far
/// behind their beginning.
fn entries(word: &dyn Fn(u64) -> Option<u64>, head: u64, links: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let mut at = word(head);
    while let Some(entry) = at.filter(|at| *at != head && found.len() < MOST_ENTRIES) {
        found.push(entry.wrapping_sub(links));
        at = word(entry);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const LAYOUT: Layout = Layout {
        devices: 8,
        next_device: 16,
        address: 32,
        contexts: 40,
        next_context: 24,
        state: 0,
    };

    #[test]
    fn the_busiest_context_of_a_device_says_what_its_napi_does() {
        let state = |bits: &[u64]| {
            let mut memory = HashMap::new();
            let (device, first) = (0x1000_u64, 0x2000_u64);
            let mut at = device + LAYOUT.contexts;
            for (number, bits) in bits.iter().enumerate() {
                let context = first + 0x100 * number as u64;
                memory.insert(at, context + LAYOUT.next_context);
                memory.insert(context + LAYOUT.state, *bits);
                at = context + LAYOUT.next_context;
            }
            memory.insert(at, device + LAYOUT.contexts);
            LAYOUT.state(&|address| memory.get(&address).copied(), device)
        };
        assert_eq!(state(&[]), None);
        assert_eq!(state(&[0]), Some(NapiState::Idle));
        assert_eq!(state(&[0b1_0001]), Some(NapiState::Scheduled));
        assert_eq!(state(&[0b1001]), Some(NapiState::Disabled));
        assert_eq!(state(&[0b1001, 0, 1]), Some(NapiState::Scheduled));
    }

    #[test]
    fn a_list_in_a_circle_has_an_end() {
        let found = entries(&|address| Some(if address == 0x10 { 0x20 } else { 0x30 }), 0x10, 0);
        assert_eq!(found.len(), MOST_ENTRIES);
    }
}
