//! A socket with a bounded send buffer, which is given back only when the driver reclaims.

/// A socket that sends.
#[derive(Clone, Copy, Debug)]
pub struct SendSocket {
    all_bytes: u64,
    used_bytes: u64,
}

impl SendSocket {
    /// With so much room.
    pub fn new(all_bytes: u64) -> SendSocket {
        SendSocket { all_bytes, used_bytes: 0 }
    }

    /// Takes room for a message; `false` if there is not enough.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> bool {
        let used = self.used_bytes + u64::from(bytes);
        let fits = used <= self.all_bytes;
        if fits {
            self.used_bytes = used;
        }
        fits
    }

    /// The driver has reclaimed a message.
    #[inline]
    pub fn give_back(&mut self, bytes: u32) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes.into());
    }

    /// Free room in bytes.
    #[inline]
    pub fn free_bytes(&self) -> u64 {
        self.all_bytes - self.used_bytes
    }

    /// Room in all, in bytes.
    #[inline]
    pub fn all_bytes(&self) -> u64 {
        self.all_bytes
    }
}
