//! What is compared.

use serde_json::{Value, json};
use warikomi_clock::{Seed, Span};
use warikomi_driver::DriverInfo;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_nic::NicOptions;
use warikomi_process::programs::sender;
use warikomi_sim::transmit::SIZES_BYTES;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::{PlanError, SendPlan, Transport};

use super::traffic::Traffic;
use crate::error::Error;

/// How many messages are measured in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Messages(u64),
    /// As many as are sent in about this time.
    For(Span),
}

/// How fast messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it goes.
    Unbounded,
    /// One after each interval.
    Interval(Span),
    /// So many bits of messages in a second, in the mean.
    Rate(u64),
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries messages: rows of each. UDP, or TCP in one way or both.
    pub transports: Vec<Transport>,
    /// What is sent: a row each. Empty for all of [`SIZES_BYTES`] that the device takes.
    pub traffic: Vec<Traffic>,
    /// Buffers that messages are copied into.
    pub buffers: Vec<BufferKind>,
    /// UDP has a checksum.
    pub checksum: bool,
    /// Completion strategies, each with the first of `bounces`.
    pub completions: Vec<Completion>,
    /// Bounce buffers, each with the last of `completions`. Contiguous buffers need only the first.
    pub bounces: Vec<Bounce>,
    /// The card's DMA begins at multiples of this number of bytes; the driver copies the rest. 1: anywhere.
    pub alignment_bytes: u32,
    /// Every completion strategy with every bounce buffer.
    pub all_pairs: bool,
    /// Dummy drivers besides, which separate the cost of scattered transfers from that of chained buffers.
    pub separate: bool,
    /// Messages that are measured.
    pub amount: Amount,
    /// How fast they come.
    pub pace: Pace,
    /// Bytes that the socket lets be on their way.
    pub send_buffer_bytes: u64,
    /// Times that each row is measured, in turns with all others; the row is that of the median.
    pub repeats: u32,
    /// Where randomness starts from.
    pub seed: Seed,
    /// The NIC.
    pub nic: NicOptions,
    /// The driver's name.
    pub driver: String,
    /// Other cards are compared with this one.
    pub is_one_of_several: bool,
}

impl Default for Options {
    /// The systems, the card and the bounce buffers that were published.
    fn default() -> Self {
        Options {
            transports: vec![Transport::Udp],
            traffic: Vec::new(),
            buffers: vec![
                BufferKind::Mbuf { cluster_bytes: 2_048 },
                BufferKind::Mbuf { cluster_bytes: 4_096 },
                BufferKind::Contiguous,
            ],
            checksum: true,
            completions: vec![
                Completion::Interrupt,
                Completion::InterruptFree,
                Completion::AdaptivePublished(Thresholds::default()),
                Completion::Adaptive(Thresholds::default()),
            ],
            bounces: vec![
                Bounce::None,
                Bounce::First(3),
                Bounce::First(4),
                Bounce::All,
                Bounce::Auto,
            ],
            alignment_bytes: 1,
            all_pairs: false,
            separate: false,
            amount: Amount::For(Span::from_ms(100)),
            pace: Pace::Unbounded,
            send_buffer_bytes: 1 << 20,
            repeats: 3,
            seed: Seed(1),
            nic: NicOptions::of("oc48"),
            driver: "oc48".to_owned(),
            is_one_of_several: false,
        }
    }
}

/// The driver of that name.
pub(super) fn driver(name: &str) -> Result<&'static DriverInfo, Error> {
    let known = warikomi_driver::DRIVERS.iter().find(|info| info.name == name);
    known.copied().ok_or_else(|| {
        let names: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
        Error::impossible(format!(
            "there is no driver '{name}' that runs in a process; there are: {}",
            names.join(", ")
        ))
    })
}

/// One row to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) traffic: Traffic,
    pub(super) transport: Transport,
    pub(super) buffers: BufferKind,
    pub(super) completion: Completion,
    pub(super) bounce: Bounce,
}

