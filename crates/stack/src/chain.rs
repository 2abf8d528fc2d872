//! Everything that the processes of a packet path need, prepared by the process that starts them.
//!
//! Files that come with each part's [`Invitation`](crate::Invitation), in order:
//!
//! | part | files |
//! |---|---|
//! | `application` | packet memory, own event, event of the neighbour below, its socket, control socket |
//! | `stack` | packet memory, own event, the application's event, the driver's event, the application's socket, the driver's socket |
//! | `driver` | packet memory, own event, event of the neighbour above, its socket |
//! | `direct` | packet memory, control socket |
//! | `sender` | control socket |
//!
//! The driver gets its invitation in another way, because it has a message of its own from the
//! support side: behind the files of the device goes a socket that the invitation waits in
//! ([`DriverInvitation`]). A driver that follows another is invited just as the first one was.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_pci::attach::layout::SOCKET_VARIABLE;

use crate::StackError;
use crate::datagram::Station;
use crate::invitation::{Settings, Waiting};
use crate::memory::{PacketMemory, Shape};
use crate::wait::Event;

/// Which parts a packet goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// The driver, which counts frames and recycles their buffers.
    DriverAlone,
    /// Driver and application in one process: a user-level network interface.
    Direct,
    /// Application, socket, UDP/IP, buffers and driver in one process, as in one kernel, to send. Its
    /// buffers are in the device region's DMA memory.
    Sender,
    /// Driver and application.
    Application,
    /// Driver, stack and application.
    Stack,
}

/// How a packet path shall be.
#[derive(Clone, Debug)]
pub struct ChainOptions {
    /// Which processes there are.
    pub topology: Topology,
    /// Buffers of the application.
    pub application_buffers: u32,
    /// Buffers of the stack, to send from.
    pub stack_buffers: u32,
    /// Bytes of each buffer.
    pub buffer_bytes: u32,
    /// Who we are on the network.
    pub station: Station,
    /// Hosts whose Ethernet addresses need not be asked for.
    pub hosts: Vec<(Ipv4Addr, [u8; 6])>,
    /// The port on which the stack accepts a TCP connection.
    pub tcp_port: Option<u16>,
    /// How stack and application wait.
    pub waiting: Waiting,
    /// The application copies each datagram out of its buffer.
    pub copy_out: bool,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
}

/// A process to be started.
#[derive(Debug)]
pub struct Part {
    /// Its name: `warikomi part NAME`.
    pub name: &'static str,
    /// Its end of its socket, which is to be its standard input, and no other process's once it runs.
    pub theirs: OwnedFd,
    /// Our end: it hangs up when the part is gone, and the part ends when it is dropped.
    pub ours: OwnedFd,
}

impl Part {
    /// Completes the command that starts it: its standard input, and the variable that says so; our end of its socket.
    /// The command must be dropped once the part runs.
    pub fn prepare(self, command: &mut Command) -> OwnedFd {
        command.stdin(self.theirs).env(SOCKET_VARIABLE, "0");
        self.ours
    }
}

/// A packet path, ready to be started.
#[derive(Debug)]
pub struct Chain {
    /// Packet memory and its file; the NIC reaches it at its bus address, from the file's first byte
    /// on. A driver alone has none, nor has a sender.
    pub memory: Option<(PacketMemory, File)>,
    /// What the driver is invited with, if anything is above it. As long as this is kept, the driver's
    /// neighbour sees no end of it.
    pub driver: Option<DriverInvitation>,
    /// The further parts.
    pub parts: Vec<Part>,
    /// Our end of the application's control socket: the agent's protocol.
    pub control: Option<UnixStream>,
}

/// What drivers are invited with to a packet path, one after the other.
#[derive(Debug)]
pub struct DriverInvitation {
    settings: Settings,
    files: Vec<OwnedFd>,
}

