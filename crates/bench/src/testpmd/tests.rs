use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use warikomi_target::cores::Cores;

const STATISTICS: &str = "testpmd> show port stats 0\r
\r
  ######################## NIC statistics for port 0  ########################\r
  RX-packets: 21271936   RX-missed: 0          RX-bytes:  31907904000\r
  RX-errors: 0\r
  TX-packets: 0          TX-errors: 0          TX-bytes:  0\r
\r
  Throughput (since last show)\r
  Rx-pps:      4253550          Rx-bps:  51042602792\r
  Tx-pps:            0          Tx-bps:            0\r
";

fn setup(size_bytes: usize) -> Setup {
    let cores = Cores::choose(&[]).unwrap();
    Setup {
        size_bytes,
        cores,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(100),
        interrupted: Interrupted::default(),
    }
}

/// A script in place of testpmd.
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("testpmd");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn reads_what_testpmd_prints() {
    let statistics = Statistics::parse(STATISTICS).unwrap();
    let expected =
        Statistics { packets: 21_271_936, bytes: 31_907_904_000, packets_per_second: 4_253_550 };
    assert_eq!(statistics, expected);
    assert_eq!(Statistics::parse(&STATISTICS.replace("Rx-pps: ", "")), None);
}

#[test]
fn who_connects_comes_second() {
    let device = |link: Link, side| link.device(side, Path::new("/tmp/link"), 4_096);
    for link in Link::ALL {
        let listener = link.listener();
        let other = if listener == Side::Sender { Side::Receiver } else { Side::Sender };
        let (listens, connects) = (device(link, listener), device(link, other));
        assert!(listens.contains("role=server") || listens.contains("vhost"), "{listens}");
        assert!(connects.contains("role=client") || connects.contains("virtio_user"), "{connects}");
        assert!(listens.contains("/tmp/link") && connects.contains("/tmp/link"));
    }
}

#[test]
fn one_that_ends_at_once_is_told_with_its_last_words() {
    let dir = tempfile::tempdir().unwrap();
    let program = script(dir.path(), "echo no such device; exit 1");
    let failure = Pair::start(Link::Memif, &program, &setup(64)).err().unwrap();
    let text = failure.to_string();
    assert!(text.contains("has ended") && text.contains("no such device"), "{text}");
}

#[test]
fn nothing_is_left_of_one_that_does_not_end_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let children = dir.path().join("children");
    // It starts another process and hears nothing, as one that hangs.
    let text = format!(
        "trap '' INT TERM HUP; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; echo started; wait",
        children.display()
    );
    let program = script(dir.path(), &text);
    let setup = setup(64);
    let mut command = command(&program, Side::Sender, "none", dir.path(), &setup);
    let mut testpmd = Testpmd::start(&mut command, Side::Sender, &setup).unwrap();
    testpmd.wait_for("started", START_TIMEOUT).unwrap();
    let own = testpmd.child.id();
    drop(testpmd);
    let child: u32 = std::fs::read_to_string(&children).unwrap().trim().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    for process in [own, child] {
        // Whoever reaps the grandchild may take a moment.
        while lives(process) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!lives(process), "process {process} is left");
    }
}

fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

#[test]
fn ctrl_c_ends_the_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let program = script(dir.path(), "sleep 1000");
    let setup = setup(64);
    setup.interrupted.set();
    assert!(matches!(Pair::start(Link::Memif, &program, &setup), Err(Failure::Interrupted)));
}

/// With the real one, where it is installed: packets of every length come through on every link.
#[test]
fn packets_come_through() {
    let Some(program) = find(PROGRAM) else {
        eprintln!("{PROGRAM} is not installed: not tested with it");
        return;
    };
    for link in Link::ALL {
        for size_bytes in [64, 16_000] {
            let mut pair = Pair::start(link, &program, &setup(size_bytes)).unwrap();
            for round in 0..2 {
                let sample = pair.measure().unwrap();
                assert!(sample.packets_per_second > 0.0, "{link:?} {size_bytes} {round}");
            }
            let dir = pair._dir.path().to_owned();
            let processes = [pair.sender.child.id(), pair.receiver.child.id()];
            drop(pair);
            assert!(!dir.exists() && !processes.into_iter().any(lives));
        }
    }
}

proptest! {
    #[test]
    fn any_output_is_survived(text in ".*", bytes in 0usize..50) {
        let _ = Statistics::parse(&text);
        let _ = Statistics::parse(&format!("Rx-pps:{text}RX-bytes:{text}"));
        let mut kept = text.clone();
        keep_end(&mut kept, bytes);
        prop_assert!(text.ends_with(&kept) && kept.len() <= bytes);
    }
}
