use std::io::{Read, Write};
use std::os::fd::BorrowedFd;

use warikomi_pci::SharedMemory;
use warikomi_testbench::{VfioClient, seen_at_last};

use super::*;
use crate::vm::protocol::command;

fn pair() -> (Channel, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Channel::new(ours, Interrupted::default()).unwrap(), theirs)
}

fn message(command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
    VfioClient::message(7, command, flags, 0, body)
}

#[test]
fn bytes_that_drip_are_one_message_in_one_time() {
    let (mut channel, mut theirs) = pair();
    let bytes = message(command::DEVICE_RESET, 0, &[1, 2, 3, 4]);
    let begun = Instant::now();
    let mut drip = |channel: &mut Channel, every: Duration| {
        let mut at = begun;
        let mut each = Vec::new();
        for byte in &bytes {
            at += every;
            theirs.write_all(&[*byte]).unwrap();
            each.push(channel.next_command(at));
        }
        each
    };
    let mut all = drip(&mut channel, MESSAGE_TIMEOUT / 100);
    let last = all.pop().unwrap().unwrap().unwrap();
    assert_eq!((last.header.command, last.body.as_slice()), (13, &[1, 2, 3, 4][..]));
    assert!(all.iter().all(|part| matches!(part, Ok(None))));
    // Each byte comes soon after the one before, and all of it would take much too long.
    let all = drip(&mut channel, MESSAGE_TIMEOUT / 4);
    let held = all.iter().take_while(|part| matches!(part, Ok(None))).count();
    assert_eq!(held, 5);
    assert!(matches!(all[held], Err(ClientError::HalfMessage)));
}

#[test]
fn a_message_of_an_impossible_size_ends_the_connection_before_it_is_waited_for() {
    for bytes in [0u32, 15, MOST_MESSAGE_BYTES as u32 + 1, u32::MAX] {
        let (mut channel, mut theirs) = pair();
        let mut header = message(command::REGION_WRITE, 0, &[]);
        header[4..8].copy_from_slice(&bytes.to_le_bytes());
        theirs.write_all(&header).unwrap();
        let refused = channel.next_command(Instant::now());
        assert!(matches!(refused, Err(ClientError::Header(_))), "{bytes}");
        assert!(channel.incoming.bytes.capacity() < 4_096, "no room was made for it");
    }
}

#[test]
fn more_descriptors_than_were_agreed_on_end_the_connection_however_they_come() {
    let file = File::open("/dev/null").unwrap();
    let files = |count: usize| vec![file.as_fd(); count];
    let memory = || warikomi_pci::SharedMemory::anonymous(0, 4_096).unwrap();
    let (mut channel, theirs) = pair();
    let client = VfioClient::new(theirs, memory(), 0);
    let bytes = message(command::DMA_MAP, 0, &[]);
    let all: Vec<BorrowedFd<'_>> = files(MOST_FILES);
    assert!(client.send_bytes(&bytes, &all));
    assert_eq!(channel.next_command(Instant::now()).unwrap().unwrap().files.len(), MOST_FILES);
    // At once, and a part of them with each of two pieces.
    for parts in [vec![MOST_FILES + 1], vec![MOST_FILES, 1]] {
        let (mut channel, theirs) = pair();
        let client = VfioClient::new(theirs, memory(), 0);
        let mut end = Ok(None);
        for (at, count) in parts.into_iter().enumerate() {
            assert!(client.send_bytes(&bytes[8 * at..][..8], &files(count)));
            end = channel.next_command(Instant::now());
        }
        assert!(matches!(end, Err(ClientError::Files)), "{end:?}");
    }
}

#[test]
fn answers_that_are_not_taken_stop_commands_and_end_the_connection() {
    let (mut channel, mut theirs) = pair();
    let asked = Header::command(1, command::REGION_READ, 0);
    theirs.write_all(&message(command::DEVICE_RESET, 0, &[])).unwrap();
    let big = vec![7; 1 << 20];
    channel.send(asked.reply(big.len()), &[&big]).unwrap();
    assert!(channel.next_command(Instant::now()).unwrap().is_none(), "not before it has read");
    let mut seen = vec![0; 16 + big.len()];
    let reader = std::thread::spawn(move || {
        theirs.read_exact(&mut seen).unwrap();
        (theirs, seen)
    });
    assert!(seen_at_last(|| channel.next_command(Instant::now()).unwrap().is_some()));
    let (theirs, seen) = reader.join().unwrap();
    assert!(seen[16..] == big);
    channel.send(asked.reply(big.len()), &[&big]).unwrap();
    channel.outgoing.begun = Some(Instant::now() - 2 * MESSAGE_TIMEOUT);
    let end = channel.next_command(Instant::now());
    assert!(matches!(end, Err(ClientError::Unread(_))), "{end:?}");
    drop(theirs);
}

