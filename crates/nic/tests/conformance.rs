//! What every model must do, whatever it models. A new model is one more line.

#![allow(missing_docs)]

use warikomi_nic::MODELS;
use warikomi_testbench::{DUO, OC48, RTL8168, Subject, card_conformance, card_histories};

card_conformance!(
    rtl8168: Subject::of(RTL8168),
    rtl8168_on_a_bus: Subject::on_a_bus(RTL8168),
    oc48: Subject::of(OC48),
    duo: Subject::of(DUO),
    duo_on_a_bus: Subject::on_a_bus(DUO),
);

// A failure is shrunk, printed and kept in `tests/histories.regressions`; every later run starts with what
// is kept there, so `cargo test -p warikomi-nic --test conformance` repeats it. `PROPTEST_CASES` sets the
// number of histories.
card_histories!(rtl8168: RTL8168, oc48: OC48, duo: DUO);

#[test]
fn every_model_is_tested() {
    let tested = [RTL8168, OC48].map(|card| card.name());
    assert!(MODELS.iter().all(|info| tested.contains(&info.name)));
}
