//! Which cores the two sides run on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where the support side spins.
    pub support: usize,
    /// Core of the target.
    pub target: usize,
}

impl Cores {
    /// Chooses from the cores that this process may use: isolated ones first, then the highest
    /// numbers, because the system's own work gathers on the lowest.
    pub fn choose(isolated: &[u32]) -> std::io::Result<Cores> {
        Ok(Cores::choose_from(&allowed_cores()?, isolated))
    }

    fn choose_from(allowed: &[usize], isolated: &[u32]) -> Cores {
        let mut ranked: Vec<usize> = allowed.to_vec();
        ranked.sort_by_key(|core| (!isolated.contains(&(*core as u32)), usize::MAX - core));
        let target = ranked.first().copied().unwrap_or(0);
        let support = ranked.get(1).copied().unwrap_or(target);
        Cores { support, target }
    }

    /// Whether both sides have to share one core.
    pub fn shared(&self) -> bool {
        self.support == self.target
    }
}

/// The cores that this thread may run on.
pub fn allowed_cores() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect())
}

/// A thread's place on one core; dropping it lets the thread run where it could before.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Keeps this thread, and what it starts, on one core.
    pub fn to(core: usize) -> std::io::Result<Pinned> {
        let before = sched_getaffinity(Pid::from_raw(0))?;
        let mut set = CpuSet::new();
        set.set(core)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed a moment ago; if it is not any more, nobody can help it.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_isolated_cores() {
        let cores = Cores::choose_from(&[0, 1, 2, 3], &[1, 2]);
        assert_eq!(cores, Cores { target: 2, support: 1 });
        assert_eq!(Cores::choose_from(&[0, 1], &[]), Cores { target: 1, support: 0 });
        assert!(Cores::choose_from(&[5], &[]).shared());
    }
}
