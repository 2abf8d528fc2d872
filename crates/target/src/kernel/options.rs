//! What a kernel target is started with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_pci::attach::bridge;

use crate::TargetError;

/// What a kernel target is started with.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The kernel, an executable built with `ARCH=um`.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initramfs: PathBuf,
    /// The guest's memory in MB.
    pub memory_mb: u64,
    /// The core that the kernel runs on; anywhere if `None`.
    pub core: Option<usize>,
    /// The socket on which the kernel finds the NIC; a private one if `None`.
    pub socket: Option<PathBuf>,
    /// More for the kernel's command line.
    pub extra_arguments: Vec<String>,
    /// How cards are attached.
    pub attachment: Attachment,
    /// Yield instead of spin while waiting: for both sides on one core.
    pub shared_core: bool,
    /// A shared library to be loaded before the kernel's C library (`warikomi_kernel::PRELOAD`).
    pub preload: &'static [u8],
    /// Where the randomness starts from for which that library answers; else the system answers.
    pub seed: Option<u64>,
    /// Files and directories that its processes may read, besides those that every kernel needs.
    pub reads: Vec<PathBuf>,
    /// Whether its processes are confined.
    pub confined: bool,
}

/// What work of a guest takes in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "InFile", into = "InFile")]
pub struct GuestCosts {
    /// An access to a register or to configuration space.
    pub access: Span,
    /// An interrupt, until its handler makes its first access.
    pub interrupt: Span,
    /// A frame that the driver has taken from its ring, or a transmit descriptor that the card has carried out, with
    /// all that is done with it. Charged at the driver's next access.
    pub frame: Span,
    /// A byte that a card copies from or to the guest's memory, with all that is done with it. Charged at the driver's
    /// next access.
    pub byte: Span,
}

impl GuestCosts {
    /// The same on a processor that is this many times as fast; the bus is as it was.
    pub fn with_speed(self, speed: f64) -> GuestCosts {
        let faster = |span: Span| Span::from_ps((span.as_ps() as f64 / speed).round() as u64);
        GuestCosts {
            access: self.access,
            interrupt: faster(self.interrupt),
            frame: faster(self.frame),
            byte: faster(self.byte),
        }
    }
}

/// How a file of costs has them.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InFile {
    access_ns: u64,
    interrupt_ns: u64,
    frame_ns: u64,
    ps_per_byte: u64,
}

/// Nothing that a guest does once takes longer.
const MOST: Span = Span::from_ms(1_000);

impl TryFrom<InFile> for GuestCosts {
    type Error = String;

    fn try_from(file: InFile) -> Result<GuestCosts, String> {
        let InFile { access_ns, interrupt_ns, frame_ns, ps_per_byte } = file;
        let most = |name, given, span: Span| {
            let why = || format!("{name} = {given} is more than {MOST}; give what it takes once");
            (span <= MOST).then_some(span).ok_or_else(why)
        };
        Ok(GuestCosts {
            access: most("access_ns", access_ns, Span::from_ns(access_ns))?,
            interrupt: most("interrupt_ns", interrupt_ns, Span::from_ns(interrupt_ns))?,
            frame: most("frame_ns", frame_ns, Span::from_ns(frame_ns))?,
            byte: most("ps_per_byte", ps_per_byte, Span::from_ps(ps_per_byte))?,
        })
    }
}

impl From<GuestCosts> for InFile {
    fn from(costs: GuestCosts) -> InFile {
        let ns = |span: Span| span.as_ps() / 1_000;
        InFile {
            access_ns: ns(costs.access),
            interrupt_ns: ns(costs.interrupt),
            frame_ns: ns(costs.frame),
            ps_per_byte: costs.byte.as_ps(),
        }
    }
}

/// How cards are attached to a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Through the kernel's own virt-pci, which takes one card.
    #[default]
    VirtPci,
    /// Through our bridge, a module that the initramfs holds.
    Bridge {
        /// The guest polls for interrupts while it has nothing else to do.
        polling: bool,
    },
    /// Through our bridge, in virtual time: what the guest does takes what is declared here, and no more.
    InStep(GuestCosts),
}

impl Attachment {
    /// An error unless this number of cards can be attached to one kernel.
    pub(super) fn check_room(self, cards: usize) -> Result<(), TargetError> {
        let most = match self {
            Attachment::VirtPci => 1,
            Attachment::Bridge { .. } | Attachment::InStep(_) => bridge::CARDS,
        };
        if (1..=most).contains(&cards) { Ok(()) } else { Err(TargetError::NoRoom { cards }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time of a century came back from its file as another: it saturates, and is no nanosecond's multiple.
    #[test]
    fn what_takes_longer_than_anything_is_refused_with_its_name() {
        let read = |name: &str, value: u64| {
            serde_json::from_str::<GuestCosts>(&format!("{{\"{name}\": {value}}}"))
        };
        for name in ["access_ns", "interrupt_ns", "frame_ns", "ps_per_byte"] {
            assert!(read(name, 1_000_000_000).is_ok());
            let error = read(name, u64::MAX).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("more than 1 s"), "{error}");
        }
        assert!(read("frame_ns", 1_000_000_001).is_err());
    }

    #[test]
    fn a_file_has_costs_in_whole_units_and_a_faster_processor_has_the_same_bus() {
        let text =
            r#"{"access_ns": 500, "interrupt_ns": 400, "frame_ns": 600, "ps_per_byte": 150}"#;
        let costs: GuestCosts = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::from_str::<GuestCosts>(&serde_json::to_string(&costs).unwrap()).unwrap(),
            costs
        );
        let faster = costs.with_speed(2.0);
        assert_eq!((faster.access, faster.frame), (Span::from_ns(500), Span::from_ns(300)));
        assert_eq!((faster.interrupt, faster.byte), (Span::from_ns(200), Span::from_ps(75)));
        assert!(serde_json::from_str::<GuestCosts>(r#"{"acess_ns": 1}"#).is_err());
    }

    #[test]
    fn several_cards_need_the_bridge_and_it_has_room_for_four() {
        let bridge = Attachment::Bridge { polling: true };
        assert!((1..=4).all(|cards| bridge.check_room(cards).is_ok()));
        assert!(Attachment::VirtPci.check_room(1).is_ok());
        for (attachment, cards) in [(bridge, 0), (bridge, 5), (Attachment::VirtPci, 2)] {
            let error = attachment.check_room(cards).unwrap_err().to_string();
            assert!(error.contains("virt-pci takes one, our PCI bridge up to 4"), "{error}");
        }
    }
}
