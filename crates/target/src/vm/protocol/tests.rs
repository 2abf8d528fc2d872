use super::*;
use proptest::prelude::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn an_error_is_a_reply_without_a_body() {
    let asked = Header::command(7, command::REGION_READ, 16);
    let failed = asked.error_reply(Errno::INVAL);
    assert!(failed.is_reply() && !asked.is_reply());
    assert_eq!((failed.failure(), failed.bytes as usize), (Some(22), HEADER_BYTES));
    assert_eq!((failed.id, failed.command), (7, command::REGION_READ));
    assert_eq!(asked.reply(4).failure(), None);
}

#[test]
fn a_header_promises_neither_too_little_nor_too_much() {
    let of = |bytes: u32, flags: u32| {
        let words = words(&[1 | u32::from(command::DMA_MAP) << 16, bytes, flags, 0]);
        Header::decode(words.first_chunk().unwrap())
    };
    assert_eq!(of(15, 0), Err(BadHeader::TooShort(15)));
    assert_eq!(of(u32::MAX, 0), Err(BadHeader::TooLong(u32::MAX)));
    let most = MOST_MESSAGE_BYTES as u32;
    assert_eq!(of(most + 1, 0), Err(BadHeader::TooLong(most + 1)));
    assert_eq!(of(most, 2), Err(BadHeader::Type(2)));
    let header = of(most, 0x10).unwrap();
    assert!(header.wants_no_reply() && header.command == command::DMA_MAP);
}

#[test]
fn requests_are_what_the_specification_says() {
    let map = [words(&[32, 3]), [0x1000u64, 0x8000, 0x2000].map(u64::to_le_bytes).concat()];
    let expected =
        DmaMap { readable: true, writable: true, offset: 0x1000, address: 0x8000, bytes: 0x2000 };
    let map = map.concat();
    assert_eq!(Request::decode(command::DMA_MAP, &map), Ok(Request::DmaMap(expected)));
    assert_eq!(Request::decode(command::DMA_MAP, &map[..31]), Err(Errno::INVAL));
    let unmap = |flags, address: u64, bytes: u64| {
        let body = [words(&[24, flags]), [address, bytes].map(u64::to_le_bytes).concat()].concat();
        match Request::decode(command::DMA_UNMAP, &body) {
            Ok(Request::DmaUnmap { address, bytes }) => Ok(Some((address, bytes))),
            Ok(Request::DmaUnmapAll) => Ok(None),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(unmap(0, 1, 2), Ok(Some((1, 2))));
    assert_eq!(unmap(2, 0, 0), Ok(None));
    assert_eq!((unmap(2, 1, 0), unmap(1, 0, 0)), (Err(Errno::INVAL), Err(Errno::OPNOTSUPP)));
    let irqs = [words(&[22, 1 << 5 | 2, irq::MSIX, 1, 2]), vec![0, 1]].concat();
    let Ok(Request::SetIrqs(set)) = Request::decode(command::DEVICE_SET_IRQS, &irqs) else {
        panic!()
    };
    assert_eq!((set.action, set.data), (Action::Trigger, IrqData::Bool(&[0, 1])));
    assert_eq!((set.index, set.start, set.count), (irq::MSIX, 1, 2));
    assert_eq!(Request::decode(99, &[]), Err(Errno::OPNOTSUPP));
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let access = |bytes: u32, data: usize| {
        let body = [words(&[0, 0, 0, bytes]), vec![0; data]].concat();
        Request::decode(command::REGION_WRITE, &body).is_ok()
    };
    assert!(access(4, 4) && !access(4, 3) && !access(4, 5) && !access(0, 0));
    assert!(!access(u32::MAX, 4));
    let read =
        |bytes: u32| Request::decode(command::REGION_READ, &words(&[0, 0, 0, bytes])).is_ok();
    assert!(read(MOST_DATA_BYTES as u32) && !read(MOST_DATA_BYTES as u32 + 1));
    for (code, least) in [
        (command::DEVICE_GET_INFO, 16),
        (command::DEVICE_GET_REGION_INFO, 32),
        (command::DEVICE_GET_IRQ_INFO, 16),
    ] {
        let decoded = |room| Request::decode(code, &words(&[room, 0, 0, 0])).is_ok();
        assert!(decoded(least) && !decoded(least - 1), "{code}");
    }
    let bools = words(&[20, 1 << 5 | 2, 0, 0, u32::MAX]);
    assert_eq!(Request::decode(command::DEVICE_SET_IRQS, &bools), Err(Errno::INVAL));
    for flags in [0, 1, 1 << 3, 3 << 3 | 1, 1 << 5 | 3, 1 << 6 | 1] {
        let body = words(&[20, flags, 0, 0, 1]);
        assert_eq!(Request::decode(command::DEVICE_SET_IRQS, &body), Err(Errno::INVAL), "{flags}");
    }
}

#[test]
fn data_is_taken_only_from_the_reply_that_was_asked_for() {
    let reply = [dma_access(0x1000, 4).as_slice(), &[1, 2, 3, 4]].concat();
    assert_eq!(dma_data(&reply, 0x1000, 4), Some(&[1, 2, 3, 4][..]));
    for (address, bytes, cut) in [(0x1004, 4, 0), (0x1000, 3, 0), (0x1000, 4, 1), (0x1000, 4, 10)] {
        assert_eq!(dma_data(&reply[..reply.len() - cut], address, bytes), None);
    }
}

#[test]
fn a_write_is_done_when_its_own_reply_says_so() {
    let reply = dma_access(0x1000, 4);
    assert!(dma_done(&reply, 0x1000, 4) && dma_done(&reply[..12], 0x1000, 4));
    for (cut, address, bytes) in [(0, 0x1000, 4), (8, 0x1000, 4), (16, 0x1004, 4), (12, 0x1000, 5)]
    {
        assert!(!dma_done(&reply[..cut], address, bytes), "{cut}");
    }
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written(id: u16, command: u16, flags in 0u32..2, error: u32) {
        let header = Header { id, command, bytes: 16, flags, error };
        prop_assert_eq!(Header::decode(&header.to_bytes()), Ok(header));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(
        code in 0u16..20,
        body in prop::collection::vec(any::<u8>(), 0..100),
        small in any::<[u8; 4]>(),
    ) {
        let _ = Request::decode(code, &body);
        // Fields that are small are more often right.
        let body: Vec<u8> = body.iter().enumerate().map(|(at, byte)| {
            if at % 4 == 0 { small[at / 4 % 4] & 0x3f | byte & 1 } else { 0 }
        }).collect();
        if let Ok(Request::RegionRead { bytes, .. }) = Request::decode(code, &body) {
            prop_assert!((1..=MOST_DATA_BYTES).contains(&bytes));
        }
    }
}
