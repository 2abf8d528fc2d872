//! The same traffic into a guest of QEMU and into a kernel target of ours: at which intervals the driver's handler
//! begins, how many packets the driver takes in a second, and what an injection costs the side that plays the card.
//!
//! Every round brings each of them up in turn and ends it again, because any of them would take the other's cores.
//! Drivers differ, as cards do, and are named.

mod figures;
mod guest;
mod ours;
mod qemu;
mod theirs;
mod traffic;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use warikomi_clock::TscClock;
use warikomi_kernel::{KernelError, MachineKernel};
use warikomi_lab::Error;
use warikomi_measure::{Machine, RunResult, Warning};
use warikomi_session::{Prepared, SessionError};
use warikomi_target::cores::{Cores, Pinned};
use warikomi_target::{Interrupted, Target, TargetError};
use warikomi_wire::WireKind;

use self::figures::Figures;
use self::guest::{Guest, Setup};
use self::qemu::{Accelerator, Boot, Device, PACKAGE, PROGRAM};
use self::traffic::INTERVALS;
use crate::testpmd::find;

/// Rounds of which the median is taken; a guest that is translated takes some ten seconds to boot in each.
const ROUNDS: usize = 3;

/// How long a guest may take until its agent reports, seldom more than 15 s.
const TRANSLATED_WITHIN: Duration = Duration::from_secs(120);
const DIRECT_WITHIN: Duration = Duration::from_secs(20);
const KVM: &str = "/dev/kvm";

/// What is compared with.
pub struct Hypervisor {
    /// Below this directory the kernel that QEMU boots is looked for: `/`, or where a package was unpacked.
    pub kernel_root: PathBuf,
}

/// Compares, and puts two tables and what is to be said into `result`; without QEMU, or without a kernel for it, only
/// that. `progress` is told steps done and in all.
pub fn compare(
    hypervisor: &Hypervisor,
    prepare: &mut dyn FnMut() -> Result<Prepared, SessionError>,
    interrupted: &Interrupted,
    result: &mut RunResult,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), Error> {
    let system = TargetError::system("cannot make a directory for the guest's initramfs");
    let directory = tempfile::tempdir().map_err(system)?;
    let boot = match boot(hypervisor, directory.path())? {
        Ok(boot) => boot,
        Err(missing) => {
            result.warnings.push(missing);
            return Ok(());
        }
    };
    let mut prepared = prepare()?;
    prepared.defer_nothing();
    let cores = Cores::choose(&Machine::read().isolated_cores)
        .map_err(TargetError::system("cannot tell which cores may be used"))?;
    let clock = TscClock::calibrate().map_err(SessionError::from)?;
    let mut bench = Bench { boot, interrupted, cores, clock, result };
    let mut all: Vec<Seen> = bench.systems().into_iter().map(Seen::of).collect();
    let steps = ROUNDS * all.len();
    for step in 0..steps {
        progress(step, steps);
        let at = step % all.len();
        if let Some((of_intervals, whole)) = bench.round(&prepared, &mut all, at)? {
            for (into, figures) in all[at].intervals.iter_mut().zip(of_intervals) {
                into.push(figures);
            }
            all[at].whole.push(whole);
        }
    }
    progress(steps, steps);
    describe(bench.result, &all);
    Ok(())
}

/// One of those that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    Ours,
    Qemu(Device, Accelerator),
}

/// What was seen of one in all rounds.
struct Seen {
    system: System,
    /// How it is called, and what it is: driver, card, kernel.
    name: String,
    description: Map<String, Value>,
    /// It does not work here.
    failed: bool,
    /// Of each interval, the rounds.
    intervals: [Vec<Figures>; INTERVALS.len()],
    whole: Vec<Figures>,
}

impl Seen {
    fn of(system: System) -> Seen {
        let name = match system {
            System::Ours => "warikomi".to_owned(),
            System::Qemu(device, accelerator) => {
                format!("qemu, {}", accelerator.name()) + ", " + device.name
            }
        };
        let (intervals, whole) = (Default::default(), Vec::new());
        Seen { system, name, description: Map::new(), failed: false, intervals, whole }
    }

    fn describe(&mut self, driver: &str, card: &str, kernel: &str) {
        let said =
            [("system", &*self.name), ("driver", driver), ("card", card), ("kernel", kernel)];
        self.description =
            said.map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect();
    }
}

/// What all rounds need.
struct Bench<'a> {
    boot: Boot,
    interrupted: &'a Interrupted,
    cores: Cores,
    clock: TscClock,
    result: &'a mut RunResult,
}