impl Options {
    /// The longest IP packet in bytes that driver and NIC send.
    fn mtu_bytes(&self, driver: &DriverInfo) -> u32 {
        self.nic.mtu.unwrap_or_else(|| driver.max_mtu_bytes())
    }

    /// What is sent. IP cuts what is longer than the MTU.
    fn traffic(&self) -> Vec<Traffic> {
        match self.traffic.is_empty() {
            true => SIZES_BYTES.into_iter().map(Traffic::Size).collect(),
            false => self.traffic.clone(),
        }
    }

    /// Completion strategies with bounce buffers.
    fn ways(&self, buffers: BufferKind) -> Vec<(Completion, Bounce)> {
        let (Some(&first), Some(&last)) = (self.bounces.first(), self.completions.last()) else {
            return Vec::new();
        };
        let chained = buffers != BufferKind::Contiguous;
        let bounces = if chained { &self.bounces[..] } else { &self.bounces[..1] };
        let mut ways: Vec<(Completion, Bounce)> = Vec::new();
        for &completion in &self.completions {
            let here = bounces.iter().copied();
            let here =
                here.filter(|&bounce| self.all_pairs || bounce == first || completion == last);
            ways.extend(here.map(|bounce| (completion, bounce)));
        }
        if self.separate {
            let missing = [Bounce::None, Bounce::Dummy].into_iter().map(|bounce| (last, bounce));
            let missing: Vec<_> = missing.filter(|way| !ways.contains(way)).collect();
            ways.extend(missing);
        }
        ways
    }

