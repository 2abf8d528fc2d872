//! How long an access takes, as a program in the guest sees it: the figures of docs/vm.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Running;
use super::guest::Machine;

/// Where the guest has the program.
const PROGRAM: &str = "latency";

/// An initramfs with this program alone, in the form "newc" (Linux, `driver-api/early-userspace/buffer-format`).
fn initramfs(directory: &Path) -> PathBuf {
    let program = directory.join(PROGRAM);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qemu/latency.c");
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(&program).arg(source);
    assert!(compile.status().unwrap().success());
    let mut archive = Vec::new();
    let mut inode = 0;
    let mut add = |name: &str, mode: u32, number: [u32; 2], bytes: &[u8]| {
        inode += 1;
        let [major, minor] = number;
        let (size, name_size) = (bytes.len() as u32, name.len() as u32 + 1);
        let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        archive.extend(b"070701");
        archive.extend(fields.map(|field| format!("{field:08x}")).concat().bytes());
        for part in [&[name.as_bytes(), &[0]].concat(), bytes] {
            archive.extend(part);
            archive.resize(archive.len().next_multiple_of(4), 0);
        }
    };
    for name in ["dev", "sys"] {
        add(name, 0o040_755, [0, 0], &[]);
    }
    add("dev/console", 0o020_600, [5, 1], &[]);
    add(PROGRAM, 0o100_755, [0, 0], &std::fs::read(program).unwrap());
    add("TRAILER!!!", 0, [0, 0], &[]);
    let path = directory.join("initramfs");
    std::fs::write(&path, archive).unwrap();
    path
}

#[test]
#[ignore = "a measurement"]
fn latency_of_an_access() {
    let Some(machine) = Machine::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let serving = Running::start(&["serve", "--model", "rtl8168"], &socket);
    let printed = machine.run(&socket, &initramfs(directory.path()), &format!("rdinit=/{PROGRAM}"));
    serving.interrupt();
    let lines: Vec<_> = printed.lines().filter(|line| line.starts_with("latency: ")).collect();
    println!("{}", lines.join("\n"));
    assert_eq!(lines.len(), 2, "{printed}");
}
