//! Drivers of devices of which only a part is modelled: for tests of what drives a driver.

use std::ops::{Deref, DerefMut};

use warikomi_driver::{
    Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, RxSink, TxFrame,
};

/// What such a driver has. Without a word it receives nothing and sends nothing.
pub trait PartialDriver {
    /// Description of the driver.
    fn info(&self) -> &'static DriverInfo;

    /// The device's causes are acknowledged.
    fn acknowledge(&mut self);

    /// The device is to interrupt from now on.
    fn arm(&mut self);

    /// The device is not to interrupt any more.
    fn disarm(&mut self);

    /// Gives up to `budget` packets to `sink`; how many.
    fn poll(&mut self, _budget: usize, _sink: &mut dyn RxSink) -> usize {
        0
    }

    /// Takes a frame to be sent, if it has room for it.
    fn transmit(&mut self, _frame: TxFrame<'_>) -> bool {
        false
    }

    /// Gives the tokens of what was sent back; how many.
    fn reclaim(&mut self, _sent: &mut dyn FnMut(u32)) -> usize {
        0
    }

    /// Free descriptors to send with.
    fn tx_room(&self) -> usize {
        0
    }

    /// Whether the device is to interrupt for what it has sent.
    fn transmit_interrupts(&mut self, _on: bool) {}
}

/// A driver of nothing more than that.
pub struct Partial<D>(pub D);

impl<D> Deref for Partial<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

impl<D> DerefMut for Partial<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.0
    }
}

impl<D: PartialDriver> NicDriver for Partial<D> {
    fn info(&self) -> &'static DriverInfo {
        self.0.info()
    }
    fn init(
        &mut self,
        _: &mut Hardware<'_>,
        _: u64,
        _: usize,
        _: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        Ok(())
    }
    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        self.0.disarm();
        self.acknowledge(hw, vector)
    }
    fn acknowledge(&mut self, _: &mut Hardware<'_>, _: u16) -> Result<Causes, DriverError> {
        self.0.acknowledge();
        Ok(Causes::default())
    }
    fn arm(&mut self, _: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.0.arm();
        Ok(())
    }
    fn disarm(&mut self, _: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.0.disarm();
        Ok(())
    }
    fn poll(
        &mut self,
        _: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        Ok(self.0.poll(budget, sink))
    }
    fn transmit(&mut self, _: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        Ok(self.0.transmit(frame))
    }
    fn kick(&mut self, _: &mut Hardware<'_>) -> Result<(), DriverError> {
        Ok(())
    }
    fn reclaim(
        &mut self,
        _: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        Ok(self.0.reclaim(sent))
    }
    fn tx_room(&self) -> usize {
        self.0.tx_room()
    }
    fn transmit_interrupts(&mut self, _: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.0.transmit_interrupts(on);
        Ok(())
    }
    fn link(&mut self, _: &mut Hardware<'_>) -> Result<Link, DriverError> {
        Ok(Link::Down)
    }
    fn mac_address(&self) -> [u8; 6] {
        [0; 6]
    }
    fn rx_errors(&self) -> u64 {
        0
    }
    fn quiesce(
        &mut self,
        _: &mut Hardware<'_>,
        _: &mut dyn RxSink,
        _: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError> {
        Ok(())
    }
}
