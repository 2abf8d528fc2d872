//! A virtual machine whose hypervisor reaches the card over a socket: a server of vfio-user (QEMU documentation,
//! `docs/interop/vfio-user.rst`). QEMU from 10.1 on has a client, `vfio-user-pci`, and Cloud Hypervisor has one,
//! `--user-device`.
//!
//! The hypervisor is not ours: it is started, watched and ended by its user, and there is no agent in its guest. What
//! the driver has taken is seen on its ring; whether an application got it is not known.
//!
//! - [`protocol`]: the messages, and the numbers in them; [`version`]: what both sides agree on.
//! - [`channel`]: the connection, deadlines, and questions to the client about its memory.
//! - [`memory`]: the windows that a client has mapped, mapped here, too, or reached by system calls or by messages.
//! - [`irqs`]: event descriptors; [`table`]: MSI-X, whose table a hypervisor keeps to itself.
//! - [`client`]: what a client asks for; [`card`]: a card, and the client that it has at the moment.
//!
//! One client has the card at a time. When it goes, all that it has handed over is given back, and the card stays as it
//! is until the next one comes. A client that breaks the protocol is disconnected, and so is one that lets a time pass.
//!
//! The crate `vfio_user` (0.1.7) would be the natural choice for the messages. A version without a final zero makes its
//! server panic, a read gets as much memory as the client names, a message that comes in pieces holds it, and it cannot
//! ask for memory by messages. Its client is in the tests, because it is Cloud Hypervisor's.

mod card;
mod channel;
mod client;
mod hypervisor;
mod irqs;
mod memory;
mod peer;
mod protocol;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod version;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod rust_vmm;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use warikomi_clock::{Clock, Span, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};

use self::card::VmCard;
use self::channel::ClientError;
pub use self::hypervisor::{cloud_hypervisor_arguments, qemu_arguments};
pub use self::peer::VmPeerCard;
use crate::{
    CardId, ConsoleTail, Interrupted, Pass, PassHook, Slot, Target, TargetCounters, TargetError,
    wait,
};

/// How long a hypervisor may take to come: its user starts it by hand.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(600);

/// From there until its guest has booted, and its driver receives.
pub const DRIVER_TIMEOUT: Duration = Duration::from_secs(600);

/// The socket is not looked at when something else is due within this time: a look is a system call.
const KEPT_CLEAR: Span = Span::from_us(1);

/// A card for a virtual machine, and the socket at which its hypervisor finds it.
pub struct VmTarget {
    card: VmCard,
    listener: UnixListener,
    socket: SocketFile,
    clock: Clock,
    interrupted: Interrupted,
    hook: Option<Box<dyn PassHook>>,
    /// Of the hypervisor, while there is one.
    process: Option<u32>,
    shared_core: bool,
    due: Time,
}

