//! The ways in which a target fails, each an error of its own.
//!
//! Every wait has a deadline, and an error has the last lines of the console where there is one.
//!
//! | error | when | how soon |
//! |---|---|---|
//! | `CannotStart`, `CannotRun` | the kernel, or a part's program, cannot be executed | at once |
//! | `NoSpace` | `/dev/shm` has less than the guest's memory and 16 MB | before the start |
//! | `SocketBusy` | the path of `--socket` exists | before the start |
//! | `NotConnected` | no connection to the NIC's socket | 10 s |
//! | `NotAttached` | connected, queues not set up | 20 s |
//! | `NotReady` | attached, no report of the agent | 20 s |
//! | `NoVirtualTime` | virtual time of a kernel that cannot have it | when it comes for its card |
//! | `Endless` | in virtual time, a guest that runs on and neither waits nor makes an access | 20 s |
//! | `NotBound` | loading refused, or no interface appeared | 5 s in the guest |
//! | `NoLink` | no carrier | 5 s |
//! | `DriverNotReady` | a driver process has not reported that its device receives | 10 s |
//! | `ApplicationNotReady` | an application of the user's has not posted a buffer | 10 s |
//! | `NoCounts` | a driver process does not bring its report up to date | 5 s |
//! | `NoRoom` | more cards than can be attached in this way | before the start |
//! | `NoCard` | a card was named that the target does not have | at once |
//! | `Refused` | the agent could not carry out a request, or there is none | when it says so |
//! | `Silent` | no answer to a request | 5 s and what the command itself may take |
//! | `Hung` | frames on the ring, and the driver neither takes one nor accesses its NIC | 5 s, while injecting |
//! | `Panicked` | "Kernel panic - not syncing" on the console | next `housekeep`, and 50 ms for the lines behind it |
//! | `Exited` | the kernel process ended | next `housekeep` |
//! | `DriverFailed` | a driver process gave up; the error has its last words | next `housekeep`, and 10 ms for what it prints |
//! | `PartEnded` | driver, stack or application ended | next `housekeep` |
//! | `PartHungUp` | one of them closed its socket, but lives | next `housekeep`, and 300 ms in which an exit may explain it |
//! | `ConnectionLost`, `Protocol` | the vhost-user connection closed, or made no sense | next `housekeep`, and up to 300 ms in which a panic or exit may explain it |
//! | `NoClient`, `NoReceiver` | no hypervisor has come, or no driver in its guest has set the card up to receive | 600 s |
//! | `ClientGone`, `ClientError` | the hypervisor closed its vfio-user connection, or broke the protocol | next `poll`; a message in parts 500 ms, its memory by messages 1 s |
//! | `Interrupted` | Ctrl-C, SIGTERM or SIGHUP | next `housekeep`; a second signal ends the process at once |
//! | `System` | the operating system refused something | at once; ending the group may take up to 5 s |
//!
//! During an injection `housekeep` runs every millisecond when nothing is due for 20 µs, and at the latest
//! every 50 ms. After the last packet nothing takes longer than 30 s, whatever the target does. What a target sends is
//! taken a bounded part at a time, and nothing waits for the rest of it: Ctrl-C is looked at in between. A vhost-user
//! message of which a part is missing is an error after 200 ms, however its bytes drip.
//!
//! A guest cannot cut the file of its memory short, because that is sealed. Of one whose file cannot be sealed it is a
//! `Protocol` error at the next `housekeep`, unless we come to what is missing before that: then we end by SIGBUS, and the
//! guard process ends the target.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use warikomi_pci::attach::bridge;

use crate::card_id::CardId;

/// The last lines of a target's console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleTail(pub Vec<String>);

/// Lines of console shown with an error.
const SHOWN_LINES: usize = 12;

impl fmt::Display for ConsoleTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "\n  (its console is empty)");
        }
        write!(f, "\n  the last lines of its console:")?;
        for line in &self.0[self.0.len().saturating_sub(SHOWN_LINES)..] {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}

