//! Where in a kernel's program its accesses to the device are made.

use std::ops::Range;
use std::path::Path;

use object::{Object, ObjectSymbol};

/// Functions through which every access of a driver goes: virt-pci's in kernels up to 6.12, and
/// under the name that later ones gave it.
const ACCESS_FUNCTIONS: [&str; 2] = ["um_pci_send_cmd", "virtio_pcidev_send_cmd"];

/// The stack that interrupt handlers run on.
const INTERRUPT_STACK: &str = "cpu0_irqstack";

/// Addresses in a kernel's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelMap {
    accesses: Vec<Range<u64>>,
    interrupt_stack: Range<u64>,
}

impl KernelMap {
    /// Reads the symbols of a kernel; `None` if it has none, or is no program at all.
    pub(super) fn read(kernel: &Path) -> Option<KernelMap> {
        let program = std::fs::read(kernel).ok()?;
        let program = object::File::parse(&*program).ok()?;
        let mut map = KernelMap::default();
        for symbol in program.symbols() {
            let Ok(name) = symbol.name() else { continue };
            let place = symbol.address()..symbol.address().saturating_add(symbol.size());
            // The compiler may add a suffix (`.isra.0`, `.constprop.0`) or split off cold code.
            if ACCESS_FUNCTIONS.contains(&name.split('.').next().unwrap_or(name)) {
                map.accesses.push(place);
            } else if name == INTERRUPT_STACK {
                map.interrupt_stack = place;
            }
        }
        (!map.accesses.is_empty() && !map.interrupt_stack.is_empty()).then_some(map)
    }

    /// Whether this is an address in the code that makes an access.
    pub(super) fn is_access(&self, address: u64) -> bool {
        self.accesses.iter().any(|place| place.contains(&address))
    }

    /// Whether this is a place on the stack of interrupt handlers.
    pub(super) fn is_on_interrupt_stack(&self, stack_pointer: u64) -> bool {
        self.interrupt_stack.contains(&stack_pointer)
    }

    #[cfg(test)]
    pub(super) fn with(accesses: Range<u64>, interrupt_stack: Range<u64>) -> KernelMap {
        KernelMap { accesses: vec![accesses], interrupt_stack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kernel_has_no_map() {
        assert_eq!(KernelMap::read(Path::new("/etc/hostname")), None);
        assert_eq!(KernelMap::read(Path::new("/nowhere/at/all")), None);
        assert_eq!(KernelMap::read(&std::env::current_exe().unwrap()), None);
    }

    #[test]
    fn addresses_are_told_apart() {
        let map = KernelMap::with(100..200, 0x4000..0x8000);
        assert!(map.is_access(100) && map.is_access(199) && !map.is_access(200));
        assert!(map.is_on_interrupt_stack(0x7ff8) && !map.is_on_interrupt_stack(0x8000));
    }
}
