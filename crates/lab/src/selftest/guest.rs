//! A guest with two cards that are cabled to each other, in which programs of this machine run.

use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_measure::TimeBase;
use warikomi_nic::{Link, MakeNic, NicOptions, Offer};
use warikomi_protocol::answers::ProgramEnd;
use warikomi_protocol::commands::{MountRoot, ProgramOutput, ProgramStart};
use warikomi_session::{Session, SessionError, SessionOptions};
use warikomi_target::{CardId, TargetError};
use warikomi_wire::{Cable, Loopback, Wire};

use super::host::{PATH, TESTS};
use super::ktap::{Case, Said, unsaid};
use super::programs::{Program, Scene};
use crate::error::Error;
use crate::watch::Watch;

/// Bits that a cable between cards of 1000BASE-T carries in a second, and one between others.
const GIGABIT: u64 = 1_000_000_000;
const FAST_ETHERNET: u64 = 100_000_000;

/// How long a card goes on with its link when the other end sends something else: as the master of a 1000BASE-T link does
/// (IEEE 802.3, 40.4.5.2, maxwait_timer). Programs that set one end after the other count on it.
const LINK_LOSS: Span = Span::from_ms(750);

/// How long setting the cards up may take.
const SETUP: Duration = Duration::from_secs(60);

/// How long the agent waits for output before it answers: so often the ends of the cable are looked at, twice in the time
/// of a negotiation (`crates/nic/src/phy.rs`).
const WAIT: Duration = Duration::from_millis(10);

/// How much later than its limit a program that is killed has ended.
const LATER: Duration = Duration::from_secs(30);

/// Bytes of a program's output that are kept.
const OUTPUT_BYTES: u64 = 1 << 20;

/// What the two ends are called, their addresses, and those of what a test puts behind the first (RFC 5737, RFC 3849).
const ENVIRONMENT: [(&str, &str); 8] = [
    ("NETIF", "eth0"),
    ("LOCAL_V4", "192.0.2.1"),
    ("LOCAL_V6", "2001:db8::1"),
    ("LOCAL_PREFIX_V6", "2001:db8:2::/64"),
    ("REMOTE_V4", "192.0.2.2"),
    ("REMOTE_V6", "2001:db8::2"),
    ("REMOTE_TYPE", "netns"),
    ("REMOTE_ARGS", "peer"),
];

/// A third card, to which no cable goes, for the tests that want one.
const NO_CABLE: [(&str, &str); 1] = [("NETIF_NO_CABLE", "eth2")];

/// Cards of one model have one address until they are given others.
const ADDRESSES: &str = "ip link set dev lo up
ip link set dev eth1 address 02:57:4b:00:00:12
";

/// The second card becomes another host, and each can reach the other.
const ENDPOINTS: &str = "ip netns add peer
ip link set dev eth1 netns peer
ip -n peer link set dev lo up
ip addr add 192.0.2.1/24 dev eth0
ip -6 addr add 2001:db8::1/64 dev eth0 nodad
ip -n peer addr add 192.0.2.2/24 dev eth1
ip -n peer -6 addr add 2001:db8::2/64 dev eth1 nodad
ip link set dev eth0 up
ip -n peer link set dev eth1 up
ip -n peer -6 route add 2001:db8:2::/64 via 2001:db8::1
for turn in $(seq 50); do ping -q -c 1 -W 0.2 192.0.2.2 >/dev/null && break; done
ping -q -c 1 -W 1 192.0.2.2
ping -q -c 1 -W 1 2001:db8::2
";

/// Such a guest.
pub(super) struct Guest {
    session: Session,
    scene: Scene,
    /// What the first two cards hear from the other end of their cable.
    ends: [End; 2],
}

/// An end of the cable, as its card sees it.
#[derive(Clone, Copy, Default)]
struct End {
    /// What its card sends.
    sends: Option<Link>,
    /// What the other end sends, since when, and what of it the card has been told.
    sent: Option<(Link, Time)>,
    told: Option<Link>,
}

