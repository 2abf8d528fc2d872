//! The kernel as a process, and everything that has to go when it goes.
//!
//! The kernel forks: its own processes run under its `ptrace`, and would be left behind, running
//! free, if only the first process were killed. So it leads a process group of its own (it would
//! start a session, and leave any other group), which is ended as a whole.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::sys::personality::{self, Persona};
use tempfile::TempDir;
use warikomi_clock::Clock;

use warikomi_pci::attach::bridge;

use super::calendar::Calendar;
use super::options::{Attachment, LaunchOptions};
use crate::TargetError;
use crate::console::console_pipe;
use crate::group::{Group, Guard, in_our_session};
use crate::sandbox::Sandbox;

/// Where the kernel keeps its memory: a file system in memory.
const MEMORY_DIR: &str = "/dev/shm";

/// What the kernel needs there beyond its memory, in MB. (Its memory is in a file elsewhere if that can be sealed, which
/// is known only when it runs.)
const SLACK_MB: u64 = 16;

/// By how much the file of its memory may be longer than that, in MB: a kernel adds the distance between its program and
/// its heap, a hole in the file, for which the system draws up to 1 GB (Linux, `arch_randomize_brk`).
const HEAP_GAP_MB: u64 = 1_024;

/// How long the kernel waits for the answer to a read of a register before it gives up.
///
/// Its own 40 ms are less than a busy machine may take our core for, and it never recovers: the
/// answer that comes late is taken for that of the next read, and so on for ever, so that a handler
/// sees no reason for its interrupt and the device is never heard of again. A kernel that can be told
/// no other time (6.1) ignores this.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// The virtio device that is virt-pci's (CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID).
const VIRT_PCI_DEVICE: u32 = 1234;

/// The socket of its calendar, in its directory.
const CALENDAR: &str = "time";
/// Tells the agent that the counter it reads is that of virtual time.
const VIRTUAL_CLOCK_ARGUMENT: &str = "warikomi.clock=virtual";
/// The library that is loaded before the kernel's C library, in the kernel's directory.
const PRELOAD: &str = "preload.so";
/// Where it finds its seed.
const SEED_VARIABLE: &str = "WARIKOMI_SEED";

/// The running kernel.
pub(super) struct Process {
    group: Group,
    id: u32,
    dir: Option<TempDir>,
    _socket: SocketFile,
}

/// Our ends of what the kernel was given.
pub(super) struct Channels {
    pub(super) listener: UnixListener,
    pub(super) agent: UnixStream,
    pub(super) console: File,
    /// In virtual time, where the kernel asks for its time.
    pub(super) calendar: Option<Calendar>,
}

impl Process {
    /// Starts a kernel that has this number of cards.
    pub(super) fn start(
        options: &LaunchOptions,
        cards: usize,
        clock: &Clock,
    ) -> Result<(Process, Channels), TargetError> {
        check_space(Path::new(MEMORY_DIR), options.memory_mb)?;
        let dir = tempfile::Builder::new()
            .prefix("warikomi-")
            .tempdir_in(MEMORY_DIR)
            .map_err(TargetError::system("cannot make a directory in /dev/shm"))?;
        // The kernel runs in another directory than we do.
        let path = match &options.socket {
            Some(path) => std::path::absolute(path)
                .map_err(TargetError::system("cannot tell where the socket should be"))?,
            None => dir.path().join("nic"),
        };
        let (listener, socket) = listen(&path)?;
        let calendar = match clock {
            Clock::Virtual(clock) => Some(Calendar::at(&dir.path().join(CALENDAR), *clock)),
            Clock::Real(_) => None,
        };
        let calendar = calendar
            .transpose()
            .map_err(TargetError::system("cannot make the calendar's socket"))?;

        let guard = Guard::start(dir.path(), &path)?;
        let (ours, theirs) =
            UnixStream::pair().map_err(TargetError::system("cannot make a socket pair"))?;
        let (console, console_end) = console_pipe()?;
        std::fs::write(dir.path().join(PRELOAD), options.preload).map_err(TargetError::system(
            "cannot write the library that a kernel is started with",
        ))?;
        let mut command = kernel_command(options, cards, dir.path(), &path);
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(console_end.try_clone().map_err(TargetError::system("cannot share a pipe"))?)
            .stderr(console_end);
        let in_step = matches!(options.attachment, Attachment::InStep(_));
        let fixed = in_step.then(FixedAddresses::for_children).transpose();
        let _fixed = fixed.map_err(TargetError::errno("cannot fix addresses (personality)"))?;
        let sandbox = options.confined.then(|| sandbox_of(options, dir.path()));
        let place = (options.core, sandbox.as_ref());
        let (group, id) = Group::start(guard, place, || in_our_session(&mut command))
            .map_err(|error| TargetError::CannotStart { path: options.kernel.clone(), error })?;
        let process = Process { group, id, dir: Some(dir), _socket: socket };
        Ok((process, Channels { listener, agent: ours, console, calendar }))
    }