impl DriverInvitation {
    /// A socket in which the invitation waits for one driver.
    pub fn socket(&self) -> Result<OwnedFd, StackError> {
        let (ours, theirs) = pair()?;
        let files: Vec<BorrowedFd<'_>> = self.files.iter().map(AsFd::as_fd).collect();
        warikomi_shared::send(&ours, &self.settings.to_message(), &files)?;
        Ok(theirs)
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), StackError> {
    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(pair.map_err(std::io::Error::from)?)
}

/// Descriptors of our own.
fn own(files: [BorrowedFd<'_>; 2]) -> Result<[OwnedFd; 2], StackError> {
    let [one, other] = files;
    Ok([one.try_clone_to_owned()?, other.try_clone_to_owned()?])
}

fn settings(options: &ChainOptions, part: &'static str, control: bool) -> Settings {
    Settings {
        part: part.to_owned(),
        station: options.station,
        hosts: options.hosts.clone(),
        tcp_port: options.tcp_port,
        waiting: options.waiting,
        copy_out: options.copy_out,
        control,
    }
}

fn part(
    options: &ChainOptions,
    name: &'static str,
    control: bool,
    files: &[BorrowedFd<'_>],
) -> Result<Part, StackError> {
    let (ours, theirs) = pair()?;
    warikomi_shared::send(&ours, &settings(options, name, control).to_message(), files)?;
    Ok(Part { name, theirs, ours })
}

impl Chain {
    /// Prepares a packet path.
    pub fn build(options: &ChainOptions) -> Result<Chain, StackError> {
        let mut chain = Chain { memory: None, driver: None, parts: Vec::new(), control: None };
        match options.topology {
            Topology::DriverAlone => {}
            Topology::Direct => chain.direct(options)?,
            Topology::Sender => chain.sender(options)?,
            Topology::Application => chain.with_application(options)?,
            Topology::Stack => chain.with_stack(options)?,
        }
        Ok(chain)
    }

    fn make_memory(
        &mut self,
        options: &ChainOptions,
        channels: u32,
        stack_buffers: u32,
    ) -> Result<File, StackError> {
        let (memory, file) = PacketMemory::create(Shape {
            channels,
            application_buffers: options.application_buffers,
            stack_buffers,
            buffer_bytes: options.buffer_bytes,
            tsc_hz: options.tsc_hz,
        })?;
        let copy = file.try_clone()?;
        self.memory = Some((memory, file));
        Ok(copy)
    }

    fn control(&mut self) -> Result<UnixStream, StackError> {
        let (ours, theirs) = UnixStream::pair()?;
        self.control = Some(ours);
        Ok(theirs)
    }

    fn driver(&mut self, options: &ChainOptions, name: &'static str, files: Vec<OwnedFd>) {
        let control = matches!(options.topology, Topology::Direct | Topology::Sender);
        let settings = settings(options, name, control);
        self.driver = Some(DriverInvitation { settings, files });
    }

    fn sender(&mut self, options: &ChainOptions) -> Result<(), StackError> {
        let control = self.control()?;
        self.driver(options, "sender", vec![control.into()]);
        Ok(())
    }

    fn direct(&mut self, options: &ChainOptions) -> Result<(), StackError> {
        let memory = self.make_memory(options, 0, 0)?;
        let control = self.control()?;
        self.driver(options, "direct", vec![memory.into(), control.into()]);
        Ok(())
    }

    fn with_application(&mut self, options: &ChainOptions) -> Result<(), StackError> {
        let memory = self.make_memory(options, 1, 0)?;
        let (driver, application) = (Event::create()?, Event::create()?);
        let (above, below) = pair()?;
        let control = self.control()?;
        self.parts.push(part(
            options,
            "application",
            true,
            &[memory.as_fd(), application.as_fd(), driver.as_fd(), above.as_fd(), control.as_fd()],
        )?);
        let [driver, application] = own([driver.as_fd(), application.as_fd()])?;
        self.driver(options, "driver", vec![memory.into(), driver, application, below]);
        Ok(())
    }

    fn with_stack(&mut self, options: &ChainOptions) -> Result<(), StackError> {
        let memory = self.make_memory(options, 2, options.stack_buffers)?;
        let (driver, stack, application) = (Event::create()?, Event::create()?, Event::create()?);
        let (application_socket, stack_up) = pair()?;
        let (stack_down, driver_socket) = pair()?;
        let control = self.control()?;
        self.parts.push(part(
            options,
            "application",
            true,
            &[
                memory.as_fd(),
                application.as_fd(),
                stack.as_fd(),
                application_socket.as_fd(),
                control.as_fd(),
            ],
        )?);
        self.parts.push(part(
            options,
            "stack",
            false,
            &[
                memory.as_fd(),
                stack.as_fd(),
                application.as_fd(),
                driver.as_fd(),
                stack_up.as_fd(),
                stack_down.as_fd(),
            ],
        )?);
        let [driver, stack] = own([driver.as_fd(), stack.as_fd()])?;
        self.driver(options, "driver", vec![memory.into(), driver, stack, driver_socket]);
        Ok(())
    }
}
