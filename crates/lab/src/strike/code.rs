//! The code of a target: its kernel's, its driver's, and our bridge's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use warikomi_debugger::{Code, Program};
use warikomi_protocol::commands::ReadFile;
use warikomi_session::SessionOptions;
use warikomi_target::Target;

use crate::error::Error;

/// The module of our PCI bridge.
pub(super) const BRIDGE: &str = "warikomi_bridge";

/// The code of the kernel, and of the driver if it is a module; the driver's first.
pub(crate) fn program(
    target: &mut dyn Target,
    kernel: &Path,
    modules: Option<&Path>,
    driver: &str,
) -> Result<Program, Error> {
    let mut parts = Vec::new();
    if let Some(path) = modules.and_then(|modules| module_file(modules, driver)) {
        let loaded = |section: &str| section_address(target, driver, section);
        parts.push(Code::of_module(driver, &path, loaded)?);
    }
    if let Some(path) = modules.and_then(|modules| module_file(modules, BRIDGE)) {
        let loaded = |section: &str| section_address(target, BRIDGE, section);
        parts.push(Code::of_module(BRIDGE, &path, loaded)?);
    }
    parts.push(Code::of_program("kernel", kernel)?);
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

/// The file of a module: of those that are installed, or of those that a build tree lists.
fn module_file(modules: &Path, driver: &str) -> Option<PathBuf> {
    let list = |name| std::fs::read_to_string(modules.join(name)).ok();
    let list = list("modules.dep").or_else(|| list("modules.order"))?;
    let paths = list.lines().filter_map(|line| line.split(':').next());
    let mut paths = paths.map(|path| Path::new(path).with_extension("ko"));
    let is_it = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == driver);
    paths.find(is_it).map(|path| modules.join(path))
}

/// The file that a driver is in, and its code as it lies in no memory: for what debug information says of it.
pub(crate) fn driver_code(options: &SessionOptions) -> Option<(PathBuf, Code)> {
    /// Between the sections of a module, so that they do not overlap.
    const APART: u64 = 1 << 32;
    let modules = options.modules.as_deref();
    match modules.and_then(|modules| module_file(modules, &options.driver)) {
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
