//! A chart as SVG, light or dark as the reader prefers.
//!
//! The picture says everything without a script: each point has its numbers as a title, which a browser shows
//! under the pointer. What a script needs to zoom and to switch series off is in `data-` attributes: the ends
//! of the axes, and to which series an element belongs. The plot's area is an SVG of its own, so that points
//! outside of it can be cut off. The legend is below, where there is never anything that it could hide.

use std::fmt::Write;

use maud::html;
use plotting::{Frame, Pixel, escaped};
use warikomi_measure::layout::Scale;

use super::axis::{Axis, Scaled};
use super::chart::{Chart, Series, Shape};
use super::style::{self, MAX_SERIES};

mod plotting;

const TICK_PX: f64 = 12.0;
const LEGEND_ROW: f64 = 22.0;
const SWATCH: f64 = 30.0;
/// The most that a bar is wide to either side.
const BAR_PX: f64 = 50.0;
/// The most points of a series without markers that say their numbers.
const MAX_TITLES: usize = 400;

impl Chart {
    /// The chart as an SVG document of its own, light or dark as the reader prefers.
    pub fn svg(&self) -> String {
        let frame = frame(self);
        let legend = Legend::of(self);
        let mut out = head(self, &frame, frame.bottom() + legend.height());
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"28\" font-size=\"16\" font-weight=\"600\">{}</text>",
            frame.left,
            escaped(&self.title)
        );
        grid(&mut out, self, &frame);
        let Frame { left, top, width, height, .. } = frame;
        let _ = write!(
            out,
            "<svg class=\"area\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             overflow=\"visible\">"
        );
        for mark in &self.marks {
            let x = frame.x(mark.at);
            let line = [Pixel(x, 0.0), Pixel(x, height)];
            let _ = write!(out, "<g class=\"mark\">");
            path(&mut out, &line, mark.colour, true);
            let said = format!("{}: {}", mark.name, self.x.tick(mark.at));
            let _ = write!(out, "<title>{}</title></g>", escaped(&said));
        }
        // Dots first: they are what is behind.
        let mut order: Vec<&Series> = self.series.iter().collect();
        order.sort_by_key(|series| series.shape != Shape::Dots);
        for one in order {
            series(&mut out, self, &frame, one);
        }
        out.push_str("</svg>");
        legend.draw(&mut out, &frame);
        out.push_str("</svg>\n");
        out
    }
}

fn head(chart: &Chart, frame: &Frame, height: f64) -> String {
    let mut out = String::with_capacity(16_384);
    let kind = |axis: &Axis, scaled: &Scaled| {
        let scale = if !axis.names.is_empty() {
            "named"
        } else if axis.scale == Scale::Log {
            "log"
        } else {
            "linear"
        };
        let unit = format!("{:?}", axis.unit).to_lowercase();
        format!("{scale} {unit} {:e} {:e}", scaled.from, scaled.to)
    };
    let label = html! { (chart.title) }.into_string();
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {} {height:.0}\" xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" \
         aria-label=\"{label}\" data-x=\"{}\" data-y=\"{}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"{TICK_PX}\" fill=\"{}\">\n<style>\n{}</style>\n",
        plotting::WIDTH,
        kind(&chart.x, &frame.across),
        kind(&chart.y, &frame.up),
        style::ink(),
        style::css()
    );
    out
}

/// The axes of all that is drawn, and the room that their names take.
fn frame(chart: &Chart) -> Frame {
    let abscissae = chart.series.iter().flat_map(|series| {
        let end = if let Shape::Steps(ratio) = series.shape { ratio } else { 1.0 };
        series.points.iter().flat_map(move |&(x, _)| [x, x * end])
    });
    let marks = chart.marks.iter().map(|mark| mark.at);
    let ordinates = chart.series.iter().flat_map(|series| series.points.iter().map(|&(_, y)| y));
    let across = chart.x.scaled(abscissae.chain(marks), 9);
    let up = chart.y.scaled(ordinates, 6);
    let longest = |axis: &Axis, scaled: &Scaled| {
        scaled.ticks.iter().map(|at| axis.tick(*at).chars().count()).max().unwrap_or(0)
    };
    let below = longest(&chart.x, &across);
    let crowded = !chart.x.names.is_empty()
        && plotting::letters(below + 2) * across.ticks.len() as f64 > plotting::WIDTH - 120.0;
    let longest = longest(&chart.y, &up);
    Frame::new(across, up, longest, if crowded { below } else { 0 })
}

