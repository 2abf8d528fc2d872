use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use warikomi_testbench::VfioClient;

use super::*;
use crate::Interrupted;
use crate::vm::testing::{BYTES, Shared, memory_file};

fn memory() -> (ClientMemory, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ClientMemory::new(Channel::new(ours, Interrupted::default()).unwrap()), theirs)
}

fn map(address: u64, bytes: u64, offset: u64) -> DmaMap {
    DmaMap { readable: true, writable: true, offset, address, bytes }
}

const OUTSIDE: DmaError = DmaError::NotShared { address: 0x1000, len: 4 };

#[test]
fn a_file_that_is_cut_short_fails_a_transfer_and_does_not_end_us() {
    for shared in [Shared::Sealable, Shared::Unsealable] {
        let (mut memory, _theirs) = memory();
        let file = memory_file(shared);
        memory.map(&map(0x1000, 0x4000, 0x2000), vec![file.try_clone().unwrap()]).unwrap();
        memory.write(0x1000, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.load_u32(0x1000), Ok(0x0403_0201));
        assert_eq!(memory.load_descriptor(0x1000).unwrap().words()[0], 0x0403_0201);
        let mut seen = [0; 4];
        file.read_exact_at(&mut seen, 0x2000).unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);
        let cut = file.set_len(0);
        assert_eq!(cut.is_err(), shared == Shared::Sealable, "{cut:?}");
        if cut.is_ok() {
            assert_eq!(memory.load_u32(0x1000), Err(OUTSIDE));
            assert_eq!(memory.store_u32(0x1000, 7), Err(OUTSIDE));
            assert_eq!(file.metadata().unwrap().len(), 0, "it is not made longer again");
        }
    }
}

#[test]
fn what_may_only_be_read_is_not_written_and_the_other_way_round() {
    for (readable, writable) in [(true, false), (false, true), (false, false)] {
        for shared in [Shared::Sealable, Shared::Unsealable] {
            let (mut memory, _theirs) = memory();
            let window = DmaMap { readable, writable, ..map(0x1000, 0x1000, 0) };
            memory.map(&window, vec![memory_file(shared)]).unwrap();
            let mut bytes = [0; 4];
            assert_eq!(memory.read(0x1000, &mut bytes).is_ok(), readable);
            assert_eq!(memory.load_u32(0x1000).is_ok(), readable);
            assert_eq!(memory.load_descriptor(0x1000).is_ok(), readable);
            assert_eq!(memory.write(0x1000, &bytes).is_ok(), writable);
            assert_eq!(memory.write_pieces(0x1000, &Pieces::whole(&bytes)).is_ok(), writable);
            assert_eq!(memory.store_u32(0x1000, 0).is_ok(), writable);
            assert_eq!(memory.store_descriptor(0x1000, Descriptor::new([0; 4])).is_ok(), writable);
            memory.expect_writes(&[0x1000], 64);
        }
    }
}

#[test]
fn files_that_are_not_in_memory_are_refused() {
    let mut files = vec![File::open("/dev/zero").unwrap(), File::open("/").unwrap()];
    files
        .push(File::from(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()));
    let on_disk = File::open("/proc/self/exe").unwrap();
    files.push(on_disk);
    for file in files {
        let (mut memory, _theirs) = memory();
        let refused = memory.map(&map(0, 0x1000, 0), vec![file]).unwrap_err();
        assert!([Errno::INVAL, Errno::BADF].contains(&refused.0));
    }
}

#[test]
fn a_descriptor_that_only_reads_is_read_whatever_the_window_says() {
    let own = memory_file(Shared::Sealable);
    let path = format!("/proc/self/fd/{}", own.as_raw_fd());
    for writable in [true, false] {
        let (mut memory, _theirs) = memory();
        let window = DmaMap { writable, ..map(0, 0x1000, 0) };
        memory.map(&window, vec![File::open(&path).unwrap()]).unwrap();
        assert!(memory.load_u32(0).is_ok() && memory.store_u32(0, 1).is_err());
    }
}

#[test]
fn what_was_unmapped_is_outside() {
    let (mut memory, _theirs) = memory();
    for address in [0x1000, 0x3000, 0x2000] {
        memory.map(&map(address, 0x1000, 0), vec![memory_file(Shared::Sealable)]).unwrap();
    }
    assert_eq!(memory.load_u32(0x1000), Ok(0));
    memory.unmap(0x1000, 0x1000).unwrap();
    assert_eq!(memory.load_u32(0x1000), Err(OUTSIDE));
    assert_eq!((memory.load_u32(0x3000), memory.windows()), (Ok(0), 2));
    memory.unmap_all();
    assert!(memory.load_u32(0x3000).is_err());
}

/// As QEMU answers: data 12 bytes behind the header, as many bytes in all as the specification has; and nothing at all.
#[test]
fn answers_that_have_their_data_elsewhere_are_not_taken_for_data() {
    let head = [0x1000u64.to_le_bytes().as_slice(), &4u32.to_le_bytes()].concat();
    let read = [head, vec![0xaa, 0xbb, 0xcc, 0xdd], vec![0; 4]].concat();
    for (command, body) in [(command::DMA_READ, read), (command::DMA_WRITE, Vec::new())] {
        let (mut memory, mut theirs) = memory();
        memory.map(&map(0x1000, 0x1000, 0), Vec::new()).unwrap();
        theirs.write_all(&VfioClient::message(0, command, 1, 0, &body)).unwrap();
        let mut bytes = [0; 4];
        let done = match command {
            command::DMA_READ => memory.read(0x1000, &mut bytes),
            _ => memory.write(0x1000, &bytes),
        };
        assert_eq!((done, bytes), (Err(OUTSIDE), [0; 4]));
        let end = memory.channel().next_command(std::time::Instant::now());
        assert!(matches!(end, Err(ClientError::WrongData { .. })), "{end:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A transfer over windows of several kinds is what one over plain memory is.
    #[test]
    fn windows_together_are_one_memory(
        transfers in prop::collection::vec((0u64..0x6000, 0usize..0x2800, any::<u8>()), 1..12),
    ) {
        let (mut memory, _theirs) = memory();
        let files = [memory_file(Shared::Sealable), memory_file(Shared::Unsealable)];
        // The fourth page is missing.
        for (page, file) in [(0, 0), (1, 1), (2, 0), (4, 1)] {
            let window = map(0x1000 + 0x1000 * page, 0x1000, 0x1000 * page);
            memory.map(&window, vec![files[file].try_clone().unwrap()]).unwrap();
        }
        let mut model = vec![0u8; 0x6000];
        let is_there = |at: u64| (0x1000..0x4000).contains(&at) || (0x5000..0x6000).contains(&at);
        for (address, len, value) in transfers {
            let whole = (address..address + len as u64).all(is_there);
            let data: Vec<u8> = (0..len).map(|at| value.wrapping_add(at as u8)).collect();
            prop_assert_eq!(memory.write(address, &data).is_ok(), whole);
            for (at, byte) in (address..).zip(&data).take_while(|(at, _)| is_there(*at)) {
                model[at as usize] = *byte;
            }
            let mut seen = vec![0; len];
            prop_assert_eq!(memory.read(address, &mut seen).is_ok(), whole);
            prop_assert!(!whole || seen == model[address as usize..][..len]);
            prop_assert_eq!(memory.load_u32(address & !3).is_ok(), is_there(address & !3));
        }
        prop_assert!(BYTES > 0x6000);
    }
}
