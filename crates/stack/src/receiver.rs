use std::collections::VecDeque;

use warikomi_shared::{Corrupt, Wakeup, Woken, Words};

use crate::channel::UserEnd;
use crate::entry::Slice;

/// The three ways to receive, over a channel's user end.
///
/// Times and sleeps are arguments, so that the model checker of the tests runs this very code.
pub struct Receiver<W, K> {
    end: UserEnd<W, K>,
    /// What was sent, and not asked for yet.
    done: VecDeque<Slice>,
}

impl<W: Words, K: Wakeup> Receiver<W, K> {
    /// Receives through `end`.
    pub fn new(end: UserEnd<W, K>) -> Self {
        let done = VecDeque::with_capacity(end.custody().buffers() as usize);
        Receiver { end, done }
    }

    /// The channel.
    pub fn end(&mut self) -> &mut UserEnd<W, K> {
        &mut self.end
    }

    /// The next completion, if there is one. What was posted and sent meanwhile is shown to the
    /// provider when there is none.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<Slice>, Corrupt> {
        if let Some(completion) = self.end.completion()? {
            return Ok(Some(completion));
        }
        self.collect()?;
        self.end.flush();
        Ok(None)
    }

    /// The next buffer that was sent.
    pub fn sent(&mut self) -> Result<Option<Slice>, Corrupt> {
        if self.done.is_empty() {
            self.collect()?;
        }
        Ok(self.done.pop_front())
    }

    fn collect(&mut self) -> Result<(), Corrupt> {
        let most = self.end.custody().buffers() as usize;
        while let Some(sent) = self.end.sent()? {
            // Whoever sends a buffer again without asking what came of it does not want to know.
            if self.done.len() == most {
                self.done.pop_front();
            }
            self.done.push_back(sent);
        }
        Ok(())
    }

    /// Sleeps until there is a completion. `sleep` ends when the event does, or when the time is up;
    /// an event that is not about a completion, such as a buffer that was sent, is slept on over
    /// only if `sleep` says so by [`Woken::Called`].
    pub fn wait<E: From<Corrupt>>(
        &mut self,
        sleep: impl FnMut() -> Result<Woken, E>,
    ) -> Result<Option<Slice>, E> {
        self.wait_unless(|_| false, sleep)
    }

    /// The same, but ends without a completion also when a buffer was sent.
    pub fn wait_for_any<E: From<Corrupt>>(
        &mut self,
        sleep: impl FnMut() -> Result<Woken, E>,
    ) -> Result<Option<Slice>, E> {
        self.wait_unless(|done| !done.is_empty(), sleep)
    }

    fn wait_unless<E: From<Corrupt>>(
        &mut self,
        enough: impl Fn(&VecDeque<Slice>) -> bool,
        mut sleep: impl FnMut() -> Result<Woken, E>,
    ) -> Result<Option<Slice>, E> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if enough(&self.done) {
                return Ok(None);
            }
            let woken = match self.end.prepare_to_sleep() {
                Ok(true) => Ok(Woken::Called),
                Ok(false) => sleep(),
                Err(error) => Err(error.into()),
            };
            self.end.awake();
            if woken? == Woken::TimedOut {
                return Ok(self.poll()?);
            }
        }
    }

    /// Polls while `polling` says so, then sleeps as [`wait`](Self::wait) does.
    pub fn hybrid<E: From<Corrupt>>(
        &mut self,
        mut polling: impl FnMut() -> Result<bool, E>,
        sleep: impl FnMut() -> Result<Woken, E>,
    ) -> Result<Option<Slice>, E> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if !polling()? {
                return self.wait(sleep);
            }
        }
    }
}
