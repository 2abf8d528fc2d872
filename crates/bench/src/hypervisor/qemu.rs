//! QEMU as a process: what it is started with, and its end.
//!
//! The card is a device of QEMU's. Its other side is one end of a pair of sockets of which we have the other, so that
//! a datagram that we send is a frame that the card is given. The agent's line is the second serial line, the
//! console the first. Nothing of it is in the file system, and all of it goes with the process.
//!
//! QEMU's processor is a thread of its own. It runs on the target's core, and everything else of QEMU, which plays
//! the card, anywhere but there: with two cores that is where we are, as our own cards are.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use procfs::process::Process;
use warikomi_protocol::CHANNEL_PARAMETER;
use warikomi_protocol::commands::mac_text;
use warikomi_target::TargetError;
use warikomi_target::console::console_pipe;
use warikomi_target::cores::{Cores, allowed_cores};
use warikomi_target::group::{Group, Guard, in_our_session};

/// The program, and Debian's package that has it.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";
pub(super) const PACKAGE: &str = "qemu-system-x86";

/// The guest's memory.
const MEMORY_MB: &str = "256";

/// The card's hardware address.
pub(super) const CARD_MAC: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 2];

/// A card that QEMU plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// As QEMU calls it.
    pub(super) name: &'static str,
    /// The driver that Linux has for it.
    pub(super) driver: &'static str,
    /// What the driver is loaded with: nothing may hold interrupts back.
    pub(super) parameters: &'static [&'static str],
    /// What its receive interrupt is called in the guest.
    pub(super) interrupt: &'static str,
}

impl Device {
    pub(super) const ALL: [Device; 2] = [
        Device {
            name: "e1000e",
            driver: "e1000e",
            parameters: &["InterruptThrottleRate=0"],
            interrupt: "eth0-rx-0",
        },
        Device { name: "rtl8139", driver: "8139cp", parameters: &[], interrupt: "eth0" },
    ];
}

/// How QEMU runs the guest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// It translates it.
    Tcg,
    /// The host's processor runs it.
    Kvm,
}

impl Accelerator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        }
    }

    /// What the guest's kernel is told. A translated guest cannot measure its processor's counter against its
    /// other clocks when QEMU is not running all the time; this clock is right by itself.
    fn kernel_arguments(self) -> &'static str {
        match self {
            Accelerator::Tcg => "clocksource=hpet",
            Accelerator::Kvm => "",
        }
    }
}

/// What boots.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    /// The program.
    pub(super) program: PathBuf,
    pub(super) image: PathBuf,
    /// Its `uname -r`.
    pub(super) release: String,
    pub(super) initramfs: PathBuf,
}

/// A running QEMU; dropping it ends it.
pub(super) struct Qemu {
    group: Group,
    id: u32,
}

/// Our ends of what it was given.
pub(super) struct Ends {
    /// Each datagram is a frame.
    pub(super) wire: UnixDatagram,
    pub(super) agent: UnixStream,
    pub(super) console: File,
}

impl Qemu {
    pub(super) fn start(
        boot: &Boot,
        device: &Device,
        accelerator: Accelerator,
        cores: Cores,
    ) -> Result<(Qemu, Ends), TargetError> {
        let pair = TargetError::system("cannot make a socket pair for QEMU");
        let (wire, its_wire) = UnixDatagram::pair().map_err(pair)?;
        let (agent, its_agent) = UnixStream::pair().map_err(pair)?;
        let (its_wire, its_agent) = (OwnedFd::from(its_wire), OwnedFd::from(its_agent));
        let (console, console_end) = console_pipe()?;
        let mut command = command(boot, device, accelerator, [&its_wire, &its_agent]);
        command
            .stdin(std::process::Stdio::null())
            .stdout(console_end.try_clone().map_err(TargetError::system("cannot share a pipe"))?)
            .stderr(console_end);
        let nothing = Path::new("");
        let guard = Guard::start(nothing, nothing)?;
        for end in [&its_wire, &its_agent] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))
                .map_err(TargetError::errno("cannot hand a socket to QEMU"))?;
        }
        let (group, id) = Group::start(guard, (None, None), || in_our_session(&mut command))
            .map_err(|error| TargetError::CannotRun {
                part: "hypervisor",
                path: boot.program.clone(),
                error,
            })?;
        let qemu = Qemu { group, id };
        qemu.place(cores)?;
        Ok((qemu, Ends { wire, agent, console }))
    }

    /// Keeps all of QEMU off the target's core, where its processor will run.
    fn place(&self, cores: Cores) -> Result<(), TargetError> {
        let allowed = allowed_cores().map_err(TargetError::system("cannot tell the cores"))?;
        let others: Vec<usize> = allowed.into_iter().filter(|&core| core != cores.target).collect();
        let others = if others.is_empty() { vec![cores.target] } else { others };
        move_to(self.id(), &others)
    }

    /// Puts the thread that is QEMU's processor onto this core.
    pub(super) fn place_processor(&self, core: usize) -> Result<(), TargetError> {
        let tasks = Process::new(self.id().cast_signed()).and_then(|process| process.tasks());
        for task in tasks.into_iter().flatten().flatten() {
            // As `debug-threads` has QEMU name them.
            if task.status().is_ok_and(|status| status.name.starts_with("CPU ")) {
                move_to(task.tid.cast_unsigned(), &[core])?;
            }
        }
        Ok(())
    }

    /// The thread that plays the card: the first one.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.group.exit_status(self.id)
    }

    pub(super) fn stop(&mut self) -> Result<(), TargetError> {
        self.group.end()
    }
}

fn move_to(thread: u32, cores: &[usize]) -> Result<(), TargetError> {
    let moved = || {
        let mut set = CpuSet::new();
        cores.iter().try_for_each(|&core| set.set(core))?;
        sched_setaffinity(Pid::from_raw(thread.cast_signed()), &set)
    };
    moved().map_err(TargetError::errno("cannot choose the cores of QEMU"))
}

fn command(
    boot: &Boot,
    device: &Device,
    accelerator: Accelerator,
    [wire, agent]: [&OwnedFd; 2],
) -> Command {
    let kernel = format!(
        "console=ttyS0 {CHANNEL_PARAMETER}=ttyS1 panic=-1 quiet {}",
        accelerator.kernel_arguments()
    );
    let mut command = Command::new(&boot.program);
    command
        .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-monitor", "none", "-name", "warikomi,debug-threads=on"])
        .args(["-machine", "q35", "-accel", accelerator.name(), "-smp", "1", "-m", MEMORY_MB])
        .arg("-kernel")
        .arg(&boot.image)
        .arg("-initrd")
        .arg(&boot.initramfs)
        .args(["-append", &kernel])
        .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
        .arg("-chardev")
        .arg(format!("socket,id=agent,fd={}", agent.as_raw_fd()))
        .args(["-serial", "chardev:agent"])
        .arg("-netdev")
        .arg(format!("dgram,id=wire,local.type=fd,local.str={}", wire.as_raw_fd()))
        // Without its ROM it is not asked to boot.
        .arg("-device")
        .arg(format!("{},netdev=wire,mac={},romfile=", device.name, mac_text(CARD_MAC)));
    command
}