    /// The exit status, once the kernel has ended.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.group.exit_status(self.id)
    }

    /// Process id of the kernel, for a debugger.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Whether it stands still because a debugger holds it, or something has stopped it.
    pub(super) fn is_held(&self) -> bool {
        let process = procfs::process::Process::new(self.id() as i32);
        process.and_then(|process| process.stat()).is_ok_and(|stat| matches!(stat.state, 't' | 'T'))
    }

    /// Ends every process of the group, waits until they are gone, and removes the directory.
    pub(super) fn stop(&mut self) -> Result<(), TargetError> {
        let ended = self.group.end();
        if let Some(dir) = self.dir.take() {
            dir.close().map_err(TargetError::system("cannot remove the target's directory"))?;
        }
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to tell what went wrong.
        let _ = self.stop();
    }
}

/// Programs started meanwhile by this thread have their memory at the same addresses each time: a kernel's physical
/// memory begins where its program's ends, and cards see its addresses.
struct FixedAddresses {
    before: Persona,
}

impl FixedAddresses {
    fn for_children() -> nix::Result<FixedAddresses> {
        let before = personality::get()?;
        personality::set(before | Persona::ADDR_NO_RANDOMIZE)?;
        Ok(FixedAddresses { before })
    }
}

impl Drop for FixedAddresses {
    fn drop(&mut self) {
        // What was in force can be again.
        let _ = personality::set(self.before);
    }
}

fn kernel_command(options: &LaunchOptions, cards: usize, dir: &Path, socket: &Path) -> Command {
    let device = match options.attachment {
        Attachment::VirtPci => VIRT_PCI_DEVICE,
        Attachment::Bridge { .. } | Attachment::InStep(_) => bridge::VIRTIO_DEVICE,
    };
    // The kernel's random numbers depend on its arguments, so the directory's name, which is another each time, is not
    // among them: it runs there.
    let socket = socket.strip_prefix(dir).unwrap_or(socket);
    let mut command = Command::new(&options.kernel);
    command
        .arg(format!("mem={}M", options.memory_mb))
        .arg(format!("initrd={}", options.initramfs.display()))
        .args(vec![format!("virtio_uml.device={}:{device}", socket.display()); cards])
        .arg(format!("virt_pci.max_delay_us={}", READ_PATIENCE.as_micros()))
        .args(["uml_dir=.", "umid=target", "rdinit=/init", "root=/dev/ram0"])
        // The agent's line is the first serial line, on our standard input; the console goes out
        // through standard output. Nothing else may start a terminal.
        .args(["ssl0=fd:0", "ssl=null", "con0=null,fd:1", "con=null"])
        .args(["console=tty0", "loglevel=4", "panic=-1"])
        .env_clear()
        .env("TMPDIR", dir)
        .env("HOME", dir)
        .env("LD_PRELOAD", format!("./{PRELOAD}"))
        .current_dir(dir);
    if let Attachment::InStep(_) = options.attachment {
        command
            .arg(format!("time-travel=ext:{CALENDAR}"))
            // Programs have the same addresses each time, so the kernel allocates the same for them.
            .arg("norandmaps")
            .arg(VIRTUAL_CLOCK_ARGUMENT);
    }
    if let Some(seed) = options.seed {
        command.env(SEED_VARIABLE, seed.to_string());
    }
    command.args(&options.extra_arguments);
    command
}

