use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};

use super::*;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use warikomi_clock::TscClock;
use warikomi_pci::{DmaMemory, Interrupt};
use warikomi_testbench::{MESSAGE, card};

use crate::Pass;
use crate::kernel::attached::AttachedCard;

/// What guests were given here.
const GIVEN_BYTES: u64 = 1 << 20;

fn connected() -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    (Connection::new(ours, Attachment::VirtPci, GIVEN_BYTES).unwrap(), theirs)
}

fn clock() -> Clock {
    Clock::Real(TscClock::with_frequency(0, 1e9))
}

fn send(kernel: &mut UnixStream, code: u32, flags: u32, body: &[u8]) {
    for word in [code, 1 | flags, body.len() as u32] {
        kernel.write_all(&word.to_le_bytes()).unwrap();
    }
    kernel.write_all(body).unwrap();
}

fn answer(kernel: &mut UnixStream) -> u64 {
    let mut bytes = [0; 20];
    kernel.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[4], 1 | 4, "version 1, a reply");
    u64::from_le_bytes(bytes[12..].try_into().unwrap())
}

#[test]
fn offers_what_the_kernel_cannot_do_without() {
    let (mut connection, mut kernel) = connected();
    send(&mut kernel, 1, 0, &[]);
    send(&mut kernel, 15, 0, &[]);
    connection.serve().unwrap();
    assert_eq!(answer(&mut kernel), 1 << 32 | 1 << 30, "VERSION_1, PROTOCOL_FEATURES");
    assert_eq!(answer(&mut kernel), 1 << 5 | 1 << 3, "BACKEND_REQ, REPLY_ACK");
}

#[test]
fn says_whether_a_request_succeeded() {
    let (mut connection, mut kernel) = connected();
    send(&mut kernel, 8, 8, &[0, 0, 0, 0, 16, 0, 0, 0]);
    connection.serve().unwrap();
    assert_eq!(answer(&mut kernel), 0);
    send(&mut kernel, 8, 8, &[7, 0, 0, 0, 16, 0, 0, 0]);
    assert!(connection.serve().is_err(), "there is no eighth queue");
    assert_eq!(answer(&mut kernel), 1);
}

#[test]
fn memory_that_the_file_does_not_have_room_for_is_refused() {
    let region = Region { bus: 0, len: 1 << 62, user: 0, file_offset: 0 };
    assert!(map_region(&region, tempfile::tempfile().unwrap()).is_err());
    let region = Region { bus: 0, len: u64::MAX, user: 0, file_offset: 8 };
    assert!(map_region(&region, tempfile::tempfile().unwrap()).is_err());
}

#[test]
fn all_of_a_region_is_there_once_it_is_mapped() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(1 << 20).unwrap();
    let region = Region { bus: 0, len: 1 << 20, user: 0, file_offset: 0 };
    let _mapped = map_region(&region, file.try_clone().unwrap()).unwrap();
    assert_eq!(file.metadata().unwrap().blocks() * 512, 1 << 20);
}

/// A request with a file.
fn send_file(kernel: &UnixStream, code: u32, body: &[u8], file: &File) {
    let mut bytes = [code, 1, body.len() as u32].map(u32::to_le_bytes).concat();
    bytes.extend_from_slice(body);
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(kernel, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
}

/// Shares so much of a file, at bus address 0 and for the kernel itself at `USER`.
fn share(kernel: &UnixStream, file: &File, bytes: u64) {
    let mut table = [1u32, 0].map(u32::to_le_bytes).concat();
    table.extend([0, bytes, USER, 0].map(u64::to_le_bytes).concat());
    send_file(kernel, 5, &table, file);
}

const USER: u64 = 0x7000_0000;

fn memory_file(bytes: u64, flags: MemfdFlags) -> File {
    let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC | flags).unwrap());
    file.set_len(bytes).unwrap();
    file
}

#[test]
fn more_memory_than_the_guest_was_given_is_refused_before_any_of_it_is_made_present() {
    let (mut connection, kernel) = connected();
    let file = memory_file(64 * GIVEN_BYTES, MemfdFlags::empty());
    share(&kernel, &file, 64 * GIVEN_BYTES);
    let refused = connection.serve().unwrap_err();
    let asked = VhostUserError::TooMuchMemory { shared_mb: 64, given_mb: 1 };
    assert_eq!(refused.to_string(), asked.to_string());
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    share(&kernel, &file, GIVEN_BYTES);
    connection.serve().unwrap();
}

