//! What a kernel that was not built here can do.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bridge;
use crate::config::{DriverPlace, drivers_of, settings};
use crate::error::{FileContext, KernelError, Result};
use crate::make::Group;

/// How long the kernel may take to print its version or its configuration.
const PATIENCE: Duration = Duration::from_secs(10);

/// In every UML binary: the help of its own option. Nothing that lacks it is run.
const MARK: &[u8] = b"Prints the config file that this UML binary was generated from";

/// What a kernel binary says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// The binary.
    pub path: PathBuf,
    /// `uname -r`.
    pub release: String,
    /// The virtio device id that carries PCI; `None` for a kernel without PCI over virtio, which
    /// cannot have a NIC.
    pub pci_device_id: Option<u32>,
    /// The NIC drivers that it has, by name.
    pub drivers: BTreeMap<String, DriverPlace>,
    /// Where its modules are: a directory with `modules.dep` in it, or a build tree with
    /// `modules.order`. `None` if neither is beside the binary.
    pub modules: Option<PathBuf>,
    /// Whether they have our PCI bridge.
    pub has_bridge: bool,
    /// Configuration symbols that a target needs and this kernel lacks.
    pub lacks: Vec<&'static str>,
}

/// What a target cannot do without.
const NEEDED: [&str; 8] = [
    "CONFIG_UML_PCI_OVER_VIRTIO",
    "CONFIG_VIRTIO_UML",
    "CONFIG_PCI_MSI",
    "CONFIG_BLK_DEV_INITRD",
    "CONFIG_SSL",
    "CONFIG_INET",
    "CONFIG_PROC_FS",
    "CONFIG_SYSFS",
];

/// Tells what the kernel at `path` can do. Runs it, for its version and configuration, but only
/// if it is a User Mode Linux kernel.
pub fn inspect(path: &Path) -> Result<KernelInfo> {
    let not_uml = |why: String| KernelError::NotUml { path: path.to_owned(), why };
    let path = &fs::canonicalize(path).at("open the kernel", path)?;
    let bytes = fs::read(path).at("read the kernel", path)?;
    if !bytes.starts_with(b"\x7fELF") {
        let why = if bytes.windows(4).take(0x210).any(|window| window == b"HdrS") {
            "it is a kernel for a real machine (a bzImage)"
        } else {
            "it is no program (ELF)"
        };
        return Err(not_uml(why.to_owned()));
    }
    if !bytes.windows(MARK.len()).any(|window| window == MARK) {
        return Err(not_uml("it is another program, or a vmlinux for a real machine".to_owned()));
    }
    let release = ask(path, "--version")?.trim().to_owned();
    if release.is_empty() || release.contains(['/', '\n']) {
        return Err(not_uml(format!("it says that its version is {release:?}")));
    }
    let config = ask(path, "--showconfig")?;
    let settings: BTreeMap<_, _> = settings(&config).collect();
    let value = |symbol: &str| settings.get(symbol).copied().flatten();
    let pci = value("CONFIG_UML_PCI_OVER_VIRTIO") == Some("y");
    let id = value("CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID").and_then(|id| id.parse().ok());
    let modules = modules_beside(path, &release);
    Ok(KernelInfo {
        path: path.clone(),
        pci_device_id: id.filter(|_| pci),
        drivers: drivers_of(&config),
        has_bridge: modules.as_deref().is_some_and(bridge::is_among),
        modules,
        lacks: NEEDED.into_iter().filter(|symbol| value(symbol) != Some("y")).collect(),
        release,
    })
}

impl KernelInfo {
    /// An error that names what is missing, if this kernel cannot be a target.
    pub fn check(&self) -> Result<()> {
        let mut symbols: Vec<String> =
            self.lacks.iter().map(|symbol| format!("{symbol}=y")).collect();
        if self.pci_device_id.is_none() && symbols.is_empty() {
            symbols.push("CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID=1234".to_owned());
        }
        if symbols.is_empty() { Ok(()) } else { Err(KernelError::Config { symbols }) }
    }

