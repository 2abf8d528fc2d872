//! `include/warikomi_driver.h` and `warikomi_live.h` say the same in C as `attach::layout` and
//! `attach::area` in Rust.

use std::collections::BTreeMap;

use warikomi_pci::attach::area::{self, counters, how, record};
use warikomi_pci::attach::layout::{
    self, bells, header, orders, report, state, strategy, times, way,
};

const C_HEADER: &str = include_str!("../../../include/warikomi_driver.h");
const LIVE_HEADER: &str = include_str!("../../../include/warikomi_live.h");

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
    ("WK_ORDER_HAND_OVER", orders::HAND_OVER),
    ("WK_ORDER_ALERT", orders::ALERT),
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
    ("WK_REPORT_TIMES", report::TIMES),
    ("WK_TIME_ORDER_SEEN", times::ORDER_SEEN),
    ("WK_TIME_HANDED_OVER", times::HANDED_OVER),
    ("WK_TIME_AWAKE", times::AWAKE),
    ("WK_TIME_ACCEPTED", times::ACCEPTED),
    ("WK_TIME_SERVED", times::SERVED),
    ("WK_TIME_COUNT", times::COUNT),
    ("WK_REPORT_FORGOTTEN_BUFFERS", report::FORGOTTEN_BUFFERS),
    ("WK_REPORT_FORGOTTEN_FRAMES", report::FORGOTTEN_FRAMES),
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
    ("WK_STATE_WARM", state::WARM),
    ("WK_STATE_HANDED_OVER", state::HANDED_OVER),
    ("WK_STATE_ALERT", state::ALERT),
    ("WK_WAY_RELOAD", way::RELOAD),
    ("WK_WAY_DATA_STORE", way::DATA_STORE),
    ("WK_WAY_SHARED_STATE", way::SHARED_STATE),
];

const AREA_PLACES: &[(&str, usize)] = &[
    ("WK_AREA_WORDS", area::WORDS),
    ("WK_AREA_HEADER_MAGIC", area::header::MAGIC),
    ("WK_AREA_HEADER_VERSION", area::header::VERSION),
    ("WK_AREA_HEADER_READABLE_FROM", area::header::READABLE_FROM),
    ("WK_AREA_HEADER_BYTES", area::header::BYTES),
    ("WK_AREA_HEADER_DEVICE", area::header::DEVICE),
    ("WK_AREA_HEADER_RINGS", area::header::RINGS),
    ("WK_AREA_HEADER_RX_SLOTS", area::header::RX_SLOTS),
    ("WK_AREA_HEADER_TX_SLOTS", area::header::TX_SLOTS),
    ("WK_AREA_HEADER_MAC_ADDRESS", area::header::MAC_ADDRESS),
    ("WK_AREA_HEADER_SET_UP_BY", area::header::SET_UP_BY),
    ("WK_AREA_HEADER_CHECKSUM", area::header::CHECKSUM),
    ("WK_AREA_BATON", area::BATON),
    ("WK_AREA_OWNER", area::OWNER),
    ("WK_AREA_RECORD_CHECKSUM", record::CHECKSUM),
    ("WK_AREA_RECORD_GENERATION", record::GENERATION),
    ("WK_AREA_RECORD_RX_GIVEN", record::RX_GIVEN),
    ("WK_AREA_RECORD_RX_POSTED", record::RX_POSTED),
    ("WK_AREA_RECORD_RX_INDEX", record::RX_INDEX),
    ("WK_AREA_RECORD_TX_GIVEN", record::TX_GIVEN),
    ("WK_AREA_RECORD_TX_PUT", record::TX_PUT),
    ("WK_AREA_RECORD_TX_INDEX", record::TX_INDEX),
    ("WK_AREA_RECORD_VERSION", record::VERSION),
    ("WK_AREA_RECORD_COUNTERS", record::COUNTERS),
    ("WK_AREA_RECORD_END", record::END),
    ("WK_COUNTER_RX_PACKETS", counters::RX_PACKETS),
    ("WK_COUNTER_RX_BYTES", counters::RX_BYTES),
    ("WK_COUNTER_RX_ERRORS", counters::RX_ERRORS),
    ("WK_COUNTER_TX_PACKETS", counters::TX_PACKETS),
    ("WK_COUNTER_TX_BYTES", counters::TX_BYTES),
    ("WK_COUNTER_TX_ERRORS", counters::TX_ERRORS),
    ("WK_COUNTERS", counters::COUNT),
    ("WK_AREA_RX_SLOTS", area::RX_SLOTS),
    ("WK_AREA_TX_SLOTS", area::TX_SLOTS),
    ("WK_AREA_MOST_SLOTS", area::MOST_SLOTS),
];

const AREA_VALUES: &[(&str, u64)] = &[
    ("WK_AREA_MAGIC", area::MAGIC),
    ("WK_AREA_VERSION", area::VERSION),
    ("WK_AREA_OLDEST_VERSION", area::OLDEST_VERSION),
    ("WK_SLOT_PRESENT", area::PRESENT),
    ("WK_SLOT_TOKEN_MASK", area::TOKEN_MASK),
    ("WK_HOW_HANDED_OVER", how::HANDED_OVER),
    ("WK_HOW_DIED", how::DIED),
    ("WK_HOW_START", how::START),
];

/// The numbers of `#define NAME NUMBER` and of `NAME = NUMBER,`.
fn numbers(text: &'static str) -> BTreeMap<&'static str, u64> {
    let number = |text: &str| {
        let digits = text.trim_end_matches(['u', 'l', ',']);
        match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        }
    };
    text.lines()
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
    for (text, places, values) in
        [(C_HEADER, PLACES, VALUES), (LIVE_HEADER, AREA_PLACES, AREA_VALUES)]
    {
        let c = numbers(text);
        let places = places.iter().map(|&(name, at)| (name, at as u64));
        for (name, expected) in places.chain(values.iter().copied()) {
            assert_eq!(c.get(name), Some(&expected), "{name}");
        }
    }
}

#[test]
fn the_checksum_is_the_same() {
    // The two numbers that it is made of; examples/c/rtl8168_live.c and the driver in Rust read each other's.
    for number in ["#define WK_CHECKSUM 0xcbf29ce484222325ull", "(sum ^ word) * 0x100000001b3ull"] {
        assert!(LIVE_HEADER.contains(number), "{number}");
    }
    assert_eq!(area::checksum([]), 0xcbf2_9ce4_8422_2325);
    assert_eq!(area::checksum([0xcbf2_9ce4_8422_2325 ^ 1]), 0x0100_0000_01b3);
}

#[test]
fn the_names_between_the_processes_are_the_same() {
    let hello = format!("#define WK_HELLO \"{}\"", str::from_utf8(layout::HELLO).unwrap());
    let variable = format!("#define WK_SOCKET_VARIABLE \"{}\"", layout::SOCKET_VARIABLE);
    for line in [hello, variable] {
        assert!(C_HEADER.contains(&line), "{line}");
    }
}
