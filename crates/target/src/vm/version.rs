//! What client and server agree on (QEMU documentation, `docs/interop/vfio-user.rst`, "VFIO_USER_VERSION").
//!
//! The reply names a part of the capabilities that the client has named, so it is never longer than the request: QEMU
//! refuses one that is. A twin socket, writes that are sent together and migration are not offered.

use rustix::io::Errno;
use serde_json::{Map, Value};

use super::protocol::MOST_DATA_BYTES;

const MAJOR: u16 = 0;
const MINOR: u16 = 0;

/// Descriptors in one message: as many as QEMU takes for an answer (`VFIO_USER_MAX_MAX_FDS`).
pub(super) const MOST_FILES: usize = 16;
/// Windows that may be mapped at a time. Each holds a descriptor of ours.
pub(super) const MOST_WINDOWS: usize = 256;
/// Sizes of pages in which windows are mapped, or'ed together.
pub(super) const PAGE_BYTES: u64 = 4_096;

/// What has been agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// The most data that the client takes in one message, in bytes.
    pub(super) most_data_bytes: usize,
}

/// Answers a proposal: what is agreed on, and the body of the reply.
pub(super) fn agree(major: u16, text: &[u8]) -> Result<(Agreed, Vec<u8>), Errno> {
    if major != MAJOR {
        return Err(Errno::OPNOTSUPP);
    }
    let proposed = capabilities(text)?;
    let most_data_bytes = match proposed.get("max_data_xfer_size") {
        None => MOST_DATA_BYTES,
        Some(value) => match value.as_u64() {
            None | Some(0) => return Err(Errno::INVAL),
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX).min(MOST_DATA_BYTES),
        },
    };
    let ours = [
        ("max_msg_fds", MOST_FILES as u64),
        ("max_data_xfer_size", MOST_DATA_BYTES as u64),
        ("pgsizes", PAGE_BYTES),
        ("max_dma_maps", MOST_WINDOWS as u64),
    ];
    let named = ours.into_iter().filter(|(name, _)| proposed.contains_key(*name));
    let offered: Map<String, Value> =
        named.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let reply = Map::from_iter([("capabilities".to_owned(), Value::Object(offered))]);
    // The lower of the two minor numbers, and no number is lower than ours.
    let mut body = [MAJOR, MINOR].map(u16::to_le_bytes).concat();
    body.extend(Value::Object(reply).to_string().bytes());
    body.push(0);
    Ok((Agreed { most_data_bytes }, body))
}

/// The capabilities that a client has named. It may leave out the text, and the object in it.
fn capabilities(text: &[u8]) -> Result<Map<String, Value>, Errno> {
    let Some((0, text)) = text.split_last() else {
        return if text.is_empty() { Ok(Map::new()) } else { Err(Errno::INVAL) };
    };
    let parsed: Map<String, Value> = serde_json::from_slice(text).map_err(|_| Errno::INVAL)?;
    match parsed.get("capabilities") {
        None => Ok(Map::new()),
        Some(Value::Object(named)) => Ok(named.clone()),
        Some(_) => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As QEMU proposes it (`hw/vfio-user/proxy.c`, `caps_json`).
    const QEMU: &str = r#"{"capabilities": {"migration": {"pgsize": 4096, "max_bitmap_size": 268435456},
        "max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535,
        "write_multiple": true}}"#;

    fn text(text: &str) -> Vec<u8> {
        [text.as_bytes(), &[0]].concat()
    }

    #[test]
    fn the_reply_is_a_part_of_what_was_proposed_and_no_longer() {
        let (agreed, reply) = agree(0, &text(QEMU)).unwrap();
        assert_eq!(agreed.most_data_bytes, 1 << 20);
        assert!(reply.len() < 4 + text(QEMU).len());
        assert_eq!((&reply[..4], reply.last()), (&[0; 4][..], Some(&0)));
        let json: Value = serde_json::from_slice(&reply[4..reply.len() - 1]).unwrap();
        let offered = json["capabilities"].as_object().unwrap();
        let expected = ["max_msg_fds", "max_data_xfer_size", "pgsizes", "max_dma_maps"];
        assert_eq!(offered.keys().collect::<Vec<_>>(), expected);
        assert_eq!(offered["max_dma_maps"], MOST_WINDOWS);
        let (_, reply) = agree(0, &text(r#"{"capabilities":{"pgsizes":4096}}"#)).unwrap();
        assert_eq!(reply[4..], text(r#"{"capabilities":{"pgsizes":4096}}"#));
    }

    #[test]
    fn a_client_may_be_silent_and_may_take_less() {
        for silent in [&[][..], b"{}\0"] {
            let (agreed, reply) = agree(0, silent).unwrap();
            assert_eq!(agreed.most_data_bytes, MOST_DATA_BYTES);
            assert_eq!(&reply[4..], b"{\"capabilities\":{}}\0");
        }
        let of = |number: &str| {
            let json = format!(r#"{{"capabilities":{{"max_data_xfer_size":{number}}}}}"#);
            agree(0, &text(&json)).map(|(agreed, _)| agreed.most_data_bytes)
        };
        assert_eq!(of("512"), Ok(512));
        assert_eq!(of("18446744073709551615"), Ok(MOST_DATA_BYTES));
        for number in ["0", "-1", "0.5", "true", "{}"] {
            assert_eq!(of(number), Err(Errno::INVAL), "{number}");
        }
    }

    #[test]
    fn what_is_no_proposal_is_refused() {
        assert_eq!(agree(1, &[]).unwrap_err(), Errno::OPNOTSUPP);
        for wrong in [&b"{}"[..], b"\0", b"[]\0", b"{\0", b"{\"capabilities\":1}\0", b"\xff\0"] {
            assert_eq!(agree(0, wrong).unwrap_err(), Errno::INVAL, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = agree(0, &text);
        }
    }
}
