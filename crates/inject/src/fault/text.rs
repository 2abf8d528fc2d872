//! Faults as people write them: `KIND:key=value,key=value`.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::Span;
use warikomi_nic::RxError;

use super::{
    Fault, FaultKind, MAX_FAULT_LENGTH, MAX_FAULT_TIME, MAX_STORM, MAX_VECTOR, Probability, When,
};

/// One kind of fault, for help and messages.
#[derive(Clone, Copy, Debug)]
pub struct FaultForm {
    /// Name of the fault.
    pub name: &'static str,
    /// The keys that it takes besides `at` and `probability`, with their defaults.
    pub keys: &'static str,
    /// What the fault does, in one line.
    pub summary: &'static str,
}

const fn form(name: &'static str, keys: &'static str, summary: &'static str) -> FaultForm {
    FaultForm { name, keys, summary }
}

/// Every kind of fault.
pub const FAULT_FORMS: &[FaultForm] = &[
    form("interrupt-dropped", "", "an interrupt never reaches the target"),
    form("interrupt-delayed", "by=1ms", "an interrupt reaches the target later"),
    form("interrupt-duplicated", "", "an interrupt reaches the target twice"),
    form("interrupt-spurious", "vector=0", "an interrupt without a reason"),
    form("interrupt-storm", "count=1000,every=10us,vector=0", "many interrupts without a reason"),
    form("descriptor-never-completed", "", "a frame's descriptor is never given to the driver"),
    form(
        "descriptor-completed-late",
        "by=1ms",
        "a frame's descriptor is given to the driver later",
    ),
    form("descriptor-crc", "", "a descriptor reports a wrong check sequence"),
    form("descriptor-runt", "", "a descriptor reports a frame that is too short"),
    form("descriptor-rwt", "", "a descriptor reports a frame that is too long (watchdog)"),
    form("descriptor-length", "bytes=64", "a descriptor reports another length than the frame has"),
    form("link-flap", "for=2ms", "the cable is pulled and plugged in again"),
    form("dma-error", "", "the target's memory does not answer while a frame is written"),
    form("device-gone", "", "the device vanishes: every read gives all ones"),
    form("device-unplugged", "for=20ms", "the card is pulled out, and later plugged in again"),
];

/// Why a text is not a fault. Each says what is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFaultError {
    /// No fault has this name.
    #[error("there is no fault '{0}'; there are: {names}", names = names())]
    Kind(String),
    /// Something that is no `key=value`.
    #[error("'{0}' is not of the form key=value, such as at=5ms or probability=0.01")]
    NoValue(String),
    /// A key that this kind does not have.
    #[error("the fault {kind} has no '{key}'; it takes at=TIME or probability=P{}", also(.kind))]
    Key {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: String,
    },
    /// A key is given twice.
    #[error("'{0}' is given twice")]
    Twice(String),
    /// Neither time nor probability, or both.
    #[error(
        "the fault {0} needs either a time after the first packet's deadline (at=5ms) or a \
         probability (probability=0.01)"
    )]
    When(&'static str),
    /// A value is out of range.
    #[error("{key}={value} is not possible: {wanted}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are possible.
        wanted: String,
    },
}

fn names() -> String {
    FAULT_FORMS.iter().map(|form| form.name).collect::<Vec<_>>().join(", ")
}

fn also(kind: &str) -> String {
    match FAULT_FORMS.iter().find(|form| form.name == kind).map(|form| form.keys) {
        None | Some("") => String::new(),
        Some(keys) => format!(", and {keys}"),
    }
}

/// The values of one fault, each taken once.
struct Values<'a> {
    kind: &'static str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Values<'a> {
    fn read(kind: &'static str, text: &'a str) -> Result<Values<'a>, ParseFaultError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| ParseFaultError::NoValue(pair.to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(ParseFaultError::Twice(key.to_owned()));
            }
            pairs.push((key, value));
        }
        Ok(Values { kind, pairs })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(known, _)| *known == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn span(
        &mut self,
        key: &'static str,
        default: Span,
        (least, most): (Span, Span),
    ) -> Result<Span, ParseFaultError> {
        let Some(text) = self.take(key) else { return Ok(default) };
        let wrong = |wanted: String| ParseFaultError::Value { key, value: text.to_owned(), wanted };
        let span: Span = text.parse().map_err(|error| wrong(format!("{error}")))?;
        if (least..=most).contains(&span) {
            Ok(span)
        } else {
            Err(wrong(format!("choose {least} to {most}")))
        }
    }

    fn number(
        &mut self,
        key: &'static str,
        default: u32,
        (least, most): (u32, u32),
    ) -> Result<u32, ParseFaultError> {
        let Some(text) = self.take(key) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| ParseFaultError::Value {
            key,
            value: text.to_owned(),
            wanted: format!("choose {least} to {most}"),
        })
    }

    fn vector(&mut self) -> Result<u16, ParseFaultError> {
        self.number("vector", 0, (0, MAX_VECTOR.into())).map(|vector| vector as u16)
    }

    fn when(&mut self) -> Result<When, ParseFaultError> {
        let at = self.take("at").map(|text| {
            let mut one = Values { kind: self.kind, pairs: vec![("at", text)] };
            one.span("at", Span::ZERO, (Span::ZERO, MAX_FAULT_TIME))
        });
        let probability = self.take("probability").map(str::parse);
        match (at, probability) {
            (Some(at), None) => at.map(When::At),
            (None, Some(probability)) => probability.map(When::Probability),
            _ => Err(ParseFaultError::When(self.kind)),
        }
    }

    fn finish(self) -> Result<(), ParseFaultError> {
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) => Err(ParseFaultError::Key { kind: self.kind, key: (*key).to_owned() }),
        }
    }
}

