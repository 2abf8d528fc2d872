//! What a service counts, for Prometheus.

use crate::{Event, Kind, Service, Status};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder, exponential_buckets,
};
use warikomi_clock::Time;
use warikomi_wire::WireCounters;

use super::report::EchoReport;

/// 5 µs to 5.2 s, each twice the one before.
const BUCKETS: (f64, f64, usize) = (5e-6, 2.0, 21);

/// Names and values, as Prometheus has them: base units, `_total` for what only grows.
pub(super) struct Metrics {
    registry: Registry,
    replacements: HistogramVec,
    outages: HistogramVec,
    rolled_back: IntCounter,
    failed: IntCounter,
    spares_failed: IntCounter,
    fenced: IntCounter,
    frames: IntCounterVec,
    bytes: IntCounterVec,
    echo: EchoMetrics,
    serving: IntGauge,
    generation: IntGauge,
    running: Gauge,
    spare: IntGauge,
    in_a_row: IntGauge,
}

/// What the client counts that sends datagrams and waits for them to come back.
struct EchoMetrics {
    datagrams: IntCounterVec,
    connections_lost: IntCounter,
    round_trip: Gauge,
}

/// What is looked at when somebody asks.
pub(super) struct Look<'a> {
    pub(super) now: Time,
    pub(super) status: &'a Status,
    pub(super) wire: WireCounters,
    pub(super) echo: EchoReport,
}

impl EchoMetrics {
    fn new(made: &Maker) -> Result<EchoMetrics, prometheus::Error> {
        Ok(EchoMetrics {
            datagrams: made.by(
                "outcome",
                "warikomi_echo_datagrams_total",
                "Datagrams that the client has sent, that have come back, that were overtaken or have not, \
                 that came late or twice, and that were changed",
            )?,
            connections_lost: made.counter(
                "warikomi_echo_connections_lost_total",
                "Connections of the client that have ended, though it ends none",
            )?,
            round_trip: made.seconds(
                "warikomi_echo_longest_round_trip_seconds",
                "The longest time from a datagram's start to its return since the service began",
            )?,
        })
    }
}

impl Metrics {
    pub(super) fn new() -> Result<Metrics, prometheus::Error> {
        let made = Maker(Registry::new());
        Ok(Metrics {
            replacements: made.histograms(
                "warikomi_replacement_seconds",
                "Time from the order (of a recovery: from the failure's being seen) to the new driver's \
                 first pass",
            )?,
            outages: made.histograms(
                "warikomi_outage_seconds",
                "Time for which no driver served the device",
            )?,
            rolled_back: made.counter(
                "warikomi_rolled_back_total",
                "Planned replacements that were called off, so that the old driver went on",
            )?,
            failed: made.counter(
                "warikomi_driver_failures_total",
                "Drivers that died, hung, or left work lying",
            )?,
            spares_failed: made.counter(
                "warikomi_spare_failures_total",
                "Drivers that were kept ready, or were to be, and came to nothing",
            )?,
            fenced: made.counter(
                "warikomi_fenced_accesses_total",
                "Register accesses that replaced drivers asked for, and that had no effect",
            )?,
            frames: made.by(
                "direction",
                "warikomi_wire_frames_total",
                "Frames that have passed between NIC and network",
            )?,
            bytes: made.by(
                "direction",
                "warikomi_wire_bytes_total",
                "Their bytes, without check sequences",
            )?,
            echo: EchoMetrics::new(&made)?,
            serving: made.gauge("warikomi_serving", "1 while a driver serves the device, else 0")?,
            generation: made.gauge("warikomi_driver_generation", "Generation of that driver")?,
            running: made.seconds(
                "warikomi_driver_running_seconds",
                "Time since that driver took the device over",
            )?,
            spare: made.gauge("warikomi_spare_ready", "1 while another driver is kept ready, else 0")?,
            in_a_row: made.gauge(
                "warikomi_driver_failures_in_a_row",
                "Failures since a driver last ran for long enough to count as a success",
            )?,
            registry: made.0,
        })
    }

    /// Counts what has happened.
    pub(super) fn note(&self, event: &Event) {
        match event {
            Event::Replaced(replacement) => {
                let labels = [replacement.kind.name()];
                let seconds =
                    |samples: &HistogramVec| -> Histogram { samples.with_label_values(&labels) };
                seconds(&self.replacements).observe(replacement.swap().as_secs());
                seconds(&self.outages).observe(replacement.outage().as_secs());
            }
            Event::RolledBack { .. } => self.rolled_back.inc(),
            Event::SpareFailed { .. } => self.spares_failed.inc(),
            Event::Failed { .. } | Event::GivenUp { .. } => self.failed.inc(),
        }
    }

