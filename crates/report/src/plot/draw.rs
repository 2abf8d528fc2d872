//! A chart as SVG.
//!
//! The library draws title, axes, grid and ticks; what is in the chart is drawn over it in pixels, by
//! the same functions that draw the samples of the legend. The legend is below the chart, where there
//! is never anything that it could hide.

use std::fmt::Write;
use std::io;

use maud::html;
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Scaled;
use super::{Chart, Series, Shape, style};

const WIDTH: u32 = 760;
const HEIGHT: u32 = 420;
const MARGIN: i32 = 16;
const LABELS_LEFT: u32 = 96;
const LABELS_BELOW: u32 = 54;
const TITLE_HEIGHT: i32 = 48;
/// Half of the label of a tick at the very end.
const ROOM_RIGHT: i32 = 36;
/// The most that a bar is wide to either side.
const BAR_PX: i32 = 50;
const FONT: &str = "sans-serif";
/// In the library's measure, which is some quarter more than what readers see.
const TICK_PX: i32 = 16;
const LABEL_PX: i32 = 17;
const TITLE_PX: i32 = 20;
const LEGEND_ROW: i32 = 22;
const SWATCH: i32 = 30;
/// How wide a letter is, on average and generously; nobody can know what font a reader has.
const LETTER_PX: f64 = 7.4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawing<T> = Result<T, DrawingAreaErrorKind<io::Error>>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scaled, Scaled>>;
type Pixel = (i32, i32);

/// A plot could not be drawn, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error(
    "the plot '{name}' could not be drawn, which is a bug in Warikomi; please report it: {what}"
)]
pub struct DrawError {
    /// The chart's name.
    name: String,
    /// What the library said.
    what: String,
}

pub(super) fn svg(chart: &Chart) -> Result<String, DrawError> {
    let mut text = String::new();
    let legend = Legend::of(chart);
    let height = HEIGHT + u32::try_from(legend.height()).unwrap_or(0);
    let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    let drawn = draw(&root, chart, &legend).and_then(|()| root.present());
    drop(root);
    drawn.map_err(|error| DrawError { name: chart.name.clone(), what: error.to_string() })?;
    Ok(dressed(&text, chart))
}

/// The document with a name for who cannot see it, and with colours for the dark.
fn dressed(svg: &str, chart: &Chart) -> String {
    let Some((head, body)) = svg.split_once('>') else { return svg.to_owned() };
    let label = html! { (chart.title) }.into_string();
    let mut text = String::with_capacity(svg.len() + 2_048);
    let _ = write!(text, "{head} class=\"plot\" role=\"img\" aria-label=\"{label}\">");
    let _ = write!(text, "\n<style>\n{}</style>", style::css());
    text.push_str(body);
    text
}

fn draw(root: &Area<'_>, chart: &Chart, legend: &Legend) -> Drawing<()> {
    let abscissae = chart.series.iter().flat_map(|series| {
        let end = if let Shape::Steps(ratio) = series.shape { ratio } else { 1.0 };
        series.points.iter().flat_map(move |&(x, _)| [x, x * end])
    });
    let marks = chart.marks.iter().map(|mark| mark.at);
    let x = chart.x.scaled(abscissae.chain(marks), 9);
    let ordinates = chart.series.iter().flat_map(|series| series.points.iter().map(|&(_, y)| y));
    let y = chart.y.scaled(ordinates, 6);
    let (plot, below) = root.split_vertically(HEIGHT as i32);
    let mut context = ChartBuilder::on(&plot)
        .margin(MARGIN)
        .margin_top(TITLE_HEIGHT)
        .margin_right(ROOM_RIGHT)
        .x_label_area_size(LABELS_BELOW)
        .y_label_area_size(LABELS_LEFT)
        .build_cartesian_2d(x, y)?;
    mesh(&mut context, chart)?;
    for mark in &chart.marks {
        let foot = context.backend_coord(&(mark.at, context.y_range().start));
        let top = context.backend_coord(&(mark.at, context.y_range().end));
        line(root, &[foot, top], mark.colour, true)?;
    }
    // Dots first: they are what is behind.
    let in_front = |series: &Series| series.shape != Shape::Dots;
    let mut order: Vec<_> = chart.series.iter().collect();
    order.sort_by_key(|series| in_front(series));
    for series in order {
        draw_series(root, &context, series)?;
    }
    let start = (MARGIN + LABELS_LEFT as i32, TITLE_HEIGHT / 2);
    let title = text(TITLE_PX).pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(chart.title.clone(), start, title))?;
    legend.draw(&below)
}