#[test]
fn memory_beyond_the_end_of_its_file_is_refused_and_the_file_stays_as_it_is() {
    let (mut connection, kernel) = connected();
    let file = memory_file(4_096, MemfdFlags::empty());
    share(&kernel, &file, GIVEN_BYTES);
    let refused = connection.serve().unwrap_err();
    let beyond = VhostUserError::BeyondFile { end: GIVEN_BYTES, len: 4_096 };
    assert_eq!(refused.to_string(), beyond.to_string());
    assert_eq!(file.metadata().unwrap().len(), 4_096);
}

#[test]
fn memory_that_can_be_sealed_cannot_be_cut_short() {
    let (mut connection, kernel) = connected();
    let file = memory_file(GIVEN_BYTES, MemfdFlags::ALLOW_SEALING);
    share(&kernel, &file, GIVEN_BYTES);
    connection.serve().unwrap();
    assert!(file.set_len(GIVEN_BYTES - 4_096).is_err());
    connection.check_memory().unwrap();
}

/// As User Mode Linux has it by itself: a file in a file system in memory.
#[test]
fn memory_that_is_cut_short_is_an_error_at_the_next_look() {
    let (mut connection, kernel) = connected();
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(GIVEN_BYTES).unwrap();
    share(&kernel, &file, GIVEN_BYTES);
    connection.serve().unwrap();
    connection.check_memory().unwrap();
    file.set_len(2 * GIVEN_BYTES).unwrap();
    connection.check_memory().unwrap();
    file.set_len(GIVEN_BYTES - 4_096).unwrap();
    let error = connection.check_memory().unwrap_err().to_string();
    assert!(error.contains("cut the file of its memory short"), "{error}");
}

#[test]
fn a_kernel_that_asks_without_end_is_answered_a_part_at_a_time() {
    const QUESTIONS: usize = 3 * REQUESTS_PER_LOOK;
    const ANSWER_BYTES: usize = 20;
    let (mut connection, mut kernel) = connected();
    let question = [17u32, 1, 0].map(u32::to_le_bytes).concat();
    kernel.write_all(&question.repeat(QUESTIONS)).unwrap();
    kernel.set_nonblocking(true).unwrap();
    let mut answered = Vec::new();
    while answered.iter().sum::<usize>() < QUESTIONS {
        connection.serve().unwrap();
        answered.push(kernel.read(&mut [0; 8_192]).unwrap() / ANSWER_BYTES);
    }
    assert!(answered.iter().all(|&count| count <= REQUESTS_PER_LOOK), "{answered:?}");
}

/// A process that stands for the guest's, to be stopped for interrupts.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Places of a queue: descriptors, available ring, used ring.
fn places(queue: u64) -> [u64; 3] {
    [0x1000, 0x3000, 0x5000].map(|at| at + queue * 0x1000)
}

const QUEUE_SIZE: u32 = 16;
const BUFFERS: u64 = 0x8000;

/// Offers `count` buffers of a queue, each with this message in it, which the other end may write or only read.
fn offer(memory: &SharedMemory, queue: u64, count: u16, message: &[u8], flags: u16) {
    let [descriptors, available, _] = places(queue);
    for index in 0..count {
        let (at, place) = (BUFFERS + 0x100 * u64::from(index), u64::from(index));
        memory.write(at, message).unwrap();
        let descriptor =
            u128::from(at) | u128::from(message.len() as u32) << 64 | u128::from(flags) << 96;
        memory.write(descriptors + 16 * place, &descriptor.to_le_bytes()).unwrap();
        memory.write(available + 4 + 2 * place, &index.to_le_bytes()).unwrap();
    }
    memory.write(available + 2, &count.to_le_bytes()).unwrap();
}