    /// Rows to be, in order.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for traffic in self.traffic() {
            let systems = self.transports.iter().flat_map(|&transport| {
                self.buffers.iter().map(move |&buffers| (transport, buffers))
            });
            for (transport, buffers) in systems {
                cases.extend(self.ways(buffers).into_iter().map(|(completion, bounce)| Case {
                    traffic: traffic.clone(),
                    transport,
                    buffers,
                    completion,
                    bounce,
                }));
            }
        }
        cases
    }

    /// A case as a sender carries it out.
    pub(super) fn plan(
        &self,
        driver: &DriverInfo,
        case: &Case,
        messages: Messages,
        run_id: u32,
    ) -> SendPlan {
        SendPlan {
            sizes_bytes: case.traffic.sizes_bytes().to_vec(),
            block: case.traffic.block(),
            seed: self.seed.0,
            count: messages.count,
            warmup: messages.warmup,
            interval_ps: self.interval(case).as_ps(),
            transport: case.transport,
            buffers: case.buffers,
            checksum: self.checksum,
            completion: case.completion,
            bounce: case.bounce,
            alignment_bytes: self.alignment_bytes,
            send_buffer_bytes: self.send_buffer_bytes,
            mtu_bytes: self.mtu_bytes(driver),
            run_id,
            mixed: None,
        }
    }

    /// Time between two messages; 0 for as fast as it goes.
    pub(super) fn interval(&self, case: &Case) -> Span {
        const PS_PER_SECOND: u128 = 1_000_000_000_000;
        match self.pace {
            Pace::Unbounded => Span::from_ps(0),
            Pace::Interval(interval) => interval,
            Pace::Rate(bps) => {
                let bits = u128::from(case.traffic.mean_bytes()) * 8;
                let ps = bits * PS_PER_SECOND / u128::from(bps.max(1));
                Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
            }
        }
    }

    /// Refuses what cannot be carried out, before anything is started.
    pub fn validate(&self, driver: &DriverInfo) -> Result<(), PlanError> {
        let cases = self.cases();
        if cases.is_empty() || self.repeats == 0 {
            return Err(PlanError {
                what: "the number of rows",
                got: (cases.len() as u64 * u64::from(self.repeats)).to_string(),
                range: "give a size, buffers, a completion strategy and a bounce buffer, and measure each \
                        once or more"
                    .to_owned(),
            });
        }
        let messages = match self.amount {
            Amount::Messages(count) => Messages::measured(count),
            Amount::For(_) => Messages::measured(1),
        };
        cases.iter().try_for_each(|case| self.plan(driver, case, messages, 0).validate_for(driver))
    }

    /// As the plan of the result.
    pub(super) fn plan_of_result(&self) -> Value {
        fn texts<T: ToString>(list: &[T]) -> Vec<String> {
            list.iter().map(T::to_string).collect()
        }
        let (messages, row_ms) = match self.amount {
            Amount::Messages(count) => (Some(count), None),
            Amount::For(time) => (None, Some(time.as_secs() * 1e3)),
        };
        let (interval_ns, rate_bps) = match self.pace {
            Pace::Unbounded => (None, None),
            Pace::Interval(interval) => (Some(interval.as_ns()), None),
            Pace::Rate(bps) => (None, Some(bps)),
        };
        json!({
            "sizes_bytes": self.traffic.iter().filter_map(Traffic::size).collect::<Vec<u32>>(),
            "mixtures": self.traffic.iter().filter_map(Traffic::mixture).collect::<Vec<String>>(),
            "transports": texts(&self.transports),
            "buffers": texts(&self.buffers),
            "checksum": self.checksum,
            "completions": texts(&self.completions),
            "bounces": texts(&self.bounces),
            "alignment_bytes": self.alignment_bytes,
            "all_pairs": self.all_pairs,
            "separate": self.separate,
            "send_buffer_bytes": self.send_buffer_bytes,
            "repeats": self.repeats,
            "seed": self.seed,
            "driver": self.driver,
            "model": self.nic.model,
            "messages": messages,
            "row_ms": row_ms,
            "interval_ns": interval_ns,
            "rate_bps": rate_bps,
            "bus": self.nic.bus.as_ref().map(ToString::to_string),
            "line_rate_bps": self.nic.line_rate_bps,
            "mtu_bytes": self.nic.mtu,
        })
    }

    /// DMA memory in bytes for a sender of any row.
    pub(super) fn dma_bytes(&self, driver: &DriverInfo) -> u64 {
        let bytes = |case: &Case| {
            sender::dma_bytes(driver, &self.plan(driver, case, Messages::measured(1), 0))
        };
        self.cases().iter().map(bytes).max().unwrap_or(0)
    }
}

/// Messages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Messages {
    pub(super) count: u64,
    pub(super) warmup: u64,
}