fn grid(out: &mut String, chart: &Chart, frame: &Frame) {
    let (ink, grid) = (style::ink(), style::grid());
    let (right, bottom) = (frame.left + frame.width, frame.top + frame.height);
    out.push_str("<g class=\"ticks y\">");
    for &at in &frame.up.ticks {
        let y = frame.top + frame.y(at);
        let _ = write!(
            out,
            "<g><line x1=\"{:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{grid}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></g>",
            frame.left,
            frame.left - 8.0,
            y + 4.0,
            escaped(&chart.y.tick(at))
        );
    }
    out.push_str("</g><g class=\"ticks x\">");
    for &at in &frame.across.ticks {
        let x = frame.left + frame.x(at);
        let (y, turned) = (bottom + 18.0, frame.turned());
        let how = match turned {
            true => format!("text-anchor=\"end\" transform=\"rotate(-30 {x:.1} {y:.1})\""),
            false => "text-anchor=\"middle\"".to_owned(),
        };
        let _ = write!(
            out,
            "<g><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\" stroke=\"{grid}\"/>\
             <text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{}</text></g>",
            frame.top,
            escaped(&chart.x.tick(at))
        );
    }
    let _ = write!(
        out,
        "</g><path d=\"M{:.1} {:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"{ink}\"/>",
        frame.left, frame.top
    );
    let (x, y) = (frame.left + frame.width / 2.0, frame.bottom() - 8.0);
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"13\">");
    let _ = write!(out, "{}</text>", escaped(&chart.x.label));
    let y = frame.top + frame.height / 2.0;
    let _ = write!(
        out,
        "<text x=\"16\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"13\" \
         transform=\"rotate(-90 16 {y:.1})\">{}</text>",
        escaped(&chart.y.label)
    );
}

fn series(out: &mut String, chart: &Chart, frame: &Frame, series: &Series) {
    let number = chart.legend_number(series);
    let _ = write!(out, "<g class=\"series\" data-s=\"{number}\">");
    let pixels: Vec<Pixel> = match series.shape {
        Shape::Steps(ratio) => {
            steps(&series.points, ratio).map(|(x, y)| frame.pixel(x, y)).collect()
        }
        _ => series.points.iter().map(|&(x, y)| frame.pixel(x, y)).collect(),
    };
    if matches!(series.shape, Shape::Line | Shape::Plain | Shape::Steps(_)) && pixels.len() > 1 {
        path(out, &pixels, series.colour, series.dashed);
    }
    let every = match series.shape {
        Shape::Plain | Shape::Steps(_) => series.points.len().div_ceil(MAX_TITLES).max(1),
        _ => 1,
    };
    for (at, &(x, y)) in series.points.iter().enumerate().step_by(every) {
        let said = format!("{}: {}, {}", series.name, chart.x.exact_text(x), chart.y.exact_text(y));
        let title = format!("<title>{}</title>", escaped(&said));
        match series.shape {
            Shape::Bars => bar(out, frame, series.colour, (x, y), &title),
            _ => {
                let Pixel(left, top) = frame.pixel(x, y);
                // What falls on the same pixel is drawn once.
                let again = at > 0 && series.shape == Shape::Dots && {
                    let (x, y) = series.points[at - 1];
                    frame.pixel(x, y) == Pixel(left, top)
                };
                if !again {
                    let form = marker(series);
                    let _ = write!(
                        out,
                        "<path class=\"m\" transform=\"translate({left:.1} {top:.1})\" {form}>{title}</path>"
                    );
                }
            }
        }
    }
    out.push_str("</g>");
}

fn bar(out: &mut String, frame: &Frame, colour: usize, (x, y): (f64, f64), title: &str) {
    let (Pixel(middle, top), floor) = (frame.pixel(x, y), frame.y(0.0));
    let half = ((frame.x(1.0) - frame.x(0.0)).abs() * 0.3).clamp(1.0, BAR_PX);
    let _ = write!(
        out,
        "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\">{title}</rect>",
        middle - half,
        2.0 * half,
        (floor - top).max(0.0),
        style::colour(colour)
    );
}

/// The outline of a histogram, down to 0 at both ends.
fn steps(points: &[(f64, f64)], ratio: f64) -> impl Iterator<Item = (f64, f64)> {
    let outline = points.iter().flat_map(move |&(from, y)| [(from, y), (from * ratio, y)]);
    let first = points.first().map(|&(from, _)| (from, 0.0));
    let last = points.last().map(|&(from, _)| (from * ratio, 0.0));
    first.into_iter().chain(outline).chain(last)
}

