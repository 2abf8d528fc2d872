//! A target that is started when a step needs it first: a run whose steps were all made before starts none.

use warikomi_session::Session;

use crate::error::Error;
use crate::watch::Watch;

/// Brings the target up.
type Start<'a> = Box<dyn FnMut(&mut Watch) -> Result<Session, Error> + 'a>;

/// A target that is started when it is needed first.
pub struct OnDemand<'a> {
    start: Start<'a>,
    session: Option<Session>,
}

impl<'a> OnDemand<'a> {
    /// A target that `start` brings up.
    pub fn new(start: impl FnMut(&mut Watch) -> Result<Session, Error> + 'a) -> OnDemand<'a> {
        OnDemand { start: Box::new(start), session: None }
    }

    /// The target, running.
    pub fn running(&mut self, watch: &mut Watch) -> Result<&mut Session, Error> {
        match &mut self.session {
            Some(session) => Ok(session),
            none => Ok(none.insert((self.start)(watch)?)),
        }
    }

    /// Ends the target, if it runs.
    pub fn stop(self) -> Result<(), Error> {
        Ok(self.session.map_or(Ok(()), Session::stop)?)
    }
}
