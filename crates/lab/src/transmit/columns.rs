//! What a comparison of ways to send shows.

use serde_json::{Value, json};
use warikomi_measure::layout::{
    Axis, Better, Chart, Column, Curve, Headline, Kind, Layout, Object, Only, PointSeries, Scale,
    Source, Table, Unit, View, count, percent,
};
use warikomi_measure::published::{self, BOUNCE_BYTES, CHAIN_BYTES, DMA_BYTES};
use warikomi_measure::{RunResult, TimeBase};

use super::beside::{
    Line, OURS, PUBLISHED_CARD, SHORT_BYTES, adaptive_gain, beside_published, bounce_gain,
    different, is_adaptive, lines,
};
use crate::cells::{list, number, object, text};

/// Describes the result of a process that sent.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let gains: Vec<Object> = gains(rows);
    result.figures.insert("gains".into(), json!(gains));
    let (rows, figures) = (result.rows.as_deref().unwrap_or_default(), &result.figures);
    let lines = lines(rows);
    let mut layout = Layout {
        columns: columns(),
        views: views(&lines, figures),
        tables: [shares_table(), lengths_table()]
            .into_iter()
            .chain(published_tables(rows, figures))
            .collect(),
        charts: charts(&lines),
        ..Layout::default()
    };
    let both = lines.iter().any(|line| line.number("virtual_bps").is_some());
    if both && result.time_base == TimeBase::Real {
        layout.views.push(both_times(figures));
        layout.charts.push(both_chart(&lines));
    }
    for advice in list(figures, "advice") {
        layout.say("advice", advice_text(advice));
    }
    matters(&mut layout, rows, figures);
    result.layout = layout;
}

