//! `ip_fragment` of 4.4BSD: each fragment behind the first has its headers in an mbuf of its own, and behind it
//! the packet's data as `m_copym` has it: an mbuf that shares the cluster, or, of a small mbuf, a copy. The first
//! fragment keeps the packet's chain, cut off behind its own data (`m_adj`).
//!
//! Here all fragments of a packet are one chain, one behind the other, and their buffers go back together when the last
//! of them was sent.

use warikomi_driver::transmit::{CostClock, Work};
use warikomi_pci::DmaMemory;

use super::super::demand::{BufferError, no_packet};
use super::arena::{Chain, Mbuf};
use super::layout::{FRAGMENT_HEADERS_OFFSET, MLEN, MSIZE};
use super::{MbufBuffers, ran_out};
use crate::datagram::{FRAGMENT_HEADER_BYTES, HEADER_BYTES, Headers};

/// A chain that grows at its end.
struct Growing {
    chain: Chain,
    last: u64,
}

impl MbufBuffers {
    /// Cuts a packet, whose headers are in front of it, into its fragments.
    pub(super) fn cut_up<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        headers: &Headers,
    ) -> Result<(), BufferError> {
        let chain = self.packets.get(token).ok_or_else(|| no_packet(token))?.chain;
        let mut uncut = std::mem::take(&mut self.uncut);
        uncut.clear();
        let walked = self.arena.walk(memory, token, chain, |mbuf| {
            uncut.push(mbuf);
            Ok(true)
        });
        let cut = walked.and_then(|_| self.fragments(clock, memory, token, (headers, &uncut)));
        let trimmed = cut.and_then(|()| self.trim(memory, headers, &uncut));
        self.uncut = uncut;
        trimmed
    }

    /// The fragments behind the first.
    fn fragments<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        (headers, uncut): (&Headers, &[Mbuf]),
    ) -> Result<(), BufferError> {
        let packet = *self.packets.get(token).ok_or_else(|| no_packet(token))?;
        let last = uncut.last().ok_or_else(|| no_packet(token))?.at;
        let mut growing = Growing { chain: packet.chain, last };
        let cut = headers.cut();
        for index in 1..cut.count() {
            let mbuf = self.append(clock, memory, token, &mut growing)?;
            let at = mbuf + u64::from(FRAGMENT_HEADERS_OFFSET);
            memory.write(at, &headers.of_fragment(index))?;
            self.arena.set(memory, mbuf, None, (at, FRAGMENT_HEADER_BYTES as u32))?;
            self.counts.spend(clock, Work::Sum { bytes: Headers::IP.len() });
            let part = cut.payload(index);
            let part = HEADER_BYTES + part.start..HEADER_BYTES + part.end;
            let mut from = 0;
            // `m_copym` begins at the chain's first mbuf each time.
            for source in uncut {
                self.counts.spend(clock, Work::Visit { buffers: 1 });
                let end = from + source.len as usize;
                let (first, behind) = (part.start.max(from), part.end.min(end));
                if first < behind {
                    let data = source.data + (first - from) as u64;
                    let shared = source.part(data, (behind - first) as u32);
                    self.share(clock, memory, token, (&mut growing, shared))?;
                }
                from = end;
                if from >= part.end {
                    break;
                }
            }
        }
        if let Some(packet) = self.packets.get_mut(token) {
            packet.chain = growing.chain;
            packet.bytes += (cut.count() - 1) * FRAGMENT_HEADER_BYTES;
        }
        Ok(())
    }

    /// `m_copym`: an mbuf with the same data at the chain's end.
    fn share<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        (growing, of): (&mut Growing, Mbuf),
    ) -> Result<(), BufferError> {
        let mbuf = self.append(clock, memory, token, growing)?;
        let mut data = of.data;
        if of.is_small() {
            data = mbuf + u64::from(MSIZE - MLEN);
            memory.copy(of.data, data, of.len as usize)?;
            clock.spend(Work::Copy { bytes: of.len as usize });
        } else {
            self.arena.share_cluster(memory, token, (mbuf, data))?;
        }
        Ok(self.arena.set(memory, mbuf, None, (data, of.len))?)
    }

    /// Another mbuf at the chain's end; where.
    fn append<C: CostClock>(
        &mut self,
        clock: &mut C,
        memory: &dyn DmaMemory,
        token: u32,
        growing: &mut Growing,
    ) -> Result<u64, BufferError> {
        let mbuf = self.arena.get(memory, token)?.ok_or_else(|| ran_out(token))?;
        self.counts.spend(clock, Work::Take { buffers: 1 });
        self.arena.link(memory, growing.last, mbuf)?;
        growing.last = mbuf;
        growing.chain.mbufs += 1;
        Ok(mbuf)
    }

    /// `m_adj`: leaves of the packet's chain what belongs to the first fragment.
    fn trim(
        &mut self,
        memory: &dyn DmaMemory,
        headers: &Headers,
        uncut: &[Mbuf],
    ) -> Result<(), BufferError> {
        let mut left = HEADER_BYTES + headers.cut().payload(0).len();
        for mbuf in uncut {
            let kept = left.min(mbuf.len as usize);
            left -= kept;
            if kept < mbuf.len as usize {
                self.arena.set_data(memory, mbuf.at, (mbuf.data, kept as u32))?;
            }
        }
        Ok(())
    }
}
