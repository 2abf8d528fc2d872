//! How much of each shape of packet is copied together, so that the slower one of processor and device
//! has the least to do.
//!
//! Copying takes the processor's time and saves the device's. So what is right for one packet depends on
//! all the others: while the device is waited for, and the processor has time left, copying gains; where
//! they are equally busy, it helps nobody. The choice is the one that would make the sum of either least,
//! over the packets of the last window. For that a price is sought, of the processor's time in terms of
//! the device's, and each shape takes what is cheapest at that price; or a number of pieces, up to which
//! each shape saves as much of the device's time as it can.
//!
//! One waits for the other no further than the device's queue reaches: time that the processor has left during a
//! thousand long packets is no help to the thousand short ones behind them. So a window is looked at in parts, and in
//! each the slower one counts.

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
/// Parts of a window, at most, and packets of one, at least.
const MOST_PARTS: usize = 16;
const LEAST_PART: u64 = 16;
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
    /// Packets of this window, and of each of its parts, and of the window that the mix was last looked at in.
    packets: u64,
    by_part: [u64; MOST_PARTS],
    packets_before: u64,
    /// Pieces that are copied together; 0 for none.
    copied: usize,
    /// As many of them as the processor can copy while the device is busy with half a packet.
    affordable: usize,
}

/// By what each shape chooses.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// What is cheapest if the processor's time counts so much, from 0 to 1, and the device's for the rest; of no more
    /// pieces than this.
    AtPrice { price: f64, most: usize },
    /// What would be right if all packets were of this shape.
    ByItself,
}

impl Rule {
    /// The rules that are tried, those with the least copying first.
    fn all() -> impl Iterator<Item = Rule> {
        let priced = PRICES.into_iter().map(|price| Rule::AtPrice { price, most: usize::MAX });
        let first =
            FIRST.into_iter().map(|buffers| Rule::AtPrice { price: 0.0, most: buffers + 1 });
        first.chain(priced).chain([Rule::ByItself])
    }

    /// What a packet costs that has this to be done for it, and so much else of the processor.
    fn cost(self, load: Load, other_ps: f64) -> f64 {
        match self {
            Rule::AtPrice { price, .. } => price * load.processor + (1.0 - price) * load.device,
            Rule::ByItself => load.longest(other_ps),
        }
    }

    /// The most pieces that may be copied together.
    fn most(self) -> usize {
        match self {
            Rule::AtPrice { most, .. } => most,
            Rule::ByItself => usize::MAX,
        }
    }
}

/// Time of processor and of device, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    processor: f64,
    device: f64,
}

/// The parts of a window.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// Packets of each, until the next begins.
    length: u64,
    /// Packets that were counted.
    packets: [u64; MOST_PARTS],
    /// The one that packets are counted in.
    at: usize,
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
    fn add(&mut self, other: Load, times: u64) {
        self.processor += other.processor * times as f64;
        self.device += other.device * times as f64;
    }

    /// Until the slower one is ready, if the processor has so much besides.
    fn longest(self, other_ps: f64) -> f64 {
        (self.processor + other_ps).max(self.device)
    }
}

impl Parts {
    /// Of as many packets each as the device holds at once, but [`LEAST_PART`] at least.
    fn of(in_flight: u64) -> Parts {
        Parts { length: in_flight.max(LEAST_PART), packets: [0; MOST_PARTS], at: 0 }
    }

    /// Which one the next packet belongs to.
    #[inline]
    fn next(&mut self) -> usize {
        if self.packets[self.at] >= self.length && self.at + 1 < MOST_PARTS {
            self.at += 1;
        }
        self.packets[self.at] += 1;
        self.at
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

    /// What is cheapest by this rule, if the processor has so much besides; of what costs the same, the least copying.
    fn cheapest(&self, costs: &Costs, other_ps: f64, rule: Rule) -> usize {
        let (mut best, mut least) = (0, rule.cost(self.load(costs, 0), other_ps));
        for copied in self.candidates().filter(|copied| *copied <= rule.most()) {
            let cost = rule.cost(self.load(costs, copied), other_ps);
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
    /// Packets of each part of this window that have none.
    others: [Amount; MOST_PARTS],
    parts: Parts,
}

/// Most pieces that are told apart, and doublings of bytes.
const PIECES: usize = 64;
const DOUBLINGS: usize = 20;

impl Shapes {
    pub(crate) fn new() -> Shapes {
        Shapes {
            shapes: Vec::with_capacity(MOST_SHAPES),
            numbers: vec![0; PIECES * DOUBLINGS],
            others: Default::default(),
            parts: Parts::of(0),
        }
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
            by_part: [0; MOST_PARTS],
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
        let part = self.parts.next();
        let Some(shape) = shape else {
            return self.others[part].add(pieces.len() as u64, bytes);
        };
        let shape = &mut self.shapes[shape];
        shape.packets += 1;
        shape.by_part[part] += 1;
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

    /// What the packets of each part take the processor for copying and describing, and the device; with nothing
    /// copied, or with what is chosen.
    fn loads(&self, costs: &Costs, copied: impl Fn(&Shape) -> usize) -> [Load; MOST_PARTS] {
        let mut loads = self.others.map(|Amount { pieces, bytes }| Load {
            processor: costs.describe.of(pieces as f64, 0.0),
            device: costs.device.of(pieces as f64, bytes as f64),
        });
        for shape in self.shapes.iter().filter(|shape| shape.packets > 0) {
            let load = shape.load(costs, copied(shape));
            for (sum, packets) in loads.iter_mut().zip(shape.by_part) {
                sum.add(load, packets);
            }
        }
        loads
    }

    /// The same of all.
    fn load(&self, costs: &Costs, copied: impl Fn(&Shape) -> usize) -> Load {
        let mut sum = Load::default();
        self.loads(costs, copied).into_iter().for_each(|load| sum.add(load, 1));
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

    /// What the window takes if this is copied, and the processor has besides so much to do for each packet.
    fn takes(&self, costs: &Costs, other_ps: f64, copied: impl Fn(&Shape) -> usize) -> f64 {
        let loads = self.loads(costs, copied).into_iter().zip(self.parts.packets);
        loads.map(|(load, packets)| load.longest(other_ps * packets as f64)).sum()
    }

    /// Chooses for each shape, when the processor has besides so much to do for the window's packets.
    pub(crate) fn choose(&mut self, costs: &Costs, other_ps: f64) -> Chosen {
        let packets: u64 = self.parts.packets.iter().sum();
        let other_ps = other_ps / packets.max(1) as f64;
        let worth = self.takes(costs, other_ps, |_| 0) * (1.0 - MARGIN);
        let before = self.takes(costs, other_ps, |shape| shape.copied);
        let (mut best, mut least) = (None, worth);
        for rule in Rule::all() {
            let all = self.takes(costs, other_ps, |shape| shape.cheapest(costs, other_ps, rule));
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
                Some(rule) => shape.cheapest(costs, other_ps, rule),
                None => 0,
            };
            chosen.changed |= copied != shape.copied;
            chosen.copies |= copied > 0;
            shape.copied = copied;
        }
        chosen
    }

    /// Begins a new window of observation; the device holds `in_flight` packets now.
    pub(crate) fn begin(&mut self, in_flight: u64) {
        for shape in &mut self.shapes {
            (shape.packets, shape.by_part) = (0, [0; MOST_PARTS]);
        }
        (self.others, self.parts) = (Default::default(), Parts::of(in_flight));
    }
}