/// How a target failed. Each way has its own sentence, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The user pressed Ctrl-C.
    #[error("stopped by the user")]
    Interrupted,

    /// The kernel's file cannot be run.
    #[error("cannot start the kernel {}: {error}; it must be an executable built with ARCH=um", .path.display())]
    CannotStart {
        /// The kernel.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },

    /// The directory for the target's memory is too small.
    #[error(
        "the target needs {need_mb} MB for its memory in {}, which has {have_mb} MB free; free some \
         space there, or give the target less with --memory", .dir.display()
    )]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Memory that is needed, in MB.
        need_mb: u64,
        /// Memory that is free, in MB.
        have_mb: u64,
    },

    /// The socket on which the kernel should find the NIC is taken.
    #[error("the socket {} is in use by another process; choose another with --socket, or end that process", .path.display())]
    SocketBusy {
        /// The socket.
        path: PathBuf,
    },

    /// The kernel did not come for its NIC.
    #[error(
        "the kernel did not connect to its NIC within {}; it needs CONFIG_UML_PCI_OVER_VIRTIO=y, \
         CONFIG_VIRTIO_UML=y and CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID=1234{console}", seconds(*.within)
    )]
    NotConnected {
        /// Time waited before giving up.
        within: Duration,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// Its time cannot be virtual.
    #[error(
        "this kernel does not ask us for its time, so it cannot be virtual: it needs \
         CONFIG_UML_TIME_TRAVEL_SUPPORT=y; `warikomi kernel build --virtual` makes such a kernel"
    )]
    NoVirtualTime,

    /// In virtual time it neither waits nor makes an access.
    #[error(
        "the guest has been running for {} at one moment of virtual time; a loop that only looks at something \
         takes no time there, and never ends{console}", seconds(*.within)
    )]
    Endless {
        /// Time that it was given.
        within: Duration,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// It came, but did not set up its device queues.
    #[error("the kernel did not set up its PCI device within {}{console}", seconds(*.within))]
    NotAttached {
        /// Time waited before giving up.
        within: Duration,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The kernel spoke vhost-user in a way that we do not understand.
    #[error("the kernel's vhost-user connection failed: {error}{console}")]
    Protocol {
        /// What was wrong.
        error: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The agent did not report.
    #[error(
        "the guest agent did not report within {} of the start; is the initramfs the one that \
         `warikomi kernel build` made?{console}", seconds(*.within)
    )]
    NotReady {
        /// Time waited before giving up.
        within: Duration,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The guest kernel panicked.
    #[error("the guest kernel panicked: {message}{console}")]
    Panicked {
        /// The kernel's own message.
        message: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The kernel process ended.
    #[error("the guest kernel ended ({status}) while it was needed{console}")]
    Exited {
        /// Exit status of the process.
        status: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The kernel closed the connection to its NIC.
    #[error("the guest kernel closed the connection to its NIC{console}")]
    ConnectionLost {
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The agent does not answer any more.
    #[error("the target stopped answering: no reply to '{command}' within {}{console}", seconds(*.within))]
    Silent {
        /// The request.
        command: String,
        /// Time waited before giving up.
        within: Duration,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The driver does nothing any more, though it has frames to take.
    #[error(
        "the driver hangs: {frames} frames are on its ring, and it has neither taken one nor \
         accessed its NIC for {}; look at it with a debugger", seconds(*.within)
    )]
    Hung {
        /// Frames on its ring.
        frames: u64,
        /// Time waited before giving up.
        within: Duration,
    },

    /// The agent answered with an error.
    #[error("the target could not carry out '{command}': {message}{console}")]
    Refused {
        /// The request.
        command: String,
        /// The agent's reason.
        message: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The driver did not bind to the NIC.
    #[error("the driver {driver} did not bind to the NIC: {message}{console}")]
    NotBound {
        /// The driver.
        driver: String,
        /// The agent's finding.
        message: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// The link did not come up.
    #[error("the link did not come up: {message}{console}")]
    NoLink {
        /// The agent's finding.
        message: String,
        /// Last lines of the guest's console.
        console: ConsoleTail,
    },

    /// A program that is a part of a target cannot be run.
    #[error(
        "cannot start the {part} program {}: {error}; it must be an executable file", .path.display()
    )]
    CannotRun {
        /// `driver`, `stack` or `application`.
        part: &'static str,
        /// The program.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },

    /// An application of the user's own runs, but does not get ready to receive.
    #[error("the application is not ready to receive after {}: {missing}{console}", seconds(*.within))]
    ApplicationNotReady {
        /// Time waited before giving up.
        within: Duration,
        /// What it has not done.
        missing: &'static str,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// A process that is a part of a target ended.
    #[error("the {part} process ended ({status}) while it was needed{console}")]
    PartEnded {
        /// `driver`, `stack` or `application`.
        part: &'static str,
        /// Exit status of the process.
        status: String,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// A part lives, but has closed its socket.
    #[error(
        "the {part} process closed its socket while it was needed, though it lives; it must keep \
         the socket open for as long as it works{console}"
    )]
    PartHungUp {
        /// `driver`, `stack` or `application`.
        part: &'static str,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// The driver gave up, and said why.
    #[error("the driver failed: {message}{console}")]
    DriverFailed {
        /// The driver's own message.
        message: String,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// The driver process did not become ready.
    #[error(
        "the driver did not become ready within {} of its start: it has not reported that its device \
         receives{console}", seconds(*.within)
    )]
    DriverNotReady {
        /// Time waited before giving up.
        within: Duration,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// The driver process does not bring its report up to date.
    #[error(
        "the driver's counts are not those of now: for {} its loop has neither come by twice nor said \
         that it sleeps; see whether it hangs{console}", seconds(*.within)
    )]
    NoCounts {
        /// Time waited before giving up.
        within: Duration,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },

    /// No hypervisor has come for its card.
    #[error(
        "no hypervisor has connected to {} within {}; start QEMU or Cloud Hypervisor with the line that was printed, \
         as the same user", .path.display(), seconds(*.within)
    )]
    NoClient {
        /// The socket.
        path: PathBuf,
        /// Time waited before giving up.
        within: Duration,
    },

    /// The driver in the guest does not receive.
    #[error(
        "no driver has set the card up to receive within {} of the hypervisor's coming; see in the guest whether it has \
         the driver (lspci -k), and bring its interface up (ip link set dev NAME up)", seconds(*.within)
    )]
    NoReceiver {
        /// Time waited before giving up.
        within: Duration,
    },

    /// The hypervisor closed its connection.
    #[error("the hypervisor closed its connection to the card, with the guest or before it")]
    ClientGone,

    /// The hypervisor's messages made no sense, or it let a time pass.
    #[error("the hypervisor's vfio-user connection failed: {error}")]
    ClientError {
        /// What was wrong.
        error: String,
    },

    /// No card has this number.
    #[error("the target has no card {card}; it has {cards}, counted from 0")]
    NoCard {
        /// The card.
        card: CardId,
        /// Number of cards.
        cards: usize,
    },

    /// Cards that cannot be attached in this way.
    #[error(
        "a kernel cannot have {cards} cards attached in this way: virt-pci takes one, our PCI bridge \
         up to {}",
        bridge::CARDS
    )]
    NoRoom {
        /// Number of cards.
        cards: usize,
    },

    /// Something that the operating system refused.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl TargetError {
    /// Wraps an operating system error with what was being done.
    pub fn system(what: &'static str) -> impl Fn(std::io::Error) -> TargetError + Copy {
        move |error| TargetError::System { what, error }
    }

    /// The same for `nix`'s error type.
    pub fn errno(what: &'static str) -> impl FnOnce(nix::Error) -> TargetError {
        move |error| TargetError::System { what, error: error.into() }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
