//! An application at work: a thread that sends over TCP and computes, and one that sends datagrams
//! beside it.
//!
//! Interfaces may come and go meanwhile: a datagram that has no way out is counted and the next one
//! tried; a connection waits, for as long as it was told to.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warikomi_protocol::answers::{Done, WorkTotals};
use warikomi_protocol::commands::{WorkDatagrams, WorkStart};
use warikomi_protocol::payload::HEAD_BYTES;
use warikomi_protocol::work::{self, Computing};

use super::error::{AgentError, Context, Result};
use super::{netif, sys};

/// Computing is done in pieces, between which the thread looks whether it should stop.
const PIECE_US: u64 = 1_000;
/// How long to wait after a datagram that had no way out.
const AFTER_ERROR: Duration = Duration::from_millis(1);
/// The longest sleep between two datagrams in which nobody looks whether to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The running work, or what the last one left.
#[derive(Default)]
pub(super) struct Worker {
    job: Option<Job>,
}

struct Job {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads and the commands share.
struct Shared {
    stop: AtomicBool,
    totals: Mutex<WorkTotals>,
    stream: TcpStream,
}

impl Shared {
    fn note(&self) -> MutexGuard<'_, WorkTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn totals(&self) -> WorkTotals {
        let retransmitted = sys::retransmitted(self.stream.as_fd()).ok();
        WorkTotals { retransmitted, ..self.note().clone() }
    }
}

impl Worker {
    pub(super) fn start(&mut self, command: &WorkStart) -> Result<Done> {
        if self.job.as_ref().is_some_and(|job| !job.shared.note().over) {
            return Err(AgentError::Other("work is going on; send work_stop first".to_owned()));
        }
        work::check(command).map_err(AgentError::Other)?;
        // The last one's threads go before the next one's come.
        self.end()?;
        let begun = Instant::now();
        let computing = Computing::calibrate(|| nanoseconds(begun.elapsed()));
        let timeout = Duration::from_millis(command.timeout_ms.max(1));
        let stream = connect(&command.destination, timeout)?;
        let writer = stream.try_clone().context(|| "share the connection".to_owned())?;
        let beside = command.datagrams.as_ref().map(SideDatagrams::open).transpose()?;
        let totals = Mutex::new(WorkTotals::default());
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), totals, stream });
        let mut threads = Vec::new();
        if let Some(beside) = beside {
            let shared = Arc::clone(&shared);
            threads.push(spawn("datagrams", move || beside.run(&shared))?);
        }
        let (command, thread_shared) = (command.clone(), Arc::clone(&shared));
        threads.push(spawn("work", move || {
            let done = send(&command, writer, computing, &thread_shared);
            let mut totals = thread_shared.note();
            totals.failure = done.err().map(|error| error.to_string());
            totals.over = true;
        })?);
        self.job = Some(Job { shared, threads });
        Ok(Done {})
    }

    pub(super) fn status(&self) -> Result<WorkTotals> {
        let totals = self.job.as_ref().ok_or_else(none_started)?.shared.totals();
        let send_times = if totals.over { totals.send_times } else { Vec::new() };
        Ok(WorkTotals { send_times, ..totals })
    }

    pub(super) fn stop(&mut self) -> Result<WorkTotals> {
        self.end()?;
        Ok(self.job.as_ref().ok_or_else(none_started)?.shared.totals())
    }

    fn end(&mut self) -> Result<()> {
        let Some(job) = &mut self.job else { return Ok(()) };
        job.shared.stop.store(true, Ordering::Release);
        for thread in job.threads.drain(..) {
            thread.join().map_err(|_| {
                AgentError::Other("a working thread died; the console has the place".into())
            })?;
        }
        // What has been written is sent; the connection ends behind it.
        let _ = job.shared.stream.shutdown(std::net::Shutdown::Write);
        Ok(())
    }
}

fn none_started() -> AgentError {
    AgentError::Other("there was no work; send work_start first".to_owned())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).context(|| format!("start the thread {name}"))
}

fn connect(destination: &str, timeout: Duration) -> Result<TcpStream> {
    let destination = netif::parse_destination(destination)?;
    let stream = TcpStream::connect_timeout(&SocketAddr::V4(destination), timeout)
        .context(|| format!("connect to {destination}"))?;
    stream.set_write_timeout(Some(timeout)).context(|| "set the socket's timeout".to_owned())?;
    // A send is a segment: none waits for the acknowledgement of another.
    stream.set_nodelay(true).context(|| "have segments sent at once".to_owned())?;
    Ok(stream)
}

