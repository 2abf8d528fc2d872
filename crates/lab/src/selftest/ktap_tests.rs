use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Vec<(String, Outcome, String)> {
    let mut said = Said::default();
    said.push(text);
    let cases = said.end().0.into_iter();
    cases.map(|case| (case.name, case.outcome, case.said)).collect()
}

fn of(name: &str, outcome: Outcome, said: &str) -> (String, Outcome, String) {
    (name.to_owned(), outcome, said.to_owned())
}

#[test]
fn ktap_is_read_with_its_directives_and_what_was_said_before_a_failure() {
    let text = "KTAP version 1\n1..4\n# noise\nok 1 ping.test_v4\n# Check| line 3\n# Check failed 1 != 2\n\
                not ok 2 ping.test_v6\nok 3 ping.test_tcp # SKIP no socat\nnot ok 4 - x # XFAIL no FEC\n\
                # Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0\n";
    let expected = [
        of("ping.test_v4", Outcome::Passed, ""),
        of("ping.test_v6", Outcome::Failed, "Check| line 3\nCheck failed 1 != 2"),
        of("ping.test_tcp", Outcome::Skipped, "no socat"),
        of("x", Outcome::Expected, "no FEC"),
    ];
    assert_eq!(read(text), expected);
    let mut said = Said::default();
    said.push(text);
    assert_eq!(said.end().1, Some(4));
}

#[test]
fn both_forms_of_scripts_are_read() {
    let text = "PASS: eth0: set interface up\nXFAIL: eth0: ethtool dump not supported\n\
                FAIL: eth0: ethtool list features\nSKIP: eth0: set IP address\n\
                TEST: force of same speed autoneg off        [ OK ]\n\
                TEST: two                [FAIL]\n\tspeed 10 autoneg off\nTEST: three [SKIP]\n\tnot there\n";
    let expected = [
        of("eth0: set interface up", Outcome::Passed, ""),
        of("eth0: ethtool dump not supported", Outcome::Expected, ""),
        of("eth0: ethtool list features", Outcome::Failed, ""),
        of("eth0: set IP address", Outcome::Skipped, ""),
        of("force of same speed autoneg off", Outcome::Passed, ""),
        of("two", Outcome::Failed, "speed 10 autoneg off"),
        of("three", Outcome::Skipped, "not there"),
    ];
    assert_eq!(read(text), expected);
}

/// Programs that a test calls speak of other things before its result.
#[test]
fn why_a_result_is_what_it_is_stands_behind_it_whatever_was_said_before() {
    let text = "Invalid argument\nTEST: No cable [FAIL]\n\tExpected \"No cable\"\n\tno more\n\
                TEST: one [FAIL]\nnoise\n\tof the next\nTEST: two [FAIL]\n";
    let expected = [
        of("No cable", Outcome::Failed, "Invalid argument\nExpected \"No cable\""),
        of("one", Outcome::Failed, "no more"),
        of("two", Outcome::Failed, "noise\nof the next"),
    ];
    assert_eq!(read(text), expected);
}

#[test]
fn a_result_that_belongs_to_another_is_none() {
    let text = "    ok 1 inner\nok 1 outer\nok\nok x\nnot ok\nokay 1 no\n";
    assert_eq!(read(text), [of("outer", Outcome::Passed, "")]);
}

#[test]
fn no_guest_fills_the_memory() {
    let mut said = Said::default();
    for _ in 0..3 * MOST_CASES {
        said.push(&format!("# {0}\nnot ok 1 {0}\n", "x".repeat(5_000)));
    }
    said.push(&"y".repeat(1 << 20));
    assert!(said.unfinished.len() <= LINE_BYTES);
    let (cases, _, before) = said.end();
    assert_eq!(cases.len(), MOST_CASES);
    assert!(
        cases.iter().all(|case| case.name.len() <= NAME_BYTES && case.said.len() <= SAID_BYTES)
    );
    assert!(before.len() <= SAID_BYTES);
}

