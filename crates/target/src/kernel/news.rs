//! Whether anything has come from the guest that only system calls can take: a line on its console, an answer
//! of its agent, a request of its virtio drivers, its end. One system call asks for all of them; it comes
//! between deadlines, so it is to be short.

use std::io::Result;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What is listened to.
pub(super) struct News {
    epoll: OwnedFd,
    /// Becomes readable when the process ends.
    _process: OwnedFd,
}

impl News {
    /// Of this process, and of what is added.
    pub(super) fn of_process(id: u32) -> Result<News> {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
        let process = pidfd_open(id, PidfdFlags::empty())?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        listen(&epoll, &process)?;
        Ok(News { epoll, _process: process })
    }

    /// Listens to this, too, until it is closed.
    pub(super) fn add(&self, to: impl AsFd) -> Result<()> {
        listen(&self.epoll, to)
    }

    /// Whether there is any; in doubt there is.
    pub(super) fn is_any(&self) -> bool {
        let nothing = epoll::EventFlags::empty();
        let mut event = [epoll::Event { flags: nothing, data: epoll::EventData::new_u64(0) }];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, &mut event, Some(&at_once)) != Ok(0)
    }
}

fn listen(epoll: &OwnedFd, to: impl AsFd) -> Result<()> {
    Ok(epoll::add(epoll, to, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    #[test]
    fn a_byte_and_the_end_of_the_process_are_news_and_stay_so_until_they_are_taken() {
        let mut process =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let news = News::of_process(process.id()).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        news.add(&ours).unwrap();
        assert!(!news.is_any());
        theirs.write_all(b"x").unwrap();
        assert!(news.is_any() && news.is_any());
        drop(ours);
        assert!(!news.is_any(), "what is closed is not listened to");
        drop(process.stdin.take());
        while !news.is_any() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        process.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_never_been_is_an_error() {
        assert!(News::of_process(u32::MAX).is_err());
        assert!(News::of_process(0).is_err());
    }
}