impl Bench<'_> {
    /// Ours, and QEMU in each way that this machine may allow.
    fn systems(&mut self) -> Vec<System> {
        let mut accelerators = vec![Accelerator::Tcg];
        match File::options().read(true).write(true).open(KVM) {
            Ok(_) => accelerators.push(Accelerator::Kvm),
            Err(error) => self.say(
                format!("QEMU was not measured with KVM: {KVM} cannot be opened ({error})"),
                "run it on a machine that has KVM, as a user who may use it",
            ),
        }
        let of = |accelerator| Device::ALL.map(|device| System::Qemu(device, accelerator));
        std::iter::once(System::Ours).chain(accelerators.into_iter().flat_map(of)).collect()
    }

    fn say(&mut self, what: String, hint: &str) {
        self.result.warnings.push(Warning { what, hint: hint.to_owned() });
    }

    /// A round of the one at `at`; nothing if it does not work here, which is an error of any but KVM.
    fn round(
        &mut self,
        prepared: &Prepared,
        all: &mut [Seen],
        at: usize,
    ) -> Result<Option<Round>, Error> {
        let seen = &mut all[at];
        let System::Qemu(device, accelerator) = seen.system else {
            return self.ours(prepared, seen).map(Some);
        };
        if seen.failed {
            return Ok(None);
        }
        seen.describe(device.driver, device.name, &self.boot.release);
        match self.theirs(&device, accelerator) {
            Ok(round) => Ok(Some(round)),
            Err(Error::Target(error)) if !is_by_user(&error) => {
                let why = self.in_words(error);
                match accelerator {
                    Accelerator::Tcg => Err(Error::impossible(format!("{}: {why}", seen.name))),
                    Accelerator::Kvm => {
                        self.leave_out_kvm(all, at, &why);
                        Ok(None)
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Without the one at `at`, and without every other that has not worked with KVM before: each try would wait as
    /// long again.
    fn leave_out_kvm(&mut self, all: &mut [Seen], at: usize, why: &str) {
        let fails = |(index, seen): (usize, &Seen)| {
            let by_kvm = matches!(seen.system, System::Qemu(_, Accelerator::Kvm));
            index == at || (by_kvm && seen.whole.is_empty() && !seen.failed)
        };
        let failing: Vec<bool> = all.iter().enumerate().map(fails).collect();
        let mut names = Vec::new();
        for (seen, _) in all.iter_mut().zip(failing).filter(|(_, fails)| *fails) {
            seen.failed = true;
            names.push(seen.name.clone());
        }
        let why = why.lines().next().unwrap_or_default();
        self.say(
            format!("left out: {} ({why})", names.join("; ")),
            "nothing, if KVM does not work on this machine: virtual machines seldom offer it",
        );
    }

    /// What went wrong with a guest: one of QEMU has no kernel of ours.
    fn in_words(&self, error: TargetError) -> String {
        match error {
            TargetError::NotReady { within, console } => format!(
                "the guest agent did not report within {} s of the start of {}; another kernel may: \
                 --qemu-kernel DIR{console}",
                within.as_secs_f64(),
                self.boot.image.display()
            ),
            other => other.to_string(),
        }
    }

    fn ours(&mut self, prepared: &Prepared, seen: &mut Seen) -> Result<Round, Error> {
        let wire = WireKind::Sink.build().map_err(Error::NoWire)?;
        let mut session = prepared.start(wire, self.interrupted, &mut |_| ())?;
        let before = session.watch_cores();
        let round = ours::round(&mut session)?;
        let info = session.info.clone();
        seen.describe(&info.driver, &info.model, info.kernel.as_deref().unwrap_or("none"));
        self.result.machine = session.machine_since(&before);
        self.result.target = info;
        session.stop()?;
        Ok(round)
    }

    fn theirs(&mut self, device: &Device, accelerator: Accelerator) -> Result<Round, Error> {
        let _pinned = Pinned::to(self.cores.support)
            .map_err(TargetError::system("cannot stay on one core"))?;
        let within = match accelerator {
            Accelerator::Tcg => TRANSLATED_WITHIN,
            Accelerator::Kvm => DIRECT_WITHIN,
        };
        let setup = Setup { boot: &self.boot, device, accelerator, cores: self.cores, within };
        let mut guest = Guest::start(&setup, self.clock, self.interrupted.clone())?;
        let round = theirs::round(&mut guest, &self.clock, device.interrupt)?;
        guest.stop()?;
        Ok(round)
    }
}

/// The figures of each interval, and those of the whole.
type Round = (Vec<Figures>, Figures);

fn is_by_user(error: &TargetError) -> bool {
    matches!(error, TargetError::Interrupted)
}

/// What QEMU boots, with an initramfs in `directory`; or what is missing.
fn boot(hypervisor: &Hypervisor, directory: &Path) -> Result<Result<Boot, Warning>, Error> {
    let Some(program) = find(PROGRAM) else {
        return Ok(Err(Warning {
            what: format!("{PROGRAM} is not installed, and nothing was compared"),
            hint: format!("install it: sudo apt-get install {PACKAGE}"),
        }));
    };
    let root = &hypervisor.kernel_root;
    let cannot = |error: KernelError| Error::impossible(error.to_string());
    let Some(kernel) = MachineKernel::newest_below(root).map_err(cannot)? else {
        return Ok(Err(Warning {
            what: format!("{} has no kernel that QEMU could boot, and nothing was compared", root.display()),
            hint: "install one (sudo apt-get install linux-image-amd64), or unpack its package into a directory \
                   (dpkg -x linux-image-VERSION.deb DIR) and name that: --qemu-kernel DIR"
                .into(),
        }));
    };
    let initramfs = directory.join("initramfs");
    let drivers = Device::ALL.map(|device| device.driver);
    kernel.write_initramfs(&drivers, &initramfs).map_err(cannot)?;
    Ok(Ok(Boot { program, image: kernel.image, release: kernel.release, initramfs }))
}

/// Puts the tables into the result: a row for each interval, and one for each system.
fn describe(result: &mut RunResult, all: &[Seen]) {
    let works = || all.iter().filter(|seen| !seen.failed);
    let mut rows = Vec::new();
    for (at, interval) in INTERVALS.iter().enumerate() {
        for seen in works() {
            let mut of = seen.description.clone();
            of.insert("interval_ns".into(), interval.as_ns().into());
            rows.push(figures::medians(of, &seen.intervals[at]));
        }
    }
    let rates = works().map(|seen| figures::medians(seen.description.clone(), &seen.whole));
    result.figures.insert("hypervisor_rates".into(), rates.collect::<Vec<_>>().into());
    result.figures.insert("hypervisor".into(), rows.into());
}

#[cfg(test)]
mod tests;
