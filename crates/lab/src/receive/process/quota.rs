//! A quota of processor time for what receives, by the system's control groups (cgroups).
//!
//! The scheduler lets a group run until its quota of a period is used up, and then not at all until the next: a delay as
//! of a scheduler without guarantees. Both versions of control groups are used where we may write to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use procfs::process::Process;
use warikomi_driver::strategy::CpuBudget;

use crate::Error;

/// The period of a quota, the kernel's own default (Documentation/scheduler/sched-bwc.rst).
const PERIOD_US: u64 = 100_000;
/// A shorter quota the kernel refuses (the same).
const LEAST_QUOTA_US: u64 = 1_000;

/// Groups made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A group of processes with a quota, of which nothing is left when it is dropped.
#[derive(Debug)]
pub(super) struct Quota {
    /// The group that the processes came from, and go back to.
    home: PathBuf,
    directory: PathBuf,
    version: Version,
}

impl Quota {
    /// Lets these processes have so much of a processor, all together.
    pub(super) fn limit(share: CpuBudget, processes: &[u32]) -> Result<Quota, Error> {
        Quota::try_limit(share, processes).map_err(|why| {
            Error::impossible(format!(
                "--quota needs a control group (cgroup) with the cpu controller that we may write to: {why}; run as root \
                 or in a delegated cgroup (systemd-run --user -p Delegate=yes), or use --stall"
            ))
        })
    }

    fn try_limit(share: CpuBudget, processes: &[u32]) -> Result<Quota, String> {
        let Place { home, parent, version } = Place::find()?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("warikomi-{}-{number}", std::process::id()));
        let cannot = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| format!("{path}: {error}")
        };
        if version == Version::V2 && parent == home {
            let control = parent.join("cgroup.subtree_control");
            fs::write(&control, "+cpu").map_err(cannot(&control))?;
        }
        fs::create_dir(&directory).map_err(cannot(&directory))?;
        let quota = Quota { home, directory, version };
        let quota_us = quota_us(share);
        let settings = match version {
            Version::V1 => vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota_us.to_string()),
            ],
            Version::V2 => vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))],
        };
        let members = processes.iter().map(|id| ("cgroup.procs", id.to_string()));
        for (name, value) in settings.into_iter().chain(members) {
            let file = quota.directory.join(name);
            fs::write(&file, value).map_err(cannot(&file))?;
        }
        Ok(quota)
    }

    /// For how long the processes were kept from running, in milliseconds.
    pub(super) fn throttled_ms(&self) -> io::Result<f64> {
        let stat = fs::read_to_string(self.directory.join("cpu.stat"))?;
        let (name, per_ms) = match self.version {
            Version::V1 => ("throttled_time", 1e6),
            Version::V2 => ("throttled_usec", 1e3),
        };
        let found =
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let missing = || io::Error::other(format!("cpu.stat of a control group has no {name}"));
        found.map(|time| time / per_ms).ok_or_else(missing)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group can be removed once nothing runs in it.
        let members = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), member);
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// What a share is in a period.
fn quota_us(share: CpuBudget) -> u64 {
    (u64::from(share.ppm()) * PERIOD_US / 1_000_000).max(LEAST_QUOTA_US)
}

/// Where a group can be made.
struct Place {
    /// Our own group in the hierarchy that has the cpu controller.
    home: PathBuf,
    /// The group to make one in: in version 2 none that has processes and groups in it has controllers (Documentation/
    /// admin-guide/cgroup-v2.rst, "No Internal Process Constraint"), but for the root.
    parent: PathBuf,
    version: Version,
}

impl Place {
    fn find() -> Result<Place, String> {
        let system = |error: procfs::ProcError| error.to_string();
        let own = Process::myself().map_err(system)?;
        let groups = own.cgroups().map_err(system)?;
        let mounts = own.mountinfo().map_err(system)?;
        for group in &groups {
            let version = match group.controllers.iter().all(String::is_empty) {
                true => Version::V2,
                false if group.controllers.iter().any(|name| name == "cpu") => Version::V1,
                false => continue,
            };
            let mount = mounts.0.iter().find(|mount| match version {
                Version::V1 => mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu"),
                Version::V2 => mount.fs_type == "cgroup2",
            });
            let Some(mount) = mount else { continue };
            // A container may see its own group as the root.
            let below = Path::new(&group.pathname).strip_prefix(&mount.root);
            let home = mount.mount_point.join(below.unwrap_or(Path::new("")));
            let offered = fs::read_to_string(home.join("cgroup.controllers")).unwrap_or_default();
            if version == Version::V2 && !offered.split_whitespace().any(|name| name == "cpu") {
                continue;
            }
            let beside =
                home.parent().filter(|_| version == Version::V2 && home != mount.mount_point);
            let parent = beside.unwrap_or(&home).to_owned();
            return Ok(Place { home, parent, version });
        }
        Err("none is mounted here".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_share_is_of_the_period_and_no_less_than_the_kernel_takes() {
        assert_eq!(quota_us(CpuBudget::from_ppm(500_000)), 50_000);
        assert_eq!(quota_us(CpuBudget::from_ppm(1)), LEAST_QUOTA_US);
    }

    #[test]
    fn a_group_is_there_while_it_is_needed_or_it_is_said_why_it_cannot_be() {
        let mut sleeper = sleeper();
        match Quota::limit(CpuBudget::from_ppm(200_000), &[sleeper.id()]) {
            Ok(quota) => {
                let directory = quota.directory.clone();
                let members = fs::read_to_string(directory.join("cgroup.procs")).unwrap();
                assert_eq!(members.trim(), sleeper.id().to_string());
                assert!(quota.throttled_ms().unwrap() >= 0.0);
                drop(quota);
                assert!(!directory.exists(), "it is left behind although its member lives");
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("--quota needs a control group"), "{said}");
            }
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
