//! Kernels for a real machine, as a distribution's packages hold them: what a hypervisor boots.
//!
//! Nothing of them is changed. From their modules an initramfs is made that holds the guest agent and the
//! drivers asked for, with what these need: a whole set of modules would not fit a small guest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ignore::WalkBuilder;

use crate::error::{FileContext, KernelError, Result};
use crate::{initramfs, tools};

/// What compressed modules end with, and which program makes them plain.
const COMPRESSED: [(&str, &str); 3] = [("xz", "xz"), ("zst", "zstd"), ("gz", "gzip")];

/// A kernel for a real machine, and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineKernel {
    /// The image that boots.
    pub image: PathBuf,
    /// `uname -r`.
    pub release: String,
    /// Directory of its modules.
    modules: PathBuf,
}

impl MachineKernel {
    /// The newest one below `root`: `/`, or the directory into which a package was unpacked. `None` if there is
    /// none that has modules.
    pub fn newest_below(root: &Path) -> Result<Option<MachineKernel>> {
        let boot = root.join("boot");
        let entries = match fs::read_dir(&boot) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            entries => entries.at("read the directory", &boot)?,
        };
        let found = entries.flatten().filter_map(|entry| {
            let release = entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            let places = ["lib/modules", "usr/lib/modules"].map(|place| root.join(place));
            let modules = places.into_iter().map(|place| place.join(&release));
            let modules = modules.into_iter().find(|modules| modules.join("kernel").is_dir())?;
            Some(MachineKernel { image: entry.path(), release, modules })
        });
        Ok(found.max_by_key(|kernel| numbers(&kernel.release)))
    }

    /// Writes an initramfs with the guest agent, these drivers, and the modules that they need.
    pub fn write_initramfs(&self, drivers: &[&str], destination: &Path) -> Result<()> {
        let files = self.files();
        let staging = tempfile::tempdir().at("make a directory in", std::env::temp_dir())?;
        let gathered = staging.path().join("lib/modules").join(&self.release);
        fs::create_dir_all(&gathered).at("make the directory", &gathered)?;
        let mut wanted: Vec<String> = drivers.iter().map(|driver| canonical(driver)).collect();
        let mut taken = Vec::new();
        while let Some(name) = wanted.pop() {
            // What is built in has no file, and needs none.
            let Some(file) = files.get(&name).filter(|_| !taken.contains(&name)) else { continue };
            let bytes = read_module(file)?;
            wanted.extend(needs(&bytes));
            let copy = gathered.join(format!("{name}.ko"));
            fs::write(&copy, bytes).at("write", &copy)?;
            taken.push(name);
        }
        for name in ["modules.order", "modules.builtin"] {
            // A convenience to depmod and the agent; a package may lack it.
            let _ = fs::copy(self.modules.join(name), gathered.join(name));
        }
        initramfs::run_depmod(staging.path(), &self.release)?;
        initramfs::write(Some((&gathered, &self.release)), destination)
    }

    /// Every module by its name.
    fn files(&self) -> BTreeMap<String, PathBuf> {
        let walk = WalkBuilder::new(self.modules.join("kernel")).standard_filters(false).build();
        let module = |path: PathBuf| {
            let (name, ending) = path.file_name()?.to_str()?.split_once(".ko")?;
            let known =
                ending.is_empty() || COMPRESSED.iter().any(|(known, _)| ending[1..] == **known);
            known.then(|| (canonical(name), path.clone()))
        };
        walk.flatten().filter_map(|entry| module(entry.into_path())).collect()
    }
}

/// The kernel's spelling of a module's name.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// The numbers in a release, so that 6.10 is newer than 6.9.
fn numbers(release: &str) -> Vec<u64> {
    let digits = release.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// A module's bytes, made plain if it is compressed.
fn read_module(path: &Path) -> Result<Vec<u8>> {
    let ending = path.extension().unwrap_or_default();
    let Some((_, program)) = COMPRESSED.iter().find(|(known, _)| ending == *known) else {
        return fs::read(path).at("read the module", path);
    };
    let run = |source| KernelError::Run { program: (*program).to_owned(), source };
    let found = tools::find(program).unwrap_or_else(|| PathBuf::from(program));
    let output = Command::new(found).arg("-dc").arg(path).output().map_err(run)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(KernelError::Step {
        step: format!("{program} -dc {}", path.display()),
        status: output.status.to_string(),
        log: PathBuf::from("(none)"),
        tail: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The modules that a module names as its needs: the field `depends` of its section `.modinfo`, in which
/// fields end with a zero.
fn needs(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(at) = module.windows(FIELD.len()).position(|window| window == FIELD) else {
        return Vec::new();
    };
    let value = module[at + FIELD.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(canonical).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(releases: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("boot")).unwrap();
        for release in releases {
            let net = root.path().join("lib/modules").join(release).join("kernel/net");
            fs::create_dir_all(&net).unwrap();
            fs::write(root.path().join("boot").join(format!("vmlinuz-{release}")), "").unwrap();
            fs::write(net.join("8139cp.ko"), b"x\0depends=mii,crc-x\0y\0").unwrap();
            fs::write(net.join("mii.ko"), b"x\0depends=\0").unwrap();
        }
        root
    }

    #[test]
    fn the_newest_is_found_by_its_numbers_and_only_with_modules() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(MachineKernel::newest_below(empty.path()).unwrap(), None);
        let root = root(&["6.9.2-amd64", "6.10.1-amd64"]);
        fs::write(root.path().join("boot/vmlinuz-7.0"), "").unwrap();
        let found = MachineKernel::newest_below(root.path()).unwrap().unwrap();
        assert_eq!(found.release, "6.10.1-amd64");
        assert!(found.image.ends_with("boot/vmlinuz-6.10.1-amd64"));
    }

    #[test]
    fn what_a_module_needs_is_read_from_it_and_found_beside_it() {
        assert_eq!(needs(b"\0license=GPL\0depends=mii,crc-x\0name=a\0"), ["mii", "crc_x"]);
        assert_eq!(needs(b"\0depends=\0name=a\0"), [""; 0]);
        assert_eq!(needs(b"no module"), [""; 0]);
        let root = root(&["6.1"]);
        let kernel = MachineKernel::newest_below(root.path()).unwrap().unwrap();
        let names: Vec<_> = kernel.files().into_keys().collect();
        assert_eq!(names, ["8139cp", "mii"]);
    }

    #[test]
    fn a_compressed_module_is_made_plain_and_one_that_is_broken_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("a.ko");
        fs::write(&plain, "module").unwrap();
        let packed = Command::new("gzip").arg("-k").arg(&plain).status().unwrap();
        assert!(packed.success());
        assert_eq!(read_module(&directory.path().join("a.ko.gz")).unwrap(), b"module");
        fs::write(directory.path().join("b.ko.gz"), "nonsense").unwrap();
        let error = read_module(&directory.path().join("b.ko.gz")).unwrap_err().to_string();
        assert!(error.contains("gzip -dc"), "{error}");
    }
}
