//! `include/warikomi_driver.h` says the same in C as `attach::layout` in Rust.

use std::collections::BTreeMap;

use warikomi_pci::attach::layout::{self, bells, header, orders, report, state, strategy};

const C_HEADER: &str = include_str!("../../../include/warikomi_driver.h");

const PLACES: &[(&str, usize)] = &[
    ("WK_HEADER_MAGIC", header::MAGIC),
    ("WK_HEADER_VERSION", header::VERSION),
    ("WK_HEADER_WINDOW_BYTES", header::WINDOW_BYTES),
    ("WK_HEADER_DMA_BYTES", header::DMA_BYTES),
    ("WK_HEADER_DMA_BUS_ADDRESS", header::DMA_BUS_ADDRESS),
    ("WK_HEADER_PACKET_BYTES", header::PACKET_BYTES),
    ("WK_HEADER_PACKET_BUS_ADDRESS", header::PACKET_BUS_ADDRESS),
    ("WK_HEADER_REGISTER_BAR", header::REGISTER_BAR),
    ("WK_HEADER_TSC_HZ", header::TSC_HZ),
    ("WK_HEADER_STATE_BYTES", header::STATE_BYTES),
    ("WK_HEADER_GENERATION", header::GENERATION),
    ("WK_HEADER_WAY", header::WAY),
    ("WK_REQUESTS_HEAD", bells::REQUESTS_HEAD),
    ("WK_REQUESTS_TAIL", bells::REQUESTS_TAIL),
    ("WK_ANSWERED", bells::ANSWERED),
    ("WK_ANSWER", bells::ANSWER),
    ("WK_INTERRUPTS", bells::INTERRUPTS),
    ("WK_SLEEPING", bells::SLEEPING),
    ("WK_STAMPED", bells::STAMPED),
    ("WK_ORDER_STOP", orders::STOP),
    ("WK_ORDER_STRATEGY", orders::STRATEGY),
    ("WK_ORDER_POLL_NS", orders::POLL_NS),
    ("WK_ORDER_BUDGET", orders::BUDGET),
    ("WK_ORDER_CPU_BUDGET_PPM", orders::CPU_BUDGET_PPM),
    ("WK_ORDER_BUFFERS", orders::BUFFERS),
    ("WK_ORDER_BUFFER_BYTES", orders::BUFFER_BYTES),
    ("WK_REPORT_STATE", report::STATE),
    ("WK_REPORT_HEARTBEAT", report::HEARTBEAT),
    ("WK_REPORT_RX_PACKETS", report::RX_PACKETS),
    ("WK_REPORT_RX_BYTES", report::RX_BYTES),
    ("WK_REPORT_RX_ERRORS", report::RX_ERRORS),
    ("WK_REPORT_RX_DROPPED", report::RX_DROPPED),
    ("WK_REPORT_TX_PACKETS", report::TX_PACKETS),
    ("WK_REPORT_TX_BYTES", report::TX_BYTES),
    ("WK_REPORT_TX_ERRORS", report::TX_ERRORS),
    ("WK_REPORT_INTERRUPTS", report::INTERRUPTS),
    ("WK_REPORT_POLLS", report::POLLS),
    ("WK_REPORT_EMPTY_POLLS", report::EMPTY_POLLS),
    ("WK_REPORT_SLEEPS", report::SLEEPS),
    ("WK_REPORT_SLEPT_NS", report::SLEPT_NS),
    ("WK_REPORT_POLL_NS", report::POLL_NS),
    ("WK_REPORT_HICCUPS", report::HICCUPS),
    ("WK_REPORT_HICCUP_NS", report::HICCUP_NS),
    ("WK_REPORT_LINK_MBPS", report::LINK_MBPS),
    ("WK_REPORT_ASLEEP", report::ASLEEP),
    ("WK_REPORT_LAST_WORDS_LEN", report::LAST_WORDS_LEN),
    ("WK_REPORT_LAST_WORDS", report::LAST_WORDS),
    ("WK_LAST_WORDS_BYTES", layout::LAST_WORDS_BYTES),
    ("WK_REQUESTS", layout::REQUESTS.entries),
    ("WK_REQUESTS_CAPACITY", layout::REQUESTS.capacity),
    ("WK_STAMPS", layout::STAMPS),
    ("WK_STAMPS_CAPACITY", layout::STAMPS_CAPACITY),
];

const VALUES: &[(&str, u64)] = &[
    ("WK_MAGIC", layout::MAGIC),
    ("WK_VERSION", layout::VERSION),
    ("WK_WINDOW_BYTES", layout::WINDOW_BYTES),
    ("WK_STRATEGY_INTERRUPT", strategy::INTERRUPT),
    ("WK_STRATEGY_POLL", strategy::POLL),
    ("WK_STRATEGY_NAPI", strategy::NAPI),
    ("WK_STRATEGY_HYBRID", strategy::HYBRID),
    ("WK_STRATEGY_AUTO", strategy::AUTO),
    ("WK_STRATEGY_AWAKE", strategy::AWAKE),
    ("WK_STATE_STARTING", state::STARTING),
    ("WK_STATE_READY", state::READY),
    ("WK_STATE_STOPPED", state::STOPPED),
    ("WK_STATE_FAILED", state::FAILED),
];

/// The numbers of `#define NAME NUMBER` and of `NAME = NUMBER,`.
fn numbers() -> BTreeMap<&'static str, u64> {
    let number = |text: &str| {
        let digits = text.trim_end_matches(['u', 'l', ',']);
        match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        }
    };
    C_HEADER
        .lines()
        .filter_map(|line| {
            let mut parts = line.split_whitespace();
            match (parts.next()?, parts.next()?, parts.next()) {
                ("#define", name, Some(value)) => Some((name, number(value)?)),
                (name, "=", Some(value)) => Some((name, number(value)?)),
                _ => None,
            }
        })
        .collect()
}

#[test]
fn places_and_values_are_the_same() {
    let c = numbers();
    let places = PLACES.iter().map(|&(name, at)| (name, at as u64));
    for (name, expected) in places.chain(VALUES.iter().copied()) {
        assert_eq!(c.get(name), Some(&expected), "{name}");
    }
}

#[test]
fn the_names_between_the_processes_are_the_same() {
    let hello = format!("#define WK_HELLO \"{}\"", str::from_utf8(layout::HELLO).unwrap());
    let variable = format!("#define WK_SOCKET_VARIABLE \"{}\"", layout::SOCKET_VARIABLE);
    for line in [hello, variable] {
        assert!(C_HEADER.contains(&line), "{line}");
    }
}