/// Sends and computes, by turns.
fn send(
    command: &WorkStart,
    mut stream: TcpStream,
    computing: Computing,
    shared: &Shared,
) -> Result<()> {
    let mut bytes = vec![0; command.send_bytes as usize];
    let mut given = 0;
    let mut done = 0;
    while (command.sends == 0 || done < command.sends) && !shared.stopped() {
        work::stream_bytes(given, &mut bytes);
        let (tsc, begun) = (sys::counter(), Instant::now());
        stream.write_all(&bytes).context(|| format!("send over TCP after {given} bytes"))?;
        let took_ns = nanoseconds(begun.elapsed());
        work::note_send(&mut shared.note(), tsc, took_ns, command.send_bytes);
        given += u64::from(command.send_bytes);
        done += 1;
        compute(command.compute_us, computing, shared);
    }
    Ok(())
}

fn compute(us: u64, computing: Computing, shared: &Shared) {
    let mut left_us = us;
    while left_us > 0 && !shared.stopped() {
        let piece_us = left_us.min(PIECE_US);
        Computing::run(computing.steps(piece_us));
        left_us -= piece_us;
    }
}

/// Datagrams beside it.
struct SideDatagrams {
    command: WorkDatagrams,
    socket: UdpSocket,
    destination: SocketAddrV4,
}

impl SideDatagrams {
    fn open(command: &WorkDatagrams) -> Result<SideDatagrams> {
        let destination = netif::parse_destination(&command.destination)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
            .context(|| "open a sending socket".to_owned())?;
        // So that a full send buffer keeps nobody from being stopped.
        socket
            .set_write_timeout(Some(LONGEST_SLEEP))
            .context(|| "set the socket's timeout".to_owned())?;
        Ok(SideDatagrams { command: command.clone(), socket, destination })
    }

    /// Sends until it is told to stop, or the connection's work is over.
    fn run(&self, shared: &Shared) {
        let mut payload = work::payload(&self.command);
        let interval = Duration::from_micros(self.command.interval_us);
        let mut due = Instant::now();
        let mut sequence = 0;
        while !shared.stopped() && !shared.note().over {
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait.min(LONGEST_SLEEP));
                continue;
            }
            payload[..HEAD_BYTES].copy_from_slice(&work::head(&self.command, sequence));
            // Not connected: a route that goes away and comes back is looked up each time.
            let sent = self.socket.send_to(&payload, self.destination);
            sequence += 1;
            let mut totals = shared.note();
            match sent {
                Ok(_) => {
                    totals.datagrams += 1;
                    due += interval;
                }
                Err(_) => {
                    totals.datagram_errors += 1;
                    due = Instant::now() + interval.max(AFTER_ERROR);
                }
            }
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn command(destination: SocketAddr, sends: u64) -> WorkStart {
        WorkStart {
            destination: destination.to_string(),
            sends,
            send_bytes: 1_000,
            compute_us: 1,
            datagrams: None,
            timeout_ms: 10_000,
        }
    }

    /// Reads a connection to its end.
    fn read_to_end() -> (SocketAddr, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        (address, reader)
    }

    #[test]
    fn what_is_sent_arrives_and_every_send_is_noted() {
        let (address, reader) = read_to_end();
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let datagrams = WorkDatagrams {
            destination: receiver.local_addr().unwrap().to_string(),
            payload_bytes: 100,
            run_id: 7,
            interval_us: 10,
        };
        let mut worker = Worker::default();
        worker.start(&WorkStart { datagrams: Some(datagrams), ..command(address, 50) }).unwrap();
        while !worker.status().unwrap().over {
            std::thread::yield_now();
        }
        let totals = worker.stop().unwrap();
        assert_eq!((totals.sends, totals.sent_bytes, totals.send_times.len()), (50, 50_000, 50));
        assert!(totals.send_times.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!((totals.failure, totals.datagram_errors), (None, 0));
        assert_eq!(totals.retransmitted, Some(0));
        let mut expected = vec![0; 50_000];
        work::stream_bytes(0, &mut expected);
        assert_eq!(reader.join().unwrap(), expected);
        let mut payload = [0; 200];
        for sequence in 0..totals.datagrams.min(20) {
            let (bytes, _) = receiver.recv_from(&mut payload).unwrap();
            let head = warikomi_protocol::payload::Head::from_bytes(&payload).unwrap();
            assert_eq!((bytes, head.run_id, head.sequence, payload[99]), (100, 7, sequence, 99));
        }
    }

    #[test]
    fn work_without_an_end_is_stopped() {
        let (address, reader) = read_to_end();
        let mut worker = Worker::default();
        assert!(worker.status().is_err() && worker.stop().is_err());
        worker.start(&command(address, 0)).unwrap();
        while worker.status().unwrap().sends < 10 {
            std::thread::yield_now();
        }
        assert!(worker.start(&command(address, 1)).is_err());
        let totals = worker.stop().unwrap();
        assert!(totals.over && totals.failure.is_none());
        assert_eq!(reader.join().unwrap().len() as u64, totals.sent_bytes);
        assert_eq!(worker.stop().unwrap(), totals);
    }

    #[test]
    fn nobody_there_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = Worker::default().start(&command(address, 1)).unwrap_err();
        assert!(error.to_string().contains("connect to 127.0.0.1"), "{error}");
    }
}
