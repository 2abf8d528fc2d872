//! Which cores the two sides run on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where the support side spins.
    pub support: usize,
    /// Where the target runs.
    pub target: usize,
}

impl Cores {
    /// Chooses from the cores that this process may use: isolated ones first, then the highest
    /// numbers, because the system's own work gathers on the lowest.
    pub fn choose() -> std::io::Result<Cores> {
        let allowed = allowed_cores()?;
        let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated")
            .map(|list| parse_cpu_list(&list))
            .unwrap_or_default();
        Ok(Cores::choose_from(&allowed, &isolated))
    }

    /// The same, from given lists.
    pub fn choose_from(allowed: &[usize], isolated: &[usize]) -> Cores {
        let mut ranked: Vec<usize> = allowed.to_vec();
        ranked.sort_by_key(|core| (!isolated.contains(core), usize::MAX - core));
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

/// Keeps this thread on one core; returns where it was allowed to run before, for
/// [`restore`].
pub fn pin_current_thread(core: usize) -> std::io::Result<CpuSet> {
    let before = sched_getaffinity(Pid::from_raw(0))?;
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(before)
}

/// Undoes [`pin_current_thread`].
pub fn restore(before: &CpuSet) -> std::io::Result<()> {
    Ok(sched_setaffinity(Pid::from_raw(0), before)?)
}

/// Reads the kernel's list format, such as `2-3,6`; skips what does not parse.
fn parse_cpu_list(list: &str) -> Vec<usize> {
    const SANE_MAXIMUM: usize = 4096;
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last.min(SANE_MAXIMUM));
        }
    }
    cores
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

    #[test]
    fn reads_the_kernels_list_format() {
        assert_eq!(parse_cpu_list("2-3,6\n"), [2, 3, 6]);
        assert!(parse_cpu_list("\n").is_empty());
        assert_eq!(parse_cpu_list("x,1-,4"), [4]);
    }
}
