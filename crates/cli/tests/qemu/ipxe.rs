//! iPXE, whose drivers are of another making than Linux's: it boots a kernel over each card that it knows. What serves
//! the kernel is QEMU's own network (DHCP and TFTP), to which the card is cabled by sockets.

use std::path::Path;
use std::process::{Command, Stdio};

use warikomi_target::Target;
use warikomi_testbench::{Ending, cable_between};

use super::Running;
use super::guest::Machine;

/// The network of a QEMU that has no machine: a DHCP server, and these files by TFTP. The socket `its` is the network's,
/// `ours` the card's.
fn network(machine: &Machine, files: &Path, [ours, its]: [&Path; 2]) -> Ending {
    let [ours, its] = [ours, its].map(|path| path.display().to_string());
    let mut command = Command::new(&machine.qemu);
    command
        .args(["-M", "none", "-nodefaults", "-display", "none", "-monitor", "none"])
        .args(["-netdev", &format!("user,id=net,tftp={}", files.display())])
        .args(["-netdev", &cable_between(&its, &ours)])
        .args(["-netdev", "hubport,id=a,hubid=0,netdev=net"])
        .args(["-netdev", "hubport,id=b,hubid=0,netdev=cable"])
        .stdin(Stdio::null());
    Ending(command.spawn().unwrap())
}

fn boots_over(machine: &Machine, model: &str, modules: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (socket, ours, its, files) = (path("card"), path("ours"), path("its"), path("files"));
    std::fs::create_dir(&files).unwrap();
    let _network = network(machine, &files, [&ours, &its]);
    let wire = format!("socket:{},{}", ours.display(), its.display());
    let serving = Running::start(&["serve", "--model", model, "--wire", &wire], &socket);
    let mut guest = machine.boot_by_ipxe(&socket, modules, &files);
    // The driver of the kernel takes the card as iPXE has left it.
    guest.bring_up(modules);
    guest.stop().unwrap();
    let printed = serving.interrupt();
    assert!(!printed.contains("refused: "), "{model}: {printed}");
}

#[test]
#[ignore = "boots a guest of QEMU for each card; scripts/test-long"]
fn ipxe_boots_a_kernel_over_each_card() {
    let Some(machine) = Machine::find() else { return };
    let cards: [(&str, &[&str]); 4] = [
        ("rtl8139", &["8139too"]),
        ("rtl8168", &["realtek", "r8169"]),
        ("e1000e", &["e1000e"]),
        ("igb", &["igb"]),
    ];
    for (model, modules) in cards {
        let begun = std::time::Instant::now();
        boots_over(&machine, model, modules);
        println!("iPXE booted a kernel over {model} in {} s", begun.elapsed().as_secs());
    }
}
