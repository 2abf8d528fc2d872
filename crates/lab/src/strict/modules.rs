//! Whether a guest's kernel has put a module elsewhere, read from its memory: one that is loaded again may lie
//! at another place, and its first steps come before anything else could say so.

use warikomi_debugger::{Code, Frame, Memory};

/// The most modules that are looked through; the list may be changing.
const MOST: usize = 256;

/// The kernel's list of modules (`modules`, `struct module`, Linux kernel/module/main.c).
#[derive(Debug)]
struct Modules {
    list: u64,
    /// Of a module: its links, its name, and the function by which it leaves.
    entry: [u64; 3],
}

impl Modules {
    fn of(kernel: &Code) -> Option<Modules> {
        let member = |name| kernel.offset_of("module", name);
        let entry = [member("list")?, member("name")?, member("exit")?];
        Some(Modules { list: kernel.variable("modules")?.address, entry })
    }

    /// Where the function is by which a module leaves; `None` of one that is not loaded.
    fn exit_of(&self, memory: &Memory, name: &[u8]) -> Option<u64> {
        let [links, its_name, exit] = self.entry;
        let mut at = memory.word(self.list)?;
        for _ in 0..MOST {
            if at == self.list {
                return None;
            }
            let module = at.wrapping_sub(links);
            if memory.bytes(module.wrapping_add(its_name), name.len())? == name {
                return memory.word(module.wrapping_add(exit)).filter(|exit| *exit != 0);
            }
            at = memory.word(at)?;
        }
        None
    }
}

/// Where a module was when its code was read.
#[derive(Debug)]
pub(super) struct Place {
    modules: Modules,
    /// With the 0 behind it.
    name: Vec<u8>,
    exit: u64,
}

impl Place {
    /// Of a module that is loaded; `None` if it is none, or that is not known.
    pub(super) fn of(kernel: &Code, memory: &Memory, name: &str) -> Option<Place> {
        let modules = Modules::of(kernel)?;
        let name = [name.replace('-', "_").as_bytes(), &[0]].concat();
        let exit = modules.exit_of(memory, &name)?;
        Some(Place { modules, name, exit })
    }

    /// Takes frames of the module, where it is now, to where they would have been.
    pub(super) fn take_back(&self, memory: &Memory, code: &Code, frames: &mut [Frame]) {
        if let Some(exit) = self.modules.exit_of(memory, &self.name) {
            take_back(exit.wrapping_sub(self.exit), |address| code.contains(address), frames);
        }
    }
}

fn take_back(moved_by: u64, contains: impl Fn(u64) -> bool, frames: &mut [Frame]) {
    for frame in frames {
        if contains(frame.at().wrapping_sub(moved_by)) {
            frame.pc = frame.pc.wrapping_sub(moved_by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in memory: two words of links, a name, a function.
    const ENTRY: [u64; 3] = [0, 16, 32];

    fn place_of(words: &[u64]) -> u64 {
        words.as_ptr() as u64
    }

    fn name(text: &str) -> [u64; 2] {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap());
        [word(&bytes[..8]), word(&bytes[8..])]
    }

    #[test]
    fn a_module_is_found_by_its_whole_name_and_one_that_is_not_loaded_is_none() {
        let mut head = vec![0u64; 2];
        let [first, second] = ["r8169_more", "r8169"].map(name);
        let mut others = vec![0, 0, first[0], first[1], 0x1000];
        let wanted = vec![place_of(&head), 0, second[0], second[1], 0x2000];
        others[0] = place_of(&wanted);
        head[0] = place_of(&others);
        let modules = Modules { list: place_of(&head), entry: ENTRY };
        let memory = Memory::open(std::process::id()).unwrap();
        assert_eq!(modules.exit_of(&memory, b"r8169\0"), Some(0x2000));
        assert_eq!(modules.exit_of(&memory, b"r8169_more\0"), Some(0x1000));
        assert_eq!(modules.exit_of(&memory, b"r816\0"), None);
        // A list that has no end is left.
        others[0] = place_of(&others);
        assert_eq!(modules.exit_of(&memory, b"r8169\0"), None);
    }

    #[test]
    fn only_frames_of_the_module_are_taken_back() {
        let frame = |pc| Frame { pc, interrupted: false };
        let mut frames = [frame(0x5010), frame(0x7010), frame(0x1000)];
        let code = 0x1000..0x1100;
        take_back(0x4000, |address| code.contains(&address), &mut frames);
        assert_eq!(frames.map(|frame| frame.pc), [0x1010, 0x7010, 0x1000]);
    }
}
