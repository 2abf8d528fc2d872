//! How much of each shape of packet is copied together, so that the slower one of processor and device
//! has the least to do.
//!
//! Copying takes the processor's time and saves the device's. So what is right for one packet depends on
//! all the others: while the device is waited for, and the processor has time left, copying gains; where
//! they are equally busy, it helps nobody. The choice is the one that would make the sum of either least,
//! over the packets of the last window. For that a price is sought, of the processor's time in terms of
//! the device's, and each shape takes what is cheapest at that price; or a number of pieces, up to which
//! each shape saves as much of the device's time as it can.

use super::estimate::{Amount, Cost};

/// The least share of time that copying must save, by what is predicted.
const MARGIN: f64 = 0.02;
/// What is not less than this share of something else is as much.
const NOTICEABLE: f64 = 0.999;
/// What is chosen stays chosen unless something else would be better than this share of it.
const STAYS: f64 = 0.99;
/// The share of packets that are of other shapes than before in a mix that has changed.
const MIX_CHANGES: f64 = 0.5;
/// Shapes that are told apart; packets of any other are not copied.
const MOST_SHAPES: usize = 64;
/// Numbers of buffers behind the header that are considered, besides all of them.
const FIRST: [usize; 7] = [1, 2, 3, 4, 6, 8, 16];
/// Prices that are tried.
const PRICES: [f64; 9] = [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0];

/// What things cost at present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Copying pieces together.
    pub(crate) copy: Cost,
    /// Describing pieces to the device.
    pub(crate) describe: Cost,
    /// What the device takes for pieces.
    pub(crate) device: Cost,
}

impl Costs {
    /// Nothing is known yet.
    pub(crate) fn new() -> Costs {
        // What the processor takes is measured packet by packet, what the device takes only roughly.
        Costs { copy: Cost::new(0.85), describe: Cost::new(0.85), device: Cost::new(0.97) }
    }
}

/// Packets that are alike: so many pieces, and about so many bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pieces: usize,
    /// Bytes of the last one, of its first piece, and of its second.
    bytes: u64,
    first: u64,
    second: u64,
    /// Packets of this window, and of the one that the mix was last looked at in.
    packets: u64,
    packets_before: u64,
    /// Pieces that are copied together; 0 for none.
    copied: usize,
    /// As many of them as the processor can copy while the device is busy with half a packet.
    affordable: usize,
}

/// By what each shape chooses.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// How much the processor's time counts, from 0 to 1; the device's counts for the rest.
    price: f64,
    /// The most pieces that may be copied together.
    most: usize,
}

impl Rule {
    /// The rules that are tried, those with the least copying first.
    fn all() -> impl Iterator<Item = Rule> {
        let priced = PRICES.into_iter().map(|price| Rule { price, most: usize::MAX });
        FIRST.into_iter().map(|buffers| Rule { price: 0.0, most: buffers + 1 }).chain(priced)
    }
}

/// Time of processor and of device, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    processor: f64,
    device: f64,
}

/// What has become of a choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    /// Whether any shape of packet is to be copied.
    pub(crate) copies: bool,
    /// It is another choice than the last.
    pub(crate) changed: bool,
}

impl Load {
    fn at_price(self, price: f64) -> f64 {
        price * self.processor + (1.0 - price) * self.device
    }
}

impl Shape {
    fn copied_bytes(&self, copied: usize) -> u64 {
        match copied {
            0 => 0,
            all if all >= self.pieces => self.bytes,
            some => (self.first + (some as u64 - 1) * self.second).min(self.bytes),
        }
    }

    /// What one packet takes if so much of it is copied together.
    fn load(&self, costs: &Costs, copied: usize) -> Load {
        let pieces = (self.pieces - copied.saturating_sub(1)) as f64;
        let copying = costs.copy.of(copied as f64, self.copied_bytes(copied) as f64);
        Load {
            processor: costs.describe.of(pieces, 0.0) + copying,
            device: costs.device.of(pieces, self.bytes as f64),
        }
    }

    /// What is cheapest by this rule; of what costs the same, the least copying.
    fn cheapest(&self, costs: &Costs, rule: Rule) -> usize {
        let (mut best, mut least) = (0, self.load(costs, 0).at_price(rule.price));
        for copied in self.candidates().filter(|copied| *copied <= rule.most) {
            let cost = self.load(costs, copied).at_price(rule.price);
            if cost < least * NOTICEABLE {
                (best, least) = (copied, cost);
            }
        }
        best
    }

    /// Numbers of pieces that could be copied together.
    fn candidates(&self) -> impl Iterator<Item = usize> + use<> {
        let pieces = self.pieces;
        let partly = FIRST.iter().map(|buffers| buffers + 1);
        partly.filter(move |copied| *copied < pieces).chain((pieces > 1).then_some(pieces))
    }

    fn find_affordable(&mut self, costs: &Costs) {
        let enough = self.load(costs, 0).device / 2.0;
        let affordable = |copied: &usize| self.load(costs, *copied).processor <= enough;
        self.affordable = self.candidates().filter(affordable).last().unwrap_or(0);
    }
}

/// The shapes of packets, and what is chosen for each.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    /// By pieces and the logarithm of the bytes: the number of the shape, and one more.
    numbers: Vec<u8>,
    /// Packets of this window that have none.
    amount: Amount,
}

/// Most pieces that are told apart, and doublings of bytes.
const PIECES: usize = 64;
const DOUBLINGS: usize = 20;

impl Shapes {
    pub(crate) fn new() -> Shapes {
        let (shapes, numbers) = (Vec::with_capacity(MOST_SHAPES), vec![0; PIECES * DOUBLINGS]);
        Shapes { shapes, numbers, amount: Amount::default() }
    }

