//! What goes to the terminal besides results: bars, and whether colours are wanted.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use warikomi_measure::RunResult;
use warikomi_report::terminal::{self, Style};

/// What a shell gives a process that Ctrl-C ended.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

const MAX_WIDTH: u16 = 120;

/// How results are printed: colours and the terminal's width on a terminal that wants them (see
/// no-color.org), otherwise plain text of as many columns as `COLUMNS` says, or 80.
pub(crate) fn style() -> Style {
    if !std::io::stdout().is_terminal() {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = columns.map_or(Style::default().width, |width: u16| width.min(MAX_WIDTH));
        return Style { width, ..Style::default() };
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| width.0).min(MAX_WIDTH);
    Style { colour, width }
}

/// Says in a result what its columns are and what matters most, so that it shows itself from here on.
pub(crate) fn describe(result: &mut RunResult) {
    match result.experiment.as_str() {
        "bench" => warikomi_bench::describe(result),
        _ => warikomi_lab::describe(result),
    }
}

/// Describes a finished result, and prints it.
pub(crate) fn describe_and_print(result: &mut RunResult, json: bool) {
    describe(result);
    print(result, json);
}

/// Prints a result that describes itself: as JSON for programs, or as tables for people.
pub(crate) fn print(result: &RunResult, json: bool) {
    if json {
        print!("{}", result.to_json());
    } else {
        print!("{}", terminal::page(result, style()));
    }
}

/// A bar on standard error, which draws itself only on a terminal. Nothing ticks it: a thread of ours would
/// disturb what is measured.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ");
    let target = ProgressDrawTarget::stderr_with_hz(5);
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// Clears a bar when it goes out of scope, so that an error is not printed behind one.
pub(crate) struct Cleared(pub(crate) ProgressBar);

impl Cleared {
    /// A bar over the rows of a comparison.
    pub(crate) fn over_rows() -> Cleared {
        Cleared(bar("{bar:32} {percent:>3}% {elapsed}, {eta} left  {wide_msg}"))
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Seconds as people say them: `12 s`, `2 min 5 s`.
pub(crate) fn spoken(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