#[test]
fn the_end_of_a_connection_is_seen() {
    let (mut channel, theirs) = pair();
    drop(theirs);
    let mut is_closed = || matches!(channel.next_command(Instant::now()), Err(ClientError::Closed));
    assert!(seen_at_last(&mut is_closed));
}

/// A client that answers a question with these bytes.
fn answered(bytes: &[u8]) -> (Result<Option<Vec<u8>>, ClientError>, Channel, UnixStream) {
    let (mut channel, mut theirs) = pair();
    theirs.write_all(bytes).unwrap();
    let answer = channel.ask(command::DMA_READ, &[&[0; 16]]);
    (answer, channel, theirs)
}

#[test]
fn a_question_is_answered_by_its_own_reply_and_commands_wait_meanwhile() {
    let reply = VfioClient::message(0, command::DMA_READ, 1, 0, &[5; 3]);
    let before = message(command::DEVICE_RESET, 0, &[9]);
    let (answer, mut channel, _theirs) = answered(&[before, reply.clone()].concat());
    assert_eq!(answer.unwrap(), Some(vec![5; 3]));
    let kept = channel.next_command(Instant::now()).unwrap().unwrap();
    assert_eq!((kept.header.command, kept.body), (command::DEVICE_RESET, vec![9]));
    assert_eq!((channel.waiting_bytes, channel.waiting_files), (0, 0));
    let failed = VfioClient::message(0, command::DMA_READ, 1 | 1 << 5, 14, &[]);
    assert_eq!(answered(&failed).0.unwrap(), None);
    for stray in [
        VfioClient::message(1, command::DMA_READ, 1, 0, &[5; 3]),
        VfioClient::message(0, command::DMA_WRITE, 1, 0, &[5; 3]),
    ] {
        let (answer, mut channel, _theirs) = answered(&stray);
        assert!(matches!(answer, Err(ClientError::StrayReply)));
        assert!(channel.ask(command::DMA_READ, &[]).is_err(), "no further one waits");
        assert!(channel.next_command(Instant::now()).is_err());
    }
    let (mut channel, mut theirs) = pair();
    theirs.write_all(&reply).unwrap();
    let unasked = channel.next_command(Instant::now());
    assert!(matches!(unasked, Err(ClientError::StrayReply)));
}

#[test]
fn a_client_that_does_not_answer_costs_one_time_and_its_connection() {
    let (mut channel, _theirs) = pair();
    let begun = Instant::now();
    let silent = channel.ask(command::DMA_READ, &[&[0; 16]]);
    assert!(matches!(silent, Err(ClientError::Silent)), "{silent:?}");
    assert!(begun.elapsed() >= DMA_TIMEOUT);
    for _ in 0..1_000 {
        assert!(channel.ask(command::DMA_READ, &[]).is_err(), "no other one waits");
    }
    // The questions of one access share their time.
    let (mut channel, _theirs) = pair();
    channel.ask_until = Some(Instant::now() - Duration::from_millis(1));
    let begun = Instant::now();
    assert!(channel.ask(command::DMA_READ, &[&[0; 16]]).is_err());
    assert!(begun.elapsed() < DMA_TIMEOUT);
}

#[test]
fn ctrl_c_ends_a_wait() {
    let interrupted = Interrupted::default();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut channel = Channel::new(ours, interrupted.clone()).unwrap();
    interrupted.set();
    let ended = channel.ask(command::DMA_READ, &[&[0; 16]]);
    assert!(matches!(ended, Err(ClientError::Interrupted)));
}

#[test]
fn commands_that_come_without_end_instead_of_an_answer_are_too_many() {
    let many = message(command::DEVICE_RESET, 0, &[]).repeat(MOST_WAITING + 1);
    let (answer, ..) = answered(&many);
    assert!(matches!(answer, Err(ClientError::TooManyCommands)), "{answer:?}");
    let (mut channel, mut theirs) = pair();
    let big = message(command::REGION_WRITE, 0, &vec![0; 1 << 20]);
    let writer = std::thread::spawn(move || while theirs.write_all(&big).is_ok() {});
    let answer = channel.ask(command::DMA_READ, &[&[0; 16]]);
    assert!(matches!(answer, Err(ClientError::TooManyCommands)), "{answer:?}");
    drop(channel);
    writer.join().unwrap();
}

#[test]
fn a_connection_that_we_end_is_not_reset_whatever_was_not_read() {
    let (channel, mut theirs) = pair();
    let file = File::open("/dev/null").unwrap();
    let memory = SharedMemory::anonymous(0, 4_096).unwrap();
    let client = VfioClient::new(theirs.try_clone().unwrap(), memory, 2);
    let unread = message(command::DEVICE_RESET, 0, &[0; 10_000]);
    assert!(client.send_bytes(&unread, &[]) && client.send_bytes(&unread, &[file.as_fd()]));
    drop(channel);
    assert_eq!(theirs.read(&mut [0; 16]).unwrap(), 0, "its end, and no error");
    assert_eq!(theirs.write(&unread).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
