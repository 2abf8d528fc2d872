//! Clients of the control socket that mean no good: each look is short, and a client that asks properly is answered as
//! soon as there is a place for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::*;
use warikomi_clock::{Dice, Seed, read_tsc};

/// No look takes so long, on however busy a machine.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// More than there are places for.
const CLIENTS: u64 = 2 * MOST_CLIENTS as u64;

/// Connects, asks or says anything, reads its answers or does not, hangs up or hangs, again and again.
fn rage(path: &Path, seed: u64, over: &AtomicBool) {
    let mut dice = Seed(seed).dice();
    while !over.load(Relaxed) {
        // Its queue is full of others.
        let Ok(mut stream) = UnixStream::connect(path) else {
            std::thread::yield_now();
            continue;
        };
        stream.set_nonblocking(true).unwrap();
        let reads = dice.one_in(2);
        for _ in 0..dice.number(0, 200) {
            let said = say(&mut dice);
            for piece in said.chunks(dice.of(&[1, 7, 4_096, 4_096])) {
                if matches!(stream.write(piece), Err(error) if !is_later(&error)) {
                    break;
                }
            }
            if reads {
                let _ = stream.read(&mut [0; 4_096]);
            }
            if over.load(Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_micros(dice.number(0, 200)));
        }
        if dice.one_in(4) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

fn say(dice: &mut Dice) -> Vec<u8> {
    let names = ["status", "metrics", "stop", "replace", "rollback", "\u{1f980}"];
    let name = dice.of(&names);
    match dice.number(0, 9) {
        0..4 => format!("{{\"cmd\":\"{name}\"}}\n").into_bytes(),
        4 => format!("{{\"cmd\":\"replace\",\"driver\":\"{name}\"}}\n").into_bytes(),
        5 => "[".repeat(dice.number(1, 9_000) as usize).into_bytes(),
        6 => vec![b'\n'; dice.number(1, 9_000) as usize],
        7 => b"{\"cmd\":".to_vec(),
        _ => (0..dice.number(1, 9_000)).map(|_| dice.number(0, 255) as u8).collect(),
    }
}

fn survive(span: Duration) {
    let given = std::env::var("WARIKOMI_TEST_SEED").ok();
    let seed = given.map_or_else(read_tsc, |text| text.parse().unwrap());
    println!("WARIKOMI_TEST_SEED={seed} cargo test -p warikomi-live --lib hostile -- --nocapture");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    let mut control = Control::bind(&path).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (path, over) = (path.clone(), Arc::clone(&over));
            std::thread::spawn(move || rage(&path, seed.wrapping_add(number), &over))
        })
        .collect();
    let begun = Instant::now();
    let now = || Time::ZERO + Span::from_ns(begun.elapsed().as_nanos() as u64);
    let (mut longest, mut asked, mut refused) = (Duration::ZERO, 0u64, 0u64);
    let long = Answer::done(&"x".repeat(20_000));
    while begun.elapsed() < span {
        let look = Instant::now();
        for (client, request) in control.look(now()) {
            match request {
                Ok(Request::Metrics {}) => control.answer(client, &long, now()),
                Ok(_) => control.answer(client, &Answer::done(&()), now()),
                Err(why) => {
                    refused += 1;
                    control.answer(client, &Answer::refused(why), now());
                }
            }
            asked += 1;
        }
        longest = longest.max(look.elapsed());
        assert!(control.clients.len() <= MOST_CLIENTS);
        let held = control.clients.iter().map(|client| client.input.len() + client.output.len());
        let most = MOST_REQUEST_BYTES + PIECE_BYTES + MOST_UNREAD_BYTES + 21_000;
        assert!(held.max().unwrap_or(0) <= most);
        std::thread::yield_now();
    }
    over.store(true, Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    println!("{asked} requests, {refused} refused, the longest look {longest:?}");
    assert!(asked > refused && refused > 0);
    assert!(longest < LONGEST_LOOK, "{longest:?}");
    is_answered_still(&mut control, &path, now());
}

/// Whether a client that asks properly is answered once the others have gone.
fn is_answered_still(control: &mut Control, path: &Path, now: Time) {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"{\"cmd\":\"status\"}\n").unwrap();
    client.set_nonblocking(true).unwrap();
    // Those before it in the queue are accepted and found to have gone; what they asked is answered.
    let answered = (0..10_000).any(|_| {
        for (client, _) in control.look(now) {
            control.answer(client, &Answer::done(&()), now);
        }
        client.read(&mut [0; 4_096]).is_ok_and(|count| count > 0)
    });
    assert!(answered);
}

#[test]
fn clients_that_mean_no_good_keep_nothing_waiting() {
    survive(Duration::from_secs(3));
}

/// The same for a minute.
#[test]
#[ignore = "takes a minute; scripts/test-long"]
fn clients_that_mean_no_good_for_a_minute_keep_nothing_waiting() {
    survive(Duration::from_secs(60));
}