/// The file of a socket of ours, which goes with it.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl VmTarget {
    /// Listens for a hypervisor at `socket`, which no other process may have in use.
    pub fn listen(
        (socket, shared_core): (&Path, bool),
        nic: Box<dyn Nic>,
        clock: Clock,
        interrupted: Interrupted,
    ) -> Result<VmTarget, TargetError> {
        let listener = listen(socket)?;
        Ok(VmTarget {
            card: VmCard::new(nic).map_err(TargetError::system("cannot map memory"))?,
            listener,
            socket: SocketFile(socket.to_owned()),
            clock,
            interrupted,
            hook: None,
            process: None,
            shared_core,
            due: Time::NEVER,
        })
    }

    /// Waits until a hypervisor has come, and until the driver in its guest receives. `status` is told what is waited
    /// for.
    pub fn wait_for_driver(&mut self, status: &mut dyn FnMut(&str)) -> Result<(), TargetError> {
        status(&format!("waiting for a hypervisor at {}", self.socket.0.display()));
        self.wait_for_client()?;
        status("waiting for the guest's driver");
        let receives = wait::until(self, DRIVER_TIMEOUT, |target| {
            target.card.parts(&target.clock).0.receiving().then_some(())
        })?;
        receives.ok_or(TargetError::NoReceiver { within: DRIVER_TIMEOUT })
    }

    /// One that goes away before it has said anything has only looked whether the socket is in use.
    fn wait_for_client(&mut self) -> Result<(), TargetError> {
        let end = Instant::now() + CLIENT_TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let come = wait::until(self, left, |target| target.card.has_agreed().then_some(()));
            match come {
                Ok(Some(())) => return Ok(()),
                Ok(None) => {
                    let path = self.socket.0.clone();
                    return Err(TargetError::NoClient { path, within: CLIENT_TIMEOUT });
                }
                Err(TargetError::ClientGone) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a hypervisor has the card.
    pub fn has_client(&self) -> bool {
        self.card.has_client()
    }

    /// What the hypervisor has asked for last that could not be, if that was not told before.
    pub fn take_refused(&mut self) -> Option<&'static str> {
        self.card.client().and_then(|client| client.take_refused())
    }

    /// Waits until something is to be done, at most this long: for a server that shall not take a whole core.
    pub fn wait_for_work(&mut self, at_most: Duration) {
        let due = self.card.next_due();
        let until_due = due.since(self.clock.now());
        let until_due = Duration::from_nanos(until_due.as_ps() / 1_000);
        self.card.wait(self.listener.as_fd(), at_most.min(until_due));
    }

    /// A hypervisor that has come takes the card, if no other has it.
    fn accept(&mut self) -> Result<(), TargetError> {
        // That one has gone is noticed first. Until then the next waits at the socket.
        if self.card.client().is_some_and(|client| client.has_hung_up()) {
            return Ok(());
        }
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // One that went away again, or too many descriptors that are open: it can try again.
            Err(_) => return Ok(()),
        };
        if self.card.has_client() || !warikomi_shared::is_peer_trusted(&stream) {
            channel::close(&stream);
            return Ok(());
        }
        self.process =
            socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get() as u32);
        self.card
            .connect(stream, self.interrupted.clone())
            .map_err(TargetError::system("cannot set up the hypervisor's connection"))
    }

    fn client_failed(&mut self, error: ClientError) -> TargetError {
        self.process = None;
        match error {
            ClientError::Closed => TargetError::ClientGone,
            ClientError::Interrupted => TargetError::Interrupted,
            other => TargetError::ClientError { error: other.to_string() },
        }
    }

    #[inline]
    fn call_hook(&mut self) -> Result<(), TargetError> {
        let Some(mut hook) = self.hook.take() else { return Ok(()) };
        let passed = hook.pass(self);
        self.hook = Some(hook);
        passed
    }
}

impl Target for VmTarget {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let mut pass = Pass::idle(self.clock.now());
        let keeps_clear = self.due > pass.at && self.due.since(pass.at) < KEPT_CLEAR;
        if !keeps_clear {
            match self.card.serve(&self.clock) {
                Ok(worked) => pass.worked = worked,
                Err(error) => return Err(self.client_failed(error)),
            }
        }
        self.card.advance(&self.clock, &mut pass);
        self.call_hook()?;
        Ok(pass)
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        self.accept()
    }

    fn keep_clear_of(&mut self, due: Time) {
        self.due = due;
    }

    fn set_hook(&mut self, hook: Option<Box<dyn PassHook>>) -> bool {
        self.hook = hook;
        true
    }

    fn cards(&self) -> usize {
        1
    }

    #[inline]
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        card.among(1)?;
        Ok(self.card.parts(&self.clock))
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        card.among(1)?;
        Ok(self.card.slot())
    }

    /// None: what a hypervisor shares is not all mapped.
    fn memory(&self, _: CardId) -> Option<&SharedMemory> {
        None
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    /// Nothing: it belongs to the hypervisor.
    fn console(&self) -> ConsoleTail {
        ConsoleTail::default()
    }

    fn counters(&self) -> TargetCounters {
        self.card.counters()
    }

    /// The hypervisor's; ours while there is none.
    fn process_id(&self) -> u32 {
        self.process.unwrap_or_else(std::process::id)
    }

    fn shares_a_core(&self) -> bool {
        self.shared_core
    }

    /// Lets the hypervisor know that the card goes away, and closes the connection. The hypervisor is its user's.
    fn stop(&mut self) -> Result<(), TargetError> {
        if let Some(client) = self.card.client() {
            client.request_release();
        }
        self.card.detach();
        self.process = None;
        Ok(())
    }
}

/// Listens at a path. A socket of this user's that no process listens at any more is one that was left behind.
fn listen(path: &Path) -> Result<UnixListener, TargetError> {
    let taken = || TargetError::SocketBusy { path: path.to_owned() };
    let cannot = TargetError::system("cannot listen at the path of --socket");
    match warikomi_shared::listen_at(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        listening => return listening.map_err(cannot),
    }
    let about = std::fs::symlink_metadata(path).map_err(cannot)?;
    let is_ours =
        about.file_type().is_socket() && about.uid() == rustix::process::geteuid().as_raw();
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if !is_ours || !UnixStream::connect(path).is_err_and(refused) {
        return Err(taken());
    }
    std::fs::remove_file(path).map_err(cannot)?;
    warikomi_shared::listen_at(path).map_err(cannot)
}
