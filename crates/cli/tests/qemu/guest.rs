//! A guest of QEMU whose card is at a socket of ours: a distribution's kernel, not changed, with the agent as its first
//! program. The agent answers over a serial line, the console is another.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::Value;
use warikomi_clock::{Clock, TscClock};
use warikomi_kernel::MachineKernel;
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};
use warikomi_protocol::commands::{Counters, LoadDriver, WaitInterface, mac_text};
use warikomi_protocol::{CHANNEL_PARAMETER, Request, answers};
use warikomi_target::agent::{Agent, AgentLine};
use warikomi_target::console::{Console, console_pipe};
use warikomi_target::group::{Group, Guard, in_our_session};
use warikomi_target::request::over_line;
use warikomi_target::{CardId, ConsoleTail, Pass, Slot, Target, TargetCounters, TargetError, wait};
use warikomi_testbench::{qemu, skipped};

/// What `scripts/setup vm` has fetched.
const ROOT: &str = "../../target/vm/root";
/// A translated guest boots in 10 s, and takes longer where others have the cores.
const BOOT_WITHIN: Duration = Duration::from_secs(180);
/// To bind a driver, or to bring a link up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The counter is only read to wait.
const COUNTER_HZ: f64 = 1e9;

/// The QEMU and the kernel that these tests boot.
pub(crate) struct Machine {
    pub(crate) qemu: PathBuf,
    kernel: MachineKernel,
    ipxe: PathBuf,
}

/// The card of a guest.
#[derive(Clone, Copy)]
pub(crate) enum Card<'a> {
    /// Ours, at this socket.
    Ours(&'a Path),
    /// QEMU's own.
    Qemus {
        /// As QEMU calls it.
        device: &'a str,
        mac: [u8; 6],
        /// What it is cabled to: QEMU's network called `cable`.
        network: &'a str,
    },
}

impl Card<'_> {
    fn arguments(self) -> Vec<String> {
        match self {
            Card::Ours(socket) => {
                let path = Value::from(socket.to_str().unwrap());
                let device = format!(
                    r#"{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":{path}}}}}"#
                );
                vec!["-device".into(), device]
            }
            Card::Qemus { device, mac, network } => {
                let device = format!("{device},netdev=cable,mac={}", mac_text(mac));
                vec!["-netdev".into(), network.into(), "-device".into(), device]
            }
        }
    }
}

/// A card that both we and QEMU have.
pub(crate) struct Common {
    pub(crate) model: &'static str,
    /// The modules that its driver consists of, the driver last.
    pub(crate) modules: &'static [&'static str],
    /// What QEMU calls its own.
    pub(crate) device: &'static str,
}

impl Common {
    pub(crate) const RTL8139CP: Common =
        Common { model: "rtl8139cp", modules: &["8139cp"], device: "rtl8139" };
    pub(crate) const E1000E: Common =
        Common { model: "e1000e", modules: &["e1000e"], device: "e1000e" };
    pub(crate) const IGB: Common = Common { model: "igb", modules: &["igb"], device: "igb" };
}

/// What a guest boots.
struct Boot<'a> {
    /// A kernel, or a program that fetches one.
    image: &'a Path,
    initrd: &'a Path,
    said: &'a str,
    /// More for QEMU's machine.
    machine: &'static str,
    /// Where QEMU notes every access to a device, if it does.
    trace: Option<&'a Path>,
}

/// A machine whose firmware prints over the serial line, and so what it starts.
const SPEAKING: &str = ",graphics=off";

/// What a kernel is told.
fn said(more: &str) -> String {
    format!(
        "console=ttyS0 {CHANNEL_PARAMETER}=ttyS1 panic=-1 quiet clocksource=hpet no_timer_check {more}"
    )
}

impl Machine {
    /// Those that were fetched. Without them the calling test is skipped.
    #[track_caller]
    pub(crate) fn find() -> Option<Machine> {
        match Machine::fetched() {
            Ok(machine) => Some(machine),
            Err(why) => {
                skipped(why);
                None
            }
        }
    }

