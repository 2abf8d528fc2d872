//! Receiving: a thread that takes datagrams in batches and does nothing else.
//!
//! One system call does the waiting and the taking (`MSG_WAITFORONE`), because in this kernel a
//! system call costs several microseconds; [`super::wait`] has the other ways to wait. The thread
//! looks up every [`LOOK_UP_MS`] to see whether it should stop; then it takes what is left and ends.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use warikomi_protocol::answers::{ReceiveFailure, ReceiveRuns, ReceiveStarted, ReceiveTotals};
use warikomi_protocol::commands;
use warikomi_protocol::record::{MOST_RUNS, Record};

use super::error::{AgentError, Context, Result};
use super::sys;
use super::wait::{LOOK_UP_MS, Waiter};

/// Most datagrams a system call; the kernel's own limit.
const MOST_DATAGRAMS: u32 = 1024;

/// Most memory for one batch, in bytes.
const MOST_BATCH_BYTES: u64 = 32 << 20;

/// Fewer full batches than this say nothing about saturation.
const FEWEST_FULL_BATCHES: u64 = 8;

/// The running reception, or what the last one left.
#[derive(Default)]
pub(super) struct Receiver {
    reception: Option<Reception>,
}

struct Reception {
    shared: Arc<Shared>,
    /// `None` once it has been stopped.
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the commands share. The thread holds the lock for each batch that it
/// records, never while it waits.
struct Shared {
    stop: AtomicBool,
    record: Mutex<Record>,
    socket: UdpSocket,
    /// Set once, by the thread, when it gives up.
    failure: Mutex<Option<ReceiveFailure>>,
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        // A record that a panic left half-way is still a record.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn totals(&self) -> ReceiveTotals {
        let mut totals = self.record().totals();
        totals.socket_drops = sys::socket_drops(self.socket.as_fd()).unwrap_or(0);
        totals.failed = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        totals.saturated = is_saturated(&totals);
        totals
    }
}

fn is_saturated(totals: &ReceiveTotals) -> bool {
    let mostly_full = totals.full_batches * 2 > totals.batches;
    totals.socket_drops > 0 || (mostly_full && totals.full_batches >= FEWEST_FULL_BATCHES)
}

impl Receiver {
    pub(super) fn start(&mut self, command: &commands::ReceiveStart) -> Result<ReceiveStarted> {
        if self.reception.as_ref().is_some_and(|reception| reception.thread.is_some()) {
            return Err(AgentError::Other(
                "a reception is running; send receive_stop first".to_owned(),
            ));
        }
        check(command)?;
        // The last record's memory goes before the next one's comes.
        self.reception = None;
        let socket = open(command)?;
        let granted =
            getsockopt(&socket, sockopt::RcvBuf).context(|| "read the buffer's size".to_owned())?;
        let batch = sys::Batch::new(command.batch as usize, command.max_datagram_bytes as usize);
        let (waiter, polls_by) = Waiter::new(&socket, command.wait)?;
        let equal = command.equal_priority;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            record: Mutex::new(Record::new(command)),
            socket,
            failure: Mutex::new(None),
        });
        let thread = std::thread::Builder::new()
            .name("receive".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || receive(&shared, batch, &waiter, equal)
            })
            .context(|| "start the receiving thread".to_owned())?;
        self.reception = Some(Reception { shared, thread: Some(thread) });
        Ok(ReceiveStarted {
            buffer_bytes: granted as u64,
            max_runs: command.max_runs.min(MOST_RUNS),
            tsc: sys::counter(),
            polls_by,
        })
    }

    pub(super) fn status(&self) -> Result<ReceiveTotals> {
        Ok(self.last()?.shared.totals())
    }

    pub(super) fn stop(&mut self) -> Result<ReceiveTotals> {
        let reception = self.reception.as_mut().ok_or_else(none_started)?;
        reception.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = reception.thread.take() {
            thread.join().map_err(|_| {
                AgentError::Other("the receiving thread died; the console has the place".into())
            })?;
        }
        Ok(reception.shared.totals())
    }

    pub(super) fn runs(&self, command: &commands::ReceiveRuns) -> Result<ReceiveRuns> {
        let reception = self.last()?;
        if reception.thread.is_some() {
            return Err(AgentError::Other(
                "the reception is running; send receive_stop first".to_owned(),
            ));
        }
        Ok(reception.shared.record().answer(command))
    }

    fn last(&self) -> Result<&Reception> {
        self.reception.as_ref().ok_or_else(none_started)
    }
}

