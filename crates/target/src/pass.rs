use warikomi_clock::Time;

/// One call of [`Target::poll`](crate::Target::poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Time at which the pass began.
    pub at: Time,
    /// Whether there was anything to do.
    pub worked: bool,
}