fn text(pixels: i32) -> TextStyle<'static> {
    (FONT, pixels).into_font().color(&style::ink())
}

fn mesh(context: &mut Context<'_, '_>, chart: &Chart) -> Drawing<()> {
    context
        .configure_mesh()
        .axis_style(style::ink())
        .bold_line_style(style::grid())
        .max_light_lines(1)
        .light_line_style(TRANSPARENT)
        .label_style(text(TICK_PX))
        .axis_desc_style(text(LABEL_PX))
        .x_desc(chart.x.label.as_str())
        .y_desc(chart.y.label.as_str())
        .x_label_formatter(&|value| chart.x.tick(*value))
        .y_label_formatter(&|value| chart.y.tick(*value))
        .draw()
}

fn draw_series(root: &Area<'_>, context: &Context<'_, '_>, series: &Series) -> Drawing<()> {
    let pixel = |x: f64, y: f64| context.backend_coord(&(x, y));
    let mut pixels: Vec<Pixel> = match series.shape {
        Shape::Steps(ratio) => steps(&series.points, ratio).map(|(x, y)| pixel(x, y)).collect(),
        _ => series.points.iter().map(|&(x, y)| pixel(x, y)).collect(),
    };
    // What falls on the same pixel is drawn once.
    pixels.dedup();
    match series.shape {
        Shape::Bars => {
            let half = pixel(1.0, 0.0).0.saturating_sub(pixel(0.0, 0.0).0).abs() * 3 / 10;
            let half = half.min(BAR_PX);
            let floor = pixel(0.0, 0.0).1;
            for (x, top) in pixels {
                let corners = [(x - half, top), (x + half, floor)];
                root.draw(&Rectangle::new(corners, style::colour(series.colour).filled()))?;
            }
            return Ok(());
        }
        Shape::Dots => {
            for centre in pixels {
                root.draw(&Circle::new(centre, 2, style::colour(series.colour).filled()))?;
            }
            return Ok(());
        }
        Shape::Points => {}
        Shape::Line | Shape::Plain | Shape::Steps(_) => {
            line(root, &pixels, series.colour, series.dashed)?;
        }
    }
    if matches!(series.shape, Shape::Line | Shape::Points) {
        for at_pixel in pixels {
            marker(root, at_pixel, series)?;
        }
    }
    Ok(())
}

/// The outline of a histogram, down to 0 at both ends.
fn steps(points: &[(f64, f64)], ratio: f64) -> impl Iterator<Item = (f64, f64)> {
    let outline = points.iter().flat_map(move |&(from, y)| [(from, y), (from * ratio, y)]);
    let first = points.first().map(|&(from, _)| (from, 0.0));
    let last = points.last().map(|&(from, _)| (from * ratio, 0.0));
    first.into_iter().chain(outline).chain(last)
}

fn line(area: &Area<'_>, pixels: &[Pixel], colour: usize, dashed: bool) -> Drawing<()> {
    let stroke = style::colour(colour).stroke_width(if dashed { 1 } else { 2 });
    if pixels.len() < 2 {
        return Ok(());
    }
    if dashed {
        area.draw(&DashedPathElement::new(pixels.to_vec(), 6, 4, stroke))
    } else {
        area.draw(&PathElement::new(pixels, stroke))
    }
}

