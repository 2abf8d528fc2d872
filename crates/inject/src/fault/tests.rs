use proptest::prelude::*;
use warikomi_clock::{Seed, Time};

use super::*;
use crate::Plan;

fn spans() -> impl Strategy<Value = Span> {
    prop_oneof![
        (1u64..=10_000).prop_map(Span::from_ms),
        (1u64..=10_000_000).prop_map(Span::from_us),
        (1_000u64..=10_000_000_000_000).prop_map(Span::from_ps),
    ]
}

fn kinds() -> impl Strategy<Value = FaultKind> {
    let errors = prop::sample::select(vec![RxError::Crc, RxError::Runt, RxError::TooLong]);
    let every = (1u64..=1_000_000).prop_map(Span::from_us);
    prop_oneof![
        Just(FaultKind::InterruptDropped),
        spans().prop_map(|by| FaultKind::InterruptDelayed { by }),
        Just(FaultKind::InterruptDuplicated),
        (0..=MAX_VECTOR).prop_map(|vector| FaultKind::InterruptSpurious { vector }),
        (0..=MAX_VECTOR, 1..=MAX_STORM, every).prop_map(|(vector, count, every)| {
            FaultKind::InterruptStorm { vector, count, every }
        }),
        Just(FaultKind::DescriptorNeverCompleted),
        spans().prop_map(|by| FaultKind::DescriptorCompletedLate { by }),
        errors.prop_map(FaultKind::DescriptorError),
        (0u16..=16_383).prop_map(|bytes| FaultKind::DescriptorLength { bytes }),
        spans().prop_map(|down_for| FaultKind::LinkFlap { down_for }),
        Just(FaultKind::DmaError),
        Just(FaultKind::DeviceGone),
        spans().prop_map(|out_for| FaultKind::DeviceUnplugged { out_for }),
    ]
}

pub(crate) fn faults() -> impl Strategy<Value = Fault> {
    let when = prop_oneof![
        (0u64..=MAX_FAULT_TIME.as_ps()).prop_map(|ps| When::At(Span::from_ps(ps))),
        (1u32..=1_000_000_000)
            .prop_map(|n| When::Probability(Probability::from_billionths(n).unwrap())),
    ];
    (kinds(), when).prop_map(|(kind, when)| Fault { kind, when })
}

fn parsed(text: &str) -> Fault {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    text.parse::<Fault>().unwrap_err().to_string()
}

#[test]
fn every_form_is_a_fault_with_its_defaults() {
    for form in FAULT_FORMS {
        let short = parsed(&format!("{}:at=5ms", form.name));
        assert_eq!(short, parsed(&format!("{}:at=5ms,{}", form.name, form.keys)), "{form:?}");
        assert_eq!(short.kind.name(), form.name);
        assert_eq!(short.when, When::At(Span::from_ms(5)));
    }
}

#[test]
fn a_card_can_be_pulled_out_only_where_the_target_is_told() {
    let plan = Plan { faults: vec![parsed("device-unplugged:at=1ms")], ..Plan::default() };
    assert_eq!(plan.validate_hotplug(true), Ok(()));
    assert_eq!(Plan::default().validate_hotplug(false), Ok(()));
    let refused = plan.validate_hotplug(false).unwrap_err().to_string();
    assert!(refused.contains("device-unplugged needs a Linux kernel to which our PCI bridge"));
}

#[test]
fn reads_what_is_said_in_any_order() {
    let storm = parsed("interrupt-storm: every=20us, probability=0.5, count=7");
    let kind = FaultKind::InterruptStorm { vector: 0, count: 7, every: Span::from_us(20) };
    let when = When::Probability(Probability::from_billionths(500_000_000).unwrap());
    assert_eq!(storm, Fault { kind, when });
    assert_eq!(storm.to_string(), "interrupt-storm:probability=0.5,count=7,every=20us");
}

#[test]
fn a_vector_is_said_where_it_is_not_the_first() {
    let first = parsed("interrupt-spurious:at=1ms,vector=0");
    assert_eq!(
        (first.kind.vector(), first.to_string()),
        (Some(0), "interrupt-spurious:at=1ms".into())
    );
    let second = parsed("interrupt-storm:at=1ms,vector=1");
    assert_eq!(second.kind.vector(), Some(1));
    assert!(second.to_string().ends_with("count=1000,every=10us,vector=1"), "{second}");
    assert_eq!(parsed("dma-error:at=1ms").kind.vector(), None);
}

