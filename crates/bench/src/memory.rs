//! What memory itself gives: the ceiling of everything that moves packets through it.
//!
//! Copying, reading and writing are measured by one core and by both at a time, over buffers that no cache holds. As
//! the STREAM benchmark counts (J. D. McCalpin, 1995), a copy of a byte is two: one that is read and one that is
//! written. What a cache reads besides because a part of its line is written is not counted.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use serde_json::json;
use warikomi_clock::{Span, TscClock};
use warikomi_lab::Error;
use warikomi_measure::{RunResult, Warning, published};
use warikomi_session::SessionError;
use warikomi_target::cores::{Cores, Pinned};
use warikomi_target::{Interrupted, TargetError};

use crate::rounds::{ROUNDS, median};

/// How long each is measured in every round.
const MEASURED: Span = Span::from_ms(200);

/// Buffers are so many times as long as the largest cache, within these limits.
const TIMES_THE_CACHE: usize = 4;
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 64 << 20..=256 << 20;
/// The same for a machine that does not tell.
const USUAL_CACHE_BYTES: usize = 32 << 20;

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Copy,
    Read,
    Write,
}

impl Stream {
    const ALL: [Stream; 3] = [Stream::Copy, Stream::Read, Stream::Write];

    fn name(self) -> &'static str {
        match self {
            Stream::Copy => "copy",
            Stream::Read => "read",
            Stream::Write => "write",
        }
    }

    /// Goes over a pair of buffers once; how many bytes that moved.
    fn pass(self, from: &[u64], to: &mut [u64]) -> usize {
        match self {
            Stream::Copy => {
                to.copy_from_slice(black_box(from));
                black_box(&*to);
                size_of_val(from) + size_of_val(to)
            }
            Stream::Read => {
                let sum = black_box(from).iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
                black_box(sum);
                size_of_val(from)
            }
            Stream::Write => {
                to.fill(black_box(1));
                black_box(&*to);
                size_of_val(to)
            }
        }
    }
}

