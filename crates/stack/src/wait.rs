//! Sleeping, and noticing that a neighbour is gone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use warikomi_shared::{Wakeup, Woken};

use crate::StackError;

/// An eventfd that ends somebody's sleep.
#[derive(Clone, Debug)]
pub struct Event(Arc<OwnedFd>);

impl Event {
    /// Makes a new event.
    pub fn create() -> io::Result<Event> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(eventfd(0, flags).map(Event::from)?)
    }

    /// A wake-up that has come ends no later sleep.
    pub fn clear(&self) {
        // Nothing to read is no error: it does not block.
        let _ = read(&*self.0, &mut [0; 8]);
    }
}

impl From<OwnedFd> for Event {
    fn from(file: OwnedFd) -> Self {
        Event(Arc::new(file))
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wakeup for Event {
    fn wake(&self) {
        // It cannot block, and a count that is full wakes too.
        let _ = write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// A socket to a neighbour, on which nothing is sent: its hang-up tells that the neighbour is gone.
#[derive(Debug)]
pub struct Neighbour {
    /// Which part it is, for the error.
    pub name: &'static str,
    /// The socket.
    pub socket: OwnedFd,
}

/// What a sleeper waits for.
#[derive(Debug)]
pub struct Watch {
    event: Event,
    neighbours: Vec<Neighbour>,
    control: Option<OwnedFd>,
}

/// Files that a [`Watch`] has at most: the event, three neighbours, the control socket.
const MOST_WATCHED: usize = 5;

impl Watch {
    /// Waits for `event`, the end of a neighbour, or something to read from `control`.
    pub fn new(event: Event, neighbours: Vec<Neighbour>, control: Option<OwnedFd>) -> Watch {
        assert!(1 + neighbours.len() < MOST_WATCHED, "too many neighbours");
        Watch { event, neighbours, control }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// One file that is readable when the event has come or a neighbour has ended, for a sleeper who
    /// waits for other things too.
    pub fn as_one_file(&self) -> io::Result<OwnedFd> {
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&all, &self.event, EventData::new_u64(0), EventFlags::IN)?;
        for neighbour in &self.neighbours {
            epoll::add(&all, &neighbour.socket, EventData::new_u64(0), EventFlags::RDHUP)?;
        }
        Ok(all)
    }

    /// Whether all neighbours are there. Does not wait.
    pub fn check(&self) -> Result<(), StackError> {
        self.wait(false, Some(Duration::ZERO)).map(|_| ())
    }

    /// Sleeps until the event, the end of a neighbour, or the end of `timeout`; something to read
    /// from `control` counts as the end of the time, because it is not what the sleeper waits for.
    pub fn sleep(&self, timeout: Option<Duration>) -> Result<Woken, StackError> {
        self.wait(true, timeout)
    }

    fn wait(&self, listen: bool, timeout: Option<Duration>) -> Result<Woken, StackError> {
        let interest = if listen { PollFlags::IN } else { PollFlags::empty() };
        // Entries that are not used name the event once more.
        let mut files: [PollFd<'_>; MOST_WATCHED] =
            std::array::from_fn(|_| PollFd::new(&self.event, interest));
        for (file, neighbour) in files[1..].iter_mut().zip(&self.neighbours) {
            // Nobody sends anything on it: it is readable when it is over.
            *file = PollFd::new(&neighbour.socket, PollFlags::RDHUP);
        }
        let mut count = 1 + self.neighbours.len();
        if let Some(control) = &self.control {
            files[count] = PollFd::new(control, interest);
            count += 1;
        }
        let limit = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let woken = match poll(&mut files[..count], limit.as_ref()) {
            Ok(0) => return Ok(Woken::TimedOut),
            Ok(_) | Err(Errno::INTR) => Woken::Called,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        for (file, neighbour) in files[1..].iter().zip(&self.neighbours) {
            if !file.revents().is_empty() {
                return Err(StackError::Gone(neighbour.name));
            }
        }
        if listen && files[0].revents().contains(PollFlags::IN) {
            self.event.clear();
            return Ok(Woken::Called);
        }
        let asked = self.control.is_some() && !files[count - 1].revents().is_empty();
        Ok(if asked { Woken::TimedOut } else { woken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn an_event_a_neighbours_end_and_the_time_end_a_sleep() {
        let (socket, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let event = Event::create().unwrap();
        let neighbours = vec![Neighbour { name: "the driver", socket }];
        let watch = Watch::new(event.clone(), neighbours, None);
        event.wake();
        assert_eq!(watch.sleep(None).unwrap(), Woken::Called);
        assert_eq!(watch.sleep(Some(Duration::from_millis(1))).unwrap(), Woken::TimedOut);
        watch.check().unwrap();
        let file = watch.as_one_file().unwrap();
        let readable = || {
            let limit = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&limit)).unwrap() > 0
        };
        assert!(!readable());
        event.wake();
        assert!(readable());
        event.clear();
        assert!(!readable());
        drop(other);
        assert!(readable());
        assert!(matches!(watch.check(), Err(StackError::Gone("the driver"))));
        assert!(matches!(watch.sleep(None), Err(StackError::Gone("the driver"))));
    }
}
