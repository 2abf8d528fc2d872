//! Frames that are sent as a virtual machine's come to its host's driver: with checksums and segments that the card
//! has to make, by IPv4 and IPv6, with tags.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_inject::{Addresses, Unfinished};
use warikomi_protocol::commands::{OpenChecksum, RawFrame, Segments, TransmitFrames, VlanAdd};

use super::scene::Scene;
use crate::error::Error;

/// The VLAN whose tag the card puts into frames.
pub(super) const VLAN: u16 = 5;

/// Its address in the guest, to which nothing is sent.
const VLAN_CIDR: &str = "10.9.5.1/24";

/// Payload of a frame, and of one that is to be cut, in bytes.
const PAYLOAD_BYTES: usize = 100;
const CUT_BYTES: usize = 3_000;

/// Payload of a segment, in bytes.
const SEGMENT_BYTES: u16 = 1_400;

/// More than the rings of Linux's drivers have room for.
const CROWD: u16 = 300;

/// What the card is to do.
const OFFLOADS: [&str; 5] = ["sg", "tx", "tso", "tx-tcp6-segmentation", "txvlan"];

/// Lets the driver hand to the card all that it can, and makes the VLAN unless there is one.
pub(super) fn prepare(scene: &mut Scene) -> Result<(), Error> {
    scene.offload(&OFFLOADS, true)?;
    if !std::mem::replace(&mut scene.has_vlan, true) {
        let address_cidr = VLAN_CIDR.to_owned();
        let add = VlanAdd { interface: None, vlan: VLAN, address_cidr, header_with_tag: false };
        scene.session.target.ask(add, Duration::ZERO)?;
    }
    Ok(())
}

/// Sends one of each.
pub(super) fn send(scene: &mut Scene) -> Result<(), Error> {
    let plain = Unfinished { payload_bytes: PAYLOAD_BYTES, ..Unfinished::default() };
    let cut = Unfinished { payload_bytes: CUT_BYTES, tcp: true, ..Unfinished::default() };
    let addresses = *scene.addresses();
    let frame = |wanted: Unfinished| raw(&addresses, wanted);
    let finished = RawFrame { checksum: None, ..frame(Unfinished { payload_bytes: 0, ..plain })? };
    let frames = vec![
        frame(plain)?,
        frame(Unfinished { ipv6: true, ..plain })?,
        frame(Unfinished { ipv6: true, tcp: true, ..plain })?,
        // The tag is the frame's own.
        frame(Unfinished { vlan: Some(VLAN), ..plain })?,
        frame(cut)?,
        frame(Unfinished { ipv6: true, ..cut })?,
        // Shorter than Ethernet allows: the driver has to pad it.
        finished,
    ];
    let tagged = vec![frame(plain)?];
    hand_over(scene, None, frames)?;
    hand_over(scene, Some(VLAN), tagged)?;
    // Segments that the kernel makes come one behind the other, with the word that more is to come.
    let cut = frame(cut)?;
    scene.offload(&["tso"], false)?;
    hand_over(scene, None, vec![cut])
}

fn hand_over(scene: &mut Scene, vlan: Option<u16>, frames: Vec<RawFrame>) -> Result<(), Error> {
    let request = TransmitFrames { interface: None, vlan, frames, crowd: None };
    scene.session.target.ask(request, Duration::ZERO)?;
    Ok(())
}

/// Sends more than the driver's ring has room for, while the partner pauses the card, and for this time behind it.
pub(super) fn crowd(scene: &mut Scene, paused: Span) -> Result<(), Error> {
    let plain = Unfinished { payload_bytes: PAYLOAD_BYTES, ..Unfinished::default() };
    let frames = vec![raw(scene.addresses(), plain)?];
    let request = TransmitFrames { interface: None, vlan: None, frames, crowd: Some(CROWD) };
    scene.pause(true)?;
    let sent = scene.session.target.ask(request, Duration::ZERO);
    let waited = scene.serve_until(paused, |_| paused == Span::ZERO);
    scene.pause(false)?;
    sent?;
    waited?;
    Ok(())
}

fn raw(addresses: &Addresses, wanted: Unfinished) -> Result<RawFrame, Error> {
    let head = wanted.head(addresses)?;
    let number = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    let is_cut = wanted.payload_bytes > usize::from(SEGMENT_BYTES);
    Ok(RawFrame {
        head: head.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        zeros: u32::from(number(wanted.payload_bytes)),
        checksum: Some(OpenChecksum { from: number(head.transport), field: number(head.field) }),
        segments: is_cut.then(|| Segments {
            version: if wanted.ipv6 { 6 } else { 4 },
            headers_bytes: number(head.bytes.len()),
            bytes: SEGMENT_BYTES,
        }),
    })
}
