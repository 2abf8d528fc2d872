//! Who called what: the stack of a process whose own code keeps frame pointers, and whose libraries say how they are
//! left.
//!
//! A signal's handler runs on a stack of its own, above a frame in which the system has kept the registers of
//! what was interrupted (`struct ucontext`, Linux arch/x86/include/uapi/asm/sigcontext.h). It returns through
//! two instructions by which that frame is known (`mov $15,%eax; syscall`), as debuggers know it.

use crate::libraries::Libraries;
use crate::{Registers, Tracee};

/// `mov $__NR_rt_sigreturn,%rax; syscall`.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Where the registers are in a `struct ucontext`: flags (8 bytes), link (8), stack (24), then 64-bit registers.
const REGISTERS: u64 = 40;
const FP: u64 = REGISTERS + 8 * 10;
const SP: u64 = REGISTERS + 8 * 15;
const PC: u64 = REGISTERS + 8 * 16;

/// First instructions of a function with a frame pointer: `push %rbp`, then `mov %rsp,%rbp`.
const PUSH_FP: u8 = 0x55;
const MOVE_FP: [u8; 3] = [0x48, 0x89, 0xe5];
const RETURN: u8 = 0xc3;

/// What is deeper is of no interest, or no stack.
const MOST_FRAMES: usize = 64;

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The instruction that is next in it; in callers, the one behind the call.
    pub pc: u64,
    /// Whether it was interrupted by a signal there, and has called nothing.
    pub interrupted: bool,
}

impl Frame {
    /// The instruction that is under way: of a caller, the call.
    pub fn at(&self) -> u64 {
        if self.interrupted { self.pc } else { self.pc.wrapping_sub(1) }
    }
}

/// The stack of a process that stands still, the innermost frame first.
pub fn call_stack(tracee: &Tracee, registers: Registers) -> Vec<Frame> {
    let read = |address: u64, bytes: &mut [u8]| tracee.read(address, bytes).is_ok();
    let mut libraries = Libraries::of_process(tracee.process_id());
    unwind(&read, &mut libraries, registers)
}

/// Fills a buffer from the process's memory at an address; false if that cannot be read.
type ReadBytes<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

fn unwind(read: &ReadBytes<'_>, libraries: &mut Libraries, mut at: Registers) -> Vec<Frame> {
    let word = |address: u64| word(read, address);
    let mut frames = vec![Frame { pc: at.pc, interrupted: true }];
    while frames.len() < MOST_FRAMES {
        let (last, leaf) =
            frames.last().map_or((at.pc, true), |last| (last.at(), last.interrupted));
        let caller = match libraries.at(last) {
            Some(code) => code.caller(at, &word),
            None => caller_by_frame_pointer(read, at, leaf),
        };
        let Some(caller) = caller else { break };
        at = caller;
        let interrupted = starts_with(read, at.pc, &SIGNAL_RETURN);
        if interrupted {
            let [Some(pc), Some(sp), Some(fp)] =
                [PC, SP, FP].map(|at_| word(at.sp.wrapping_add(at_)))
            else {
                break;
            };
            at = Registers { pc, sp, fp };
        }
        frames.push(Frame { pc: at.pc, interrupted });
    }
    frames
}

/// Where code goes back to that keeps frame pointers. That place depends on how much of the frame stands in a `leaf`,
/// which has called nothing.
fn caller_by_frame_pointer(read: &ReadBytes<'_>, at: Registers, leaf: bool) -> Option<Registers> {
    let word = |address: u64| word(read, address);
    let begins = |instruction: &[u8]| leaf && starts_with(read, at.pc, instruction);
    let (place, fp) = if begins(&[PUSH_FP]) || begins(&[RETURN]) {
        (at.sp, at.fp)
    } else if begins(&MOVE_FP) {
        (at.sp.wrapping_add(8), at.fp)
    } else {
        (at.fp.wrapping_add(8), word(at.fp)?)
    };
    let pc = word(place).filter(|&pc| pc != 0)?;
    Some(Registers { pc, sp: place.wrapping_add(8), fp })
}