fn none_started() -> AgentError {
    AgentError::Other("there was no reception; send receive_start first".to_owned())
}

fn check(command: &commands::ReceiveStart) -> Result<()> {
    let bytes = u64::from(command.batch) * u64::from(command.max_datagram_bytes);
    for (what, expected, fine, given) in [
        ("batch", "1 to 1024", (1..=MOST_DATAGRAMS).contains(&command.batch), command.batch),
        (
            "max_datagram_bytes",
            "1 to 65535, and at most 32 MiB for a batch",
            (1..=65_535).contains(&command.max_datagram_bytes) && bytes <= MOST_BATCH_BYTES,
            command.max_datagram_bytes,
        ),
        ("max_runs", "1 to 4194304", (1..=MOST_RUNS).contains(&command.max_runs), command.max_runs),
        ("buffer_bytes", "at most 1 GiB", command.buffer_bytes <= 1 << 30, command.buffer_bytes),
    ] {
        if !fine {
            return Err(AgentError::Invalid { what, expected, given: given.to_string() });
        }
    }
    Ok(())
}

fn open(command: &commands::ReceiveStart) -> Result<UdpSocket> {
    let port = command.port;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
        .context(|| format!("receive on UDP port {port}"))?;
    setsockopt(&socket, sockopt::RcvBufForce, &(command.buffer_bytes as usize))
        .context(|| format!("make a receive buffer of {} bytes", command.buffer_bytes))?;
    socket
        .set_read_timeout(Some(Duration::from_millis(LOOK_UP_MS.into())))
        .context(|| "set the socket's timeout".to_owned())?;
    Ok(socket)
}

/// The thread.
///
/// It runs behind everything else unless it is told otherwise: on the guest's only processor, an application as important as
/// the soft interrupt would take half of its time as soon as that is saturated, and what is under
/// test is the driver. What the socket holds meanwhile is taken later. A kernel that does not let
/// us be modest is no reason to give up.
fn receive(shared: &Shared, mut batch: sys::Batch, waiter: &Waiter, equal_priority: bool) {
    if !equal_priority {
        let _ = sys::run_last();
    }
    loop {
        let stopping = shared.stop.load(Ordering::Acquire);
        // Once stopping, waits no more: takes what the socket holds, until it holds nothing.
        let received = if stopping {
            batch.receive(shared.socket.as_fd(), false)
        } else {
            waiter.receive(&mut batch, shared.socket.as_fd())
        };
        match received {
            Ok(0) => {}
            Ok(count) => take(shared, &batch, count),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock if stopping => return,
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => {}
                _ => {
                    let errno = error.raw_os_error().unwrap_or(0);
                    *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(ReceiveFailure { errno });
                    return;
                }
            },
        }
    }
}

fn take(shared: &Shared, batch: &sys::Batch, count: usize) {
    let tsc = sys::counter();
    let mut record = shared.record();
    record.begin_batch(count, batch.capacity(), tsc);
    for datagram in batch.datagrams(count) {
        record.datagram(datagram.bytes, datagram.length, tsc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_is_drops_or_mostly_full_batches() {
        let totals = ReceiveTotals { batches: 100, full_batches: 40, ..Default::default() };
        assert!(!is_saturated(&totals));
        assert!(is_saturated(&ReceiveTotals { socket_drops: 1, ..totals }));
        assert!(is_saturated(&ReceiveTotals { full_batches: 60, ..totals }));
        assert!(!is_saturated(&ReceiveTotals { batches: 2, full_batches: 2, ..totals }));
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        let base = commands::ReceiveStart::on_port(5001, 1);
        assert!(check(&base).is_ok());
        for (bad, name) in [
            (commands::ReceiveStart { batch: 0, ..base.clone() }, "batch"),
            (commands::ReceiveStart { max_datagram_bytes: 0, ..base.clone() }, "max_datagram"),
            (commands::ReceiveStart { max_runs: u32::MAX, ..base.clone() }, "max_runs"),
            (commands::ReceiveStart { buffer_bytes: u32::MAX, ..base.clone() }, "buffer_bytes"),
        ] {
            assert!(check(&bad).unwrap_err().to_string().contains(name));
        }
    }
}
