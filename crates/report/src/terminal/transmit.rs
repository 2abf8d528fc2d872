//! What `warikomi transmit` prints.

use serde_json::{Map, Value};
use warikomi_measure::{RunResult, TimeBase, published};

use super::figures::{count, percent, rate, time};
use super::inject::tested;
use super::table::Page;
use super::{Style, transmit_kernel};
use crate::transmit::{
    Line, Share, Way, beside_published, different, in_kernel, lines, sent_as, shares,
};

/// The most ways that have a column in one table.
const MAX_COLUMNS: usize = 7;

/// The result of `warikomi transmit` as a page of text. Of a kernel: a table for each sender. Of a process:
/// throughput by size for each kind of buffers, what the
/// advised way took, what was published, and the advice.
pub fn transmit(result: &RunResult, style: Style) -> String {
    if in_kernel(result) {
        return transmit_kernel::page(result, style);
    }
    let mut page = Page::new(style);
    tested(&mut page, result);
    let lines = lines(result);
    for buffers in different(&lines, |line| line.buffers) {
        let of_buffers: Vec<Line<'_>> =
            lines.iter().filter(|line| line.buffers == buffers).copied().collect();
        throughput(&mut page, &of_buffers, buffers);
        let advised = advice(result).find(|advice| text(advice, "buffers") == buffers);
        if let Some(advised) = advised {
            let way = (text(advised, "completion"), text(advised, "bounce"));
            details(&mut page, &of_buffers, buffers, way);
        }
    }
    page.paragraph(
        " ",
        "Mbit/s of messages, without headers; CPU: the share of the time in which the sender was busy; intr, \
         DMA, copied: interrupts, transfers and bytes for each packet; wait: from the driver's hand to its being \
         freed",
    );
    separated(&mut page, result);
    beside(&mut page, result);
    both(&mut page, result, &lines);
    advise(&mut page, result);
    page.finish_with_doubts(result)
}

fn advice(result: &RunResult) -> impl Iterator<Item = &Map<String, Value>> {
    let all = result.figures.get("advice").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_object)
}

fn text<'a>(of: &'a Map<String, Value>, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn shown(value: Option<f64>, how: impl Fn(f64) -> String) -> String {
    value.map_or(String::new(), how)
}

/// Messages as people call them: their bytes, or the mixture.
fn messages(line: &Line<'_>) -> String {
    line.mixture.map_or_else(|| count(line.size_bytes), str::to_owned)
}

