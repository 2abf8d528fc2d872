//! The code of a target: its kernel's, its driver's, and our bridge's.

use std::path::PathBuf;
use std::time::Duration;

use warikomi_debugger::{Code, Frame, Location, Program};
use warikomi_protocol::commands::ReadFile;
use warikomi_session::SessionOptions;
use warikomi_target::Target;

use crate::error::Error;

/// The module of our PCI bridge.
const BRIDGE: &str = "warikomi_bridge";

/// The code of the kernel that was started so, and of the driver if it is a module; the driver's first.
pub(crate) fn program(target: &mut dyn Target, options: &SessionOptions) -> Result<Program, Error> {
    let mut parts = Vec::new();
    for module in [&*options.driver, BRIDGE] {
        if let Some(path) = options.module_file(module) {
            let loaded = |section: &str| section_address(target, module, section);
            parts.push(Code::of_module(module, &path, loaded)?);
        }
    }
    parts.push(Code::of_program("kernel", &options.kernel)?);
    Ok(Program { parts })
}

/// Where the guest's kernel has put a section of a module.
fn section_address(target: &mut dyn Target, driver: &str, section: &str) -> Option<u64> {
    // The name is that of a file there; what is in a module's file may be anything.
    if section.contains('/') || !section.starts_with('.') {
        return None;
    }
    // The kernel has freed it once the module is there (Linux kernel/module/main.c, do_init_module).
    if section.starts_with(".init") {
        return None;
    }
    let path = format!("/sys/module/{driver}/sections/{section}");
    let text = target.ask(ReadFile { path }, Duration::ZERO).ok()?.text;
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The file that a driver is in, and its code as it lies in no memory: for what debug information says of it.
pub(crate) fn driver_code(options: &SessionOptions) -> Option<(PathBuf, Code)> {
    /// Between the sections of a module, so that they do not overlap.
    const APART: u64 = 1 << 32;
    match options.module_file(&options.driver) {
        Some(path) => {
            let mut next = 0;
            let code = Code::of_module(&options.driver, &path, |_| {
                next += APART;
                Some(next)
            });
            Some((path, code.ok()?))
        }
        None => {
            let code = Code::of_program(&options.driver, &options.kernel);
            Some((options.kernel.clone(), code.ok()?))
        }
    }
}

/// A stack without the frames of our bridge that waits for an access: where in its loop it was seen differs each time.
pub(crate) fn stack_before_the_access(program: &Program, stack: &[Frame]) -> Vec<String> {
    let is_bridge =
        |frame: &Frame| program.part_at(frame.at()).is_some_and(|code| code.name == BRIDGE);
    let waits = stack.iter().take_while(|frame| is_bridge(frame)).count();
    stack_texts(program, &stack[waits..])
}

/// A stack as people read it.
pub(super) fn stack_texts(program: &Program, stack: &[Frame]) -> Vec<String> {
    stack.iter().map(|frame| located(program, frame).to_string()).collect()
}

pub(super) fn located(program: &Program, frame: &Frame) -> Location {
    let mut location = program.locate(frame.at());
    // Of a call, the address to return to is what people know from stacks.
    if let Some((_, offset)) = &mut location.function {
        *offset += frame.pc - frame.at();
    }
    location
}
