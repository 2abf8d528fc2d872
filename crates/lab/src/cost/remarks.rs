//! What is to be said against the figures.

use warikomi_measure::Warning;

use super::row::Row;

/// Lines and samples that differ by more than this share of the whole cost contradict each other.
const CONTRADICTION_SHARE: f64 = 0.25;

/// What is to be said against the rows.
pub(super) fn remarks(rows: &[Row], fitted: bool, application: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut say = |what: String, hint: &str| warnings.push(Warning { what, hint: hint.to_owned() });
    let lengths = |which: fn(&Row) -> bool| {
        let lengths: Vec<_> =
            rows.iter().filter(|row| which(row)).map(|row| row.size_bytes.to_string()).collect();
        (!lengths.is_empty()).then(|| lengths.join(", "))
    };
    if !fitted {
        say(
            "with fewer than two lengths there is no line, and nothing to take the cost of receiving \
             apart with"
                .to_owned(),
            "give two or more --sizes, far apart",
        );
    }
    if let Some(lengths) = lengths(|row| row.send_ns.is_none()) {
        say(
            format!("of {lengths} bytes no packet that counts found a descriptor"),
            "repeat when nothing else runs on these cores",
        );
    }
    if let Some(lengths) = lengths(|row| row.receive_ns.is_none()) {
        say(
            format!("the driver was not saturated by frames of {lengths} bytes"),
            "the target is faster than the injection; there is no figure to be had",
        );
    }
    if let Some(lengths) = lengths(|row| row.end_to_end_ns.is_none()).filter(|_| application) {
        say(
            format!(
                "end to end there is no sound figure for {lengths} bytes: packets were lost behind \
                 the driver, or the target was not saturated"
            ),
            "repeat, with more --memory if it happens again",
        );
    }
    if let Some(lengths) = lengths(is_off_the_line).filter(|_| fitted) {
        say(
            format!(
                "the line through the costs does not fit at {lengths} bytes: it says more than the \
                 whole for the bytes alone, and there the whole is not taken apart"
            ),
            "repeat with more --repeat when nothing else runs; if it stays so, the cost does not grow \
             evenly, and lengths nearer to each other (--sizes) say more",
        );
    }
    if let Some(lengths) = lengths(contradicts) {
        say(
            format!(
                "the two ways to tell copying differ by more than {}% of the cost, at {lengths} bytes",
                100.0 * CONTRADICTION_SHARE
            ),
            "believe the samples for the share of the copying functions, and the line for what a \
             longer frame costs in all (caches and allocation grow with it, too)",
        );
    }
    warnings
}

fn is_off_the_line(row: &Row) -> bool {
    let apart = |whole: Option<f64>, copy: Option<f64>| whole.is_some() && copy.is_none();
    apart(row.receive_ns, row.copy_ns) || apart(row.end_to_end_ns, row.end_to_end_copy_ns)
}

fn contradicts(row: &Row) -> bool {
    let figures = row.copy_ns.zip(row.sampled_copy_ns).zip(row.receive_ns);
    figures.is_some_and(|((line, samples), whole)| {
        (line - samples).abs() > CONTRADICTION_SHARE * whole
    })
}

/// Why there are no samples, and what to do about it.
pub(super) fn not_sampled(why: &str) -> Warning {
    Warning {
        what: format!("the target's functions were not sampled: {why}"),
        hint:
            "install perf (linux-perf), and allow it (kernel.perf_event_paranoid at 2 or lower, or \
               run as root), or leave sampling out (--no-sampling)"
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::row::split;

    fn rows() -> Vec<Row> {
        let row = |size: usize| Row {
            receive_ns: Some(400.0 + 0.2 * size as f64),
            sampled_copy_ns: Some(0.2 * size as f64),
            send_ns: Some(100.0),
            end_to_end_ns: Some(2_000.0 + 0.5 * size as f64),
            ..Row::published(size)
        };
        [1_024, 1_500, 8_192].map(row).into()
    }

    #[test]
    fn what_grows_with_the_length_is_copying_and_the_parts_are_the_whole() {
        let mut rows = rows();
        let [send, receive, _] = split(&mut rows);
        assert!(send.unwrap().ns_per_byte.abs() < 1e-9);
        assert!((receive.unwrap().fixed_ns - 400.0).abs() < 1e-6);
        for row in &rows {
            let (copy, rest) = (row.copy_ns.unwrap(), row.rest_ns.unwrap());
            assert!((copy - 0.2 * row.size_bytes as f64).abs() < 1e-6);
            assert!((copy + rest - row.receive_ns.unwrap()).abs() < 1e-9);
            assert!((row.end_to_end_rest_ns.unwrap() - 2_000.0).abs() < 1e-6);
        }
        assert_eq!(rows[1].published_copy_ns, Some(272.0));
        assert_eq!(remarks(&rows, true, true), []);
    }

    #[test]
    fn where_the_line_says_more_than_the_whole_nothing_is_taken_apart() {
        let mut rows = rows();
        rows[1].end_to_end_ns = Some(10.0);
        split(&mut rows);
        assert_eq!((rows[1].end_to_end_copy_ns, rows[1].end_to_end_rest_ns), (None, None));
        assert!(rows[1].copy_ns.is_some() && rows[0].end_to_end_copy_ns.is_some());
        let said = remarks(&rows, true, true);
        assert!(said.len() == 1 && said[0].what.contains("does not fit at 1500 bytes"), "{said:?}");
    }

    #[test]
    fn what_contradicts_or_is_missing_is_said() {
        let mut rows = rows();
        rows[0].receive_ns = None;
        split(&mut rows);
        rows[2].sampled_copy_ns = Some(0.0);
        rows[1].end_to_end_ns = None;
        let said: Vec<String> =
            remarks(&rows, true, true).into_iter().map(|each| each.what).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("saturated by frames of 1024 bytes"), "{said:?}");
        assert!(said[1].contains("for 1500 bytes") && said[2].contains("at 8192 bytes"));
        assert!(rows[0].copy_ns.is_none() && rows[0].rest_ns.is_none());
    }
}
