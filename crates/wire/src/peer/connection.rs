//! A kernel's TCP connection on a wire that loses nothing: each of its segments goes on where the one before ended.
//!
//! A segment that is ahead says that one is lost, or out of order: a kernel sends new bytes in order. One that is
//! behind came before, and IP's identification says who sent it again. A kernel gives each packet of a connection the
//! next one (Linux `ip_select_ident_segs`), also what its retransmission timer sends. So a frame whose identification
//! is not a newer one was sent twice by the card.

use etherparse::{Ipv4Slice, TcpSlice};

/// Where a segment has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Behind all that came before.
    Next,
    /// Its kernel has sent it before, whole or in part.
    Again,
}

/// How far a connection's stream has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    source_port: u16,
    /// The number of the byte behind all that came.
    next: u32,
    /// Of the newest packet.
    identification: u16,
}

impl Connection {
    /// The connection that this segment opens (SYN).
    pub(super) fn opened(ip: &Ipv4Slice<'_>, tcp: &TcpSlice<'_>) -> Connection {
        Connection {
            source_port: tcp.source_port(),
            next: tcp.sequence_number().wrapping_add(1),
            identification: ip.header().identification(),
        }
    }

    /// Takes a segment with data.
    pub(super) fn take(&mut self, ip: &Ipv4Slice<'_>, tcp: &TcpSlice<'_>) -> Result<Turn, String> {
        if tcp.source_port() != self.source_port {
            // Of an earlier connection, all bytes of which had come before this one was opened.
            return Ok(Turn::Again);
        }
        let ahead = tcp.sequence_number().wrapping_sub(self.next) as i32;
        if ahead > 0 {
            return Err(format!("{ahead} bytes in front of its data have not come"));
        }
        let identification = ip.header().identification();
        let is_newer = identification.wrapping_sub(self.identification) as i16 > 0;
        if ahead < 0 && !is_newer {
            return Err("the same frame has come before".to_owned());
        }
        let end = tcp.sequence_number().wrapping_add(tcp.payload().len() as u32);
        if end.wrapping_sub(self.next) as i32 > 0 {
            self.next = end;
        }
        self.identification = identification;
        Ok(if ahead < 0 { Turn::Again } else { Turn::Next })
    }
}