impl End {
    /// What the card is to be told now, if anything. One that begins anew hears what is there.
    fn news(&mut self, [sends, sent]: [Link; 2], now: Time) -> Option<Link> {
        let begins = self.sends.replace(sends) != Some(sends);
        let since = match self.sent {
            Some((link, since)) if link == sent => since,
            _ => now,
        };
        self.sent = Some((sent, since));
        let known = self.told == Some(sent);
        let lasts = !begins && now < since + LINK_LOSS;
        (!known && !lasts).then(|| *self.told.insert(sent))
    }
}

/// What the cable carries: what its cards can send. More would fill rings faster than any network of theirs, in a guest
/// that has one processor for both ends.
fn bits_per_second(make: MakeNic, options: &NicOptions) -> Result<u64, SessionError> {
    let card = make(options, Box::<Loopback>::default())?;
    let gigabit =
        matches!(card.offered_link(), Link::Phy(offer) if offer.bits() & Offer::GIGABIT != 0);
    Ok(if gigabit { GIGABIT } else { FAST_ETHERNET })
}

/// What a program said, and how it ended.
pub(super) struct Ran {
    pub(super) cases: Vec<Case>,
    pub(super) seconds: f64,
}

impl Guest {
    /// One with the cards that a test wants.
    pub(super) fn start(
        options: &SessionOptions,
        root: &MountRoot,
        scene: Scene,
        watch: &mut Watch,
    ) -> Result<Guest, Error> {
        let rate = bits_per_second(options.make_nic, &options.nic)?;
        let [first, second] = Cable::with(Some(rate), Cable::DEFAULT_CAPACITY);
        let mut ends = vec![first, second];
        if scene == Scene::Interfaces {
            ends.extend(Cable::pair().into_iter().next());
        }
        let wires = ends.into_iter().map(|end| Box::new(end) as Box<dyn Wire>).collect();
        let interrupted = watch.interrupted.clone();
        let started =
            Session::start_cards(options, wires, &interrupted, &mut |what| watch.waiting(what));
        let mut session = started?;
        watch.saw_target(&session.info, TimeBase::Real);
        session.target.ask(root.clone(), SETUP)?;
        if scene == Scene::Interfaces {
            let (nic, mut host) = session.target.card(CardId(2))?;
            nic.set_link(&mut host, Link::Down);
        }
        Ok(Guest { session, scene, ends: [End::default(); 2] })
    }

    /// Tells each card what the PHY at the other end of its cable sends, as that cable would.
    fn negotiate(&mut self) -> Result<(), TargetError> {
        let target = &mut self.session.target;
        let now = target.clock().now();
        let mut sends = |card| Ok::<_, TargetError>(target.card(CardId(card))?.0.offered_link());
        let [first, second] = [sends(0)?, sends(1)?];
        let seen = [[first, second], [second, first]];
        for ((card, end), seen) in (0..).zip(&mut self.ends).zip(seen) {
            if let Some(link) = end.news(seen, now) {
                let (nic, mut host) = target.card(CardId(card))?;
                nic.set_link(&mut host, link);
            }
        }
        Ok(())
    }

    /// Lays the cards out for a test and runs it.
    pub(super) fn test(
        &mut self,
        program: &Program,
        limit: Duration,
        watch: &mut Watch,
    ) -> Result<Ran, Error> {
        if let Some(failed) = self.set_up()? {
            return Ok(Ran { cases: vec![failed], seconds: 0.0 });
        }
        let (directory, name) = program.place();
        let mut words = program.interpreter.clone();
        words.push(format!("./{name}"));
        if self.scene == Scene::Interfaces {
            words.extend(["eth0", "eth1"].map(str::to_owned));
        }
        let directory = format!("{TESTS}/{directory}");
        let mut said = Said::default();
        let environment = match self.scene {
            Scene::Endpoints => &ENVIRONMENT[..],
            Scene::Interfaces => &NO_CABLE[..],
            Scene::Alone => &[],
        };
        let end = self.run((words, directory), environment, limit, |text| {
            let count = said.push(text);
            watch.waiting(&format!("{}: {count} cases", program.path));
        })?;
        let (mut cases, planned, rest) = said.end();
        cases.extend(unsaid(&end, &cases, planned, &rest));
        Ok(Ran { cases, seconds: end.took_ms as f64 / 1e3 })
    }

