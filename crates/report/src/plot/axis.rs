//! Axes: units, scales and ticks.

use warikomi_measure::layout::{self, Scale, Unit, rate, time};

use super::name::clean;

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label of the axis.
    pub label: String,
    /// The column's name in the numbers behind the plot, with its unit.
    pub column: String,
    /// What it counts. Microseconds are nanoseconds here.
    pub unit: Unit,
    /// Scale of the axis.
    pub scale: Scale,
    /// Names of the places 0, 1 and so on, where these are no numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// An axis of numbers.
    pub fn new(label: &str, column: &str, unit: Unit, scale: Scale) -> Axis {
        let (label, column) = (label.to_owned(), column.to_owned());
        Axis { label, column, unit, scale, names: Vec::new() }
    }

    /// An axis of names.
    pub fn named(label: &str, column: &str, names: Vec<String>) -> Axis {
        Axis { names, ..Axis::new(label, column, Unit::Count, Scale::Linear) }
    }

    /// The axis that a chart declares, in nanoseconds where its columns have microseconds.
    pub(super) fn declared(axis: &layout::Axis) -> Axis {
        let key = axis.keys.join(" ");
        let label = clean(&axis.title);
        match axis.unit {
            Unit::Us => Axis::new(&label, &key.replace("_us", "_ns"), Unit::Ns, axis.scale),
            unit => Axis::new(&label, &key, unit, axis.scale),
        }
    }

    /// A value as it is written beside the axis.
    pub(super) fn tick(&self, value: f64) -> String {
        match self.unit {
            _ if !self.names.is_empty() => self.number(value),
            Unit::Ns | Unit::Bps if value == 0.0 => "0".to_owned(),
            Unit::Ns => time(value),
            Unit::Bps => rate(value),
            Unit::Share => format!("{}%", decimals(100.0 * value)),
            Unit::Change if value > 0.0 => format!("+{}%", decimals(100.0 * value)),
            Unit::Change => format!("{}%", decimals(100.0 * value)),
            _ => Unit::Plain.show(value),
        }
    }

    /// A value as a reader who asks for it gets it.
    pub(super) fn exact_text(&self, value: f64) -> String {
        if self.names.is_empty() { self.unit.show(value) } else { self.tick(value) }
    }

    /// A value as it is written into the numbers behind the plot: in full.
    pub(super) fn number(&self, value: f64) -> String {
        let at = (value >= 0.0).then_some(value as usize);
        at.and_then(|at| self.names.get(at)).cloned().unwrap_or_else(|| value.to_string())
    }

    /// Whether a value has a place on this scale.
    pub(super) fn shows(&self, value: f64) -> bool {
        self.scale != Scale::Log || value >= LEAST
    }

    /// The scale that holds all of these values, with at most about `ticks` ticks.
    pub(super) fn scaled(&self, values: impl Iterator<Item = f64>, ticks: usize) -> Scaled {
        let (least, most) = values
            .filter(|value| plottable(*value) && self.shows(*value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (least, most) = if least > most { (1.0, 1.0) } else { (least, most) };
        if !self.names.is_empty() {
            let places = (0..self.names.len()).map(|at| at as f64).collect();
            return Scaled::new(-0.5, self.names.len() as f64 - 0.5, false, places);
        }
        match (self.scale, self.unit) {
            (Scale::Log, _) => log(least, most, ticks),
            // What is far below all of it would be a line on the ground.
            (Scale::Zero, Unit::Share) if most > MUCH => {
                let fifths = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
                Scaled::new(least.min(0.0), most.max(1.0), false, fifths.to_vec())
            }
            (Scale::Zero, _) => linear(least.min(0.0), most.max(0.0), ticks),
            (Scale::Linear, _) => linear(least, most, ticks),
        }
    }
}

/// The largest value, and the smallest on a log scale, that a plot is made for. What is measured
/// here is nowhere near, and no arithmetic overflows in between.
const MOST: f64 = 1e30;
const LEAST: f64 = 1e-30;

/// A share above which an axis of shares goes up to all.
const MUCH: f64 = 0.2;

pub(super) fn plottable(value: f64) -> bool {
    value.abs() <= MOST
}

fn decimals(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A linear scale whose ends are ticks.
fn linear(least: f64, most: f64, ticks: usize) -> Scaled {
    let spread = (most - least).max(most.abs().max(least.abs()) * 1e-6).max(1e-9);
    let rough = spread / ticks.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|n| n * power >= rough).unwrap_or(10.0);
    let (first, last) = ((least / step).floor(), (most / step).ceil());
    let last = if last > first { last } else { first + 1.0 };
    let steps = (last - first).min(64.0) as usize;
    let places = (0..=steps).map(|n| (first + n as f64) * step).collect();
    Scaled::new(first * step, last * step, false, places)
}

/// So few ticks say too little of a scale.
const FEW: usize = 2;

/// A log scale with a little room at both ends. Ticks at 1, 2 and 5 of each decade where there are few,
/// at decades where there are more, and at every other where there are many.
fn log(least: f64, most: f64, ticks: usize) -> Scaled {
    const ROOM: f64 = 1.12;
    let (from, to) = (least / ROOM, most.max(least * 1.5) * ROOM);
    let decades = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let many = usize::try_from(decades.1 - decades.0).unwrap_or(1).max(1);
    let each: &[f64] = if many * 3 <= ticks + 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let stride = many.div_ceil(ticks.max(1)).max(1);
    let places = (decades.0..=decades.1)
        .step_by(stride)
        .flat_map(|decade| each.iter().map(move |n| n * 10f64.powi(decade)))
        .filter(|place| (from..=to).contains(place))
        .collect::<Vec<_>>();
    if places.len() > FEW {
        return Scaled::new(from, to, true, places);
    }
    // Less than a decade: what is round on a linear scale is round here, too.
    let places = linear(from, to, ticks).ticks.into_iter();
    Scaled::new(from, to, true, places.filter(|place| (from..=to).contains(place)).collect())
}

/// An axis with its ends and ticks.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) log: bool,
    pub(super) ticks: Vec<f64>,
}

