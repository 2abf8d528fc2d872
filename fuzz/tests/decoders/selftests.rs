//! What tests of the kernel say, which run in a guest: KTAP, and the forms that are older.

use arbitrary::{Error, Result, Unstructured};
use warikomi_lab::selftest::ktap::{Case, Said};

use crate::harness::{bounded, number, steps};

/// What lines consist of.
const WORDS: [&str; 20] = [
    "\n",
    "\t",
    " ",
    "#",
    "- ",
    "1..3",
    "ok 1 ",
    "not ok 2 ",
    "ok x",
    "KTAP version 1",
    "# SKIP ",
    "# XFAIL ",
    "PASS: ",
    "FAIL: ",
    "SKIP: ",
    "XFAIL: ",
    "TEST: ",
    "[ OK ]",
    "[FAIL]",
    "äß€",
];

/// The longest text of a case in bytes, and the most cases: `crates/lab/src/selftest/ktap.rs`.
const MOST_BYTES: usize = 600;
const MOST_CASES: usize = 2_000;
/// Nothing is added to a text that is as long: more is more of the same, and slow.
const MOST_TEXT: usize = 64 << 10;

fn word(input: &mut Unstructured<'_>, text: &mut String) -> Result<()> {
    if text.len() >= MOST_TEXT {
        return Err(Error::NotEnoughData);
    }
    match input.int_in_range(0..=5u8)? {
        0 => {
            let times = usize::try_from(number(input)?).unwrap_or(usize::MAX).min(3_000);
            let of = input.choose(&WORDS)?;
            text.push_str(&of.repeat(times));
        }
        1 => text.push_str(&number(input)?.to_string()),
        2 => text.push(input.arbitrary()?),
        _ => text.push_str(input.choose(&WORDS)?),
    }
    Ok(())
}

fn read<'a>(pieces: impl Iterator<Item = &'a str>) -> (Vec<Case>, Option<usize>, String) {
    let mut said = Said::default();
    pieces.for_each(|piece| {
        said.push(piece);
    });
    said.end()
}

#[test]
fn ktap() {
    bolero::check!().for_each(|bytes: &[u8]| {
        bounded(|| {
            let mut input = Unstructured::new(bytes);
            let mut text = String::new();
            steps(&mut input, 200, |input| word(input, &mut text));
            let whole = read(std::iter::once(text.as_str()));
            let (cases, _, rest) = &whole;
            assert!(cases.len() <= MOST_CASES && rest.len() <= MOST_BYTES);
            for case in cases {
                assert!(case.name.len() <= MOST_BYTES && case.said.len() <= MOST_BYTES);
                assert!(!case.name.contains('\n'));
            }
            // Whatever pieces it comes in.
            assert_eq!(whole, read(text.split_inclusive([' ', '1'])));
        });
    });
}