fn path(out: &mut String, pixels: &[Pixel], colour: usize, dashed: bool) {
    let dash =
        if dashed { " stroke-width=\"1\" stroke-dasharray=\"6 4\"" } else { " stroke-width=\"2\"" };
    let _ = write!(
        out,
        "<path class=\"line\" fill=\"none\" stroke=\"{}\"{dash} stroke-linejoin=\"round\" \
         vector-effect=\"non-scaling-stroke\" d=\"",
        style::colour(colour)
    );
    let mut last = None;
    for pixel in pixels {
        let text = format!("{:.1} {:.1}", pixel.0, pixel.1);
        if last.as_ref() != Some(&text) {
            let _ = write!(out, "{}{text}", if last.is_none() { 'M' } else { 'L' });
        }
        last = Some(text);
    }
    out.push_str("\"/>");
}

/// The attributes of a marker, of a form that follows from the colour: nothing is said by colour alone.
fn marker(series: &Series) -> String {
    let colour = style::colour(series.colour);
    let inside = if series.dashed { style::paper() } else { colour };
    let r = if series.points.len() > 200 { 2 } else { 3 };
    match (series.shape, series.colour % 4) {
        (Shape::Dots, _) => {
            return format!("d=\"M-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0z\" fill=\"{colour}\"");
        }
        (Shape::Plain | Shape::Steps(_), _) => return "d=\"M0 0\" fill=\"none\"".to_owned(),
        _ => {}
    }
    let form = match series.colour % 4 {
        0 => format!("M-{r} 0a{r} {r} 0 1 0 {0} 0a{r} {r} 0 1 0-{0} 0z", 2 * r),
        1 => format!("M-{r}-{r}h{0}v{0}h-{0}z", 2 * r),
        2 => format!("M0-{0}L{0} {r}H-{0}z", r + 1),
        _ => format!("M0-{0}L{0} 0L0 {0}L-{0} 0z", r + 1),
    };
    format!("d=\"{form}\" fill=\"{inside}\" stroke=\"{colour}\"")
}

/// What the legend has, with the place of each.
struct Legend<'a> {
    items: Vec<(Pixel, &'a str, Option<&'a Series>)>,
    rows: usize,
    chart: &'a Chart,
}

impl<'a> Legend<'a> {
    fn of(chart: &'a Chart) -> Legend<'a> {
        let named = chart.series.iter().filter(|series| series.shape != Shape::Dots);
        let series = named.map(|series| (series.name.as_str(), Some(series)));
        let marks = chart.marks_are.iter().filter(|_| !chart.marks.is_empty());
        let marks = marks.map(|name| (name.as_str(), None));
        let mut legend = Legend { items: Vec::new(), rows: 0, chart };
        let mut x = f64::INFINITY;
        for (name, series) in series.chain(marks) {
            let width = SWATCH + 8.0 + plotting::letters(name.chars().count()) + 16.0;
            if x + width > plotting::WIDTH - 16.0 {
                legend.rows += 1;
                x = plotting::LEGEND_LEFT;
            }
            let y = (legend.rows as f64 - 0.5) * LEGEND_ROW;
            legend.items.push((Pixel(x, y), name, series));
            x += width;
        }
        legend
    }

    fn height(&self) -> f64 {
        self.rows as f64 * LEGEND_ROW + 8.0
    }

    fn draw(&self, out: &mut String, frame: &Frame) {
        for (Pixel(x, y), name, series) in &self.items {
            let y = frame.bottom() + y;
            let middle = x + SWATCH / 2.0;
            match series {
                None => {
                    out.push_str("<g>");
                    path(
                        out,
                        &[Pixel(middle, y - 8.0), Pixel(middle, y + 8.0)],
                        MAX_SERIES - 1,
                        true,
                    );
                }
                Some(series) => {
                    let number = self.chart.legend_number(series);
                    let _ = write!(out, "<g class=\"key\" data-s=\"{number}\">");
                    sample(out, series, (*x, middle, y));
                }
            }
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                x + SWATCH + 8.0,
                y + 4.0,
                escaped(name)
            );
        }
    }
}

fn sample(out: &mut String, series: &Series, (x, middle, y): (f64, f64, f64)) {
    if series.shape == Shape::Bars {
        let colour = style::colour(series.colour);
        let _ = write!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"12\" fill=\"{colour}\"/>",
            middle - 7.0,
            y - 6.0
        );
        return;
    }
    if series.shape != Shape::Points {
        path(out, &[Pixel(x, y), Pixel(x + SWATCH, y)], series.colour, series.dashed);
    }
    if matches!(series.shape, Shape::Line | Shape::Points) {
        let form = marker(series);
        let _ = write!(out, "<path transform=\"translate({middle:.1} {y:.1})\" {form}/>");
    }
}