    /// What has failed, if something has.
    fn set_up(&mut self) -> Result<Option<Case>, Error> {
        let script = match self.scene {
            Scene::Endpoints => format!("set -e\n{ADDRESSES}{ENDPOINTS}"),
            Scene::Interfaces | Scene::Alone => format!("set -e\n{ADDRESSES}"),
        };
        let mut all = String::new();
        let words = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
        let end = self.run((words, "/".to_owned()), &[], SETUP, |text| all.push_str(text))?;
        let failed = end.code != Some(0);
        Ok(failed.then(|| Case::of_program("setting the cards up", &all)))
    }

    fn run(
        &mut self,
        (words, directory): (Vec<String>, String),
        environment: &[(&str, &str)],
        limit: Duration,
        mut on_text: impl FnMut(&str),
    ) -> Result<ProgramEnd, Error> {
        let always = [("PATH", PATH), ("HOME", "/root"), ("LC_ALL", "C.UTF-8"), ("TERM", "dumb")];
        let environment = always.iter().chain(environment);
        let start = ProgramStart {
            words,
            directory,
            environment: environment
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            output_bytes: OUTPUT_BYTES,
        };
        self.session.target.ask(start, Duration::ZERO)?;
        let wait_ms = u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX);
        // The agent is believed in nothing: neither that it ends, nor that it keeps to what was asked for.
        let limit = limit + LATER;
        let until = self.session.target.clock().now() + Span::from_ms(limit.as_millis() as u64);
        let mut bytes = 0_u64;
        loop {
            self.negotiate()?;
            let target = &mut self.session.target;
            let said = target.ask(ProgramOutput { wait_ms }, WAIT)?;
            bytes += said.text.len() as u64;
            on_text(&said.text);
            if let Some(end) = said.end {
                return Ok(end);
            }
            if target.clock().now() > until || bytes > 4 * OUTPUT_BYTES {
                return Ok(ProgramEnd { timed_out: true, ..ProgramEnd::default() });
            }
        }
    }

    pub(super) fn stop(self) -> Result<(), TargetError> {
        self.session.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_carries_what_its_cards_send() {
        for (model, rate) in [
            ("rtl8139", FAST_ETHERNET),
            ("rtl8139cp", FAST_ETHERNET),
            ("rtl8168", GIGABIT),
            ("e1000e", GIGABIT),
            ("igb", GIGABIT),
        ] {
            let carries = bits_per_second(warikomi_nic::build, &NicOptions::of(model)).unwrap();
            assert_eq!(carries, rate, "{model}");
        }
    }

    #[test]
    fn a_card_hears_of_the_other_end_when_it_has_lost_it() {
        const FIRST: Link = Link::Up { mbps: 1_000 };
        const SECOND: Link = Link::Up { mbps: 100 };
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut end = End::default();
        let mut news = |sent, ms| end.news([FIRST, sent], at(ms));
        assert_eq!(news(FIRST, 1), Some(FIRST), "the beginning");
        assert_eq!(news(FIRST, 900), None);
        assert_eq!(news(SECOND, 1_000), None);
        // It has not stood for long enough, and what comes back is no news.
        assert_eq!(news(Link::Down, 1_700), None);
        assert_eq!(news(FIRST, 1_800), None);
        assert_eq!(news(FIRST, 9_000), None);
        assert_eq!(news(SECOND, 9_001), None);
        assert_eq!(news(SECOND, 9_751), Some(SECOND));
        assert_eq!(news(SECOND, 9_752), None);
        assert_eq!(news(FIRST, 9_753), None);
        assert_eq!(end.news([SECOND, FIRST], at(9_754)), Some(FIRST), "it begins anew");
    }
}
