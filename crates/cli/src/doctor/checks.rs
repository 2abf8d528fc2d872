//! Checks of what is there.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::{FsFlags, statvfs};
use warikomi_clock::TscClock;
use warikomi_kernel::{Cache, Image, check_tools};
use warikomi_measure::{Machine, governor_of};
use warikomi_target::cores::{Cores, allowed_cores};

use super::finding::Finding;
use super::finding::Severity::{Disturbs, Prevents};

/// What a target of the default size needs there.
const WANTED_MB: u64 = 512;

pub(super) fn tools() -> Finding {
    match check_tools() {
        Ok(()) => Finding::good("build tools", "all there"),
        Err(error) => Finding::bad(
            "build tools",
            Disturbs,
            error.to_string(),
            "no kernel can be built; those that are built already run",
            "install what is missing, with the line above",
        ),
    }
}

pub(super) fn sources() -> Finding {
    let archives: Vec<String> = std::fs::read_dir("/usr/src")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("linux-source-"))
        .collect();
    if archives.is_empty() {
        return Finding::bad(
            "kernel sources",
            Disturbs,
            "no linux-source package is installed",
            "a kernel can only be built from a tree of your own (--source DIR)",
            "sudo apt-get install linux-source",
        );
    }
    Finding::good("kernel sources", archives.join(", "))
}

pub(super) fn kernels() -> Finding {
    let images = Cache::of_this_user().and_then(|cache| cache.images());
    let none = |found: String| {
        let means = "there is nothing to run a driver in";
        Finding::bad("kernels", Prevents, found, means, "warikomi kernel build")
    };
    match images {
        Err(error) => none(error.to_string()),
        Ok(images) if images.is_empty() => none("none is built".to_owned()),
        Ok(images) => {
            let described = |image: &Image| {
                let without = if image.info().bridge { "" } else { " (without our PCI bridge)" };
                format!("Linux {}{without}", image.info().release)
            };
            let releases: Vec<_> = images.iter().map(described).collect();
            Finding::good("kernels", releases.join(", "))
        }
    }
}

pub(super) fn memory_directory() -> Finding {
    const SUBJECT: &str = "memory file system";
    let dir = Path::new("/dev/shm");
    let Ok(stat) = statvfs(dir) else {
        return Finding::bad(
            SUBJECT,
            Prevents,
            "there is no /dev/shm",
            "the target's memory has no place to be shared from",
            "sudo mount -t tmpfs tmpfs /dev/shm",
        );
    };
    if stat.flags().contains(FsFlags::ST_NOEXEC) {
        return Finding::bad(
            SUBJECT,
            Prevents,
            "/dev/shm is mounted noexec",
            "a User Mode Linux kernel cannot run from memory there",
            "sudo mount -o remount,exec /dev/shm",
        );
    }
    let free_mb = stat.blocks_available() * stat.fragment_size() / (1 << 20);
    if free_mb < WANTED_MB {
        return Finding::bad(
            SUBJECT,
            Prevents,
            format!("/dev/shm has {free_mb} MB free"),
            "a target of the usual size does not fit",
            format!("free {WANTED_MB} MB there, or sudo mount -o remount,size=2G /dev/shm"),
        );
    }
    Finding::good(SUBJECT, format!("/dev/shm, {free_mb} MB free"))
}

pub(super) fn ptrace() -> Finding {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Finding::bad(
            "ptrace",
            Prevents,
            "kernel.yama.ptrace_scope is 3",
            "a User Mode Linux kernel cannot run its processes",
            "restart the machine with kernel.yama.ptrace_scope at 2 or less",
        );
    }
    Finding::good("ptrace", "allowed")
}

pub(super) fn clock() -> Finding {
    match TscClock::calibrate() {
        Ok(clock) => Finding::good(
            "clock",
            format!("time stamp counter, {:.3} GHz", clock.ticks_per_second() / 1e9),
        ),
        Err(error) => Finding::bad(
            "clock",
            Prevents,
            "the time stamp counter is not invariant",
            "intervals measured with it would be wrong",
            error.to_string(),
        ),
    }
}

pub(super) fn cores() -> Finding {
    const SUBJECT: &str = "cores";
    let isolated = Machine::read().isolated_cores;
    let (Ok(allowed), Ok(cores)) = (allowed_cores(), Cores::choose(&isolated)) else {
        return Finding::bad(SUBJECT, Prevents, "cannot be told", "nothing can be pinned", "");
    };
    if cores.shared() {
        return Finding::bad(
            SUBJECT,
            Disturbs,
            format!("only core {} may be used", cores.target),
            "both sides share it, so each waits for the other",
            "give this process two cores or more (taskset, container limits)",
        );
    }
    let chosen = format!(
        "{} to use; support side on {}, target on {}",
        allowed.len(),
        cores.support,
        cores.target
    );
    let both = [cores.support, cores.target];
    if both.iter().all(|&core| isolated.contains(&(core as u32))) {
        return Finding::good(SUBJECT, format!("{chosen}, both isolated"));
    }
    Finding::bad(
        SUBJECT,
        Disturbs,
        format!("{chosen}; not isolated"),
        "the system runs other things there from time to time",
        "for the best figures start the machine with isolcpus= for these two",
    )
}

pub(super) fn governor() -> Finding {
    let cores = Cores::choose(&Machine::read().isolated_cores);
    let governor = cores.ok().and_then(|cores| governor_of(cores.support as u32));
    match governor.as_deref() {
        None => Finding::good("frequency", "not adjustable here"),
        Some("performance") => Finding::good("frequency", "fixed high (performance)"),
        Some(other) => Finding::bad(
            "frequency",
            Disturbs,
            format!("governor '{other}'"),
            "the cores' speed follows their load, and figures with it",
            "sudo cpupower frequency-set -g performance",
        ),
    }
}

pub(super) fn real_time() -> Finding {
    let limit = getrlimit(Resource::RLIMIT_RTPRIO).map_or(0, |(soft, _)| soft);
    if nix::unistd::geteuid().is_root() || limit > 0 {
        return Finding::good("real-time priority", "may be had (chrt -f 50 warikomi ...)");
    }
    Finding::good("real-time priority", "may not be had; not needed")
}
