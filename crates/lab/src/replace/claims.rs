//! What the processes of a target claim of the core that they share.

use std::fmt;
use std::str::FromStr;

use warikomi_process::{NICE, Priorities};

/// Names of claims that people use most: before those that say nothing, and after them.
const NAMED: [(&str, i32); 2] = [("high", -10), ("low", 10)];

/// Whose claim it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// Who asks for a replacement, and carries it out.
    Requester,
    /// Drivers, from their start on.
    Drivers,
    /// The stack.
    Stack,
    /// The application.
    Application,
    /// The data store, and its other clients.
    Store,
}

impl Claimant {
    const ALL: [Claimant; 5] = [
        Claimant::Requester,
        Claimant::Drivers,
        Claimant::Stack,
        Claimant::Application,
        Claimant::Store,
    ];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Claimant::Requester => "requester",
            Claimant::Drivers => "drivers",
            Claimant::Stack => "stack",
            Claimant::Application => "application",
            Claimant::Store => "store",
        }
    }
}

/// A claim, as a nice value: the lower comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub who: Claimant,
    /// Within [`NICE`].
    pub nice: i32,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.who.name(), self.nice)
    }
}

/// What is no claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no claim on a core: write WHO=NICE, as in application=high; WHO is requester, drivers, stack, \
     application or store, and NICE high, low or {least} to {most}", least = NICE.start(), most = NICE.end()
)]
pub struct ParseClaimError(String);

impl FromStr for Claim {
    type Err = ParseClaimError;

    fn from_str(text: &str) -> Result<Claim, ParseClaimError> {
        let refused = || ParseClaimError(text.trim().to_owned());
        let (who, nice) = text.trim().split_once('=').ok_or_else(refused)?;
        let who = Claimant::ALL.into_iter().find(|one| one.name() == who).ok_or_else(refused)?;
        let named = NAMED.into_iter().find(|(name, _)| *name == nice).map(|(_, value)| value);
        let nice = named.or_else(|| nice.parse().ok()).filter(|nice| NICE.contains(nice));
        nice.map(|nice| Claim { who, nice }).ok_or_else(refused)
    }
}

/// The claim of one, 0 unless it is said; `None` if none at all is.
pub(super) fn nice_of(claims: &[Claim], who: Claimant) -> Option<i32> {
    let said = claims.iter().find(|claim| claim.who == who).map(|claim| claim.nice);
    (!claims.is_empty()).then_some(said.unwrap_or(0))
}

/// What the target's processes claim; what is usual if nothing is said.
pub(super) fn priorities(claims: &[Claim]) -> Option<Priorities> {
    Some(Priorities {
        drivers: nice_of(claims, Claimant::Drivers)?,
        stack: nice_of(claims, Claimant::Stack)?,
        application: nice_of(claims, Claimant::Application)?,
        store: nice_of(claims, Claimant::Store)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read_as_it_is_written_and_by_its_name() {
        let claims = ["requester=high", "store=low", "application=-20", "stack=19"];
        let read = claims.map(|text| text.parse::<Claim>().unwrap());
        assert_eq!(read.map(|claim| claim.nice), [-10, 10, -20, 19]);
        for claim in read {
            assert_eq!(claim.to_string().parse(), Ok(claim));
        }
        for wrong in ["", "drivers", "drivers=", "card=high", "drivers=20", "drivers=-21"] {
            let refused = wrong.parse::<Claim>().unwrap_err().to_string();
            assert!(refused.contains("-20 to 19"), "{refused}");
        }
    }

    #[test]
    fn what_is_not_named_is_in_the_middle() {
        assert_eq!(priorities(&[]), None);
        let claims = [Claim { who: Claimant::Drivers, nice: 5 }];
        assert_eq!(priorities(&claims), Some(Priorities { drivers: 5, ..Priorities::default() }));
        assert_eq!(nice_of(&claims, Claimant::Requester), Some(0));
    }
}
