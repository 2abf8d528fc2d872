//! The bytes of the connection, between the application's buffers and the general stack.

use warikomi_clock::Time;
use warikomi_shared::Wakeup;

use super::Path;
use super::outgoing::{Outgoing, Turn};
use crate::entry::{Destination, Slice, flags};
use crate::ip::Connection;

impl<K: Wakeup + Clone> Path<K> {
    /// Lets the stream flow, in both directions; how many buffers were moved.
    pub(super) fn streams(&mut self, now: Time) -> usize {
        let mut moved = 0;
        while let Some(mut next) = self.outgoing.pop_front() {
            let failed = match self.send_from(now, &mut next) {
                Turn::Waits => {
                    self.outgoing.push_front(next);
                    break;
                }
                Turn::Done => false,
                Turn::Failed => true,
            };
            self.above.sent(next.token(), failed);
            moved += 1;
        }
        moved + self.stream_to_the_application(now)
    }

    fn send_from(&mut self, now: Time, next: &mut Outgoing) -> Turn {
        match self.general.connection() {
            Connection::None if next.slice.extra != 0 && !next.tried => {
                next.tried = true;
                let to = Destination::from_word(next.slice.extra);
                let opening = self.general.connect(now, to.address, to.port);
                if opening { Turn::Waits } else { Turn::Failed }
            }
            Connection::None => Turn::Failed,
            // One that ends may be followed by the one that is asked for.
            Connection::Ending if next.slice.extra != 0 && !next.tried => Turn::Waits,
            Connection::Ending => Turn::Failed,
            Connection::Opening => Turn::Waits,
            Connection::Open => self.put_into_the_stream(now, next),
        }
    }

    fn put_into_the_stream(&mut self, now: Time, next: &mut Outgoing) -> Turn {
        let Outgoing { slice, done, .. } = next;
        if slice.length == 0 {
            // Nothing to be sent: the end of the stream.
            self.general.close(now);
            return Turn::Done;
        }
        let offset = u32::from(slice.offset) + u32::from(*done);
        let length = u32::from(slice.length - *done);
        let Some(bytes) = self.memory.bytes(slice.token, offset, length) else {
            return Turn::Failed;
        };
        *done += self.general.stream_out(now, &bytes) as u16;
        if *done == slice.length { Turn::Done } else { Turn::Waits }
    }

    fn stream_to_the_application(&mut self, now: Time) -> usize {
        let mut moved = 0;
        // Buffers for it are such as would go down; while there are none, the window closes.
        while self.general.has_stream()
            && let Ok(Some(token)) = self.above.posted()
        {
            self.socket.consumed(token);
            if !self.fill_from_the_stream(now, token) {
                self.recycle(token);
                break;
            }
            moved += 1;
        }
        self.above.want_posts(self.general.has_stream());
        self.general.close_if_over(now);
        moved
    }

    /// Sends a buffer up with what there is of the stream; `false` if there is nothing.
    pub(super) fn fill_from_the_stream(&mut self, now: Time, token: u32) -> bool {
        let size = self.memory.shape().buffer_bytes.min(u32::from(u16::MAX));
        let Some(place) = self.memory.bytes(token, 0, size) else { return false };
        let length = self.general.stream_in(now, &place) as u16;
        let slice = Slice { length, flags: flags::STREAM, ..Slice::posted(token) };
        length > 0 && self.above.complete(slice)
    }
}
