//! Our bridge in the guest leaves its cards and takes them again, as its driver in sysfs is told to.

use std::time::Duration;

use warikomi_protocol::Request;
use warikomi_protocol::commands::{LinkUp, ReadFile, WriteFile};
use warikomi_session::{SessionOptions, bring_up_again};
use warikomi_target::{CardId, wait};

use crate::bring::{image_with_more_drivers, options, options_with, sink};
use crate::guest::{Guest, nic};
use crate::hotplug::send;

const DRIVER: &str = "r8169";
const SYSFS: &str = "/sys/bus/virtio/drivers/warikomi_bridge";
const SECOND: CardId = CardId(1);
/// A driver that waits for a card which does not answer takes its time.
const WITHIN: Duration = Duration::from_secs(30);
/// Longer than a guest waits for the answer to an access.
const UNANSWERED: Duration = Duration::from_secs(11);

fn written(path: &str, text: &str) -> WriteFile {
    WriteFile { path: path.into(), text: text.into() }
}

/// A guest with as many cards, of which r8169 drives the first, which is up.
fn started(options: SessionOptions, cards: usize) -> Guest {
    let mut guest = Guest::start(options, (0..cards).map(|_| nic("rtl8168", sink())).collect());
    guest.load(DRIVER, &[]);
    let interface = Some(guest.interface_of(DRIVER, CardId::FIRST));
    guest.ask(LinkUp { interface, address_cidr: Some("10.9.0.1/24".into()), timeout_ms: 5_000 });
    guest
}

/// The bridge is told to unbind from the first card's device, or to bind to it.
fn tell(guest: &mut Guest, what: &str) {
    let told = guest.target.ask(written(&format!("{SYSFS}/{what}"), "virtio0"), WITHIN);
    told.unwrap_or_else(|error| panic!("{error}"));
}

/// The first card is brought up, and all that comes arrives.
fn works_again(guest: &mut Guest) {
    bring_up_again(&mut *guest.target, DRIVER).unwrap_or_else(|error| panic!("{error}"));
    let before = guest.counter("eth0", "rx_packets");
    send(&mut *guest.target, 100);
    assert_eq!(guest.counter("eth0", "rx_packets") - before, 100);
}

/// Posts a command, whose answer is not waited for; its number.
fn post(guest: &mut Guest, command: impl Into<Request>) -> u64 {
    guest.target.agent().unwrap().post(command.into()).expect("an agent that takes it")
}

#[track_caller]
fn wait_for(guest: &mut Guest, posted: u64) -> Result<(), String> {
    let mut answer = None;
    guest.wait_until("the command is answered", |guest| {
        answer = guest.target.agent().unwrap().answer(posted);
        answer.is_some()
    });
    answer.unwrap().map(drop)
}

/// The card was out of its slot, and is back.
fn replug(guest: &mut Guest, card: CardId) {
    for present in [false, true] {
        guest.target.card(card).unwrap().1.interrupts.set_present(present);
    }
}

fn has_driver(guest: &mut Guest, card: CardId) -> bool {
    let path = format!("/sys/bus/pci/devices/{}/uevent", card.pci_address());
    let uevent = guest.target.ask(ReadFile { path }, Duration::ZERO);
    uevent.is_ok_and(|file| file.text.contains(&format!("DRIVER={DRIVER}")))
}

/// All lines that its console keeps.
fn console(guest: &Guest) -> String {
    guest.target.console().0.join("\n")
}

/// Ends a guest whose kernel has found nothing wrong.
fn stop(mut guest: Guest) {
    let marks = guest.target.agent().unwrap().fault_marks().unwrap();
    assert_eq!(marks, 0, "{}", console(&guest));
    guest.stop();
}

#[test]
fn the_bridge_leaves_a_card_under_traffic_and_takes_it_again() {
    let mut guest = started(options(), 1);
    for _ in 0..5 {
        send(&mut *guest.target, 50);
        tell(&mut guest, "unbind");
        assert!(!has_driver(&mut guest, CardId::FIRST));
        send(&mut *guest.target, 50);
        tell(&mut guest, "bind");
        works_again(&mut guest);
    }
    stop(guest);
}

#[test]
fn a_card_that_was_given_up_answers_once_the_bridge_has_taken_it_again() {
    let mut guest = started(options(), 1);
    let config = format!("/sys/bus/pci/devices/{}/config", CardId::FIRST.pci_address());
    let posted = post(&mut guest, ReadFile { path: config });
    std::thread::sleep(UNANSWERED);
    // What is read of a card that does not answer is no text.
    let _ = wait_for(&mut guest, posted);
    let console = console(&guest);
    assert!(console.contains("card 0 has stopped answering"), "{console}");
    tell(&mut guest, "unbind");
    tell(&mut guest, "bind");
    works_again(&mut guest);
    guest.stop();
}

/// A plug that the bridge has not seen when it leaves the card is not looked at any more, although another card is.
#[test]
fn the_bridge_leaves_a_card_that_was_replugged_and_looks_at_another_meanwhile() {
    let mut guest = started(options(), 2);
    for _ in 0..3 {
        let posted = post(&mut guest, written(&format!("{SYSFS}/unbind"), "virtio0"));
        let stopped = wait::until(&mut *guest.target, WITHIN, |target| {
            (!target.card(CardId::FIRST).unwrap().0.receiving()).then_some(())
        });
        assert!(stopped.unwrap().is_some(), "{}", console(&guest));
        // Its driver has been stopped, and has yet to go.
        [CardId::FIRST, SECOND].into_iter().for_each(|card| replug(&mut guest, card));
        wait_for(&mut guest, posted).unwrap();
        assert!(!has_driver(&mut guest, CardId::FIRST));
        guest.wait_until("the other one is back", |guest| has_driver(guest, SECOND));
        tell(&mut guest, "bind");
        guest.wait_until("it is back", |guest| has_driver(guest, CardId::FIRST));
        let interface = Some(guest.interface_of(DRIVER, CardId::FIRST));
        let address_cidr = Some("10.9.0.1/24".into());
        guest.ask(LinkUp { interface, address_cidr, timeout_ms: 5_000 });
    }
    stop(guest);
}

#[test]
fn a_card_that_is_replugged_while_the_system_is_suspended_is_seen_to_afterwards() {
    let Some(image) = image_with_more_drivers() else { return };
    let mut guest = started(options_with(&image), 1);
    // So that the console says what is done when.
    guest.ask(written("/proc/sys/kernel/printk", "7"));
    guest.ask(written("/sys/module/printk/parameters/console_suspend", "N"));
    guest.ask(written("/sys/module/suspend/parameters/pm_test_delay", "1"));
    guest.ask(written("/sys/power/pm_test", "devices"));
    let posted = post(&mut guest, written("/sys/power/state", "freeze"));
    let asleep = "suspend debug: Waiting for 1 second";
    guest.wait_until("it sleeps", |guest| console(guest).contains(asleep));
    replug(&mut guest, CardId::FIRST);
    wait_for(&mut guest, posted).unwrap();
    guest.wait_until("the card was found again", |guest| {
        let console = console(guest);
        console.split_once(asleep).is_some_and(|(_, after)| after.contains("[10ec:8168]"))
    });
    let console = console(&guest);
    let (awake, found) = (console.find("Restarting tasks"), console.rfind("[10ec:8168]"));
    assert!(awake.is_some() && awake < found, "{console}");
    works_again(&mut guest);
    stop(guest);
}
