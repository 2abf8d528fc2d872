use warikomi_clock::Time;

/// One call of [`Target::poll`](crate::Target::poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Time at which the pass began.
    pub at: Time,
    /// Whether there was anything to do.
    pub worked: bool,
    /// Whether the target has been signalled since the last pass began: a system call of microseconds.
    pub signalled: bool,
}

impl Pass {
    /// Of a pass that had nothing to do.
    pub fn idle(at: Time) -> Pass {
        Pass { at, worked: false, signalled: false }
    }
}
