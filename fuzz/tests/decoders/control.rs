//! The control socket of a service: clients that mean no good, and what a client hears.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use arbitrary::Unstructured;
use serde_json::json;
use warikomi_clock::{Span, Time};
use warikomi_live::service::{Answer, Control, Request};

use crate::harness::{Seeds, bounded, steps};

/// Clients that are served at a time, and so requests of one look.
const MOST_CLIENTS: usize = 16;

fn requests() -> Vec<u8> {
    let driver = "/usr/lib/drivers/new".to_owned();
    let all = [
        Request::Status {},
        Request::Replace { driver },
        Request::Rollback {},
        Request::Metrics {},
        Request::Stop {},
    ];
    all.iter().flat_map(|request| request.to_line().into_bytes()).collect()
}

fn answers() -> Vec<u8> {
    let all = [Answer::done(&json!({"generation": 2})), Answer::done(&()), Answer::refused("no")];
    all.iter().flat_map(|answer| answer.to_line().into_bytes()).collect()
}

fn lines(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(request) = Request::from_line(line) {
            let again = request.to_line();
            assert_eq!(Request::from_line(again.trim_end().as_bytes()), Ok(request));
        }
        let answer = std::str::from_utf8(line).ok().and_then(|line| Answer::from_line(line).ok());
        if let Some(answer) = answer {
            let again = answer.to_line();
            assert_eq!(Answer::from_line(again.trim_end()).ok(), Some(answer));
        }
    }
}

fn clients(seeds: &Seeds, input: &mut Unstructured<'_>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("control");
    let mut control = Control::bind(&path).expect("a socket");
    let mut now = Time::ZERO;
    let mut clients: Vec<UnixStream> = Vec::new();
    let mut waiting = Vec::new();
    steps(input, 60, |from| {
        let number = from.int_in_range(0..=20_usize)?;
        match from.int_in_range(0..=7u8)? {
            0 | 1 if clients.len() < 24 => {
                let client = UnixStream::connect(&path).expect("it listens");
                client.set_nonblocking(true).expect("a socket");
                clients.push(client);
            }
            2 | 3 => {
                let bytes = seeds.edited(from.int_in_range(0..=seeds.len() - 1)?, from);
                if let Some(mut client) = clients.get(number) {
                    let _ = client.write(&bytes);
                }
            }
            4 if number < clients.len() => drop(clients.swap_remove(number)),
            5 => {
                if let Some(mut client) = clients.get(number) {
                    let _ = client.read(&mut [0; 256]);
                }
            }
            6 => {
                if let Some(client) = waiting.pop() {
                    control.answer(client, &Answer::done(&"x".repeat(number * 4_000)), now);
                }
            }
            _ => {
                now += Span::from_ms(from.int_in_range(0..=20_000)?);
                let asked = control.look(now);
                assert!(asked.len() <= MOST_CLIENTS);
                for (client, _) in asked {
                    assert!(!waiting.contains(&client), "it waits for an answer, and asks again");
                    waiting.push(client);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn control() {
    let words = &["\n", "{\"cmd\":\"", "\"driver\":", "\"ok\":", "\"result\":", "[[[[", "null"];
    let seeds = Seeds::of("control", &[("requests", requests()), ("answers", answers())], words);
    bolero::check!().with_max_len(2_048).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            if from.int_in_range(0..=3u8) == Ok(0) {
                clients(&seeds, &mut from);
            } else {
                lines(&seeds.input(&mut from));
            }
        });
    });
}
