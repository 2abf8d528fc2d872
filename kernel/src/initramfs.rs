//! The initramfs: the guest agent as `/init`, the modules, and the few nodes that must be there
//! before it mounts anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::newc::Builder;
use ignore::WalkBuilder;

use crate::error::{FileContext, KernelError, Result};
use crate::inspect::KernelInfo;
use crate::tools;

const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warikomi-guest"));

const DIRECTORIES: [&str; 5] = ["dev", "proc", "sys", "tmp", "lib"];

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;
const CONSOLE: u32 = 0o020_600;

/// Device number of `/dev/console`.
const CONSOLE_NUMBER: (u32, u32) = (5, 1);

/// The guest agent: a static x86-64 program, to be run as the first of a kernel target.
pub fn agent() -> &'static [u8] {
    AGENT
}

/// Writes an initramfs for a kernel that is not in the cache: the agent, and the modules that
/// [`crate::inspect`] found beside it (none, if the drivers are built in).
pub fn initramfs_for(kernel: &KernelInfo, destination: &Path) -> Result<()> {
    let Some(modules) = &kernel.modules else {
        return write(None, destination);
    };
    if modules.join("modules.dep").is_file() {
        return write(Some((modules, &kernel.release)), destination);
    }
    // A build tree: gather what it lists, and let depmod describe it.
    let staging = tempfile::tempdir().at("make a directory in", std::env::temp_dir())?;
    let gathered = staging.path().join("lib/modules").join(&kernel.release);
    gather(modules, &gathered)?;
    run_depmod(staging.path(), &kernel.release)?;
    write(Some((&gathered, &kernel.release)), destination)
}

/// Copies every module of a build tree.
fn gather(tree: &Path, into: &Path) -> Result<()> {
    let list = tree.join("modules.order");
    let order = fs::read_to_string(&list).at("read", &list)?;
    fs::create_dir_all(into).at("make the directory", into)?;
    for line in order.lines() {
        // Older trees list modules as they will be installed, newer ones as objects.
        let relative = line.strip_prefix("kernel/").unwrap_or(line);
        let relative = Path::new(relative).with_extension("ko");
        let (from, to) = (tree.join(&relative), into.join("kernel").join(&relative));
        let parent = to.parent().unwrap_or(into);
        fs::create_dir_all(parent).at("make the directory", parent)?;
        fs::copy(&from, &to).at("copy", &from)?;
    }
    for name in ["modules.order", "modules.builtin"] {
        // Only a convenience to depmod and the agent.
        let _ = fs::copy(tree.join(name), into.join(name));
    }
    Ok(())
}

