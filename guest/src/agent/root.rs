//! A directory tree for programs of the host: a file system in memory with directories of the host in it, which
//! User Mode Linux reads by hostfs. None of them can be written through it: that would need this machine's permission
//! as well, which the support side does not give.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nix::mount::{MsFlags, mount};
use warikomi_protocol::answers::Done;
use warikomi_protocol::commands::MountRoot;

use super::error::{AgentError, Context, Result};

/// Where the tree is.
pub(super) const ROOT: &str = "/programs";
/// What lies below and above the directories that may be written in, out of sight of the programs.
const LAYERS: &str = "/layers";

/// Directories that programs expect.
const MADE: [&str; 8] = ["dev", "etc", "proc", "root", "run", "sys", "tmp", "var"];

/// The kernel's own file systems, where programs expect them.
const KERNELS: [(&str, &str); 4] =
    [("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev"), ("tmpfs", "run")];
/// Those that a kernel may be without.
const OPTIONAL: [(&str, &str); 2] =
    [("debugfs", "sys/kernel/debug"), ("configfs", "sys/kernel/config")];

/// Links that programs expect; a shell names its pipes by the first.
const LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("var/run", "../run"),
];

/// Files that are there, because programs ask for them: who root is, and by which name a machine calls itself.
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
    ("etc/group", "root:x:0:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
];

/// Makes it.
pub(super) fn mount_root(command: &MountRoot) -> Result<Done> {
    let root = Path::new(ROOT);
    if root.exists() {
        return Err(AgentError::Other("there is a root for programs already".into()));
    }
    mount_at("tmpfs", Path::new(ROOT), MsFlags::empty(), None)?;
    for name in MADE {
        make(&root.join(name))?;
    }
    for directory in &command.directories {
        let host = absolute(directory)?;
        mount_host(&host, &below(root, &host)?)?;
    }
    for (path, target) in &command.links {
        let path = below(root, &absolute(path)?)?;
        symlink(target, &path).context(|| format!("make the link {}", path.display()))?;
    }
    if !command.overlaid.is_empty() {
        mount_at("tmpfs", Path::new(LAYERS), MsFlags::empty(), None)?;
    }
    for (number, (host, at)) in command.overlaid.iter().enumerate() {
        overlay(number, &absolute(host)?, &below(root, &absolute(at)?)?)?;
    }
    for (kind, at) in KERNELS {
        mount_at(kind, &root.join(at), MsFlags::empty(), None)?;
    }
    for (kind, at) in OPTIONAL.map(|(kind, at)| (kind, root.join(at))) {
        if at.is_dir() {
            mount_at(kind, &at, MsFlags::empty(), None)?;
        }
    }
    for (path, target) in LINKS {
        symlink(target, root.join(path)).context(|| format!("make the link /{path}"))?;
    }
    for (path, text) in FILES {
        fs::write(root.join(path), text).context(|| format!("write /{path}"))?;
    }
    Ok(Done {})
}

/// A directory of the host, with one of the guest's memory above it.
fn overlay(number: usize, host: &Path, at: &Path) -> Result<()> {
    let layer = |name: &str| Path::new(LAYERS).join(number.to_string()).join(name);
    let (lower, upper, work) = (layer("lower"), layer("upper"), layer("work"));
    mount_host(host, &lower)?;
    make(&upper)?;
    make(&work)?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount_at("overlay", at, MsFlags::empty(), Some(&options))
}

fn mount_host(host: &Path, at: &Path) -> Result<()> {
    mount_at("hostfs", at, MsFlags::MS_RDONLY, Some(&host.to_string_lossy()))
}

fn mount_at(kind: &str, at: &Path, flags: MsFlags, options: Option<&str>) -> Result<()> {
    make(at)?;
    let mounted = mount(Some(kind), at, Some(kind), flags, options);
    mounted.context(|| {
        format!(
            "mount {kind} at {}; `warikomi kernel build --selftests` makes kernels that can",
            at.display()
        )
    })
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).context(|| format!("make {}", directory.display()))
}

/// A path that begins at the root and goes nowhere but down.
fn absolute(path: &str) -> Result<PathBuf> {
    let path = Path::new(path);
    let mut parts = path.components();
    let begins = parts.next() == Some(Component::RootDir);
    if begins && parts.all(|part| matches!(part, Component::Normal(_))) {
        return Ok(path.to_owned());
    }
    Err(AgentError::Invalid {
        what: "the path",
        expected: "an absolute one without '..'",
        given: path.display().to_string(),
    })
}

/// The same path below the tree, with the directories above it made.
fn below(root: &Path, path: &Path) -> Result<PathBuf> {
    let path = root.join(path.strip_prefix("/").unwrap_or(path));
    make(path.parent().unwrap_or(root))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_and_go_down() {
        for good in ["/usr", "/a/b.c/d"] {
            assert_eq!(absolute(good).unwrap(), Path::new(good));
        }
        for bad in ["", "usr", "/a/../b", "..", "./a"] {
            assert!(absolute(bad).is_err(), "{bad}");
        }
        let directory = tempfile_root();
        let path = below(&directory, Path::new("/x/y/z")).unwrap();
        assert!(path.starts_with(&directory) && path.ends_with("x/y/z"));
        assert!(directory.join("x/y").is_dir() && !path.exists());
        fs::remove_dir_all(directory).unwrap();
    }

    fn tempfile_root() -> PathBuf {
        let name = format!("warikomi-guest-root-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}