fn word(read: &ReadBytes<'_>, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

fn starts_with(read: &ReadBytes<'_>, address: u64, wanted: &[u8]) -> bool {
    let mut bytes = [0; SIGNAL_RETURN.len()];
    let bytes = &mut bytes[..wanted.len()];
    read(address, bytes) && bytes == wanted
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A memory of words, and of a few instructions.
    #[derive(Default)]
    struct Memory(HashMap<u64, u8>);

    impl Memory {
        fn put(&mut self, address: u64, bytes: &[u8]) {
            self.0.extend((address..).zip(bytes.iter().copied()));
        }

        fn unwind(&self, registers: Registers) -> Vec<(u64, bool)> {
            let read = |address: u64, bytes: &mut [u8]| {
                bytes.iter_mut().zip(address..).all(|(byte, at)| {
                    self.0.get(&at).is_some_and(|value| {
                        *byte = *value;
                        true
                    })
                })
            };
            let mut none = Libraries::default();
            unwind(&read, &mut none, registers)
                .iter()
                .map(|frame| (frame.pc, frame.interrupted))
                .collect()
        }
    }

    /// A function at 0x1000, called from 0x2005, whose caller was called from 0x3005.
    fn two_calls() -> Memory {
        let mut memory = Memory::default();
        memory.put(0x1000, &[PUSH_FP]);
        memory.put(0x1001, &MOVE_FP);
        memory.put(0x1004, &[0x90, 0x90, 0x5d, RETURN]);
        memory.put(0x7f00, &0x7f40_u64.to_le_bytes());
        memory.put(0x7f08, &0x2005_u64.to_le_bytes());
        memory.put(0x7f40, &0_u64.to_le_bytes());
        memory.put(0x7f48, &0x3005_u64.to_le_bytes());
        memory
    }

    #[test]
    fn callers_are_found_at_every_instruction_of_a_function() {
        let memory = two_calls();
        let callers = [(0x2005, false), (0x3005, false)];
        let places = [(0x1000, 0x7f08, 0x7f40), (0x1001, 0x7f00, 0x7f40), (0x1004, 0x7f00, 0x7f00)];
        for (pc, sp, fp) in places.into_iter().chain([(0x1007, 0x7f08, 0x7f40)]) {
            let frames = memory.unwind(Registers { pc, sp, fp });
            assert_eq!(frames[0], (pc, true));
            assert_eq!(frames[1..], callers, "{pc:#x}");
        }
    }

    #[test]
    fn what_a_signal_has_interrupted_is_a_frame_of_its_own() {
        let mut memory = two_calls();
        memory.put(0x9000, &SIGNAL_RETURN);
        memory.put(0x8000, &[0x90; 8]);
        memory.put(0x6f00, &0_u64.to_le_bytes());
        memory.put(0x6f08, &0x9000_u64.to_le_bytes());
        for (offset, value) in [(PC, 0x1004_u64), (SP, 0x7f00), (FP, 0x7f00)] {
            memory.put(0x6f10 + offset, &value.to_le_bytes());
        }
        let frames = memory.unwind(Registers { pc: 0x8000, sp: 0x6e00, fp: 0x6f00 });
        assert_eq!(frames, [(0x8000, true), (0x1004, true), (0x2005, false), (0x3005, false)]);
    }

    #[test]
    fn a_stack_in_a_circle_has_an_end() {
        let mut memory = Memory::default();
        memory.put(0x1000, &[0x90; 8]);
        memory.put(0x7000, &0x7000_u64.to_le_bytes());
        memory.put(0x7008, &0x1000_u64.to_le_bytes());
        let frames = memory.unwind(Registers { pc: 0x1000, sp: 0x6000, fp: 0x7000 });
        assert_eq!(frames.len(), MOST_FRAMES);
    }
}