    /// The number of a packet's shape, if there is one.
    #[inline]
    pub(crate) fn find(&mut self, pieces: &[(u64, u32)], bytes: u64) -> Option<usize> {
        let doublings = (u64::BITS - bytes.leading_zeros()) as usize;
        if !(1..PIECES).contains(&pieces.len()) || doublings >= DOUBLINGS {
            return None;
        }
        match self.numbers[pieces.len() * DOUBLINGS + doublings] {
            0 => self.add(pieces, bytes, doublings),
            number => Some(number as usize - 1),
        }
    }

    #[cold]
    fn add(&mut self, pieces: &[(u64, u32)], bytes: u64, doublings: usize) -> Option<usize> {
        if self.shapes.len() == MOST_SHAPES {
            return None;
        }
        let count = pieces.len();
        self.shapes.push(Shape {
            pieces: count,
            bytes,
            first: 0,
            second: 0,
            packets: 0,
            packets_before: 0,
            copied: 0,
            affordable: 0,
        });
        self.numbers[count * DOUBLINGS + doublings] = self.shapes.len() as u8;
        Some(self.shapes.len() - 1)
    }

    /// Pieces that are copied together of packets of this shape.
    #[inline]
    pub(crate) fn copied(&self, shape: usize) -> usize {
        self.shapes[shape].copied
    }

    /// Pieces of packets of this shape that could be copied together without delaying anything for long.
    #[inline]
    pub(crate) fn affordable(&self, shape: usize) -> usize {
        self.shapes[shape].affordable
    }

    /// A packet was handed over.
    #[inline]
    pub(crate) fn count(&mut self, shape: Option<usize>, pieces: &[(u64, u32)], bytes: u64) {
        let Some(shape) = shape else {
            return self.amount.add(pieces.len() as u64, bytes);
        };
        let shape = &mut self.shapes[shape];
        shape.packets += 1;
        shape.bytes = bytes;
        shape.first = pieces[0].1.into();
        shape.second = pieces.get(1).map_or(0, |piece| piece.1.into());
    }

    /// Whether more than [`MIX_CHANGES`] of the window's packets are of other shapes than those of the window before.
    pub(crate) fn is_another_mix(&self) -> bool {
        let (mut common, mut all, mut before) = (0.0, 0, 0);
        for shape in &self.shapes {
            (all, before) = (all + shape.packets, before + shape.packets_before);
        }
        for shape in &self.shapes {
            let share = |packets: u64, all: u64| packets as f64 / all.max(1) as f64;
            common += share(shape.packets, all).min(share(shape.packets_before, before));
        }
        before > 0 && common < 1.0 - MIX_CHANGES
    }

    /// The same; the next window is held against this one.
    pub(crate) fn mix_has_changed(&mut self) -> bool {
        let changed = self.is_another_mix();
        self.shapes.iter_mut().for_each(|shape| shape.packets_before = shape.packets);
        changed
    }

    /// Bytes of the longest packet of the window that could be copied.
    pub(crate) fn longest_bytes(&self) -> u64 {
        let sent = self.shapes.iter().filter(|shape| shape.packets > 0);
        sent.map(|shape| shape.bytes).max().unwrap_or(0)
    }

    /// What the window's packets take the processor for copying and describing, and the device; with
    /// nothing copied, or with what is chosen.
    fn load(&self, costs: &Costs, copied: impl Fn(&Shape) -> usize) -> Load {
        let other = (self.amount.pieces as f64, self.amount.bytes as f64);
        let mut sum = Load {
            processor: costs.describe.of(other.0, 0.0),
            device: costs.device.of(other.0, other.1),
        };
        for shape in self.shapes.iter().filter(|shape| shape.packets > 0) {
            let load = shape.load(costs, copied(shape));
            sum.processor += load.processor * shape.packets as f64;
            sum.device += load.device * shape.packets as f64;
        }
        sum
    }

    /// How much work there was: what the device would have taken for it with nothing copied.
    pub(crate) fn work(&self, costs: &Costs) -> f64 {
        self.load(costs, |_| 0).device
    }

    /// What the processor did for copying and describing, if this was copied.
    pub(crate) fn processor(&self, costs: &Costs, bounced: bool) -> f64 {
        self.load(costs, |shape| if bounced { shape.copied } else { 0 }).processor
    }

    /// Chooses for each shape, when the processor has besides so much to do for the window's packets.
    pub(crate) fn choose(&mut self, costs: &Costs, other_ps: f64) -> Chosen {
        let longest = |load: Load| (load.processor + other_ps).max(load.device);
        let worth = longest(self.load(costs, |_| 0)) * (1.0 - MARGIN);
        let before = longest(self.load(costs, |shape| shape.copied));
        let (mut best, mut least) = (None, worth);
        for rule in Rule::all() {
            let all = longest(self.load(costs, |shape| shape.cheapest(costs, rule)));
            if all < least * NOTICEABLE {
                (best, least) = (Some(rule), all);
            }
        }
        let keep = before < worth && least > before * STAYS;
        let mut chosen = Chosen::default();
        for shape in self.shapes.iter_mut().filter(|shape| shape.packets > 0) {
            shape.find_affordable(costs);
            let copied = match best {
                _ if keep => shape.copied,
                Some(rule) => shape.cheapest(costs, rule),
                None => 0,
            };
            chosen.changed |= copied != shape.copied;
            chosen.copies |= copied > 0;
            shape.copied = copied;
        }
        chosen
    }

    /// Begins a new window of observation.
    pub(crate) fn begin(&mut self) {
        self.shapes.iter_mut().for_each(|shape| shape.packets = 0);
        self.amount = Amount::default();
    }
}