impl FromStr for Probability {
    type Err = ParseFaultError;

    /// Reads a number above 0 and up to 1 with at most nine decimals.
    fn from_str(text: &str) -> Result<Probability, ParseFaultError> {
        let wrong = || ParseFaultError::Value {
            key: "probability",
            value: text.to_owned(),
            wanted: "choose more than 0 and up to 1, with at most nine decimals, such as 0.01"
                .to_owned(),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 9 || whole.len() > 1 {
            return Err(wrong());
        }
        let billionths: u64 = format!("{whole:0>1}{fraction:0<9}").parse().map_err(|_| wrong())?;
        let billionths = u32::try_from(billionths).map_err(|_| wrong())?;
        Probability::from_billionths(billionths).ok_or_else(wrong)
    }
}

const BY: Span = Span::from_ms(1);
const LENGTHS: (Span, Span) = (Span::from_ns(1), MAX_FAULT_LENGTH);

impl FromStr for Fault {
    type Err = ParseFaultError;

    fn from_str(text: &str) -> Result<Fault, ParseFaultError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let form = FAULT_FORMS.iter().find(|form| form.name == name);
        let kind = form.ok_or_else(|| ParseFaultError::Kind(name.to_owned()))?.name;
        let mut values = Values::read(kind, rest)?;
        let when = values.when()?;
        let kind = match kind {
            "interrupt-dropped" => FaultKind::InterruptDropped,
            "interrupt-delayed" => {
                FaultKind::InterruptDelayed { by: values.span("by", BY, LENGTHS)? }
            }
            "interrupt-duplicated" => FaultKind::InterruptDuplicated,
            "interrupt-spurious" => FaultKind::InterruptSpurious { vector: values.vector()? },
            "interrupt-storm" => FaultKind::InterruptStorm {
                vector: values.vector()?,
                count: values.number("count", 1_000, (1, MAX_STORM))?,
                every: values.span(
                    "every",
                    Span::from_us(10),
                    (Span::from_us(1), Span::from_ms(1_000)),
                )?,
            },
            "descriptor-never-completed" => FaultKind::DescriptorNeverCompleted,
            "descriptor-completed-late" => {
                FaultKind::DescriptorCompletedLate { by: values.span("by", BY, LENGTHS)? }
            }
            "descriptor-crc" => FaultKind::DescriptorError(RxError::Crc),
            "descriptor-runt" => FaultKind::DescriptorError(RxError::Runt),
            "descriptor-rwt" => FaultKind::DescriptorError(RxError::TooLong),
            "descriptor-length" => FaultKind::DescriptorLength {
                bytes: values.number("bytes", 64, (0, 16_383))? as u16,
            },
            "link-flap" => {
                FaultKind::LinkFlap { down_for: values.span("for", Span::from_ms(2), LENGTHS)? }
            }
            "dma-error" => FaultKind::DmaError,
            "device-unplugged" => FaultKind::DeviceUnplugged {
                out_for: values.span("for", Span::from_ms(20), LENGTHS)?,
            },
            _ => FaultKind::DeviceGone,
        };
        values.finish()?;
        Ok(Fault { kind, when })
    }
}

impl FaultKind {
    /// Its name in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::InterruptDropped => "interrupt-dropped",
            FaultKind::InterruptDelayed { .. } => "interrupt-delayed",
            FaultKind::InterruptDuplicated => "interrupt-duplicated",
            FaultKind::InterruptSpurious { .. } => "interrupt-spurious",
            FaultKind::InterruptStorm { .. } => "interrupt-storm",
            FaultKind::DescriptorNeverCompleted => "descriptor-never-completed",
            FaultKind::DescriptorCompletedLate { .. } => "descriptor-completed-late",
            FaultKind::DescriptorError(RxError::Crc) => "descriptor-crc",
            FaultKind::DescriptorError(RxError::Runt) => "descriptor-runt",
            FaultKind::DescriptorError(RxError::TooLong) => "descriptor-rwt",
            FaultKind::DescriptorLength { .. } => "descriptor-length",
            FaultKind::LinkFlap { .. } => "link-flap",
            FaultKind::DmaError => "dma-error",
            FaultKind::DeviceGone => "device-gone",
            FaultKind::DeviceUnplugged { .. } => "device-unplugged",
        }
    }
}

impl fmt::Display for Fault {
    /// The fault in the form that is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind.name())?;
        match self.when {
            When::At(at) => write!(f, "at={}", at.exact())?,
            When::Probability(probability) => write!(f, "probability={probability}")?,
        }
        match self.kind {
            FaultKind::InterruptDelayed { by } | FaultKind::DescriptorCompletedLate { by } => {
                write!(f, ",by={}", by.exact())
            }
            FaultKind::InterruptStorm { count, every, .. } => {
                write!(f, ",count={count},every={}", every.exact())
            }
            FaultKind::DescriptorLength { bytes } => write!(f, ",bytes={bytes}"),
            FaultKind::LinkFlap { down_for: span }
            | FaultKind::DeviceUnplugged { out_for: span } => write!(f, ",for={}", span.exact()),
            _ => Ok(()),
        }?;
        match self.kind.vector() {
            None | Some(0) => Ok(()),
            Some(vector) => write!(f, ",vector={vector}"),
        }
    }
}

impl TryFrom<String> for Fault {
    type Error = ParseFaultError;

    fn try_from(text: String) -> Result<Fault, ParseFaultError> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}
