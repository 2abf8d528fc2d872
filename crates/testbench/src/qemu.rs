//! A card that others have made: a device of QEMU's, reached register by register over qtest, without a processor or a
//! guest (QEMU documentation, "QTest Device Emulation Testing Framework"). Its memory is a file that the driver maps,
//! and its frames are datagrams on a socket.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warikomi_pci::{Mmio, MmioError, SharedMemory, Width};
use warikomi_protocol::commands::mac_text;

/// What `scripts/setup vm` fetches.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/vm/qemu");

/// Nothing takes so long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of its machine's memory, from address 0 on.
const MEMORY: u64 = 64 << 20;

/// Where its BAR with registers is put: above memory, below the interrupt controllers.
const BAR_ADDRESS: u64 = 0xe000_0000;
const BAR_0: u16 = 0x10;

/// The ports by which a PC reaches configuration space (PCI 3.0, 3.2.2.3.2), and the function's place on the bus.
const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
const SLOT: u32 = 4;

/// The QEMU that was fetched; or why there is none.
pub fn qemu() -> Result<PathBuf, &'static str> {
    Path::new(FETCHED)
        .canonicalize()
        .map_err(|_| "no QEMU that speaks vfio-user below target/vm; type: scripts/setup vm")
}

/// A program that is ended when it is dropped.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of QEMU's network cards.
pub struct QemuCard {
    _qemu: Ending,
    commands: BufReader<UnixStream>,
    cable: UnixDatagram,
    memory: SharedMemory,
    register_bar: u8,
    /// Where the sockets are.
    _directory: TempDir,
}

impl QemuCard {
    /// The card that QEMU calls `device`, which has its registers in this BAR.
    pub fn start(qemu: &Path, device: &str, register_bar: u8, mac: [u8; 6]) -> QemuCard {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let mut rights = File::options();
        let ram = rights.read(true).write(true).create_new(true).open(path("memory"));
        let ram = ram.expect("a file");
        ram.set_len(MEMORY).expect("memory");
        let listener = UnixListener::bind(path("qtest")).expect("a socket");
        let cable = UnixDatagram::bind(path("ours")).expect("a socket");
        cable.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut qemu = Ending(command(qemu, device, mac, directory.path()).spawn().expect("QEMU"));
        let commands = accept(&listener, &mut qemu.0);
        commands.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        cable.connect(path("its")).expect("QEMU's end of the cable");
        let memory = SharedMemory::from_file(0, ram, 0, MEMORY as usize).expect("memory");
        let commands = BufReader::new(commands);
        let mut card =
            QemuCard { _qemu: qemu, commands, cable, memory, register_bar, _directory: directory };
        let bar = BAR_0 + 4 * u16::from(register_bar);
        card.config(bar, Width::B4, Some(BAR_ADDRESS));
        card
    }

    /// Its machine's memory.
    pub fn memory(&self) -> SharedMemory {
        self.memory.clone()
    }

    /// Puts a frame on the cable. The card takes it some time later.
    pub fn send(&self, frame: &[u8]) {
        self.cable.send(frame).expect("a cable");
    }

    /// The next frame that the card sends.
    pub fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; 1 << 16];
        let bytes = self.cable.recv(&mut frame).expect("a frame from QEMU's card");
        frame.truncate(bytes);
        frame
    }

    /// Gives a command, and what its answer says.
    fn ask(&mut self, command: &str) -> u64 {
        writeln!(self.commands.get_mut(), "{command}").expect("QEMU takes commands");
        let mut line = String::new();
        self.commands.read_line(&mut line).expect("QEMU answers");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("OK"), "{command}: {line}");
        let value = words.next().map(|value| value.trim_start_matches("0x"));
        value.map_or(0, |value| u64::from_str_radix(value, 16).expect("a number"))
    }

    /// Reads configuration space, or writes to it.
    fn config(&mut self, offset: u16, width: Width, value: Option<u64>) -> u64 {
        let address = ENABLE | SLOT << 11 | u32::from(offset & !3);
        self.ask(&format!("outl {CONFIG_ADDRESS:#x} {address:#x}"));
        let port = CONFIG_DATA + (offset & 3);
        match (value, width) {
            (None, Width::B8) => {
                self.config(offset, Width::B4, None)
                    | self.config(offset + 4, Width::B4, None) << 32
            }
            (None, _) => self.ask(&format!("in{} {port:#x}", letter(width))),
            (Some(value), _) => self.ask(&format!("out{} {port:#x} {value:#x}", letter(width))),
        }
    }
}

/// QEMU's end `its` of a cable, called `cable`, whose other end is the socket `ours`.
pub fn cable_between(its: &str, ours: &str) -> String {
    format!("dgram,id=cable,local.type=unix,local.path={its},remote.type=unix,remote.path={ours}")
}

/// A machine without a processor, whose memory and sockets are files in this directory.
fn command(qemu: &Path, device: &str, mac: [u8; 6], directory: &Path) -> Command {
    let at = |name: &str| directory.join(name).display().to_string();
    let [memory, qtest, its, ours] = ["memory", "qtest", "its", "ours"].map(at);
    let (mac, cable) = (mac_text(mac), cable_between(&its, &ours));
    let mut command = Command::new(qemu);
    command
        .args(["-machine", "pc,accel=qtest,memory-backend=ram", "-m", "64M", "-object"])
        .arg(format!("memory-backend-file,id=ram,size=64M,share=on,mem-path={memory}"))
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none"])
        .args(["-qtest-log", "none", "-qtest", &format!("unix:{qtest}")])
        .args(["-netdev", &cable])
        .args(["-device", &format!("{device},netdev=cable,addr={SLOT},mac={mac}")])
        .stdin(Stdio::null());
    command
}

/// Waits for QEMU, as long as it runs.
fn accept(listener: &UnixListener, qemu: &mut Child) -> UnixStream {
    listener.set_nonblocking(true).expect("a socket");
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket");
                return stream;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        let ended = qemu.try_wait().expect("QEMU");
        assert!(ended.is_none() && begun.elapsed() < PATIENCE, "QEMU does not come: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What qtest calls an access of this width.
fn letter(width: Width) -> char {
    match width {
        Width::B1 => 'b',
        Width::B2 => 'w',
        Width::B4 => 'l',
        Width::B8 => 'q',
    }
}

impl Mmio for QemuCard {
    fn register_bar(&self) -> u8 {
        self.register_bar
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        assert_eq!(bar, self.register_bar, "only the registers are mapped");
        Ok(self.ask(&format!("read{} {:#x}", letter(width), BAR_ADDRESS + offset)))
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        assert_eq!(bar, self.register_bar, "only the registers are mapped");
        self.ask(&format!("write{} {:#x} {value:#x}", letter(width), BAR_ADDRESS + offset));
        Ok(())
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.config(offset, width, None))
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.config(offset, width, Some(value));
        Ok(())
    }
}