    /// All of it, in Prometheus's text format.
    pub(super) fn text(&self, look: &Look<'_>) -> Result<String, prometheus::Error> {
        let Look { now, status, wire, echo } = look;
        up_to(&self.fenced, status.fenced_accesses);
        for (direction, frames, bytes) in [
            ("transmitted", wire.tx_frames, wire.tx_bytes),
            ("received", wire.rx_frames, wire.rx_bytes),
        ] {
            up_to(&self.frames.with_label_values(&[direction]), frames);
            up_to(&self.bytes.with_label_values(&[direction]), bytes);
        }
        for (outcome, count) in [
            ("sent", echo.udp_sent),
            ("back", echo.udp_back),
            ("missing", echo.udp_missing),
            ("repeated", echo.udp_repeated),
            ("wrong", echo.udp_wrong),
        ] {
            up_to(&self.echo.datagrams.with_label_values(&[outcome]), count);
        }
        up_to(&self.echo.connections_lost, echo.tcp_lost);
        self.echo.round_trip.set(echo.longest_round_trip_us / 1e6);
        let serving = matches!(status.service, Service::Running | Service::Replacing(_));
        self.serving.set(serving.into());
        self.generation.set(status.generation.into());
        self.running.set(if serving { now.since(status.since).as_secs() } else { 0.0 });
        self.spare.set(status.spare.is_some().into());
        self.in_a_row.set(status.failures.into());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// What somebody else counts.
fn up_to(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}

/// Makes metrics that are in the registry.
struct Maker(Registry);

impl Maker {
    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.keep(IntCounter::new(name, help)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.keep(IntGauge::new(name, help)?)
    }

    fn seconds(&self, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
        self.keep(Gauge::new(name, help)?)
    }

    fn by(&self, label: &str, name: &str, help: &str) -> Result<IntCounterVec, prometheus::Error> {
        self.keep(IntCounterVec::new(Opts::new(name, help), &[label])?)
    }

    /// One for each kind of replacement, from the start on.
    fn histograms(&self, name: &str, help: &str) -> Result<HistogramVec, prometheus::Error> {
        let (first, factor, count) = BUCKETS;
        let options =
            HistogramOpts::new(name, help).buckets(exponential_buckets(first, factor, count)?);
        let made = self.keep(HistogramVec::new(options, &["kind"])?)?;
        for of in [Kind::Planned, Kind::Recovery] {
            made.with_label_values(&[of.name()]);
        }
        Ok(made)
    }

    fn keep<T: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: T,
    ) -> Result<T, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Replacement};
    use warikomi_clock::Span;

    fn status() -> Status {
        let program = Program { path: "driver".into(), arguments: vec![], environment: vec![] };
        Status {
            service: Service::Running,
            generation: 7,
            program,
            process_id: 1,
            since: Time::ZERO + Span::from_ms(500),
            before: None,
            spare: Some(8),
            planned: 1,
            recovered: 0,
            rolled_back: 2,
            failures: 3,
            fenced_accesses: 4,
        }
    }

    fn replacement() -> Replacement {
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        Replacement {
            kind: Kind::Planned,
            from: 6,
            to: 7,
            reset: false,
            requested: at(90),
            creating: at(90),
            warm: at(95),
            begun: at(100),
            order_seen: Some(at(110)),
            handed_over: at(112),
            awake: at(115),
            accepted: at(118),
            served: at(122),
            returned: at(123),
            read_dispatches: None,
        }
    }

    #[test]
    fn the_text_is_prometheus_and_has_what_was_counted() {
        let metrics = Metrics::new().unwrap();
        metrics.note(&Event::Replaced(replacement()));
        for refused in [4, 5] {
            metrics.note(&Event::RolledBack { kept: 3, refused, why: "it hung".into() });
        }
        let wire = WireCounters { tx_frames: 10, rx_bytes: 99, ..WireCounters::default() };
        let now = Time::ZERO + Span::from_ms(2_000);
        let echo = EchoReport { udp_sent: 5, udp_back: 4, ..EchoReport::default() };
        let look = Look { now, status: &status(), wire, echo };
        // Asking twice changes nothing.
        let _ = metrics.text(&look).unwrap();
        let text = metrics.text(&look).unwrap();
        for line in [
            "# TYPE warikomi_replacement_seconds histogram",
            "warikomi_replacement_seconds_count{kind=\"planned\"} 1",
            "warikomi_replacement_seconds_count{kind=\"recovery\"} 0",
            "warikomi_replacement_seconds_bucket{kind=\"planned\",le=\"0.00002\"} 0",
            "warikomi_replacement_seconds_bucket{kind=\"planned\",le=\"0.00004\"} 1",
            "warikomi_outage_seconds_bucket{kind=\"planned\",le=\"0.00001\"} 0",
            "warikomi_outage_seconds_bucket{kind=\"planned\",le=\"0.00002\"} 1",
            "warikomi_rolled_back_total 2",
            "warikomi_fenced_accesses_total 4",
            "warikomi_wire_frames_total{direction=\"transmitted\"} 10",
            "warikomi_wire_bytes_total{direction=\"received\"} 99",
            "warikomi_echo_datagrams_total{outcome=\"sent\"} 5",
            "warikomi_echo_datagrams_total{outcome=\"back\"} 4",
            "warikomi_serving 1",
            "warikomi_driver_generation 7",
            "warikomi_driver_running_seconds 1.5",
            "warikomi_spare_ready 1",
            "warikomi_driver_failures_in_a_row 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_service_without_a_driver_is_not_serving() {
        let metrics = Metrics::new().unwrap();
        let status = Status { service: Service::GivenUp("it died".into()), ..status() };
        metrics.note(&Event::GivenUp { why: "it died".into() });
        let (now, wire) = (Time::ZERO + Span::from_ms(2_000), WireCounters::default());
        let look = Look { now, status: &status, wire, echo: EchoReport::default() };
        let text = metrics.text(&look).unwrap();
        for line in ["warikomi_serving 0", "warikomi_driver_failures_total 1"] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
