//! Plans, files of costs, and the short forms of faults, buses, strategies and shards: what users write, or get
//! from others.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use arbitrary::Unstructured;
use warikomi_cli::plan_again;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Fault, FrameBytes, LineRate, Plan};
use warikomi_lab::EXPERIMENTS;
use warikomi_measure::Shard;
use warikomi_nic::bus::Bus;
use warikomi_sim::CostsFile;
use warikomi_wire::WireKind;

use crate::harness::{Seeds, bounded};

/// Texts that stand for values, one a line.
const FORMS: &str = "\
dma-error:at=1ms
link-flap:at=5ms,for=2ms
crc:p=0.001
pci-64-66,arbitration=800ns,wait=60ns,burst=512,fetch=600ns,mapping=200ns,rate=400MB
hybrid:140us
napi:64
auto:5%
2/4
pcap:run.pcap+responder
2.5Gbit/s
1.5KB
";

const LINES: [&str; 4] = [
    "experiment = \"inject\"\n[flags]\ncount = 300\nfault = [\"dma-error:at=1ms\", \"link-flap:at=5ms,for=2ms\"]\n",
    "experiment = \"receive\"\n[flags]\ntarget = \"process\"\nvirtual = true\nload = [\"0.1,0.9\"]\n",
    "experiment = \"transmit\"\n[flags]\nmixed = true\nphase = [\"64\", \"64x10,1472x5/compute=5us\"]\n",
    "experiment = \"histories\"\n[flags]\nfaults = true\nshard = \"2/3\"\n",
];

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let kept = |text: &str| plan_again(EXPERIMENTS, text).expect("a plan").into_bytes();
    let plan =
        Plan { faults: vec!["dma-error:at=1ms".parse().expect("a fault")], ..Plan::default() };
    let costs = toml::to_string(&CostsFile::default()).expect("costs are TOML");
    vec![
        ("inject", kept(LINES[0])),
        ("receive", kept(LINES[1])),
        ("transmit", kept(LINES[2])),
        ("histories", kept(LINES[3])),
        ("recorded", plan.to_toml().expect("a plan").into_bytes()),
        ("costs", costs.into_bytes()),
        ("forms", FORMS.as_bytes().to_vec()),
    ]
}

/// What is shown is read as what was shown.
fn form<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert_eq!(shown.parse::<T>().ok().as_ref(), Some(&value), "{text:?}, shown as {shown:?}");
    }
}

fn form_by_line(text: &str) {
    for line in text.lines() {
        form::<Fault>(line);
        form::<Bus>(line);
        form::<Strategy>(line);
        form::<Shard>(line);
        if let Ok(shard) = line.parse::<Shard>() {
            let cases = 0..u64::from(shard.of());
            assert_eq!(cases.filter(|case| shard.has(*case)).count(), 1);
        }
        form::<WireKind>(line);
        form::<LineRate>(line);
        let _ = line.parse::<FrameBytes>();
    }
}

fn files(text: &str) {
    if let Ok(plan) = Plan::from_toml(text) {
        let again = plan.to_toml().expect("a plan that was read can be written");
        assert_eq!(Plan::from_toml(&again).ok().as_ref(), Some(&plan));
        let _ = (plan.duration(), plan.arrivals(), plan.warmup_plan(), plan.mean_frame_bytes());
    }
    if let Ok(costs) = toml::from_str::<CostsFile>(text) {
        let again = toml::to_string(&costs).expect("costs that were read can be written");
        assert_eq!(toml::from_str::<CostsFile>(&again).ok().as_ref(), Some(&costs));
    }
}

/// What a run of a plan keeps is a plan of the same run.
fn plan(text: &str) {
    if let Ok(kept) = plan_again(EXPERIMENTS, text) {
        let again = plan_again(EXPERIMENTS, &kept);
        assert_eq!(again.ok().as_ref(), Some(&kept));
    }
}

/// What means something in any of them.
const WORDS: &[&str] = &[
    "experiment = \"",
    "[flags]\n",
    "count = ",
    "-",
    "ns",
    "ms",
    "%",
    "KB",
    "1e300",
    "inf",
    "nan",
    "true",
    "[]",
    "{}",
    "'''",
    "0x",
    "p=",
    "at=",
    "every=",
    "for=",
    ",",
    ":",
];

fn seeds() -> Seeds {
    Seeds::of("plans", &made(), WORDS)
}

/// What one input stands for.
fn text_of(seeds: &Seeds, input: &[u8]) -> String {
    let bytes = seeds.input(&mut Unstructured::new(input));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn forms() {
    let seeds = seeds();
    bolero::check!().with_max_len(512).for_each(|input: &[u8]| {
        let text = text_of(&seeds, input);
        bounded(|| {
            form_by_line(&text);
            files(&text);
        });
    });
}

/// Beside `forms`, because it takes some thirty times as long: all flags of all experiments are made for it.
#[test]
fn plans() {
    let seeds = seeds();
    bolero::check!().with_max_len(512).for_each(|input: &[u8]| {
        let text = text_of(&seeds, input);
        bounded(|| plan(&text));
    });
}
