//! The ways to wait for a datagram: in the receiving system call or in `epoll_wait`, asleep or polling.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs, io};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use warikomi_protocol::answers::PollsBy;
use warikomi_protocol::commands::Wait;

use super::error::{AgentError, Context, Result};
use super::{error, sys};

/// How long a reception that gets nothing sleeps before it looks whether it should stop.
pub(super) const LOOK_UP_MS: u16 = 50;

/// Longest time to poll, in microseconds: a second. The kernel would take more, and so hang a guest
/// of one processor.
const MOST_BUSY_POLL_US: u32 = 1_000_000;

/// Options of `SOL_SOCKET`, from `asm-generic/socket.h`.
const SO_BUSY_POLL: libc::c_int = 46;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;

/// The kernel's setting for all who poll or select, in microseconds.
const SYSCTL: &str = "/proc/sys/net/core/busy_poll";

/// Waits for datagrams in the way that was asked for.
pub(super) struct Waiter {
    epoll: Option<Epoll>,
    /// Undone when the reception ends.
    _sysctl: Option<Sysctl>,
}

impl Waiter {
    /// Sets a socket up, and tells by what it polls the device, if it does.
    pub(super) fn new(socket: &UdpSocket, wait: Wait) -> Result<(Waiter, Option<PollsBy>)> {
        if wait.busy_poll_us > MOST_BUSY_POLL_US {
            return Err(AgentError::Invalid {
                what: "busy_poll_us",
                expected: "0 to 1000000",
                given: wait.busy_poll_us.to_string(),
            });
        }
        let polls = wait.busy_poll_us > 0 || wait.prefer_busy_poll;
        if !wait.epoll {
            if polls {
                poll_by_socket(socket.as_fd(), wait)?;
            }
            let waiter = Waiter { epoll: None, _sysctl: None };
            return Ok((waiter, polls.then_some(PollsBy::Socket)));
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .context(|| "make an epoll instance".to_owned())?;
        epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .context(|| "watch the socket".to_owned())?;
        let (sysctl, by) = if polls { poll_by_epoll(&epoll, wait)? } else { (None, None) };
        Ok((Waiter { epoll: Some(epoll), _sysctl: sysctl }, by))
    }

    /// Waits for a first datagram, as long as [`LOOK_UP_MS`], and takes what is there.
    pub(super) fn receive(&self, batch: &mut sys::Batch, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(epoll) = &self.epoll else { return batch.receive(fd, true) };
        let mut events = [EpollEvent::empty()];
        match epoll.wait(&mut events, LOOK_UP_MS)? {
            0 => Ok(0),
            _ => batch.receive(fd, false),
        }
    }
}

fn poll_by_socket(fd: BorrowedFd<'_>, wait: Wait) -> Result<()> {
    let set = |option, name: &str, value: u32| {
        sys::set_socket_option(fd, option, value.cast_signed())
            .context(|| format!("set {name} of the socket to {value}"))
    };
    set(SO_BUSY_POLL, "SO_BUSY_POLL", wait.busy_poll_us)?;
    if wait.prefer_busy_poll {
        set(SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL", 1)?;
    }
    if wait.busy_poll_budget > 0 {
        set(SO_BUSY_POLL_BUDGET, "SO_BUSY_POLL_BUDGET", wait.busy_poll_budget.into())?;
    }
    Ok(())
}

fn poll_by_epoll(epoll: &Epoll, wait: Wait) -> Result<(Option<Sysctl>, Option<PollsBy>)> {
    let mut parameters = sys::EpollParams {
        busy_poll_usecs: wait.busy_poll_us,
        busy_poll_budget: wait.busy_poll_budget,
        prefer_busy_poll: wait.prefer_busy_poll.into(),
        pad: 0,
    };
    match sys::epoll_ioctl(epoll.0.as_fd(), &mut parameters) {
        Ok(()) => Ok((None, Some(PollsBy::Epoll))),
        // A kernel that does not know the request has the setting for everyone, without the rest.
        Err(error) if is_unknown_request(&error) && !wait.prefer_busy_poll => {
            Ok((Some(Sysctl::set(wait.busy_poll_us)?), Some(PollsBy::Sysctl)))
        }
        Err(source) => Err(AgentError::System {
            what: "set the busy polling of an epoll instance (EPIOCSPARAMS)".to_owned(),
            source,
        }),
    }
}

fn is_unknown_request(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL))
}

/// The kernel's setting, until this goes.
struct Sysctl {
    before: String,
}

impl Sysctl {
    fn set(microseconds: u32) -> Result<Sysctl> {
        let before = error::read(SYSCTL)?;
        error::write(SYSCTL, &microseconds.to_string())?;
        Ok(Sysctl { before })
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SYSCTL, self.before.trim()) {
            eprintln!("warikomi-guest: {SYSCTL} stays as it was set: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn receives(wait: Wait) -> Option<PollsBy> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let (waiter, by) = Waiter::new(&socket, wait).unwrap();
        let mut batch = sys::Batch::new(4, 64);
        let nothing = waiter.receive(&mut batch, socket.as_fd());
        assert!(nothing.is_ok_and(|count| count == 0) || !wait.epoll);
        socket.send_to(b"one", socket.local_addr().unwrap()).unwrap();
        assert_eq!(waiter.receive(&mut batch, socket.as_fd()).unwrap(), 1);
        assert_eq!(batch.datagrams(1).next().unwrap().bytes, b"one");
        by
    }

    #[test]
    fn a_datagram_comes_whichever_way_it_is_waited_for() {
        assert_eq!(receives(Wait::default()), None);
        assert_eq!(receives(Wait { epoll: true, ..Wait::default() }), None);
    }

    #[test]
    fn longer_than_a_second_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wait = Wait { busy_poll_us: MOST_BUSY_POLL_US + 1, ..Wait::default() };
        let refused = Waiter::new(&socket, wait).err().unwrap().to_string();
        assert!(refused.contains("busy_poll_us"), "{refused}");
    }
}
