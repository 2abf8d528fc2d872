//! Loading and removing driver modules.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use warikomi_protocol::answers::{Done, DriverLoaded, DriverOrigin};
use warikomi_protocol::commands::{LoadDriver, UnloadDriver};

use super::boot;
use super::error::{self, AgentError, Context, Result};

pub(super) fn load(command: &LoadDriver) -> Result<DriverLoaded> {
    let started = Instant::now();
    let name = checked_name(&command.name)?;
    if is_loaded(&name) {
        return Ok(present(DriverOrigin::AlreadyLoaded));
    }
    let modules = Modules::of_this_kernel();
    // First: the kernel may have the driver although somebody's modules of it are there as well.
    if is_built_in(&modules, &name) {
        return built_in(&name, &command.params);
    }
    let order = modules.load_order(&name).ok_or_else(|| modules.missing(&name))?;
    let mut loaded = Vec::new();
    for path in order {
        let module = module_name(&path);
        if is_loaded(&module) {
            continue;
        }
        let params = if module == name { command.params.join(" ") } else { String::new() };
        insert(&path, &params)?;
        loaded.push(module);
    }
    let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(DriverLoaded { origin: DriverOrigin::Loaded, loaded, took_us })
}

fn built_in(name: &str, params: &[String]) -> Result<DriverLoaded> {
    if params.is_empty() {
        return Ok(present(DriverOrigin::BuiltIn));
    }
    let there: Vec<_> = params.iter().map(|param| format!("{name}.{param}")).collect();
    Err(AgentError::Other(format!(
        "{name} is part of this kernel, so its parameters must be on the kernel's command line: {}",
        there.join(" ")
    )))
}

pub(super) fn unload(command: &UnloadDriver) -> Result<Done> {
    let name = checked_name(&command.name)?;
    if !is_loaded(&name) {
        let modules = Modules::of_this_kernel();
        let text = if is_built_in(&modules, &name) {
            format!("{name} is part of this kernel and cannot be removed")
        } else if modules.load_order(&name).is_some() {
            format!("{name} is not loaded")
        } else {
            return Err(modules.missing(&name));
        };
        return Err(AgentError::Other(text));
    }
    let c_name = c_string(&name)?;
    delete_module(&c_name, DeleteModuleFlags::O_NONBLOCK)
        .context(|| format!("remove the module {name}"))?;
    Ok(Done {})
}

fn present(origin: DriverOrigin) -> DriverLoaded {
    DriverLoaded { origin, loaded: Vec::new(), took_us: 0 }
}

fn insert(path: &Path, params: &str) -> Result<()> {
    let file = File::open(path).context(|| format!("open the module {}", path.display()))?;
    let params_c = c_string(params)?;
    finit_module(&file, &params_c, ModuleInitFlags::empty()).context(|| {
        format!("load the module {} with parameters {params:?} (see the console)", path.display())
    })
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| AgentError::Invalid {
        what: "the text",
        expected: "free of NUL bytes",
        given: text.to_owned(),
    })
}

/// The kernel's spelling; refuses what could leave the modules' directory.
fn checked_name(name: &str) -> Result<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 55 || !name.chars().all(fine) {
        return Err(AgentError::Invalid {
            what: "the driver",
            expected: "a module's name (letters, digits, _ and -)",
            given: name.to_owned(),
        });
    }
    Ok(name.replace('-', "_"))
}

/// A loaded module has a state; a built-in one with parameters has a directory without it.
fn is_loaded(name: &str) -> bool {
    Path::new("/sys/module").join(name).join("initstate").exists()
}

fn is_built_in(modules: &Modules, name: &str) -> bool {
    modules.built_in.contains(name)
        || Path::new("/sys/module").join(name).exists()
        || Path::new("/sys/bus/pci/drivers").join(name).exists()
}

fn module_name(path: &Path) -> String {
    let file = super::pci::file_name(path);
    file.split('.').next().unwrap_or_default().replace('-', "_")
}

/// What `/lib/modules/<release>` offers.
struct Modules {
    root: PathBuf,
    /// `modules.dep`: a module, a colon, what it needs, nearest need first.
    dependencies: String,
    built_in: HashSet<String>,
}

impl Modules {
    fn of_this_kernel() -> Self {
        let root = Path::new("/lib/modules").join(boot::kernel_release());
        // An image without modules has neither file; then nothing is loadable.
        let dependencies = error::read(root.join("modules.dep")).unwrap_or_default();
        let built_in = error::read(root.join("modules.builtin")).unwrap_or_default();
        let built_in = built_in.lines().map(|line| module_name(Path::new(line))).collect();
        Self { root, dependencies, built_in }
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.dependencies.lines().filter_map(|line| line.split_once(':'))
    }

    /// The files to load for a module, itself last.
    fn load_order(&self, name: &str) -> Option<Vec<PathBuf>> {
        let (module, needs) =
            self.entries().find(|(module, _)| module_name(Path::new(module)) == name)?;
        let needs = needs.split_whitespace().rev();
        Some(needs.chain([module]).map(|path| self.root.join(path)).collect())
    }

    fn missing(&self, name: &str) -> AgentError {
        let mut there: Vec<_> =
            self.entries().map(|(module, _)| module_name(Path::new(module))).collect();
        there.sort();
        let there =
            if there.is_empty() { "it has no modules".to_owned() } else { there.join(", ") };
        AgentError::Other(format!(
            "{name} is neither a module of this kernel image nor built in (modules: {there})"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Modules {
        Modules {
            root: "/lib/modules/x".into(),
            dependencies: "kernel/a/8139cp.ko: kernel/mii.ko kernel/crc-x.ko\nkernel/mii.ko:\n"
                .into(),
            built_in: HashSet::from(["libphy".to_owned()]),
        }
    }

    #[test]
    fn what_a_module_needs_comes_first() {
        let order = modules().load_order("8139cp").unwrap();
        let names: Vec<_> = order.iter().map(|path| module_name(path)).collect();
        assert_eq!(names, ["crc_x", "mii", "8139cp"]);
        assert!(order[0].starts_with("/lib/modules/x"));
        assert!(modules().load_order("r8169").is_none());
    }

    #[test]
    fn a_missing_driver_is_named_with_what_is_there() {
        let text = modules().missing("r8169").to_string();
        assert!(text.contains("r8169") && text.contains("8139cp, mii"), "{text}");
    }

    #[test]
    fn a_name_cannot_be_a_path() {
        assert!(checked_name("../../etc/passwd").is_err());
        assert!(checked_name("").is_err());
        assert_eq!(checked_name("snd-hda").unwrap(), "snd_hda");
    }
}