    /// Whether a module of this name is beside it.
    pub fn has_module(&self, name: &str) -> bool {
        self.modules.as_deref().is_some_and(|modules| module_file(modules, name).is_some())
    }
}

/// The file of a module: of those that are installed in this directory, or of those that a build tree lists.
pub fn module_file(modules: &Path, name: &str) -> Option<PathBuf> {
    let list = |name| fs::read_to_string(modules.join(name)).ok();
    let list = list("modules.dep").or_else(|| list("modules.order"))?;
    let paths = list.lines().filter_map(|line| line.split(':').next());
    let mut paths = paths.map(|path| Path::new(path).with_extension("ko"));
    let is_it = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == name);
    paths.find(is_it).map(|path| modules.join(path))
}

/// Runs the kernel with an option that prints something and leaves.
fn ask(kernel: &Path, option: &str) -> Result<String> {
    let run = |source| KernelError::Run { program: kernel.display().to_string(), source };
    let mut child = Command::new(kernel)
        .arg(option)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(run)?;
    let output = child.stdout.take();
    let mut group = Group::from_leader(child);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A configuration has some hundred kilobytes.
        let read = output.map(|output| output.take(8 << 20).read_to_end(&mut bytes));
        drop(read);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let until = Instant::now() + PATIENCE;
    while group.try_wait()?.is_none() {
        if Instant::now() > until {
            return Err(KernelError::NotUml {
                path: kernel.to_owned(),
                why: format!("it does not answer {option} within {} s", PATIENCE.as_secs()),
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(reader.join().unwrap_or_default())
}

/// Modules as an image, an installation or a build tree keeps them.
fn modules_beside(kernel: &Path, release: &str) -> Option<PathBuf> {
    let directory = kernel.parent()?;
    let installed = ["modules", "lib/modules"]
        .map(|place| directory.join(place).join(release))
        .into_iter()
        .find(|path| path.join("modules.dep").is_file());
    installed.or_else(|| {
        let lists = fs::read_to_string(directory.join("modules.order"));
        lists.is_ok_and(|list| !list.trim().is_empty()).then(|| directory.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(bytes: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux");
        fs::write(&path, bytes).unwrap();
        inspect(&path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_uml_kernel_is_not_run() {
        assert!(error_of(b"#!/bin/sh\ntouch /tmp/x\n").contains("no program"));
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        assert!(error_of(&image).contains("real machine"));
        let error = inspect(Path::new("/bin/true")).unwrap_err().to_string();
        assert!(error.contains("another program"), "{error}");
    }

    #[test]
    fn modules_are_found_as_an_image_and_as_a_build_tree_have_them() {
        let directory = tempfile::tempdir().unwrap();
        let kernel = directory.path().join("linux");
        assert_eq!(modules_beside(&kernel, "6.1"), None);
        fs::write(directory.path().join("modules.order"), "a/b.o\n").unwrap();
        assert_eq!(modules_beside(&kernel, "6.1").as_deref(), Some(directory.path()));
        let installed = directory.path().join("modules/6.1");
        fs::create_dir_all(&installed).unwrap();
        fs::write(installed.join("modules.dep"), "").unwrap();
        assert_eq!(modules_beside(&kernel, "6.1"), Some(installed.clone()));

        fs::write(installed.join("modules.dep"), "extra/mine.ko:\nextra/other.ko: extra/mine.ko\n")
            .unwrap();
        let info = KernelInfo {
            path: kernel,
            release: "6.1".into(),
            pci_device_id: None,
            drivers: BTreeMap::new(),
            modules: Some(installed),
            has_bridge: false,
            lacks: Vec::new(),
        };
        assert!(info.has_module("mine") && info.has_module("other"));
        assert!(!info.has_module("min") && !info.has_module("another"));
        assert!(!KernelInfo { modules: None, ..info }.has_module("mine"));
    }
}
