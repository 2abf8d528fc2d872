//! Where a measurement was made.
//!
//! The parsers are functions of text, and the reader is the thin layer that finds the text.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The machine, and what it granted us.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Logical cores that are on line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_cores: Option<u32>,
    /// The host's kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether it is a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualised: Option<bool>,
    /// Cores that the support side is pinned to; empty if it is not pinned.
    pub support_cores: Vec<u32>,
    /// Cores that the target is pinned to; empty if it is not pinned.
    pub target_cores: Vec<u32>,
    /// Cores that the host's scheduler leaves alone.
    pub isolated_cores: Vec<u32>,
    /// The frequency governor of the support side's core; absent where there is none, as in most
    /// virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Time that the host of this virtual machine gave to others while the run lasted, in percent
    /// of the time of the cores used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<f64>,
    /// How long the cores were watched for what follows and for stolen time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_ms: Option<f64>,
    /// Time that the support side's thread was ready to run while others of this machine's processes
    /// had its core, in microseconds, while the run lasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support_waited_us: Option<f64>,
    /// The same of the target's first process; its other processes share its core, and count as
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_waited_us: Option<f64>,
    /// Real-time priority of the support side's thread, 1 to 99; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_priority: Option<u32>,
    /// The same of the target's first process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_rt_priority: Option<u32>,
    /// Why neither has it, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_realtime: Option<String>,
    /// Whether the support side's memory is locked: no page of it can be taken away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub memory_locked: bool,
    /// Huge pages set aside, in all sizes' default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<u64>,
    /// Whether the scheduler shares cores out to sessions before it looks at priorities: what is of another session,
    /// such as the kernel's own threads, may then wait for seconds beside a process of higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_grouped: Option<bool>,
    /// Ticks of the time stamp counter in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc_hz: Option<f64>,
}

impl Machine {
    /// Looks at this machine. What the system does not tell is left out; cores and their governor,
    /// stolen time and the counter's speed are for the caller to add.
    pub fn read() -> Machine {
        Machine::read_below(Path::new("/"))
    }

    /// Whether others, on this machine or on its host, took time from the cores that a run was on: what
    /// it lost says nothing then.
    pub fn was_disturbed(&self) -> bool {
        const LONG_US: f64 = 1_000.0;
        let waited = [self.support_waited_us, self.target_waited_us];
        self.stolen_percent > Some(0.0) || waited.iter().flatten().any(|&us| us > LONG_US)
    }

    /// The same machine, watched once more: times add up, and of shares each counts for as long as its cores
    /// were watched.
    pub fn watched_again(self, later: Machine) -> Machine {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        let stolen_ms = |machine: &Machine| Some(machine.stolen_percent? * machine.watched_ms?);
        let watched_ms = sum(self.watched_ms, later.watched_ms);
        let stolen_ms = sum(stolen_ms(&self), stolen_ms(&later));
        Machine {
            stolen_percent: stolen_ms
                .zip(watched_ms)
                .map(|(stolen, watched)| if watched > 0.0 { stolen / watched } else { 0.0 }),
            watched_ms,
            support_waited_us: sum(self.support_waited_us, later.support_waited_us),
            target_waited_us: sum(self.target_waited_us, later.target_waited_us),
            ..later
        }
    }

    /// Like [`Machine::read`], from `proc` and `sys` below `root`.
    pub fn read_below(root: &Path) -> Machine {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let cpus = text("proc/cpuinfo").and_then(|cpuinfo| parse::cpu_info(&cpuinfo));
        Machine {
            cpu_model: cpus.as_ref().and_then(parse::cpu_model),
            logical_cores: cpus.as_ref().and_then(parse::logical_cores),
            kernel: text("proc/sys/kernel/osrelease").map(|kernel| kernel.trim().to_owned()),
            virtualised: cpus.as_ref().and_then(parse::virtualised),
            isolated_cores: text("sys/devices/system/cpu/isolated")
                .and_then(|list| parse::core_list(&list))
                .unwrap_or_default(),
            rt_priority: text("proc/thread-self/stat").and_then(|stat| parse::rt_priority(&stat)),
            huge_pages: text("proc/meminfo").and_then(|memory| parse::huge_pages(&memory)),
            sessions_grouped: text("proc/sys/kernel/sched_autogroup_enabled")
                .map(|flag| flag.trim() == "1"),
            ..Machine::default()
        }
    }
}

/// The frequency governor of a core; `None` where there is none.
pub fn governor_of(core: u32) -> Option<String> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
    fs::read_to_string(path).ok().map(|governor| governor.trim().to_owned())
}

/// What a core did since the system started, in clock ticks (`/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// All of the processor's time, in clock ticks.
    pub total: u64,
    /// Of this, what the host gave to others.
    pub stolen: u64,
}

impl CpuTimes {
    /// The time of these cores together, now; of all cores if none is named. `None` where the
    /// system does not tell.
    pub fn read(cores: &[u32]) -> Option<CpuTimes> {
        parse::cpu_times(&fs::read_to_string("/proc/stat").ok()?, cores)
    }