pub(super) fn columns() -> Vec<Column> {
    let mbps = |key: &str, title: &str| Column::figure(key, title).unit(Unit::Mbps);
    vec![
        Column::parameter("card", "card"),
        Column::parameter("size_bytes", "message in bytes").head("bytes").says("{} bytes"),
        Column::parameter("mixture", "mixture"),
        Column::parameter("buffers", "buffers"),
        Column::parameter("completion", "completion"),
        Column::parameter("bounce", "bounce buffer").word("none", "").says("bounce {}"),
        mbps("bps", "Mbit/s")
            .better(Better::More)
            .published("published_bps")
            .instead("dead_locked", "dead-lock"),
        mbps("published_bps", "Mbit/s, published"),
        Column::figure("pps", "packets/s"),
        mbps("min_bps", "Mbit/s, lowest").better(Better::More),
        mbps("max_bps", "Mbit/s, highest").better(Better::More),
        Column::figure("cpu_share", "CPU").better(Better::Less),
        Column::figure("least_busy_per_packet_ns", "processor time a packet, least")
            .head("busy")
            .unit(Unit::Ns),
        Column::figure("interrupts_per_packet", "interrupts a packet").head("intr"),
        Column::figure("transfers_per_packet", "DMA transfers a packet").head("DMA"),
        Column::figure("copied_bytes_per_packet", "copied bytes a packet")
            .head("copied")
            .unit(Unit::Count),
        Column::figure("buffers_taken_per_packet", "buffers taken a packet").head("taken"),
        Column::figure("buffers_visited_per_packet", "buffers visited a packet").head("visited"),
        Column::figure("summed_bytes_per_packet", "summed bytes a packet")
            .head("summed")
            .unit(Unit::Count),
        Column::figure("buffers_freed_per_packet", "buffers given back a packet").head("freed"),
        Column::figure("socket_drop_share", "drops").alarm(),
        Column::figure("wait_p50_us", "wait p50"),
        Column::figure("wait_p99_us", "wait p99").head("p99"),
        mbps("virtual_bps", "Mbit/s, virtual").head("virtual"),
        Column { better: None, ..Column::figure("virtual_difference_share", "difference") }
            .unit(Unit::Change),
        Column::parameter("digest", "digest"),
    ]
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

/// Of each kind of buffers the throughput by size and way, and what the advised way took.
fn views(lines: &[Line<'_>], figures: &Object) -> Vec<View> {
    let mut views = Vec::new();
    for (card, buffers) in different(lines, Line::system).into_iter().take(MAX_SYSTEMS) {
        let mut of_system = vec![Only::any("buffers", [buffers])];
        of_system.extend(card.map(|card| Only::any("card", [card])));
        let name = card.map_or(buffers.to_owned(), |card| format!("{card}, {buffers}"));
        let bounces = different(lines, |line| line.bounce).into_iter();
        // Dummy drivers have a table of their own.
        let sent = Only::any("bounce", bounces.filter(|bounce| *bounce != "dummy"));
        views.push(View {
            title: format!("{name}, Mbit/s"),
            columns: keys(&["size_bytes", "mixture", "bps"]),
            across: keys(&["completion", "bounce"]),
            only: of_system.iter().cloned().chain([sent]).collect(),
            ..View::default()
        });
        let is_of = |advice: &&Object| {
            text(advice, "buffers") == buffers && text(advice, "card") == card.unwrap_or_default()
        };
        let Some(advised) = list(figures, "advice").find(is_of) else { continue };
        let way = ["completion", "bounce"];
        let same = way.map(|key| Only::any(key, [text(advised, key)]));
        let bounce = Some(text(advised, "bounce")).filter(|bounce| *bounce != "none");
        let bounce = bounce.map_or(String::new(), |bounce| format!(" bounce {bounce}"));
        views.push(View {
            title: format!("{name}, {}{bounce}", text(advised, "completion")),
            columns: keys(&[
                "size_bytes",
                "mixture",
                "pps",
                "cpu_share",
                "least_busy_per_packet_ns",
                "interrupts_per_packet",
                "transfers_per_packet",
                "copied_bytes_per_packet",
                "socket_drop_share",
                "wait_p50_us",
                "wait_p99_us",
            ]),
            only: of_system.into_iter().chain(same).collect(),
            ..View::default()
        });
    }
    if let Some(last) = views.last_mut() {
        last.notes.push(
            "throughput of messages, without headers; CPU: the share of the time in which the sender was busy; \
             busy: for each packet, in the repetition that was disturbed least, at a pace; intr, DMA, copied: \
             interrupts, transfers and bytes for each packet; wait: from the driver's hand to its being freed"
                .to_owned(),
        );
    }
    views.extend(work_of_buffers(lines));
    views
}

/// What each buffer system does for a message, without a bounce buffer: the same with every completion strategy.
fn work_of_buffers(lines: &[Line<'_>]) -> Option<View> {
    let plain = lines.iter().find(|line| line.bounce == "none")?;
    Some(View {
        title: "What each buffer system does for a message".to_owned(),
        columns: keys(&[
            "card",
            "size_bytes",
            "mixture",
            "buffers",
            "buffers_taken_per_packet",
            "buffers_visited_per_packet",
            "copied_bytes_per_packet",
            "summed_bytes_per_packet",
            "buffers_freed_per_packet",
        ]),
        only: vec![
            Only::any("completion", [plain.completion]),
            Only::any("bounce", [plain.bounce]),
        ],
        notes: vec![
            "counted by the code: buffers (mbufs, clusters, contiguous ones) taken and freed; buffers that UDP's \
             checksum, IP's and the driver looked at; bytes copied, and summed up for checksums (of mbufs in a pass \
             of its own, of a contiguous buffer while it is copied)"
                .to_owned(),
        ],
        ..View::default()
    })
}

/// Real and virtual time side by side.
fn both_times(figures: &Object) -> View {
    let median = number(figures, "virtual_difference_median_share").map(percent);
    let note = median.map(|median| format!("half of the rows differ by no more than {median}"));
    View {
        title: "Real and virtual time".to_owned(),
        columns: keys(&[
            "card",
            "size_bytes",
            "mixture",
            "buffers",
            "completion",
            "bounce",
            "bps",
            "virtual_bps",
            "virtual_difference_share",
        ]),
        notes: note.into_iter().collect(),
        ..View::default()
    }
}

/// What one transfer gains over scattered ones, and what chains cost.
fn shares_table() -> Table {
    let columns = vec![
        Column::parameter("card", "card"),
        Column::parameter("size_bytes", "bytes"),
        Column::parameter("mixture", "mixture"),
        Column::parameter("buffers", "buffers"),
        Column::figure("dma_gain_share", "one transfer gains")
            .unit(Unit::Change)
            .better(Better::Less),
        Column::figure("chain_share", "chains cost").unit(Unit::Change).better(Better::Less),
        Column::figure("chain_processor_share", "of the processor")
            .unit(Unit::Change)
            .better(Better::Less),
    ];
    Table::of_figures("shares", "", "shares", columns).note(
        "one transfer: prepared contents from one contiguous piece, as a share of the scattered transfers' \
         throughput; chains: what that is behind contiguous buffers, as a share of their throughput; of the \
         processor: how far behind they would be if the processor alone were the limit, by its time for a message \
         with no contents transferred (with a pace only: --interval)",
    )
}

/// From which lengths on something holds.
fn lengths_table() -> Table {
    let transmit = published::adaptive_transmit();
    let columns = vec![
        Column::parameter("what", "Holds from a length on"),
        Column::parameter("card", "card"),
        Column::figure("published_bytes", "published, bytes").unit(Unit::Count),
        Column::figure("here_bytes", "here, bytes").unit(Unit::Count),
    ];
    Table::of_figures("lengths", "", "lengths", columns)
        .note("here: the shortest of the lengths that were tried; none: it does not hold for the longest")
        .note(format!("published of adaptive completion: {}", transmit.completion_gain_range))
}

/// What was published, beside what was found: gains and losses, and the most of each system.
fn published_tables(rows: &[Object], figures: &Object) -> [Table; 3] {
    let shares = beside_published(rows, figures).into_iter().map(|(what, published, here)| {
        object([
            ("figure", what.into()),
            ("published_share", published.into()),
            ("here_share", here.into()),
        ])
    });
    let rates = rows
        .iter()
        .filter(|row| text(row, "bounce") == "none" && is_adaptive(text(row, "completion")));
    let rates = rates.filter_map(|row| {
        let published = number(row, "published_bps")?;
        let mut what = format!("throughput, 64 KB, {}", text(row, "buffers"));
        if let Some(card) = row.get("card").and_then(Value::as_str) {
            what = format!("{card}: {what}");
        }
        let completion = text(row, "completion");
        if completion != OURS {
            what += &format!(", {completion}");
        }
        let here = number(row, "bps");
        Some(object([
            ("figure", what.into()),
            ("published_bps", published.into()),
            ("here_bps", here.into()),
        ]))
    });
    let columns = |unit: &str| {
        let figure = |key: &str| Column::figure(&format!("{key}_{unit}"), key);
        let published = ["published", "here"].map(|key| match unit {
            "share" => figure(key).unit(Unit::Change),
            _ => figure(key),
        });
        let what = Column::parameter("figure", "Beside what was published");
        std::iter::once(what).chain(published).collect::<Vec<_>>()
    };
    let transmit = published::adaptive_transmit();
    let rates = Table::here("published-rates", "", columns("bps"), rates.collect());
    let shares = Table::here("published", "", columns("share"), shares.collect())
        .note(format!("published: {}", transmit.environment))
        .note(format!("published of bounce buffers at 64 KB: {}", transmit.bounce_at_64_kb))
        .note(format!("published of copies: {}", transmit.alignment_copies));
    [shares, rates, limits_table(rows)]
}

/// The most of each system over each card that is compared, at whatever length, beside the published limit.
fn limits_table(rows: &[Object]) -> Table {
    let lines = lines(rows);
    let most = |(card, buffers): (Option<&str>, &str)| {
        let card = card?;
        let of_system = lines.iter().filter(|line| line.system() == (Some(card), buffers));
        let most = of_system.filter(|line| line.bounce != "dummy" && line.mixture.is_none());
        let rate = |line: &Line<'_>| line.number("bps").unwrap_or_default();
        let most = most.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let published = published::adaptive_transmit().most_bps(card, buffers);
        Some(object([
            ("card", card.into()),
            ("buffers", buffers.into()),
            ("published_bps", published.into()),
            ("here_bps", most.number("bps").into()),
            ("size_bytes", most.size_bytes.into()),
        ]))
    };
    let most = different(&lines, Line::system).into_iter().filter_map(most).collect();
    let columns = vec![
        Column::parameter("card", "The most over each card"),
        Column::parameter("buffers", "buffers"),
        Column::figure("published_bps", "published"),
        Column::figure("here_bps", "here"),
        Column::figure("size_bytes", "at bytes").unit(Unit::Count),
    ];
    Table::here("limits", "", columns, most)
        .note("published: of FreeBSD beside mbuf-2k, of Linux beside contiguous")
}

fn advice_text(advice: &Object) -> String {
    let behind = advice.get("behind_most").and_then(Value::as_object);
    let card = text(advice, "card");
    let over = if card.is_empty() { String::new() } else { format!("over {card} ") };
    let mut said = format!(
        "{over}with {} use completion {}, bounce {}",
        text(advice, "buffers"),
        text(advice, "completion"),
        text(advice, "bounce")
    );
    let mean = number(advice, "behind_mean_share");
    if let (Some(mean), Some((share, at))) = (mean, behind.and_then(place)) {
        said += &format!(
            ": {} behind the fastest way in the mean, {} where it is most ({at})",
            percent(mean.max(0.0)),
            percent(share.max(0.0))
        );
    }
    let ahead = advice.get("ahead_most").and_then(Value::as_object).and_then(place);
    if let (Some(mean), Some((share, at))) = (number(advice, "ahead_mean_share"), ahead) {
        let (mean, share) = (Unit::Change.show(mean), Unit::Change.show(share));
        said += &format!("; {mean} against interrupts alone, {share} at most ({at})");
    }
    if let Some(cpu) = number(advice, "cpu_share") {
        said += &format!("; {} of the processor", percent(cpu));
    }
    if advice.get("fastest_buffers").and_then(Value::as_bool) == Some(true) {
        said += "; no other buffers were faster";
    }
    said
}

/// A share, and the messages that it belongs to.
fn place(at: &Object) -> Option<(f64, String)> {
    let share = number(at, "share")?;
    let messages = match at.get("mixture").and_then(Value::as_str) {
        Some(mixture) => mixture.to_owned(),
        None => format!("{} bytes", count(at.get("size_bytes")?.as_u64()?)),
    };
    Some((share, messages))
}

fn matters(layout: &mut Layout, rows: &[Object], figures: &Object) {
    // What a dummy driver sends is not what it was given.
    let sent = rows.iter().filter(|row| text(row, "bounce") != "dummy");
    let fastest = sent.filter(|row| number(row, "bps").is_some()).max_by(|a, b| {
        let rate = |row: &Object| number(row, "bps").unwrap_or_default();
        rate(a).total_cmp(&rate(b))
    });
    layout.headline.extend(fastest.and_then(|row| {
        let names = ["card", "size_bytes", "buffers", "completion", "bounce"];
        let names = names.map(|key| layout.column(key).name(row));
        let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
        crate::cells::headline(
            layout,
            row,
            "bps",
            "of messages, the fastest way",
            &names.join(", "),
        )
    }));
    let here = beside_published(rows, figures).into_iter().filter_map(|(what, published, here)| {
        Some(Headline {
            title: what,
            value: here?,
            unit: Unit::Change,
            published: Some(published),
            of: String::new(),
        })
    });
    let room = 3 - layout.headline.len();
    layout.headline.extend(here.take(room));
}

/// The most kinds of buffers that are drawn.
const MAX_BUFFERS: usize = 4;
/// The most cards with buffers.
const MAX_SYSTEMS: usize = 12;

/// By how much one choice is ahead of another, for each row: what the charts of gains draw.
fn gains(rows: &[Object]) -> Vec<Object> {
    let lines = lines(rows);
    let gain = |line: &Line<'_>| {
        let (adaptive, bounce) = (adaptive_gain(&lines, line), bounce_gain(&lines, line));
        adaptive.or(bounce)?;
        Some(object([
            ("card", line.card.into()),
            ("size_bytes", line.size_bytes.into()),
            ("mixture", line.mixture.into()),
            ("buffers", line.buffers.into()),
            ("completion", line.completion.into()),
            ("bounce", line.bounce.into()),
            ("adaptive_gain_share", adaptive.into()),
            ("bounce_gain_share", bounce.into()),
        ]))
    };
    lines.iter().filter_map(gain).collect()
}

fn by_size(name: &str, title: &str, y: Axis) -> Chart {
    let x = Axis::new("size_bytes", "message (bytes)", Unit::Count, Scale::Log);
    Chart::new(name, title, x, y).only(Only::none("mixture"))
}

fn throughput() -> Axis {
    Axis::new("bps", "throughput of messages", Unit::Bps, Scale::Zero)
}

fn change(label: &str) -> Axis {
    Axis::new("change_share", label, Unit::Change, Scale::Zero)
}

/// Sent as the systems are compared: adaptive completion without a bounce buffer. A series has the name of its
/// buffers, and of its strategy if that is not ours.
fn usual(chart: Chart, lines: &[Line<'_>]) -> Chart {
    let mut adaptive = different(lines, |line| line.completion);
    adaptive.retain(|completion| is_adaptive(completion));
    let chart = chart.only(Only::any("completion", adaptive)).only(Only::any("bounce", ["none"]));
    let completion = Column::parameter("completion", "completion").word(OURS, "");
    let mut columns = vec![Column::parameter("buffers", "buffers"), completion];
    if !are_cards_compared(lines) {
        return Chart { columns, ..chart.series(&["buffers", "completion"]) };
    }
    columns.insert(0, Column::parameter("card", "card"));
    Chart { columns, ..chart.series(&["card", "buffers", "completion"]) }
}

fn are_cards_compared(lines: &[Line<'_>]) -> bool {
    lines.iter().any(|line| line.card.is_some())
}

/// What a chart has one of for each: a card, if several are compared, and a kind of buffers.
fn each_system(lines: &[Line<'_>]) -> &'static [&'static str] {
    if are_cards_compared(lines) { &["card", "buffers"] } else { &["buffers"] }
}

/// The most that was published of each system over each card that is compared, over all lengths.
fn published_limits(lines: &[Line<'_>]) -> Vec<PointSeries> {
    let sizes = || lines.iter().map(|line| line.size_bytes as f64);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    let limit = |(card, buffers): (Option<&str>, &str)| {
        let bps = published::adaptive_transmit().most_bps(card?, buffers)?;
        let system = format!("{}, {buffers}", card?);
        Some(PointSeries {
            name: format!("{system}, published limit"),
            kind: Kind::Plain,
            published: true,
            like: system,
            points: vec![(least, bps), (most, bps)],
            ..PointSeries::default()
        })
    };
    different(lines, Line::system).into_iter().filter_map(limit).collect()
}

fn charts(lines: &[Line<'_>]) -> Vec<Chart> {
    let title = "Throughput by message size, adaptive completion, no bounce buffer";
    let mut systems = usual(by_size("throughput", title, throughput()), lines)
        .curve(Curve::new("bps", ""))
        .curve(
            Curve::new("published_bps", "{}, published")
                .only(Only::any("completion", [OURS]))
                .published()
                .kind(Kind::Points)
                .like_before(),
        );
    for limit in published_limits(lines) {
        systems = systems.beside(limit);
    }
    let y = Axis::new("pps", "packets per second", Unit::Count, Scale::Log);
    let title = "Packets by message size, adaptive completion, no bounce buffer";
    let packets = usual(by_size("packets", title, y), lines).curve(Curve::new("pps", ""));
    let mut ways = by_size("ways", "Throughput by message size and way to send", throughput())
        .series(&["completion", "bounce"])
        .split(each_system(lines))
        .curve(Curve::new("bps", ""));
    ways.columns = columns();
    if lines.iter().any(|line| line.number("bps").is_none()) {
        ways = ways.note("Where a strategy has no point it came to a dead-lock.");
    }
    let x = Axis::named(&["mixture"], "mixture of messages");
    let title = "Throughput of mixtures by way to send";
    let mixtures = Chart::new("mixtures", title, x, throughput())
        .kind(Kind::Points)
        .only(Only::any("mixture", different(lines, |line| line.mixture).into_iter().flatten()))
        .series(&["completion", "bounce"])
        .split(each_system(lines))
        .curve(Curve::new("bps", ""));
    vec![
        systems,
        packets,
        completion_gain(lines),
        ways,
        bounce_gains(lines),
        mixtures,
        separated(lines),
    ]
}

fn published_point(name: &str, like: &str, bytes: u64, share: f64) -> PointSeries {
    PointSeries {
        name: name.to_owned(),
        kind: Kind::Points,
        published: true,
        like: like.to_owned(),
        points: vec![(bytes as f64, share)],
        ..PointSeries::default()
    }
}

fn completion_gain(lines: &[Line<'_>]) -> Chart {
    let title = "Adaptive completion against interrupts, by message size";
    let y = change("change of throughput");
    let mut chart = usual(by_size("completion", title, y), lines)
        .from(Source::Figures("gains".to_owned()))
        .curve(Curve::new("adaptive_gain_share", ""))
        .note(format!("What was published for short packets is drawn at {SHORT_BYTES} bytes."));
    for buffers in different(lines, |line| line.buffers).into_iter().take(MAX_BUFFERS) {
        let share = published::adaptive_transmit().short_gain_share(buffers);
        let name = format!("{buffers}, published");
        let like = published_system(lines, buffers);
        chart = chart.beside(published_point(&name, &like, SHORT_BYTES, share));
    }
    chart
}

/// The name of a series: of these buffers, over the card of which gains and losses were published.
fn published_system(lines: &[Line<'_>], buffers: &str) -> String {
    match are_cards_compared(lines) {
        true => format!("{PUBLISHED_CARD}, {buffers}"),
        false => buffers.to_owned(),
    }
}

fn bounce_gains(lines: &[Line<'_>]) -> Chart {
    let share = published::adaptive_transmit().bounce_gain_share;
    let mut published = published_point("published", "", BOUNCE_BYTES, share);
    published.of = published_system(lines, "mbuf-2k");
    let title = "Bounce buffer against none, by message size";
    let mut chart = by_size("bounce", title, change("change of throughput"))
        .from(Source::Figures("gains".to_owned()))
        .series(&["completion", "bounce"])
        .split(each_system(lines))
        .curve(Curve::new("bounce_gain_share", ""))
        .beside(published);
    chart.columns = columns();
    chart
}

fn separated(lines: &[Line<'_>]) -> Chart {
    let transmit = published::adaptive_transmit();
    let system = published_system(lines, "mbuf-2k");
    let title = "What one transfer gains over scattered ones, and what chains of mbufs cost";
    let dma = published_point(
        "one transfer, published",
        &format!("one transfer, {system}"),
        DMA_BYTES,
        transmit.dma_gain_share,
    );
    let chain = published_point(
        "chains, published",
        &format!("chains, {system}"),
        CHAIN_BYTES,
        transmit.mbuf_cost_share,
    );
    by_size("shares", title, change("change of throughput"))
        .from(Source::Figures("shares".to_owned()))
        .series(each_system(lines))
        .curve(Curve::new("dma_gain_share", "one transfer, {}"))
        .curve(Curve::new("chain_share", "chains, {}"))
        .beside(dma)
        .beside(chain)
}

fn both_chart(lines: &[Line<'_>]) -> Chart {
    let title = "Real and virtual time: adaptive completion, no bounce buffer";
    usual(by_size("virtual", title, throughput()), lines)
        .curve(Curve::new("bps", "{}, real"))
        .curve(Curve::new("virtual_bps", "{}, virtual").published().like_before())
}