impl Scaled {
    fn new(from: f64, to: f64, log: bool, ticks: Vec<f64>) -> Scaled {
        Scaled { from, to, log, ticks }
    }

    /// Where a value is: 0 at the axis's beginning, 1 at its end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.max(LEAST).ln() } else { value };
        let (from, to) = (place(self.from), place(self.to));
        let position = if to > from { (place(value) - from) / (to - from) } else { 0.5 };
        position.clamp(-1.0, 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis::new("", "", unit, scale)
    }

    #[test]
    fn ticks_are_round_and_carry_their_unit() {
        let interval = axis(Unit::Ns, Scale::Log);
        let scaled = interval.scaled([300.0, 60_000.0].into_iter(), 9);
        let shown: Vec<_> = scaled.ticks.iter().map(|at| interval.tick(*at)).collect();
        assert_eq!(shown, ["500 ns", "1 µs", "2 µs", "5 µs", "10 µs", "20 µs", "50 µs"]);
        let share = axis(Unit::Share, Scale::Zero);
        let scaled = share.scaled([0.3, 0.9].into_iter(), 6);
        let shown: Vec<_> = scaled.ticks.iter().map(|at| share.tick(*at)).collect();
        assert_eq!(shown, ["0%", "20%", "40%", "60%", "80%", "100%"]);
        let bytes = axis(Unit::Count, Scale::Zero);
        let scaled = bytes.scaled([1_024.0, 16_379.0].into_iter(), 8);
        let shown: Vec<_> = scaled.ticks.iter().map(|at| bytes.tick(*at)).collect();
        assert_eq!(shown, ["0", "5,000", "10,000", "15,000", "20,000"]);
    }

    proptest! {
        #[test]
        fn any_values_have_a_scale_with_ticks_inside(
            values in prop::collection::vec(any::<f64>(), 0..20),
            scale in prop::sample::select(vec![Scale::Linear, Scale::Zero, Scale::Log]),
        ) {
            let scaled = axis(Unit::Ns, scale).scaled(values.iter().copied(), 8);
            prop_assert!(scaled.from < scaled.to, "{scaled:?}");
            prop_assert!(scaled.ticks.len() <= 66, "{scaled:?}");
            let in_order = scaled.ticks.windows(2).all(|pair| pair[0] <= pair[1]);
            prop_assert!(in_order && scaled.ticks.iter().all(|tick| tick.is_finite()), "{scaled:?}");
            for value in values {
                let at = scaled.position(value);
                prop_assert!(value.is_nan() || at.is_finite(), "{value} is at {at}");
            }
        }
    }
}