/// A number with as many decimals as it needs.
fn short(value: f64) -> String {
    match value.abs() {
        many if many >= 100.0 => count(value.round() as u64),
        some if some >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A change in percent. What rounds to nothing has no sign.
fn signed(share: f64) -> String {
    let tenths = (1_000.0 * share).round();
    if tenths == 0.0 { "0.0%".to_owned() } else { format!("{:+.1}%", tenths / 10.0) }
}

fn way_name((completion, bounce): Way<'_>) -> String {
    match bounce {
        "none" => completion.to_owned(),
        _ => format!("{completion} bounce {bounce}"),
    }
}

/// What heads the columns of ways: a way with the strategy of the one to its left is named by its bounce
/// buffer alone. Short lines, because these columns are narrow.
fn heads(ways: &[Way<'_>]) -> Vec<String> {
    let head = |(at, &(completion, bounce)): (usize, &Way<'_>)| {
        let left = at.checked_sub(1).map(|left| ways[left].0);
        match bounce {
            "none" => completion.to_owned(),
            _ if left == Some(completion) => format!("bounce\n{bounce}"),
            _ => format!("{completion}\nbounce\n{bounce}"),
        }
    };
    ways.iter().enumerate().map(head).collect()
}

/// A line for each size, a column for each way. Dummy drivers have a table of their own.
fn throughput(page: &mut Page, lines: &[Line<'_>], buffers: &str) {
    let firsts = first_of_each_traffic(lines);
    let mut ways = different(lines, Line::way);
    ways.retain(|(_, bounce)| *bounce != "dummy");
    for ways in ways.chunks(MAX_COLUMNS) {
        page.blank();
        let header: Vec<String> = std::iter::once(buffers.to_owned()).chain(heads(ways)).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let rows: Vec<(bool, Vec<String>)> = firsts
            .iter()
            .map(|first| {
                let rates = ways.iter().map(|way| match sent_as(lines, first, *way) {
                    Some(line) if line.dead_locked() => "dead-lock".to_owned(),
                    line => shown(line.and_then(|line| line.number("bps")), |bps| short(bps / 1e6)),
                });
                (false, std::iter::once(messages(first)).chain(rates).collect())
            })
            .collect();
        page.table(&header, &rows);
    }
}

fn first_of_each_traffic<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut firsts: Vec<Line<'a>> = Vec::new();
    for line in lines {
        let traffic = |line: &Line<'a>| (line.size_bytes, line.mixture);
        if !firsts.iter().any(|known| traffic(known) == traffic(line)) {
            firsts.push(*line);
        }
    }
    firsts
}

/// Everything that one way took, by size.
fn details(page: &mut Page, lines: &[Line<'_>], buffers: &str, way: Way<'_>) {
    page.blank();
    page.heading(&format!("{buffers}, {}", way_name(way)));
    let header = ["bytes", "packets/s", "CPU", "intr", "DMA", "copied", "drops", "wait p50", "p99"];
    let rows: Vec<(bool, Vec<String>)> = lines
        .iter()
        .filter(|line| line.way() == way)
        .map(|line| {
            let number = |name: &str| line.number(name);
            let wait = |name: &str| shown(number(name), |us| time(us * 1e3));
            let dropped = number("socket_drop_share");
            let cells = vec![
                messages(line),
                shown(number("pps"), |pps| count(pps.round() as u64)),
                shown(number("cpu_share"), |share| format!("{:.0}%", 100.0 * share)),
                shown(number("interrupts_per_packet"), short),
                shown(number("transfers_per_packet"), short),
                shown(number("copied_bytes_per_packet"), |bytes| count(bytes.round() as u64)),
                shown(dropped, percent),
                wait("wait_p50_us"),
                wait("wait_p99_us"),
            ];
            (dropped.is_some_and(|share| share > 0.0), cells)
        })
        .collect();
    page.table(&header, &rows);
}

/// What scattered transfers and what chains cost: a line for each size.
fn separated(page: &mut Page, result: &RunResult) {
    let shares = shares(result);
    let mut kinds: Vec<&str> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for share in &shares {
        if !kinds.contains(&share.buffers) && kinds.len() < MAX_COLUMNS / 2 {
            kinds.push(share.buffers);
        }
        sizes.push(share.size_bytes);
    }
    sizes.dedup();
    if kinds.is_empty() {
        return;
    }
    page.blank();
    let heads = kinds.iter().flat_map(|kind| [format!("{kind}: DMA"), "chains".to_owned()]);
    let header: Vec<String> = std::iter::once("lost".to_owned()).chain(heads).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |&bytes: &u64| {
        let cells = kinds.iter().flat_map(|kind| {
            let same = |share: &&Share<'_>| share.size_bytes == bytes && share.buffers == *kind;
            let share = shares.iter().find(same);
            [share.map(|share| share.dma), share.map(|share| share.chain)]
        });
        let cells = cells.map(|share| shown(share, signed));
        (false, std::iter::once(count(bytes)).chain(cells).collect())
    };
    let rows: Vec<(bool, Vec<String>)> = sizes.iter().map(row).collect();
    page.table(&header, &rows);
    page.paragraph(
        " ",
        "lost: of the contiguous buffer's throughput, to scattered DMA and to chains of mbufs; below 0 where \
         these are ahead",
    );
}

fn beside(page: &mut Page, result: &RunResult) {
    page.blank();
    let row = |(what, published, here): (String, f64, Option<f64>)| {
        (false, vec![what, signed(published), shown(here, signed)])
    };
    let mut rows: Vec<_> = beside_published(result).into_iter().map(row).collect();
    for line in lines(result) {
        let most = line.number("published_bps").filter(|_| line.bounce == "none");
        let adaptive = line.completion.starts_with("adaptive");
        if let (Some(most), true) = (most, adaptive) {
            let here = shown(line.number("bps"), rate);
            let what = format!("throughput, 64 KB, {}", line.buffers);
            rows.push((false, vec![what, rate(most), here]));
        }
    }
    page.table(&["Beside what was published", "published", "here"], &rows);
    let transmit = published::adaptive_transmit();
    page.paragraph(" ", &format!("published: {}", transmit.environment));
    let bounce = &transmit.bounce_at_64_kb;
    page.paragraph(" ", &format!("published of bounce buffers at 64 KB: {bounce}"));
}

/// Real and virtual time side by side.
fn both(page: &mut Page, result: &RunResult, lines: &[Line<'_>]) {
    let has = lines.iter().filter(|line| line.number("virtual_bps").is_some());
    let rows: Vec<(bool, Vec<String>)> = has
        .map(|line| {
            let mbps = |name: &str| shown(line.number(name), |bps| short(bps / 1e6));
            let name = format!("{}, {}, {}", messages(line), line.buffers, way_name(line.way()));
            let difference = shown(line.number("virtual_difference_share"), signed);
            (false, vec![name, mbps("bps"), mbps("virtual_bps"), difference])
        })
        .collect();
    if rows.is_empty() || result.time_base == TimeBase::Virtual {
        return;
    }
    page.blank();
    page.table(&["Mbit/s", "real", "virtual", "difference"], &rows);
    let median = result.figures.get("virtual_difference_median_share").and_then(Value::as_f64);
    if let Some(median) = median {
        let median = percent(median);
        page.paragraph(" ", &format!("half of the rows differ by no more than {median}"));
    }
}

fn advise(page: &mut Page, result: &RunResult) {
    for advice in advice(result) {
        let number = |name: &str| advice.get(name).and_then(Value::as_f64);
        let behind = advice.get("behind_most").and_then(Value::as_object);
        let mut said = format!(
            "with {} use completion {}, bounce {}",
            text(advice, "buffers"),
            text(advice, "completion"),
            text(advice, "bounce")
        );
        if let (Some(mean), Some((share, at))) =
            (number("behind_mean_share"), behind.and_then(place))
        {
            said += &format!(
                ": {} behind the fastest way in the mean, {} where it is most ({at})",
                percent(mean.max(0.0)),
                percent(share.max(0.0))
            );
        }
        let ahead = advice.get("ahead_most").and_then(Value::as_object).and_then(place);
        if let (Some(mean), Some((share, at))) = (number("ahead_mean_share"), ahead) {
            let (mean, share) = (signed(mean), signed(share));
            said += &format!("; {mean} against interrupts alone, {share} at most ({at})");
        }
        if let Some(cpu) = number("cpu_share") {
            said += &format!("; {} of the processor", percent(cpu));
        }
        if advice.get("fastest_buffers").and_then(Value::as_bool) == Some(true) {
            said += "; no other buffers were faster";
        }
        page.blank();
        page.paragraph("advice: ", &said);
    }
}

/// A share, and the messages that it belongs to.
fn place(at: &Map<String, Value>) -> Option<(f64, String)> {
    let share = at.get("share")?.as_f64()?;
    let messages = match at.get("mixture").and_then(Value::as_str) {
        Some(mixture) => mixture.to_owned(),
        None => format!("{} bytes", count(at.get("size_bytes")?.as_u64()?)),
    };
    Some((share, messages))
}

#[cfg(test)]
#[path = "transmit_tests.rs"]
mod tests;
