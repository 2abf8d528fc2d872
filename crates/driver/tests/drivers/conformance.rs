//! What every driver must do. A new driver is one more line.

use warikomi_driver::{DRIVERS, by_name};
use warikomi_testbench::{DUO, GE10, OC48, OC192, RTL8139, RTL8168, Subject, driver_conformance};

driver_conformance!(
    rtl8168: Subject::of(RTL8168),
    rtl8139: Subject::of(RTL8139),
    oc48: Subject::of(OC48),
    oc192: Subject::of(OC192),
    ge10: Subject::of(GE10),
    duo: Subject::of(DUO),
);

#[test]
fn every_driver_has_the_name_by_which_it_is_asked_for() {
    for info in DRIVERS {
        assert_eq!(by_name(info.name).unwrap().info().name, info.name);
    }
    assert!(by_name("ne2000").is_none());
}

#[test]
fn every_driver_is_tested() {
    let tested = [RTL8168, RTL8139, OC48, OC192, GE10].map(|card| card.driver().info().name);
    assert!(DRIVERS.iter().all(|info| tested.contains(&info.name)));
}