    /// Those that were fetched; or why there are none.
    fn fetched() -> Result<Machine, &'static str> {
        const MISSING: &str = "no kernel or no iPXE below target/vm; type: scripts/setup vm";
        let qemu = qemu()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(ROOT).canonicalize();
        let root = root.map_err(|_| MISSING)?;
        let kernel = MachineKernel::newest_below(&root).unwrap().ok_or(MISSING)?;
        let ipxe = root.join("usr/lib/ipxe/ipxe.lkrn").canonicalize().map_err(|_| MISSING)?;
        Ok(Machine { qemu, kernel, ipxe })
    }

    /// The command line of docs/vm.md, in a small machine that is translated.
    fn command(&self, card: Card<'_>, boot: &Boot<'_>, agent: &OwnedFd) -> Command {
        let mut command = Command::new(&self.qemu);
        command
            .args(["-accel", "tcg", "-m", "256M"])
            .args(["-machine", &format!("q35,memory-backend=ram{}", boot.machine)])
            .args(["-object", "memory-backend-memfd,id=ram,size=256M,share=on"])
            .args(card.arguments())
            .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
            .args(["-monitor", "none"])
            .arg("-kernel")
            .arg(boot.image)
            .arg("-initrd")
            .arg(boot.initrd)
            .args(["-append", boot.said])
            .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
            .arg("-chardev")
            .arg(format!("socket,id=agent,fd={}", agent.as_raw_fd()))
            .args(["-serial", "chardev:agent"]);
        if let Some(trace) = boot.trace {
            command.args(["-trace", "memory_region_ops_read", "-trace", "memory_region_ops_write"]);
            command.arg("-D").arg(trace);
        }
        command
    }

    /// The kernel with this initramfs.
    fn kernel_with<'a>(&'a self, initrd: &'a Path, said: &'a str) -> Boot<'a> {
        Boot { image: &self.kernel.image, initrd, said, machine: "", trace: None }
    }

    /// Boots with the card at this socket and this initramfs, until the guest ends; what it has printed.
    pub(crate) fn run(&self, socket: &Path, initramfs: &Path, kernel: &str) -> String {
        let (_agent, its_agent) = UnixStream::pair().unwrap();
        let its_agent = OwnedFd::from(its_agent);
        let said = said(kernel);
        let command =
            self.command(Card::Ours(socket), &self.kernel_with(initramfs, &said), &its_agent);
        let seconds = BOOT_WITHIN.as_secs().to_string();
        let mut bounded = Command::new("timeout");
        bounded.args(["--kill-after=1", &seconds]).arg(command.get_program());
        bounded.args(command.get_args()).stdin(Stdio::null());
        fcntl(&its_agent, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let output = bounded.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Boots with this card, and with these modules at hand. `kernel` is told the kernel beside what it always is told.
    pub(crate) fn boot(&self, card: Card<'_>, modules: &[&str], kernel: &str) -> Guest {
        self.boot_with(card, modules, kernel, None)
    }

    /// Boots with this card, and notes every access to a device in `trace`.
    pub(crate) fn boot_traced(&self, card: Card<'_>, modules: &[&str], trace: &Path) -> Guest {
        self.boot_with(card, modules, "", Some(trace))
    }

    fn boot_with(
        &self,
        card: Card<'_>,
        modules: &[&str],
        kernel: &str,
        trace: Option<&Path>,
    ) -> Guest {
        let directory = tempfile::tempdir().unwrap();
        let initramfs = directory.path().join("initramfs");
        self.kernel.write_initramfs(modules, &initramfs).unwrap();
        let said = said(kernel);
        self.start(card, &Boot { trace, ..self.kernel_with(&initramfs, &said) })
    }

    /// Boots by iPXE, which gets the kernel over the card from a network that serves these files: they are put there
    /// before.
    pub(crate) fn boot_by_ipxe(&self, socket: &Path, modules: &[&str], served: &Path) -> Guest {
        std::fs::copy(&self.kernel.image, served.join("vmlinuz")).unwrap();
        self.kernel.write_initramfs(modules, &served.join("initramfs")).unwrap();
        let script = served.join("boot.ipxe");
        let from = "tftp://${next-server}";
        let script_text = format!(
            "#!ipxe\ndhcp\nkernel {from}/vmlinuz initrd=initramfs {}\ninitrd {from}/initramfs\nboot\n",
            said("")
        );
        std::fs::write(&script, script_text).unwrap();
        let ipxe =
            Boot { image: &self.ipxe, initrd: &script, said: "", machine: SPEAKING, trace: None };
        self.start(Card::Ours(socket), &ipxe)
    }

    /// Starts, and waits for the agent.
    fn start(&self, card: Card<'_>, boot: &Boot<'_>) -> Guest {
        let (agent, its_agent) = UnixStream::pair().unwrap();
        let its_agent = OwnedFd::from(its_agent);
        let (console, console_end) = console_pipe().unwrap();
        let mut command = self.command(card, boot, &its_agent);
        command.stdin(Stdio::null()).stdout(console_end.try_clone().unwrap()).stderr(console_end);
        let guard = Guard::start(Path::new(""), Path::new("")).unwrap();
        fcntl(&its_agent, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let (group, id) =
            Group::start(guard, (None, None), || in_our_session(&mut command)).unwrap();
        let line = AgentLine::new(agent).unwrap();
        let clock = Clock::Real(TscClock::with_frequency(warikomi_clock::read_tsc(), COUNTER_HZ));
        let mut guest = Guest { group, id, line, console: Console::new(console), clock };
        let ready =
            wait::until(&mut guest, BOOT_WITHIN, |guest| guest.line.ready().map(|_| ())).unwrap();
        assert!(ready.is_some(), "the agent does not report: {}", guest.console());
        guest
    }
}

/// A guest that has booted; dropping it ends it.
pub(crate) struct Guest {
    group: Group,
    id: u32,
    line: AgentLine,
    console: Console,
    clock: Clock,
}

impl Guest {
    /// Loads these modules, the last of which is the card's driver, and brings its link up.
    pub(crate) fn bring_up(&mut self, modules: &[&str]) {
        for module in modules {
            self.ask(LoadDriver { name: (*module).into(), params: Vec::new() });
        }
        let driver = (*modules.last().unwrap()).into();
        self.ask(WaitInterface {
            driver,
            pci_address: None,
            timeout_ms: PATIENCE.as_millis() as u64,
        });
        warikomi_session::link_up(self).unwrap();
    }

    /// What the agent answers.
    pub(crate) fn ask<C: warikomi_protocol::Command>(&mut self, command: C) -> C::Answer {
        let target: &mut dyn Target = self;
        target.ask(command, PATIENCE).unwrap()
    }

    /// What its kernel counts of the card's interface.
    pub(crate) fn counted(&mut self) -> answers::Counters {
        self.ask(Counters { interface: None })
    }
}

impl Target for Guest {
    fn poll(&mut self) -> Result<Pass, TargetError> {
        Ok(Pass::idle(self.clock.now()))
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        self.line.pump();
        self.console.drain();
        if let Some(message) = self.console.panic() {
            let message = message.to_owned();
            return Err(TargetError::Panicked { message, console: self.console() });
        }
        match self.group.exit_status(self.id) {
            None => Ok(()),
            Some(status) => {
                self.console.drain_all();
                let (status, console) = (status.to_string(), self.console());
                Err(TargetError::PartEnded { part: "hypervisor", status, console })
            }
        }
    }

    fn cards(&self) -> usize {
        0
    }

    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        Err(TargetError::NoCard { card, cards: 0 })
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        Err(TargetError::NoCard { card, cards: 0 })
    }

    fn memory(&self, _: CardId) -> Option<&SharedMemory> {
        None
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn console(&self) -> ConsoleTail {
        self.console.tail()
    }

    fn counters(&self) -> TargetCounters {
        TargetCounters::default()
    }

    fn process_id(&self) -> u32 {
        self.id
    }

    /// QEMU and the command have the cores: a test that waits lets them run.
    fn shares_a_core(&self) -> bool {
        true
    }

    fn stop(&mut self) -> Result<(), TargetError> {
        self.group.end()
    }

    fn agent(&mut self) -> Option<&mut dyn Agent> {
        Some(self)
    }
}

impl Agent for Guest {
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError> {
        over_line(self, |guest| Some(&mut guest.line), request, allowance)
    }

    fn has_application(&self) -> bool {
        true
    }
}
