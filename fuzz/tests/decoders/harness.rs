//! What all targets have in common: what holds of every input, and inputs that are a known file with edits.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Time of the processor that one input may take: far more than any should, because a build for a sanitizer is slow.
const MOST_TIME: Duration = Duration::from_secs(2);
/// Memory that all targets together may have touched.
const MOST_MEMORY_KB: i64 = 1 << 20;
/// Edits of one seed.
const MOST_EDITS: usize = 8;
/// No edit makes an input longer than this.
const MOST_BYTES: usize = 256 << 10;

/// Numbers at which something may change.
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    16,
    255,
    256,
    4_096,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Gives one input to a target, which must neither panic nor take long nor take much memory.
pub(crate) fn bounded(target: impl FnOnce()) {
    let begun = processor_time();
    target();
    let took = processor_time().saturating_sub(begun);
    assert!(took < MOST_TIME, "one input took {took:?}");
    let memory_kb = getrusage(UsageWho::RUSAGE_SELF).expect("a process has usage").max_rss();
    assert!(memory_kb < MOST_MEMORY_KB, "{memory_kb} KB of memory are in use");
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock").into()
}

/// Chooses steps out of an input until it is used up, at most `most` of them.
pub(crate) fn steps(
    input: &mut Unstructured<'_>,
    most: usize,
    mut step: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) {
    for _ in 0..most {
        if input.is_empty() || step(input).is_err() {
            return;
        }
    }
}

/// A number: one of those at which something may change, a small one, or any.
pub(crate) fn number(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=3u8)? {
        0 => *input.choose(&NUMBERS)?,
        1 => input.arbitrary::<u8>()?.into(),
        2 => input.arbitrary::<u16>()?.into(),
        _ => input.arbitrary()?,
    })
}

/// Whether something that happens rarely happens, one time in this many.
pub(crate) fn once_in(input: &mut Unstructured<'_>, times: u8) -> Result<bool> {
    Ok(input.int_in_range(0..=times - 1)? == times - 1)
}

/// Known inputs of a target: files that our own encoders wrote. An input is one of them with a few edits, or bytes
/// of no form.
pub(crate) struct Seeds {
    files: Vec<Vec<u8>>,
    words: &'static [&'static str],
}

impl Seeds {
    /// Those of a target, which are held against `made`: `UPDATE_SEEDS=1` writes them anew. `words` mean something
    /// to its decoder.
    pub(crate) fn of(
        target: &str,
        made: &[(&str, Vec<u8>)],
        words: &'static [&'static str],
    ) -> Seeds {
        let directory = directory(target);
        if std::env::var_os("UPDATE_SEEDS").is_some() {
            fs::create_dir_all(&directory).expect("the seeds' directory can be made");
            for (name, bytes) in made {
                fs::write(directory.join(name), bytes).expect("a seed can be written");
            }
        }
        let mut files = Vec::new();
        for (name, bytes) in made {
            let path = directory.join(name);
            let kept = fs::read(&path);
            let kept = kept.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let same = kept == *bytes;
            assert!(same, "{} is not what is written today: set UPDATE_SEEDS=1", path.display());
            files.push(kept);
        }
        Seeds { files, words }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// One of them as it is.
    pub(crate) fn whole(&self, number: usize) -> &[u8] {
        &self.files[number]
    }

    /// What an input stands for.
    pub(crate) fn input(&self, from: &mut Unstructured<'_>) -> Vec<u8> {
        let number = from.int_in_range(0..=self.files.len()).unwrap_or_default();
        if number < self.files.len() {
            return self.edited(number, from);
        }
        let rest = from.len();
        from.bytes(rest).unwrap_or_default().to_vec()
    }

    /// One of them with edits.
    pub(crate) fn edited(&self, number: usize, from: &mut Unstructured<'_>) -> Vec<u8> {
        let mut bytes = self.files[number].clone();
        // Mostly few: after many it is no such file any more.
        let [one, other] = [(); 2].map(|()| from.int_in_range(0..=MOST_EDITS).unwrap_or_default());
        for _ in 0..one.min(other) {
            if from.is_empty() || self.edit(&mut bytes, from).is_err() {
                break;
            }
            bytes.truncate(MOST_BYTES);
        }
        bytes
    }

    fn edit(&self, bytes: &mut Vec<u8>, from: &mut Unstructured<'_>) -> Result<()> {
        let at = from.int_in_range(0..=bytes.len())?;
        let most = if once_in(from, 4)? { MOST_BYTES } else { 64 };
        let until = at + from.int_in_range(0..=most.min(bytes.len() - at))?;
        match from.int_in_range(0..=11u8)? {
            0 => drop(bytes.drain(at..until)),
            1 => bytes.truncate(at),
            2 => {
                let again = bytes[at..until].to_vec();
                let times = from.int_in_range(1..=40)?;
                let again = again.repeat(times);
                bytes.splice(at..at, again);
            }
            3 => {
                let word = if self.words.is_empty() { "" } else { *from.choose(self.words)? };
                bytes.splice(at..until.min(at + word.len()), word.bytes());
            }
            4 => {
                let begin = at + bytes[at..].iter().position(u8::is_ascii_digit).unwrap_or(0);
                let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit());
                let end = begin + digits.count();
                let sign = if once_in(from, 4)? { "-" } else { "" };
                bytes.splice(begin..end, format!("{sign}{}", number(from)?).into_bytes());
            }
            5 => {
                let other = from.choose(&self.files)?;
                let begin = from.int_in_range(0..=other.len())?;
                let end = (begin + from.int_in_range(0..=256)?).min(other.len());
                bytes.splice(at..until, other[begin..end].iter().copied());
            }
            6 => {
                // In a text in quotation marks.
                let word = if self.words.is_empty() { "" } else { *from.choose(self.words)? };
                let quote = bytes[at..].iter().position(|byte| *byte == b'"');
                let begin = quote.map_or(at, |quote| at + quote + 1);
                bytes.splice(begin..begin, word.bytes());
            }
            7 if at < bytes.len() => bytes[at] ^= 1 << from.int_in_range(0..=7u8)?,
            _ => {
                let width = *from.choose(&[1, 2, 4, 8])?;
                let mut value = number(from)?.to_le_bytes();
                if once_in(from, 3)? {
                    value[..width].reverse();
                }
                for (place, byte) in bytes.iter_mut().skip(at).zip(&value[..width]) {
                    *place = *byte;
                }
            }
        }
        Ok(())
    }
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}