fn set_up(kernel: &mut UnixStream, queue: u32, signals: &File) {
    let pair = |value: u32| [queue, value].map(u32::to_le_bytes).concat();
    let [descriptors, available, used] = places(queue.into()).map(|at| at + USER);
    let mut addresses = [queue, 0].map(u32::to_le_bytes).concat();
    addresses.extend([descriptors, used, available, 0].map(u64::to_le_bytes).concat());
    send(kernel, 8, 0, &pair(QUEUE_SIZE));
    send(kernel, 10, 0, &pair(0));
    send(kernel, 9, 0, &addresses);
    send_file(kernel, 12, &u64::from(queue).to_le_bytes(), signals);
    send_file(kernel, 13, &u64::from(queue).to_le_bytes(), signals);
    send(kernel, 18, 0, &pair(1));
}

/// A card whose kernel has set up both queues of virt-pci.
struct Bench {
    card: AttachedCard,
    kernel: UnixStream,
    memory: SharedMemory,
    halt: Rc<Halt>,
    _guest: Guest,
    _signals: UnixStream,
}

impl Bench {
    fn new() -> Bench {
        let guest = Guest(Command::new("sleep").arg("1000").spawn().unwrap());
        let halt = Rc::new(Halt::new(guest.0.id(), None).unwrap());
        let (connection, mut kernel) = connected();
        let mut card = AttachedCard::new(card("rtl8168")).unwrap();
        card.connect(connection);
        let file = memory_file(GIVEN_BYTES, MemfdFlags::empty());
        share(&kernel, &file, GIVEN_BYTES);
        let memory = SharedMemory::from_file(0, file, 0, GIVEN_BYTES as usize).unwrap();
        let (signals, call) = UnixStream::pair().unwrap();
        let call = File::from(OwnedFd::from(call));
        (0..2).for_each(|queue| set_up(&mut kernel, queue, &call));
        Bench { card, kernel, memory, halt, _guest: guest, _signals: signals }
    }

    /// Serves requests and accesses; how many of the latter there were.
    fn serve(&mut self) -> u64 {
        let before = self.card.counters().accesses;
        self.card.serve_connection(&self.halt, &clock()).unwrap();
        self.card.poll(&clock(), &mut Pass::idle(clock().now()));
        self.card.counters().accesses - before
    }

    /// Stops a queue; how far it is said to have come.
    fn stop(&mut self, queue: u32) -> u64 {
        send(&mut self.kernel, 11, 0, &queue.to_le_bytes());
        self.card.serve_connection(&self.halt, &clock()).unwrap();
        let answer = answer(&mut self.kernel);
        assert_eq!(answer as u32, queue);
        assert!(self.card.port().is_none(), "it is stopped");
        answer >> 32
    }
}

#[test]
fn a_queue_that_is_stopped_says_how_far_it_has_come_and_goes_on_from_there() {
    // A write to configuration space, which needs no answer.
    let write = [&[2, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0][..], &[6; 8]].concat();
    let mut bench = Bench::new();
    offer(&bench.memory, 1, 2, &[0; 20], 2);
    offer(&bench.memory, 0, 3, &write, 0);
    assert_eq!(bench.serve(), 3);
    assert_eq!([bench.stop(0), bench.stop(1)], [3, 0]);
    for queue in [0u32, 1] {
        send(&mut bench.kernel, 18, 0, &[queue, 1].map(u32::to_le_bytes).concat());
    }
    assert_eq!(bench.serve(), 0, "nothing is carried out twice");
    offer(&bench.memory, 0, 5, &write, 0);
    assert_eq!((bench.serve(), bench.stop(0)), (2, 5));
}

#[test]
fn an_interrupt_has_taken_a_buffer_of_its_queue() {
    let mut bench = Bench::new();
    offer(&bench.memory, 1, 2, &[0; 20], 2);
    bench.serve();
    bench.card.parts(&clock()).1.interrupts.signal(Interrupt::Msi(MESSAGE));
    assert_eq!(bench.stop(1), 1);
}

proptest! {
    #[test]
    fn any_conversation_ends_in_an_answer_or_an_error(
        messages in prop::collection::vec(
            (0u32..24, any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 1..20)
    ) {
        let (mut connection, mut kernel) = connected();
        for (code, ack, body) in messages {
            send(&mut kernel, code, if ack { 8 } else { 0 }, &body);
            if connection.serve().is_err() {
                break;
            }
            let halt = Rc::new(Halt::new(std::process::id(), None).unwrap());
            prop_assert!(!matches!(connection.port(&halt, &clock()), Ok(Some(_))), "no memory was shared");
        }
    }
}