#[test]
fn refuses_what_is_no_fault_and_says_what_is() {
    assert!(refused("interrupt-lost:at=1ms").contains("interrupt-dropped, interrupt-delayed"));
    assert!(refused("").contains("device-gone"));
    assert!(refused("device-gone").contains("at=5ms"));
    assert!(refused("dma-error:at=1ms,probability=0.1").contains("either a time"));
    assert!(refused("dma-error:at").contains("key=value"));
    assert!(refused("dma-error:at=1ms,at=2ms").contains("twice"));
    assert!(refused("dma-error:at=1ms,by=2ms").contains("no 'by'"));
    assert!(refused("link-flap:at=1ms,by=2ms").contains("for=2ms"));
    assert!(refused("link-flap:at=1ms,for=0").contains("choose"));
    assert!(refused("link-flap:at=-1ms").contains("negative"));
    assert!(refused("dma-error:at=2").contains("no unit"));
    assert!(refused("descriptor-length:at=1ms,bytes=16384").contains("16383"));
    assert!(refused("interrupt-storm:at=1ms,count=0").contains("choose 1"));
    assert!(refused("interrupt-storm:at=1ms,vector=2048").contains("choose 0 to 2047"));
    assert!(refused("interrupt-dropped:at=1ms,vector=1").contains("no 'vector'"));
    for wrong in ["0", "1.1", "-1", "nan", "1e-3", "0.0000000001", "", "00.1", "."] {
        let error = refused(&format!("dma-error:probability={wrong}"));
        assert!(error.contains("up to 1"), "{wrong}: {error}");
    }
}

/// What strikes at each of so many frames, one every microsecond.
fn history(faults: &[Fault], seed: u64, frames: u64) -> Vec<Option<(usize, FaultKind)>> {
    let mut schedule = FaultSchedule::new(faults, Seed(seed));
    assert_eq!(schedule.strikes(FaultTrigger::Frame, Time::ZERO), None, "not before the start");
    schedule.start(Time::ZERO);
    let frame = |k| {
        let now = Time::ZERO + Span::from_us(k);
        let struck = schedule.strikes(FaultTrigger::Frame, now);
        if let Some((place, _)) = struck {
            schedule.record_strike(place, now);
        }
        struck
    };
    (0..frames).map(frame).collect()
}

#[test]
fn a_time_strikes_once_and_on_the_first_occasion_that_took() {
    let faults = [parsed("dma-error:at=10us")];
    let struck = history(&faults, 1, 100);
    assert_eq!(struck.iter().flatten().count(), 1);
    assert_eq!(struck[10], Some((0, FaultKind::DmaError)));
    let mut schedule = FaultSchedule::new(&faults, Seed(1));
    schedule.start(Time::ZERO);
    let later = Time::ZERO + Span::from_us(11);
    assert!(schedule.strikes(FaultTrigger::Interrupt, later).is_none());
    for _ in 0..2 {
        assert!(schedule.strikes(FaultTrigger::Frame, later).is_some(), "until it has struck");
    }
    schedule.record_strike(0, later);
    assert!(schedule.strikes(FaultTrigger::Frame, later).is_none());
    assert_eq!(schedule.counts().next().unwrap().1.first, Some(later));
}

#[test]
fn of_several_the_first_strikes_and_none_changes_the_others_numbers() {
    let (often, seldom) = ("descriptor-crc:probability=0.3", "descriptor-rwt:probability=0.1");
    let both = history(&[parsed(often), parsed(seldom)], 5, 2_000);
    let alone = history(&[parsed(often)], 5, 2_000);
    let first = |struck: &Option<(usize, FaultKind)>| matches!(struck, Some((0, _)));
    let places = |history: &[_]| history.iter().map(first).collect::<Vec<bool>>();
    assert_eq!(places(&both), places(&alone));
    assert!(both.iter().flatten().any(|(place, _)| *place == 1));
}

proptest! {
    #[test]
    fn what_is_written_is_read(fault in faults()) {
        prop_assert_eq!(parsed(&fault.to_string()), fault);
    }

    #[test]
    fn never_panics_on_any_text(
        text in ".*",
        form in prop::sample::select(FAULT_FORMS),
        rest in "[a-z0-9=.,: -]{0,40}",
    ) {
        let _ = text.parse::<Fault>();
        let _ = format!("{}:{rest}", form.name).parse::<Fault>();
        let _ = format!("{}:{text}", form.name).parse::<Fault>();
    }

    #[test]
    fn one_seed_is_one_history(list in prop::collection::vec(faults(), 0..8), seed: u64) {
        prop_assert_eq!(history(&list, seed, 300), history(&list, seed, 300));
    }
}
