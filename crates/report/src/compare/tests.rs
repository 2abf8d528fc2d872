use super::*;
use serde_json::json;
use warikomi_measure::{Machine, TimeBase};

const LIMITS: Limits = Limits { alpha: 0.01, threshold_share: 0.05 };

fn run(experiment: &str, figures: Value) -> Run {
    let mut result = RunResult::new(experiment, TimeBase::Real, Machine::default());
    result.figures = figures.as_object().unwrap().clone();
    Run { path: experiment.into(), name: experiment.to_owned(), result, plan: None }
}

fn repeats(figure: &str, values: &[f64]) -> Vec<Repeat> {
    let repeat = |(at, &value)| Repeat {
        figure: figure.to_owned(),
        size_bytes: Some(1_500),
        repeat: at as u32 + 1,
        value,
    };
    values.iter().enumerate().map(repeat).collect()
}

/// The verdict on five repetitions around 100 against five around `b`.
fn verdict_on(figure: &str, b: f64) -> Verdict {
    let spread = [-1.0, -0.5, 0.0, 0.5, 1.0];
    let around = |middle: f64| repeats(figure, &spread.map(|off| middle + off));
    let empty = run("sweep", json!({}));
    let found = compare((&empty, &around(100.0)), (&empty, &around(b)), LIMITS).unwrap();
    assert_eq!(found.figures.len(), 1);
    assert_eq!((found.figures[0].a, found.figures[0].b), (100.0, b), "medians");
    assert_eq!(found.figures[0].difference_share, Some((b - 100.0) / 100.0));
    assert_eq!(found.is_worse(), found.figures[0].verdict == Verdict::Worse);
    found.figures[0].verdict
}

#[test]
fn each_figure_is_worse_in_its_own_direction() {
    for (figure, more, less) in [
        ("send_ns", Verdict::Worse, Verdict::Better),
        ("send_ns_per_byte", Verdict::Worse, Verdict::Better),
        ("loss_free_bps", Verdict::Better, Verdict::Worse),
        ("within_1_share", Verdict::Better, Verdict::Worse),
        ("worst_error_share", Verdict::Worse, Verdict::Better),
        ("drift_ns", Verdict::Differs, Verdict::Differs),
        ("send_r_squared", Verdict::Differs, Verdict::Differs),
    ] {
        assert_eq!(verdict_on(figure, 120.0), more, "{figure}");
        assert_eq!(verdict_on(figure, 80.0), less, "{figure}");
    }
}

#[test]
fn noise_and_small_differences_are_not_worse() {
    assert_eq!(verdict_on("send_ns", 100.25), Verdict::WithinNoise);
    assert_eq!(verdict_on("send_ns", 103.0), Verdict::BelowThreshold);
}

#[test]
fn without_repetitions_nothing_is_claimed() {
    let (a, b) =
        (run("cost", json!({"send_fixed_ns": 100})), run("cost", json!({"send_fixed_ns": 900})));
    let found = compare((&a, &[]), (&b, &[]), LIMITS).unwrap();
    assert_eq!(found.figures[0].verdict, Verdict::NoRepeats);
    assert_eq!((found.figures[0].a, found.figures[0].b), (100.0, 900.0));
    assert_eq!(found.figures[0].difference_share, Some(8.0));
    assert!(!found.can_tell() && !found.is_worse());
    let (few, other) = (repeats("send_ns", &[1.0, 2.0, 3.0]), repeats("send_ns", &[7.0, 8.0, 9.0]));
    let found = compare((&a, &few), (&b, &other), LIMITS).unwrap();
    let sized = found.figures.iter().find(|figure| figure.size_bytes.is_some()).unwrap();
    assert_eq!(sized.verdict, Verdict::TooFewRepeats);
    assert!((sized.p.unwrap() - 0.1).abs() < 1e-12);
    assert!(!found.can_tell());
}

#[test]
fn what_cannot_be_compared_is_refused_and_what_differs_is_named() {
    let (a, b) = (run("cost", json!({})), run("sweep", json!({})));
    let refused = compare((&a, &[]), (&b, &[]), LIMITS).unwrap_err();
    assert_eq!(refused, CompareError::Experiments { a: "cost".into(), b: "sweep".into() });
    assert_eq!(compare((&a, &[]), (&a, &[]), LIMITS), Err(CompareError::NothingInCommon));
    let given = run("cost", json!({"requested_ns": 38_000.0, "published_bps": 1.0}));
    assert_eq!(compare((&given, &[]), (&given, &[]), LIMITS), Err(CompareError::NothingInCommon));

    let (mut a, mut b) =
        (run("cost", json!({"x_ns": 1, "y_ns": 2})), run("cost", json!({"x_ns": 1})));
    a.result.plan.insert("count".to_owned(), json!(10));
    b.result.plan.insert("count".to_owned(), json!(20));
    b.result.target.kernel = Some("6.1".to_owned());
    let cautions = compare((&a, &[]), (&b, &[]), LIMITS).unwrap().cautions.join("; ");
    for expected in [
        "count of the plan differs: 10 in A, 20 in B",
        "nothing in A, 6.1 in B",
        "1 figures are in A only",
    ] {
        assert!(cautions.contains(expected), "{expected} is not in {cautions}");
    }
}

#[test]
fn values_that_are_no_numbers_do_not_count() {
    let a = run("cost", json!({"x_ns": 0}));
    let b = run("cost", json!({"x_ns": 5}));
    let found =
        compare((&a, &repeats("x_ns", &[f64::NAN])), (&b, &repeats("x_ns", &[1.0])), LIMITS);
    let found = found.unwrap();
    assert_eq!(found.figures.len(), 1, "the repetition is on one side only");
    assert_eq!(found.figures[0].difference_share, None, "there is no share of 0");
}
