//! The structure that ARCHITECTURE.md draws, held against the code.

mod circles;
mod features;
mod imports;
mod lints;
mod modules;
mod pages;
mod published;

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// From the top down: a crate may depend on crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["cli"],
    &["bench"],
    &["lab"],
    &["live", "sim"],
    &["session"],
    &["process"],
    &["target", "inject", "trace", "measure", "report"],
    &["kernel"],
    &["stack"],
    &["nic", "wire", "driver", "guest"],
    &["pci"],
    &["clock", "shared", "debugger", "protocol"],
];

/// What shows results may know what results are, a trace the plan that it records, and a card what it is cabled
/// to.
const WITHIN_A_LAYER: &[(&str, &str)] =
    &[("report", "measure"), ("trace", "inject"), ("nic", "wire")];

/// For tests only: what it needs, and that nobody needs it but as a dev-dependency.
const TEST_BENCH: &str = "testbench";
const TEST_BENCH_NEEDS: &[&str] = &["clock", "driver", "nic", "pci", "protocol", "wire"];

fn layer_of(name: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&name))
        .unwrap_or_else(|| panic!("{name} is in no layer; add it to LAYERS and ARCHITECTURE.md"))
}

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata works here");
    let short = |name: &str| name.strip_prefix("warikomi-").map(str::to_owned);
    metadata
        .packages
        .iter()
        .filter_map(|package| {
            let ours = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal)
                .filter_map(|dependency| short(&dependency.name))
                .collect();
            Some((short(package.name.as_str())?, ours))
        })
        .collect()
}

#[test]
fn dependencies_point_downwards() {
    let all = dependencies();
    for (crate_name, needs) in all.iter().filter(|(name, _)| *name != TEST_BENCH) {
        for needed in needs {
            let downwards = layer_of(crate_name) < layer_of(needed);
            let allowed = WITHIN_A_LAYER.contains(&(crate_name.as_str(), needed.as_str()));
            assert!(downwards || allowed, "{crate_name} must not depend on {needed}");
        }
    }
}

#[test]
fn a_kernel_target_needs_neither_our_stack_nor_our_drivers() {
    let all = dependencies();
    let mut needed = vec!["target".to_owned()];
    let mut seen = 0;
    while let Some(name) = needed.get(seen).cloned() {
        assert!(!["stack", "driver", "process"].contains(&name.as_str()), "{needed:?}");
        needed.extend(all[&name].clone());
        seen += 1;
    }
    assert!(seen > 1);
}

#[test]
fn the_guest_knows_the_protocol_alone() {
    let all = dependencies();
    assert_eq!(all["guest"], ["protocol"], "the guest agent is built for another machine");
    assert!(all["protocol"].is_empty(), "the guest agent is built for another machine");
}

#[test]
fn the_test_bench_is_for_tests_only() {
    let all = dependencies();
    assert_eq!(all[TEST_BENCH], TEST_BENCH_NEEDS);
    for (crate_name, needs) in &all {
        assert!(!needs.iter().any(|needed| needed == TEST_BENCH), "{crate_name} needs it to run");
    }
}