/// Buffers of one core's own.
struct Buffers {
    core: usize,
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Buffers {
    /// Touched where they will be used, so that they are there, and near.
    fn on(core: usize, bytes: usize) -> Result<Buffers, TargetError> {
        let words = bytes / size_of::<u64>();
        let make = |word: u64| {
            let mut buffer = Vec::new();
            buffer.try_reserve_exact(words).map_err(|error| {
                let error = std::io::Error::new(std::io::ErrorKind::OutOfMemory, error);
                TargetError::system("cannot get memory to measure it")(error)
            })?;
            buffer.resize(words, word);
            Ok(buffer)
        };
        let _pinned =
            Pinned::to(core).map_err(TargetError::system("cannot go to a core to be measured"))?;
        Ok(Buffers { core, from: make(3)?, to: make(5)? })
    }

    /// Bytes that this core moves in a second, begun together with the others.
    fn rate(
        &mut self,
        stream: Stream,
        clock: &TscClock,
        begin: &Barrier,
    ) -> Result<f64, TargetError> {
        let pinned = Pinned::to(self.core);
        // Also if it cannot be pinned: the others wait.
        begin.wait();
        let _pinned =
            pinned.map_err(TargetError::system("cannot stay on a core to be measured"))?;
        let begun = clock.now();
        let mut bytes = 0;
        loop {
            bytes += stream.pass(&self.from, &mut self.to);
            let took = clock.now().since(begun);
            if took >= MEASURED {
                return Ok(bytes as f64 / took.as_secs());
            }
        }
    }
}

/// Bytes that all of these move together in a second.
fn rate(buffers: &mut [Buffers], stream: Stream, clock: &TscClock) -> Result<f64, TargetError> {
    let begin = Barrier::new(buffers.len());
    thread::scope(|scope| {
        let begin = &begin;
        let start = |one| scope.spawn(move || Buffers::rate(one, stream, clock, begin));
        let threads: Vec<_> = buffers.iter_mut().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    })
}

/// Measures it on these cores in turns, and puts a row for each stream and number of cores into `result`. `progress`
/// is told steps done and in all.
pub fn memory(
    cores: Cores,
    interrupted: &Interrupted,
    result: &mut RunResult,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), Error> {
    let clock = TscClock::calibrate().map_err(SessionError::from)?;
    let cache_bytes = largest_cache_bytes();
    let buffer_bytes = buffer_bytes(cache_bytes);
    let mut numbers = vec![cores.support];
    numbers.extend((!cores.shared()).then_some(cores.target));
    let mut buffers = numbers
        .iter()
        .map(|&core| Buffers::on(core, buffer_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<(Stream, usize)> = Stream::ALL
        .into_iter()
        .flat_map(|stream| (1..=numbers.len()).map(move |cores| (stream, cores)))
        .collect();
    let mut rates = vec![Vec::new(); cases.len()];
    for round in 0..ROUNDS {
        for (at, &(stream, cores)) in cases.iter().enumerate() {
            progress(round * cases.len() + at, ROUNDS * cases.len());
            if interrupted.is_set() {
                return Err(TargetError::Interrupted.into());
            }
            rates[at].push(rate(&mut buffers[..cores], stream, &clock)?);
        }
    }
    progress(ROUNDS * cases.len(), ROUNDS * cases.len());
    let published_bps = published::injection().memory_bandwidth_gbps * 1e9;
    let row = |(&(stream, cores), rates): (&(Stream, usize), &mut Vec<f64>)| {
        let bytes = median(rates);
        json!({
            "stream": stream.name(), "cores": cores, "gigabytes_per_s": bytes / 1e9,
            "moved_bps": bytes * 8.0, "published_bps": published_bps,
        })
    };
    let rows: Vec<_> = cases.iter().zip(&mut rates).map(row).collect();
    result.figures.insert("memory".into(), rows.into());
    result.figures.insert("memory_buffer_bytes".into(), buffer_bytes.into());
    result.warnings.extend(near_the_cache(buffer_bytes, cache_bytes));
    Ok(())
}

fn buffer_bytes(cache_bytes: usize) -> usize {
    cache_bytes.saturating_mul(TIMES_THE_CACHE).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end())
}

fn near_the_cache(buffer_bytes: usize, cache_bytes: usize) -> Option<Warning> {
    (cache_bytes > buffer_bytes / 2).then(|| Warning {
        what: format!(
            "memory was measured with buffers of {} MB, and a cache holds {} MB",
            buffer_bytes >> 20,
            cache_bytes >> 20
        ),
        hint: "take these figures for those of caches and memory together".into(),
    })
}

/// The largest cache of the first processor, in bytes, as the system tells it.
fn largest_cache_bytes() -> usize {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten();
    let size = |cache: std::fs::DirEntry| {
        cache_bytes(&std::fs::read_to_string(cache.path().join("size")).ok()?)
    };
    caches.flatten().filter_map(size).max().unwrap_or(USUAL_CACHE_BYTES)
}

/// A length such as `512K`, as sysfs writes it.
fn cache_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let (number, shift) = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (number, "K") => (number, 10),
        (number, "M") => (number, 20),
        _ => (text, 0),
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_what_is_read_and_what_is_written_and_all_of_it_is_done() {
        let from: Vec<u64> = (0..1_000).collect();
        let mut to = vec![0; 1_000];
        assert_eq!(Stream::Copy.pass(&from, &mut to), 16_000);
        assert_eq!(from, to);
        assert_eq!(Stream::Read.pass(&from, &mut to), 8_000);
        assert_eq!(Stream::Write.pass(&from, &mut to), 8_000);
        assert!(to.iter().all(|word| *word == 1));
    }

    #[test]
    fn cores_that_work_at_a_time_are_counted_together() {
        let clock = TscClock::calibrate().unwrap();
        let core = Cores::choose(&[]).unwrap().support;
        let mut buffers: Vec<_> = (0..2).map(|_| Buffers::on(core, 1 << 20).unwrap()).collect();
        let both = rate(&mut buffers, Stream::Copy, &clock).unwrap();
        assert!(both > 0.0 && both.is_finite());
        assert_eq!((buffers[0].to[7], buffers[1].to[131_071]), (3, 3));
    }

    #[test]
    fn buffers_are_longer_than_caches_or_it_is_said() {
        assert_eq!(buffer_bytes(1 << 20), 64 << 20);
        assert_eq!(buffer_bytes(32 << 20), 128 << 20);
        assert_eq!(near_the_cache(128 << 20, 32 << 20), None);
        let huge = 384 << 20;
        let said = near_the_cache(buffer_bytes(huge), huge).unwrap().what;
        assert!(said.ends_with("buffers of 256 MB, and a cache holds 384 MB"), "{said}");
    }

    #[test]
    fn lengths_of_caches_are_read_as_they_are_written() {
        assert_eq!(cache_bytes("512K\n"), Some(512 << 10));
        assert_eq!(cache_bytes("32M"), Some(32 << 20));
        assert_eq!(cache_bytes("4096"), Some(4_096));
        for nonsense in ["", "K", "x", "99999999999999999999K", "18446744073709551615M", "é"] {
            assert_eq!(cache_bytes(nonsense), None, "{nonsense}");
        }
    }
}
