//! The frames of a run, as the injector takes them.

use warikomi_clock::{Span, Time};
use warikomi_inject::Source;

use super::traffic::{BurstFrames, Bursts};
use super::{Options, VirtualError};
use crate::recorder::RUN_ID;

/// The first frame comes when the driver has had time to set its device up.
pub(super) const START: Span = Span::from_ms(1);

/// The traffic, and what the device takes for the frame that is next.
pub(super) struct Arrivals {
    bursts: Bursts,
    dma: [Span; 2],
    sizes: [usize; 2],
}

impl Source for Arrivals {
    fn count(&self) -> u64 {
        self.bursts.count()
    }
    fn packets_per_deadline(&self) -> u32 {
        1
    }
    #[inline]
    fn due(&self) -> Time {
        let dma = if self.bursts.next_bytes() == self.sizes[0] { self.dma[0] } else { self.dma[1] };
        self.bursts.due() + dma
    }
    fn advance(&mut self) {
        self.bursts.advance();
    }
    fn frame(&mut self, sequence: u64) -> warikomi_nic::Frame<'_> {
        self.bursts.frame(sequence)
    }
    fn paced(&self) -> bool {
        true
    }
}

impl Arrivals {
    /// The bytes of each frame.
    pub(super) fn frames(&self) -> &BurstFrames {
        self.bursts.frames()
    }

    pub(super) fn new(options: &Options, station: [u8; 6]) -> Result<Arrivals, VirtualError> {
        let traffic = &options.traffic;
        let bursts = Bursts::new(traffic, station, RUN_ID, options.seed, Time::ZERO + START)?;
        let sizes = bursts.sizes_bytes();
        let dma = sizes.map(|bytes| options.costs.dma(bytes));
        Ok(Arrivals { bursts, dma, sizes })
    }
}