    /// The share that was stolen since `before`, in percent; `None` if no tick has passed.
    pub fn stolen_percent_since(&self, before: &CpuTimes) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|&ticks| ticks > 0)?;
        let stolen = self.stolen.saturating_sub(before.stolen).min(total);
        Some(100.0 * stolen as f64 / total as f64)
    }
}

/// How long a process's first thread has waited for a core so far, in nanoseconds
/// (`/proc/PID/schedstat`); our own thread's if no process is named.
pub fn core_wait_ns(process_id: Option<u32>) -> Option<u64> {
    CoreWait::of(process_id)?.ns()
}

/// Where a process's first thread tells how long it has waited for a core, for those who look often.
#[derive(Debug)]
pub struct CoreWait(File);

impl CoreWait {
    /// Of this process; of our own thread if none is named.
    pub fn of(process_id: Option<u32>) -> Option<CoreWait> {
        let path = match process_id {
            Some(id) => format!("/proc/{id}/schedstat"),
            None => "/proc/thread-self/schedstat".to_owned(),
        };
        File::open(path).ok().map(CoreWait)
    }

    /// How long it has waited so far, in nanoseconds.
    pub fn ns(&self) -> Option<u64> {
        // Three numbers of at most 20 digits.
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0).ok()?;
        parse::core_wait_ns(std::str::from_utf8(text.get(..length)?).ok()?)
    }
}

/// From the kernel's texts to values. What a text does not say is `None`. Some are read here and not by
/// `procfs`: it forgets which core a line of `/proc/stat` is of, wants fields of `/proc/meminfo` that a
/// container may hide, and panics on a `stat` that is none.
pub mod parse {
    use procfs::process::Schedstat;
    use procfs::{CpuInfo, FromRead};

    use super::CpuTimes;

    /// More cores than any machine has; a list that names more is not one.
    const MAX_CORES: u32 = 65_536;

    /// What `/proc/cpuinfo` says.
    pub fn cpu_info(text: &str) -> Option<CpuInfo> {
        CpuInfo::from_read(text.as_bytes()).ok()
    }

    /// The processor's name.
    pub fn cpu_model(cpus: &CpuInfo) -> Option<String> {
        cpus.model_name(0).filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// How many cores are listed.
    pub fn logical_cores(cpus: &CpuInfo) -> Option<u32> {
        let listed =
            (0..cpus.num_cores()).filter(|&cpu| cpus.get_field(cpu, "processor").is_some());
        u32::try_from(listed.count()).ok().filter(|&cores| cores > 0)
    }

    /// Whether the processor's flags tell of a hypervisor.
    pub fn virtualised(cpus: &CpuInfo) -> Option<bool> {
        cpus.flags(0).map(|flags| flags.contains(&"hypervisor"))
    }

    /// A list of cores as the kernel writes them: `0,2-3`.
    pub fn core_list(text: &str) -> Option<Vec<u32>> {
        let mut cores = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MAX_CORES || cores.len() > MAX_CORES as usize {
                return None;
            }
            cores.extend(first..=last);
        }
        Some(cores)
    }

