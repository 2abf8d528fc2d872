//! NIC models, and the wire that they stand on.
//!
//! A model ([`NicModel`]) is registers and rings, nothing else: it acts only through the
//! [`NicContext`] of the call that it is in. [`NicFunction`] makes a PCI function of it, and is
//! what a target attaches and what an injector hands frames to. What the model transmits goes to a
//! [`Wire`](wire::Wire).

pub mod bus;
mod context;
mod frame;
mod function;
mod model;
mod probe;
pub mod register;
pub mod rtl8168;
pub mod wire;

pub use context::NicContext;
pub use frame::{Frame, MAX_FRAME_BYTES, MIN_FRAME_BYTES, fcs};
pub use function::{FunctionCounters, Nic, NicFunction};
pub use model::{Link, ModelInfo, NicModel, ResetKind, RxCounters, RxError, RxFault, RxOutcome};
pub use probe::{InterruptRecord, Probe};

/// The models that can be asked for by name.
pub const MODELS: &[&ModelInfo] = &[&rtl8168::INFO];

/// Which NIC, and what is set about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicOptions {
    /// The model's name.
    pub model: String,
    /// The bus that its transfers take; `None` for one that takes no time: transfers are done within the
    /// register write that starts them.
    pub bus: Option<bus::Bus>,
    /// Bits that its line carries in a second; `None` for what the model has.
    pub line_rate_bps: Option<u64>,
    /// The longest IP packet in bytes; `None` for what the model has.
    pub mtu: Option<u32>,
}

impl NicOptions {
    /// The model as it is.
    pub fn of(model: &str) -> NicOptions {
        NicOptions { model: model.to_owned(), bus: None, line_rate_bps: None, mtu: None }
    }
}

/// Makes the NIC called `model`, cabled to `wire`; `None` if there is none of that name.
pub fn by_name(model: &str, wire: Box<dyn wire::Wire>) -> Option<Box<dyn Nic>> {
    match model {
        "rtl8168" => Some(Box::new(NicFunction::new(rtl8168::Rtl8168::new(), wire))),
        _ => None,
    }
}
