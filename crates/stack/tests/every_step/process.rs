//! A driver process, without the process: the very driver, the very end of the channel, the very baton, in
//! the order in which the loop of a driver uses them.

use std::cell::RefCell;
use std::rc::Rc;

use warikomi_driver::rtl8168::Rtl8168;
use warikomi_driver::state::{Baton, How, Predecessor, StateArea, StateError, Turn};
use warikomi_driver::{DriverError, Forgotten, Hardware, NicDriver, Transmit, TxFrame, Upper};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::layout::DMA_BUS_ADDRESS;
use warikomi_shared::SharedWords;
use warikomi_stack::{ChannelUpper, Event, Watch};

use crate::mortal::{Life, Mortal, Registers};
use crate::user::Quiet;
use crate::world::World;

/// Frames that one look takes at most: fewer than a ring has descriptors.
const BUDGET: usize = 4;

pub(crate) struct Process {
    pub(crate) generation: u32,
    pub(crate) life: Rc<Life>,
    driver: Rtl8168,
    upper: ChannelUpper<Mortal<SharedWords>, Quiet>,
    registers: Mortal<Registers>,
    memory: Mortal<SharedMemory>,
    state: StateArea,
    baton: Baton<Mortal<SharedWords>>,
    waiting: Option<Transmit>,
    /// Frames on the ring.
    unsent: usize,
    passes: u64,
    descriptors: usize,
}

macro_rules! hardware {
    ($process:ident) => {
        &mut Hardware { mmio: &mut $process.registers, memory: &$process.memory }
    };
}

impl Process {
    /// One that has everything in reach, and waits for its turn.
    pub(crate) fn new(
        world: &Rc<World>,
        generation: u32,
        stores: u64,
        descriptors: usize,
    ) -> Process {
        let life = Life::new(world, stores);
        let words = Mortal::new(world.packets.words().clone(), &life);
        let watch = Watch::new(Event::create().expect("an event"), Vec::new(), None);
        let upper = ChannelUpper::through(&words, world.packets.clone(), Quiet, watch);
        let area = Mortal::new(world.area.clone(), &life);
        Process {
            generation,
            driver: Rtl8168::new(),
            upper: upper.expect("a watch").expect("a channel"),
            registers: Mortal::new(Registers(world.clone()), &life),
            memory: Mortal::new(world.memory.clone(), &life),
            state: StateArea::new(Rc::new(area.clone())),
            baton: Baton::new(area),
            waiting: None,
            unsent: 0,
            passes: 0,
            descriptors,
            life,
        }
    }

    /// Takes the device. What was forgotten, if it is reset.
    pub(crate) fn begin(&mut self, how: How) -> Result<Option<Forgotten>, DriverError> {
        let predecessor = match how {
            How::Start => return self.start().map(Some),
            How::Died => Predecessor::Died,
            How::HandedOver => Predecessor::HandedOver,
        };
        let shown = self.upper.shown();
        self.driver.keep_state(self.state.clone(), shown)?;
        let held = self.driver.take_over(hardware!(self), predecessor, shown)?;
        self.baton.accept(self.generation);
        self.upper.resume(&held)?;
        self.upper.wake();
        self.unsent = held.sending.len();
        Ok(None)
    }

    fn start(&mut self) -> Result<Forgotten, DriverError> {
        let driven = self.baton.owner() != 0;
        self.baton.accept(self.generation);
        if driven {
            // The card must not write to buffers that go back.
            let _ = self.driver.quiesce(hardware!(self), &mut self.upper, &mut |_| ());
        }
        let forgotten = self.upper.forget();
        self.upper.wake();
        self.driver.keep_state(self.state.clone(), self.upper.shown())?;
        self.driver.init(hardware!(self), DMA_BUS_ADDRESS, self.descriptors, &mut self.upper)?;
        Ok(forgotten)
    }

    /// One look at everything.
    pub(crate) fn pass(&mut self) -> Result<(), DriverError> {
        self.passes += 1;
        // As a receiver that sleeps now and then.
        match self.passes % 4 {
            0 => self.driver.arm(hardware!(self))?,
            1 => drop(self.driver.on_interrupt(hardware!(self), 0)?),
            _ => {}
        }
        self.driver.poll(hardware!(self), BUDGET, &mut self.upper)?;
        self.upper.flush();
        self.transmit()?;
        let upper = RefCell::new(&mut self.upper);
        let mut sent = |token| upper.borrow_mut().sent(token);
        let hw = &mut Hardware { mmio: &mut self.registers, memory: &self.memory };
        self.unsent -= self.driver.reclaim(hw, &mut sent)?;
        self.upper.flush();
        Ok(())
    }

    fn transmit(&mut self) -> Result<(), DriverError> {
        while let Some(frame) = self.waiting.take().or_else(|| self.upper.next_transmit()) {
            let pieces = TxFrame { pieces: frame.pieces(), token: frame.token() };
            match self.driver.transmit(hardware!(self), pieces) {
                Ok(true) => self.unsent += 1,
                Err(DriverError::Invalid(_)) if self.unsent == 0 => {
                    self.upper.not_sent(frame.token());
                    self.upper.flush();
                }
                Ok(false) | Err(DriverError::Invalid(_)) => {
                    self.waiting = Some(frame);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.driver.kick(hardware!(self))
    }

    /// Gives the device to generation `to`.
    pub(crate) fn hand_over(&mut self, to: u32) -> Result<(), DriverError> {
        self.upper.flush();
        self.driver.hand_over(self.generation)?;
        self.baton.give(Turn { generation: to, how: How::HandedOver });
        Ok(())
    }

    /// Stops for good.
    pub(crate) fn stop(mut self) {
        let (mut sent, hw) = (0, hardware!(self));
        self.driver.quiesce(hw, &mut self.upper, &mut |_| sent += 1).expect("the card stops");
        self.upper.flush();
        assert_eq!((sent, self.upper.strays()), (0, 0));
        assert_eq!(self.upper.refusals().total(), 0);
    }
}

/// Whether a driver could not take over because the settings were not there.
pub(crate) fn is_unreadable(error: &DriverError) -> bool {
    matches!(error, DriverError::State(StateError::Unreadable(_)))
}
