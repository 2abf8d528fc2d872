//! A comparison in which QEMU does not do what it should.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use warikomi_measure::TimeBase;

use super::*;

/// A program in the place of QEMU: a shell's script that first writes down its process id.
struct FakeQemu {
    directory: tempfile::TempDir,
}

impl FakeQemu {
    fn new(script: &str) -> FakeQemu {
        let directory = tempfile::tempdir().unwrap();
        let fake = FakeQemu { directory };
        let noted = fake.directory.path().join("pids");
        let text = format!("#!/bin/sh\necho $$ >> {}\n{script}\n", noted.display());
        fs::write(fake.program(), text).unwrap();
        fs::set_permissions(fake.program(), Permissions::from_mode(0o755)).unwrap();
        fake
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join(PROGRAM)
    }

    fn boot(&self) -> Boot {
        Boot {
            program: self.program(),
            image: self.directory.path().join("vmlinuz-6.1"),
            release: "6.1".to_owned(),
            initramfs: self.directory.path().join("initramfs"),
        }
    }

    /// The processes that it has been, each of which must be gone.
    fn assert_gone(&self, times: usize) {
        let noted = fs::read_to_string(self.directory.path().join("pids")).unwrap();
        assert_eq!(noted.lines().count(), times, "{noted}");
        for id in noted.lines() {
            let stat = fs::read_to_string(Path::new("/proc").join(id).join("stat"));
            // One that has ended is listed until whoever has become its parent looks at it.
            let has_ended = stat.is_ok_and(|stat| stat.contains(") Z "));
            assert!(has_ended || !Path::new("/proc").join(id).exists(), "{id} is left behind");
        }
    }

    fn start(&self, within: Duration) -> Result<Guest, TargetError> {
        let cores = Cores::choose(&[]).unwrap();
        let (boot, device) = (&self.boot(), &Device::ALL[0]);
        let setup = Setup { boot, device, accelerator: Accelerator::Tcg, cores, within };
        Guest::start(&setup, TscClock::calibrate().unwrap(), Interrupted::default())
    }
}

#[test]
fn a_qemu_that_answers_nothing_is_given_up_in_time_and_nothing_of_it_is_left() {
    // What it has started goes, too.
    let fake = FakeQemu::new("sleep 1000 & echo $! >> ${0%/*}/pids; echo booting; wait");
    let begun = Instant::now();
    let Err(error) = fake.start(Duration::from_millis(500)) else { panic!("it was ready") };
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(matches!(error, TargetError::NotReady { .. }), "{error}");
    fake.assert_gone(2);
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let said = bench(&fake, &mut result).in_words(error);
    assert!(
        said.starts_with("the guest agent did not report within 0.5 s of the start of /"),
        "{said}"
    );
    assert!(said.contains("--qemu-kernel DIR") && said.contains("booting"), "{said}");
}

#[test]
fn a_qemu_that_does_not_know_what_it_is_asked_for_ends_with_its_own_words() {
    let fake = FakeQemu::new("echo 'qemu: invalid netdev dgram' >&2; exit 1");
    let Err(error) = fake.start(Duration::from_secs(30)) else { panic!("it was ready") };
    let said = error.to_string();
    assert!(said.contains("hypervisor process ended (exit status: 1)"), "{said}");
    assert!(said.contains("invalid netdev dgram"), "{said}");
    fake.assert_gone(1);
}

#[test]
fn a_qemu_that_prints_much_before_it_ends_is_told_of_with_its_last_words() {
    // More than is read in one look, which is all that there may be between the last words and the end.
    let fake = FakeQemu::new("head -c 500000 /dev/zero | tr '\\0' '\\n'; echo it is over; exit 1");
    for _ in 0..5 {
        let Err(error) = fake.start(Duration::from_secs(30)) else { panic!("it was ready") };
        let said = error.to_string();
        assert!(said.contains("it is over"), "{said}");
    }
}

#[test]
fn kvm_that_fails_for_one_card_is_not_tried_for_the_next() {
    let fake = FakeQemu::new("exit 1");
    let mut result = RunResult::new("bench", TimeBase::Real, Machine::default());
    let mut bench = bench(&fake, &mut result);
    let kvm = |device| Seen::of(System::Qemu(device, Accelerator::Kvm));
    let mut all = vec![Seen::of(System::Ours)];
    all.extend(Device::ALL.map(kvm));
    bench.leave_out_kvm(&mut all, 1, "it ended\nat once");
    assert_eq!(all.iter().map(|seen| seen.failed).collect::<Vec<_>>(), [false, true, true]);
    let [said] = &result.warnings[..] else { panic!("{:?}", result.warnings) };
    assert_eq!(said.what, "left out: qemu, kvm, e1000e; qemu, kvm, rtl8139 (it ended)");
}

fn bench<'a>(fake: &FakeQemu, result: &'a mut RunResult) -> Bench<'a> {
    // Only what the test leaves alone needs it.
    static NEVER: std::sync::OnceLock<Interrupted> = std::sync::OnceLock::new();
    Bench {
        boot: fake.boot(),
        interrupted: NEVER.get_or_init(Interrupted::default),
        cores: Cores::choose(&[]).unwrap(),
        clock: TscClock::calibrate().unwrap(),
        result,
    }
}
