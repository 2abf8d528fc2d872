//! What both families of buffers are made of: equal buffers in DMA memory, and a table of packets.

/// Equal buffers. The one that came back last is taken first, because it is still in the cache.
#[derive(Debug)]
pub(super) struct Pool {
    /// Bus addresses.
    free: Vec<u64>,
    count: usize,
}

impl Pool {
    /// So many buffers, `stride_bytes` apart, from the bus address `first` on.
    pub(super) fn new(first: u64, stride_bytes: u64, count: usize) -> Pool {
        // Taken from the end: the first buffer first.
        let free = (0..count as u64).rev().map(|number| first + number * stride_bytes).collect();
        Pool { free, count }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<u64> {
        self.free.pop()
    }

    #[inline]
    pub(super) fn give_back(&mut self, address: u64) {
        self.free.push(address);
    }

    /// Buffers that nobody has.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.len() == self.count
    }
}

/// Packets by their tokens, a bounded number of them.
#[derive(Debug)]
pub(super) struct Packets<P> {
    slots: Vec<P>,
    in_use: Vec<bool>,
    free: Vec<u32>,
    refused: u64,
}

impl<P> Packets<P> {
    /// None yet, of at most so many.
    pub(super) fn new(count: usize, empty: impl FnMut() -> P) -> Packets<P> {
        Packets {
            slots: std::iter::repeat_with(empty).take(count).collect(),
            in_use: vec![false; count],
            free: (0..count as u32).rev().collect(),
            refused: 0,
        }
    }

    /// A token and its packet, which is what the last one of this token has left.
    #[inline]
    pub(super) fn add(&mut self) -> Option<(u32, &mut P)> {
        let token = self.free.pop()?;
        self.in_use[token as usize] = true;
        Some((token, &mut self.slots[token as usize]))
    }

    #[inline]
    pub(super) fn get(&self, token: u32) -> Option<&P> {
        let used = self.in_use.get(token as usize).copied().unwrap_or_default();
        used.then(|| &self.slots[token as usize])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, token: u32) -> Option<&mut P> {
        let used = self.in_use.get(token as usize).copied().unwrap_or_default();
        used.then(|| &mut self.slots[token as usize])
    }

    /// Takes a packet out; `None`, which is counted, if there is none of this token.
    #[inline]
    pub(super) fn remove(&mut self, token: u32) -> Option<&mut P> {
        match self.in_use.get_mut(token as usize) {
            Some(in_use @ true) => {
                *in_use = false;
                self.free.push(token);
                Some(&mut self.slots[token as usize])
            }
            _ => {
                self.refused += 1;
                None
            }
        }
    }

    /// Tokens that were given back without being in use.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether there is no packet.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
