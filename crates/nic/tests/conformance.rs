//! What every model must do, whatever it models. A new model is one more line.

#![allow(missing_docs)]

use warikomi_nic::MODELS;
use warikomi_nic::strict::FindingKind;
use warikomi_testbench::{
    DUO, E1000E, GE10, IGB, OC48, OC192, RTL8139, RTL8139CP, RTL8168, Subject, card_conformance,
    card_histories,
};

card_conformance!(
    rtl8168: Subject::of(RTL8168),
    rtl8168_on_a_bus: Subject::on_a_bus(RTL8168),
    rtl8139: Subject::of(RTL8139),
    rtl8139_on_a_bus: Subject::on_a_bus(RTL8139),
    rtl8139cp: Subject::of(RTL8139CP),
    rtl8139cp_on_a_bus: Subject::on_a_bus(RTL8139CP),
    e1000e: Subject::of(E1000E),
    e1000e_on_a_bus: Subject::on_a_bus(E1000E),
    igb: Subject::of(IGB),
    igb_on_a_bus: Subject::on_a_bus(IGB),
    oc48: Subject::of(OC48),
    oc192: Subject::of(OC192),
    ge10: Subject::of(GE10),
    duo: Subject::of(DUO),
    duo_on_a_bus: Subject::on_a_bus(DUO),
);

// A failure is shrunk, printed and kept in `tests/histories.regressions`; every later run starts with what
// is kept there, so `cargo test -p warikomi-nic --test conformance` repeats it. `PROPTEST_CASES` sets the
// number of histories.
card_histories!(
    rtl8168: RTL8168,
    rtl8139: RTL8139,
    rtl8139cp: RTL8139CP,
    e1000e: E1000E,
    igb: IGB,
    oc48: OC48,
    oc192: OC192,
    ge10: GE10,
    duo: DUO,
);

#[test]
fn every_kind_of_finding_has_a_driver_that_is_found() {
    // What every card is tested for by its table of registers.
    let of_accesses = [FindingKind::Width, FindingKind::NoRegister, FindingKind::Direction];
    // What every card is tested for with its driver, by what a witness says of its transfers.
    let of_witnesses = [FindingKind::NotMapped, FindingKind::Freed];
    let of_cards = [RTL8168, RTL8139, RTL8139CP, E1000E, IGB, OC48, OC192, GE10, DUO]
        .into_iter()
        .flat_map(|card| card.missteps());
    let of_others = of_accesses.into_iter().chain(of_witnesses);
    let found: Vec<_> = of_cards.map(|(kind, _)| kind).chain(of_others).collect();
    assert!(FindingKind::ALL.iter().all(|kind| found.contains(kind)), "{found:?}");
}

#[test]
fn every_model_is_tested() {
    let tested =
        [RTL8168, RTL8139, RTL8139CP, E1000E, IGB, OC48, OC192, GE10].map(|card| card.name());
    assert!(MODELS.iter().all(|info| tested.contains(&info.name)));
}