/// What the kernel needs: its directory, in which its memory is a file, its own program and initramfs, and of the system
/// what it asks before it boots (`/proc`: the processor's flags, where files in memory may be); and what it is to read
/// for its guest.
fn sandbox_of(options: &LaunchOptions, dir: &Path) -> Sandbox {
    let kernel =
        Sandbox::of_kernel(&options.kernel).reading(&options.initramfs).reading(Path::new("/proc"));
    let reads = options.reads.iter();
    reads
        .fold(kernel, |sandbox, path| sandbox.reading(path))
        .with_directory(dir, (options.memory_mb + HEAP_GAP_MB + SLACK_MB) << 20)
}

/// The socket's file, which goes with this.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have gone with the target's directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn listen(socket: &Path) -> Result<(UnixListener, SocketFile), TargetError> {
    match warikomi_shared::listen_at(socket) {
        Ok(listener) => Ok((listener, SocketFile(socket.to_owned()))),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Err(TargetError::SocketBusy { path: socket.to_owned() })
        }
        Err(error) => {
            Err(TargetError::System { what: "cannot make the socket for the NIC", error })
        }
    }
}

/// Memory that a guest can have to share: what it was given, and a little that its kernel may add.
pub(super) fn given_bytes(options: &LaunchOptions) -> u64 {
    options.memory_mb.saturating_add(SLACK_MB).saturating_mul(1 << 20)
}

fn check_space(dir: &Path, memory_mb: u64) -> Result<(), TargetError> {
    let stat = nix::sys::statvfs::statvfs(dir)
        .map_err(TargetError::errno("cannot look at /dev/shm, where the target's memory goes"))?;
    let have_mb = stat.blocks_available() * stat.fragment_size() / (1 << 20);
    let need_mb = memory_mb + SLACK_MB;
    if have_mb >= need_mb {
        return Ok(());
    }
    Err(TargetError::NoSpace { dir: dir.to_owned(), need_mb, have_mb })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_busy_socket_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nic");
        let first = listen(&path).unwrap();
        let Err(error) = listen(&path) else { panic!("it was bound twice") };
        let error = error.to_string();
        assert!(error.contains("in use by another process") && error.contains("nic"), "{error}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        assert!(!path.exists());
    }

    fn arguments(attachment: Attachment, cards: usize, extra: &str) -> Vec<String> {
        let options = LaunchOptions {
            kernel: "linux".into(),
            initramfs: "initramfs".into(),
            memory_mb: 64,
            core: None,
            socket: None,
            extra_arguments: vec![extra.into()],
            attachment,
            shared_core: false,
            preload: &[],
            seed: None,
            reads: vec![],
            confined: true,
        };
        let command = kernel_command(&options, cards, Path::new("/dir"), Path::new("/dir/nic"));
        command.get_args().map(|argument| argument.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_kernel_waits_longer_than_a_core_may_be_taken_and_may_be_told_otherwise() {
        let given = arguments(Attachment::VirtPci, 1, "virt_pci.max_delay_us=1");
        let of = |text| given.iter().position(|argument| argument == text);
        let (ours, theirs) = (of("virt_pci.max_delay_us=10000000"), of("virt_pci.max_delay_us=1"));
        assert!(ours.is_some() && ours < theirs, "the last one counts: {given:?}");
    }

    #[test]
    fn a_kernel_is_given_a_device_for_each_card_on_the_same_socket() {
        let given = arguments(Attachment::Bridge { polling: true }, 3, "quiet");
        let of = |text: &str| given.iter().filter(|argument| *argument == text).count();
        assert_eq!(of("virtio_uml.device=nic:1235"), 3, "{given:?}");
    }

    #[test]
    fn too_little_space_is_found_before_the_start() {
        let error = check_space(Path::new("/dev/shm"), 1 << 40).unwrap_err().to_string();
        assert!(error.contains("MB free"), "{error}");
    }
}