    /// The times of the named cores together, from `/proc/stat`; of all if none is named.
    ///
    /// The columns are user, nice, system, idle, iowait, irq, softirq, steal, guest and guest_nice
    /// (proc_stat(5)); the last two are contained in the first two.
    pub fn cpu_times(stat: &str, cores: &[u32]) -> Option<CpuTimes> {
        const STEAL: usize = 7;
        let mut sum = CpuTimes::default();
        let mut found = 0;
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(core) = words.next().and_then(|name| name.strip_prefix("cpu")) else {
                continue;
            };
            let wanted = if cores.is_empty() {
                core.is_empty()
            } else {
                core.parse().is_ok_and(|core| cores.contains(&core))
            };
            if !wanted {
                continue;
            }
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            sum.stolen = sum.stolen.saturating_add(*ticks.get(STEAL)?);
            sum.total = ticks[..=STEAL].iter().fold(sum.total, |sum, &n| sum.saturating_add(n));
            found += 1;
        }
        (found > 0).then_some(sum)
    }

    /// A thread's real-time priority, from `/proc/thread-self/stat` (field 40 of proc_pid_stat(5));
    /// `None` if it has none. The second field, the name, may contain anything, so counting starts
    /// behind the last parenthesis.
    pub fn rt_priority(stat: &str) -> Option<u32> {
        const FIELDS_BEFORE: usize = 40 - 3;
        let (_, behind_name) = stat.rsplit_once(')')?;
        let field = behind_name.split_ascii_whitespace().nth(FIELDS_BEFORE)?;
        field.parse().ok().filter(|&priority| priority > 0)
    }

    /// Time spent ready to run but not running, in nanoseconds, from `/proc/PID/schedstat`.
    pub fn core_wait_ns(schedstat: &str) -> Option<u64> {
        Some(Schedstat::from_read(schedstat.as_bytes()).ok()?.run_delay)
    }

    /// Huge pages of the default size that are set aside, from `/proc/meminfo`.
    pub fn huge_pages(meminfo: &str) -> Option<u64> {
        let behind = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
        behind?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Some CPU @ 2.5GHz\nflags\t\t: fpu tsc \
                           hypervisor\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 2.5GHz\n";
    const STAT: &str = "cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 5 0 5 30 0 0 0 8 0 0\n\
                        cpu1 5 0 5 40 0 0 0 2 0 0\nintr 12 0\n";

    #[test]
    fn what_is_watched_twice_adds_up() {
        let watched = |stolen_percent, watched_ms, waited| Machine {
            stolen_percent: Some(stolen_percent),
            watched_ms: Some(watched_ms),
            support_waited_us: Some(waited),
            ..Machine::default()
        };
        let both = watched(1.0, 300.0, 5.0).watched_again(watched(5.0, 100.0, 7.0));
        assert_eq!(both, watched(2.0, 400.0, 12.0));
        let unknown = watched(1.0, 1.0, 1.0).watched_again(Machine::default());
        assert_eq!(unknown, Machine::default(), "a part that is not known makes no sum");
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        let cpus = parse::cpu_info(CPUINFO).unwrap();
        assert_eq!(parse::cpu_model(&cpus).as_deref(), Some("Some CPU @ 2.5GHz"));
        assert_eq!(parse::logical_cores(&cpus), Some(2));
        assert_eq!(parse::virtualised(&cpus), Some(true));
        assert_eq!(parse::core_list("0,2-4\n"), Some(vec![0, 2, 3, 4]));
        assert_eq!(parse::core_list("\n"), Some(vec![]));
        assert_eq!(parse::cpu_times(STAT, &[]), Some(CpuTimes { total: 100, stolen: 10 }));
        assert_eq!(parse::cpu_times(STAT, &[1]), Some(CpuTimes { total: 52, stolen: 2 }));
        assert_eq!(parse::core_wait_ns("1234 567 8\n"), Some(567));
        assert_eq!(parse::huge_pages("MemTotal: 5 kB\nHugePages_Total:      64\n"), Some(64));
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let fields: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        let stat = format!("17 (a) b) R {}", fields.join(" "));
        assert_eq!(parse::rt_priority(&stat), Some(40));
    }

    #[test]
    fn stolen_time_is_a_share_of_what_passed() {
        let (before, after) =
            (CpuTimes { total: 100, stolen: 10 }, CpuTimes { total: 300, stolen: 15 });
        assert_eq!(after.stolen_percent_since(&before), Some(2.5));
        assert_eq!(before.stolen_percent_since(&before), None);
        assert_eq!(before.stolen_percent_since(&after), None);
    }

    #[test]
    fn what_others_took_is_a_disturbance_if_it_is_long() {
        let waited = |us| Machine { target_waited_us: Some(us), ..Machine::default() };
        assert!(!Machine::default().was_disturbed() && !waited(999.0).was_disturbed());
        assert!(waited(1_001.0).was_disturbed());
        assert!(Machine { stolen_percent: Some(0.1), ..Machine::default() }.was_disturbed());
        assert!(!Machine { stolen_percent: Some(0.0), ..Machine::default() }.was_disturbed());
    }

    #[test]
    fn this_machine_tells_something() {
        let machine = Machine::read();
        assert!(machine.logical_cores.is_some_and(|cores| cores > 0));
        assert!(machine.kernel.is_some());
        assert!(core_wait_ns(None).is_some() && core_wait_ns(Some(std::process::id())).is_some());
        assert_eq!(Machine::read_below(Path::new("/nonexistent")), Machine::default());
        let other = tempfile::tempdir().unwrap();
        fs::create_dir_all(other.path().join("proc/sys/kernel")).unwrap();
        for (flag, expected) in [("0\n", false), ("1\n", true)] {
            fs::write(other.path().join("proc/sys/kernel/sched_autogroup_enabled"), flag).unwrap();
            assert_eq!(Machine::read_below(other.path()).sessions_grouped, Some(expected));
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in "[a-z0-9 :(),\\-\n\t]*", cores in prop::collection::vec(0u32..4, 0..3)) {
            for text in [&text, &format!("processor\t: 0\n{text}"), &format!("processor:0\nflags:{text}")] {
                let cpus = parse::cpu_info(text);
                let _ = cpus.as_ref().and_then(parse::cpu_model);
                let _ = cpus.as_ref().and_then(parse::logical_cores);
                let _ = cpus.as_ref().and_then(parse::virtualised);
            }
            let _ = parse::core_list(&text);
            let _ = parse::rt_priority(&text);
            let _ = parse::huge_pages(&text);
            let _ = parse::core_wait_ns(&text);
            let _ = parse::cpu_times(&text, &cores);
            let _ = parse::cpu_times(&format!("cpu0 {text}\ncpu {text}"), &cores);
        }
    }
}