#[test]
fn a_program_that_failed_for_a_known_reason_has_not_failed() {
    let failed = |name: &str| case(name, Outcome::Failed, "why");
    let cases = [failed("known"), case("b", Outcome::Passed, "")];
    let known = |case: &Case| (case.name == "known").then(|| "model lacks it".to_owned());
    let written = |cases: &[Case]| {
        let mut out = Vec::new();
        write(&mut out, "r8169", &[Program { name: "p", cases, known: &known }]).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = written(&cases);
    assert!(text.contains("    not ok 1 known # XFAIL model lacks it\n"), "{text}");
    assert!(text.ends_with("    ok 2 b\nok 1 p\n"), "{text}");
    assert!(written(&[failed("other")]).ends_with("    not ok 1 other\nnot ok 1 p\n"));
}

#[test]
fn a_program_that_does_not_say_how_it_ended_has_failed() {
    let ended = |code| ProgramEnd { code, ..ProgramEnd::default() };
    let [passed, failed] = [Outcome::Passed, Outcome::Failed].map(|outcome| case("a", outcome, ""));
    let whole = |end: &ProgramEnd, cases: &[Case], planned| {
        unsaid(end, cases, planned, "rest").map(|case| (case.outcome, case.said))
    };
    let of = |what: &str| Some((Outcome::Failed, format!("{what}; rest")));
    let one = std::slice::from_ref(&passed);
    assert_eq!(whole(&ended(Some(0)), one, Some(1)), None);
    assert_eq!(whole(&ended(Some(1)), &[failed], Some(1)), None);
    assert_eq!(whole(&ended(Some(1)), one, Some(1)), of("it returned 1"));
    assert_eq!(whole(&ended(Some(0)), &[], None), of("it has no result"));
    assert_eq!(whole(&ended(Some(0)), one, Some(3)), of("2 of its cases have no result"));
    assert_eq!(whole(&ended(None), one, Some(1)), of("a signal ended it"));
    let late = ProgramEnd { timed_out: true, ..ended(None) };
    assert_eq!(whole(&late, one, Some(1)), of("it did not end in time"));
    let skipped = whole(&ended(Some(SKIPPED)), &[], None);
    assert_eq!(skipped, Some((Outcome::Skipped, "rest".to_owned())));
    assert_eq!(whole(&ended(Some(SKIPPED)), one, None), None);
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let outcomes = [Outcome::Passed, Outcome::Failed, Outcome::Skipped, Outcome::Expected].to_vec();
    let case =
        ("[a-z][a-z0-9_.]{0,20}", prop::sample::select(outcomes), "[a-zA-Z][a-z ]{0,30}[a-z]");
    let case = case.prop_map(|(name, outcome, said)| {
        super::case(&name, outcome, if outcome == Outcome::Passed { "" } else { &said })
    });
    prop::collection::vec(case, 0..20)
}

proptest! {
    /// What we write is read as what it was, in whatever pieces it comes.
    #[test]
    fn what_is_written_is_read_again(cases in cases(), piece in 1..40_usize) {
        let mut out = Vec::new();
        let program = Program { name: "p", cases: &cases, known: &|_| None };
        write(&mut out, "about", &[program]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let inner = text.lines().filter_map(|line| line.strip_prefix("    "));
        let inner: String = inner.map(|line| format!("{line}\n")).collect();
        let mut said = Said::default();
        for piece in inner.as_bytes().chunks(piece) {
            said.push(std::str::from_utf8(piece).unwrap());
        }
        let (read, planned, _) = said.end();
        prop_assert_eq!(planned, Some(cases.len()));
        prop_assert_eq!(read, cases);
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,300}", lines in prop::collection::vec("(ok|not ok|PASS:|TEST:|1\\.\\.|#|\t)?[ -~]{0,40}", 0..20)) {
        let mut said = Said::default();
        said.push(&text);
        let lines = lines.join("\n");
        let count = said.push(&lines);
        prop_assert!(said.end().0.len() >= count);
    }
}