impl Messages {
    /// So many that are measured, and before them a quarter as many: rings fill up, and what adapts itself
    /// looks around.
    pub(super) fn measured(count: u64) -> Messages {
        Messages { count, warmup: count / 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(options: &Options, buffers: BufferKind) -> Vec<String> {
        let ways = options.ways(buffers).into_iter();
        ways.map(|(completion, bounce)| format!("{completion} {bounce}")).collect()
    }

    const CHAINED: BufferKind = BufferKind::Mbuf { cluster_bytes: 2_048 };

    #[test]
    fn strategies_are_compared_without_a_bounce_buffer_and_bounce_buffers_with_the_last() {
        let options = Options::default();
        let plain =
            ["interrupt none", "interrupt-free none", "adaptive-published none", "adaptive none"];
        let bounced = ["adaptive 3", "adaptive 4", "adaptive all", "adaptive auto"];
        assert_eq!(ways(&options, CHAINED), [&plain[..], &bounced].concat());
        assert_eq!(ways(&options, BufferKind::Contiguous), plain);
        let all = Options { all_pairs: true, ..options };
        assert_eq!(ways(&all, CHAINED).len(), 20);
    }

    #[test]
    fn separating_costs_adds_what_is_missing_for_it() {
        let options = Options {
            completions: vec![Completion::Interrupt],
            bounces: vec![Bounce::Auto],
            separate: true,
            ..Options::default()
        };
        assert_eq!(
            ways(&options, CHAINED),
            ["interrupt auto", "interrupt none", "interrupt dummy"]
        );
        assert_eq!(
            ways(&options, BufferKind::Contiguous),
            ["interrupt auto", "interrupt none", "interrupt dummy"]
        );
    }

    #[test]
    fn all_sizes_are_tried_unless_others_are_asked_for() {
        let options = Options::default();
        assert_eq!(options.traffic().len(), SIZES_BYTES.len());
        let asked = Options { traffic: vec![Traffic::Size(9_000)], ..options };
        assert_eq!(asked.traffic(), [Traffic::Size(9_000)]);
    }

    #[test]
    fn the_mtu_is_the_drivers_unless_the_cards_is_less() {
        let ge10 = driver("ge10").unwrap();
        let mut options = Options::default();
        assert_eq!(options.mtu_bytes(ge10), 16_114);
        options.nic.mtu = Some(1_500);
        assert_eq!(options.mtu_bytes(ge10), 1_500);
        let case = &options.cases()[0];
        assert_eq!(options.plan(ge10, case, Messages::measured(1), 0).mtu_bytes, 1_500);
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_started() {
        let driver = driver("oc48").unwrap();
        let refused = |options: Options| options.validate(driver).unwrap_err().to_string();
        assert_eq!(Options::default().validate(driver), Ok(()));
        let long = vec![Traffic::Size(9_000)];
        let mut small = Options { traffic: long.clone(), ..Options::default() };
        small.nic.mtu = Some(1_500);
        assert_eq!(small.validate(driver), Ok(()), "IP cuts it");
        small.traffic = vec![Traffic::Size(65_508)];
        assert!(refused(small).contains("16 to 65507"));
        let full = Options { traffic: long, send_buffer_bytes: 4_096, ..Options::default() };
        assert!(refused(full).contains("send buffer"));
        assert!(refused(Options { repeats: 0, ..Options::default() }).contains("once or more"));
        assert!(refused(Options { bounces: vec![], ..Options::default() }).contains("bounce"));
    }

    #[test]
    fn a_rate_is_an_interval_for_each_length() {
        let options = Options { pace: Pace::Rate(8_000_000), ..Options::default() };
        let case = &options.cases()[0];
        assert_eq!((case.traffic.mean_bytes(), options.interval(case)), (16, Span::from_us(16)));
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let mut options = Options { pace: Pace::Interval(Span::from_us(5)), ..Options::default() };
        options.traffic = vec![Traffic::Mixture("64x10,1472x5".parse().unwrap())];
        options.nic.bus = Some("pci-64-66".parse().unwrap());
        let plan = warikomi_measure::as_object(&options.plan_of_result());
        assert_eq!(plan["mixtures"][0].as_str(), Some("64x10,1472x5"));
        assert_eq!(plan["bounces"].as_array().unwrap().len(), 5);
        assert_eq!(
            (plan["row_ms"].as_f64(), plan["interval_ns"].as_f64()),
            (Some(100.0), Some(5_000.0))
        );
        assert!(plan["bus"].as_str().unwrap().starts_with("pci-64-66"));
    }

    #[test]
    fn buffers_and_bounce_buffers_are_those_that_were_published() {
        use warikomi_measure::published::{DMA_BYTES, adaptive_transmit};
        use warikomi_stack::buffers::{MCLBYTES, MINCLSIZE};
        let published = adaptive_transmit();
        assert_eq!((MCLBYTES, MINCLSIZE), (published.mclbytes, published.minclsize));
        assert!(DMA_BYTES <= published.linux_contiguous_buffer_kb * 1_024);
        let tried = Options::default().bounces;
        for count in &published.bounce_cluster_counts {
            let bounce = count.to_string().trim_matches('"').parse().unwrap();
            assert!(tried.contains(&bounce), "{bounce}");
        }
    }
}