pub(crate) fn run_depmod(base: &Path, release: &str) -> Result<()> {
    let program = tools::find("depmod").unwrap_or_else(|| PathBuf::from("depmod"));
    let output =
        Command::new(&program).arg("-b").arg(base).arg(release).output().map_err(|source| {
            KernelError::Run { program: program.display().to_string(), source }
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(KernelError::Step {
        step: "depmod".to_owned(),
        status: output.status.to_string(),
        log: PathBuf::from("(none)"),
        tail: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Writes the archive beside its destination and renames it, so that there is never half of one.
/// `modules` is a directory of modules, and the release that it is for.
pub(crate) fn write(modules: Option<(&Path, &str)>, destination: &Path) -> Result<()> {
    let parent = destination.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(parent).at("make a file in", parent)?;
    let mut archive = Archive { out: BufWriter::new(file), inode: 0 };
    archive.fill(modules).at("write", destination)?;
    let file = archive.out.into_inner().map_err(io::IntoInnerError::into_error);
    let file = file.at("write", destination)?;
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(permissions).at("set the mode of", destination)?;
    file.persist(destination).map_err(|error| error.error).at("write", destination)?;
    Ok(())
}

struct Archive<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn fill(&mut self, modules: Option<(&Path, &str)>) -> io::Result<()> {
        for directory in DIRECTORIES {
            self.add(directory, DIRECTORY, &[])?;
        }
        self.console()?;
        self.add("init", PROGRAM, AGENT)?;
        if let Some((directory, release)) = modules {
            self.modules(directory, release)?;
        }
        cpio::newc::trailer(&mut self.out)?;
        self.out.flush()
    }

    fn modules(&mut self, directory: &Path, release: &str) -> io::Result<()> {
        let mut files = BTreeSet::new();
        for entry in WalkBuilder::new(directory).standard_filters(false).build() {
            let entry = entry.map_err(io::Error::other)?;
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                files.insert(entry.into_path());
            }
        }
        let root = format!("lib/modules/{release}");
        // The kernel makes no parents by itself.
        let mut made: BTreeSet<PathBuf> = DIRECTORIES.iter().map(PathBuf::from).collect();
        for file in files {
            let relative = file.strip_prefix(directory).map_err(io::Error::other)?;
            let name = Path::new(&root).join(relative);
            let mut parents: Vec<_> = name.ancestors().skip(1).collect();
            parents.reverse();
            for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
                if made.insert(parent.to_owned()) {
                    self.add(&parent.to_string_lossy(), DIRECTORY, &[])?;
                }
            }
            self.add(&name.to_string_lossy(), PLAIN, &fs::read(&file)?)?;
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32) -> Builder {
        self.inode += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        Builder::new(name).ino(self.inode).mode(mode).nlink(links)
    }

    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut writer = self.entry(name, mode).write(&mut self.out, size);
        writer.write_all(bytes)?;
        writer.finish()?;
        Ok(())
    }

    fn console(&mut self) -> io::Result<()> {
        let (major, minor) = CONSOLE_NUMBER;
        let entry = self.entry("dev/console", CONSOLE).rdev_major(major).rdev_minor(minor);
        entry.write(&mut self.out, 0).finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Name, mode, bytes of every entry.
    fn entries(archive: &Path) -> Vec<(String, u32, Vec<u8>)> {
        let mut file = fs::File::open(archive).unwrap();
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(file).unwrap();
            if reader.entry().is_trailer() {
                return found;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            found.push((name, mode, bytes));
            file = reader.finish().unwrap();
        }
    }

    #[test]
    fn an_initramfs_has_the_agent_the_console_and_the_modules_with_their_parents() {
        let directory = tempfile::tempdir().unwrap();
        let modules = directory.path().join("modules");
        fs::create_dir_all(modules.join("kernel/net")).unwrap();
        fs::write(modules.join("kernel/net/r8169.ko"), b"module").unwrap();
        fs::write(modules.join("modules.dep"), b"kernel/net/r8169.ko:\n").unwrap();
        let archive = directory.path().join("initramfs");
        write(Some((&modules, "6.1.0")), &archive).unwrap();
        let found = entries(&archive);
        let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        let expected = [
            "dev",
            "proc",
            "sys",
            "tmp",
            "lib",
            "dev/console",
            "init",
            "lib/modules",
            "lib/modules/6.1.0",
            "lib/modules/6.1.0/kernel",
            "lib/modules/6.1.0/kernel/net",
            "lib/modules/6.1.0/kernel/net/r8169.ko",
            "lib/modules/6.1.0/modules.dep",
        ];
        assert_eq!(names, expected);
        assert_eq!((found[6].1, found[6].2.as_slice()), (PROGRAM, AGENT));
        assert_eq!(found[5].1, CONSOLE);
        assert_eq!(found[11].2, b"module");
        let again = directory.path().join("again");
        write(Some((&modules, "6.1.0")), &again).unwrap();
        assert_eq!(fs::read(archive).unwrap(), fs::read(again).unwrap());
    }

    #[test]
    fn the_agent_is_a_static_program_and_small() {
        assert_eq!(&AGENT[..4], b"\x7fELF");
        // ELF64: a program header of type PT_INTERP (3) would name a dynamic loader.
        let number = |at: usize| usize::from(u16::from_le_bytes([AGENT[at], AGENT[at + 1]]));
        let headers = u64::from_le_bytes(AGENT[32..40].try_into().unwrap());
        let (first, size, count) = (usize::try_from(headers).unwrap(), number(54), number(56));
        assert!(count > 0);
        for index in 0..count {
            assert_ne!(number(first + index * size), 3, "the agent is not static");
        }
        assert!(AGENT.len() < 4 << 20, "{} bytes", AGENT.len());
    }
}