/// A marker, of a form that follows from the colour: nothing is said by colour alone.
fn marker(area: &Area<'_>, (x, y): Pixel, series: &Series) -> Drawing<()> {
    let radius = if series.points.len() > 200 { 2 } else { 3 };
    let colour = style::colour(series.colour);
    let inside = if series.dashed { style::paper() } else { colour };
    let corners = match series.colour % 4 {
        0 => {
            area.draw(&Circle::new((x, y), radius, inside.filled()))?;
            return area.draw(&Circle::new((x, y), radius, colour));
        }
        1 => vec![
            (x - radius, y - radius),
            (x + radius, y - radius),
            (x + radius, y + radius),
            (x - radius, y + radius),
        ],
        2 => vec![(x, y - radius - 1), (x + radius + 1, y + radius), (x - radius - 1, y + radius)],
        _ => {
            vec![(x, y - radius - 1), (x + radius + 1, y), (x, y + radius + 1), (x - radius - 1, y)]
        }
    };
    area.draw(&Polygon::new(corners.clone(), inside.filled()))?;
    let closed = corners.iter().chain(&corners[..1]).copied().collect::<Vec<_>>();
    area.draw(&PathElement::new(closed, colour))
}

/// What the legend has, with the place of each.
struct Legend {
    items: Vec<(Pixel, Item)>,
    rows: i32,
}

#[derive(Clone)]
struct Item {
    name: String,
    /// `None` for what all marks are.
    series: Option<Series>,
}

impl Legend {
    fn of(chart: &Chart) -> Legend {
        let named = chart.series.iter().filter(|series| series.shape != Shape::Dots);
        let series = named.map(|series| {
            let sample = Series { points: vec![(0.0, 0.0)], ..series.clone() };
            Item { name: series.name.clone(), series: Some(sample) }
        });
        let marks = chart.marks_are.iter().filter(|_| !chart.marks.is_empty());
        let marks = marks.map(|name| Item { name: name.clone(), series: None });
        let mut legend = Legend { items: Vec::new(), rows: 0 };
        let start = MARGIN + LABELS_LEFT as i32;
        let mut x = i32::MAX / 2;
        for item in series.chain(marks) {
            let width = SWATCH + 8 + (item.name.chars().count() as f64 * LETTER_PX) as i32 + 16;
            if x + width > WIDTH as i32 - MARGIN {
                legend.rows += 1;
                x = start;
            }
            legend.items.push(((x, (legend.rows - 1) * LEGEND_ROW + LEGEND_ROW / 2), item));
            x += width;
        }
        legend
    }

    fn height(&self) -> i32 {
        self.rows * LEGEND_ROW + MARGIN / 2
    }

    fn draw(&self, area: &Area<'_>) -> Drawing<()> {
        let left = text(TICK_PX).pos(Pos::new(HPos::Left, VPos::Center));
        for ((x, y), item) in &self.items {
            let ends = [(*x, *y), (x + SWATCH, *y)];
            let centre = (x + SWATCH / 2, *y);
            match &item.series {
                None => line(
                    area,
                    &[(centre.0, y - 8), (centre.0, y + 8)],
                    super::MAX_SERIES - 1,
                    true,
                )?,
                Some(series) if series.shape == Shape::Bars => {
                    let corners = [(centre.0 - 7, y - 6), (centre.0 + 7, y + 6)];
                    area.draw(&Rectangle::new(corners, style::colour(series.colour).filled()))?;
                }
                Some(series) => {
                    if series.shape != Shape::Points {
                        line(area, &ends, series.colour, series.dashed)?;
                    }
                    if matches!(series.shape, Shape::Line | Shape::Points) {
                        marker(area, centre, series)?;
                    }
                }
            }
            area.draw(&Text::new(item.name.clone(), (x + SWATCH + 8, *y), left.clone()))?;
        }
        Ok(())
    }
}
