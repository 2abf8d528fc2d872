//! System calls that are closed to what is under test, because neither a driver nor a guest's kernel needs them: those
//! that reach into this machine's kernel, into other processes, or out of the machine. What needs a capability is not
//! among them: there is none.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

/// Closed to all.
const CLOSED: [libc::c_long; 9] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Closed to a program besides: a kernel traces its own processes, and connects to our socket.
const CLOSED_TO_PROGRAMS: [libc::c_long; 5] = [
    libc::SYS_connect,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_socket,
];

/// Which calls are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// As to a program that was handed what it talks through.
    OfProgram,
    /// As to a kernel in user mode.
    OfKernel,
}

impl Calls {
    /// Closes them to this thread, and to what it starts: each fails with EPERM.
    pub(super) fn close(self) -> io::Result<()> {
        let refused = self.rules().and_then(|rules| filter(rules, libc::EPERM));
        // Its flags are in memory, where no filter sees them. A library that is told that there is no such call uses
        // clone() in its place.
        let unknown = filter([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS);
        for program in [refused, unknown] {
            let program = program.map_err(io::Error::other)?;
            apply_filter(&program).map_err(|error| {
                io::Error::other(format!(
                    "this system closes no system calls to it ({error}); --no-sandbox starts it as it is"
                ))
            })?;
        }
        Ok(())
    }

    fn rules(self) -> Result<Rules, BackendError> {
        let whole = |calls: &[libc::c_long]| calls.iter().map(|&call| (call, Vec::new())).collect();
        let mut rules: Rules = whole(&CLOSED);
        let users = libc::CLONE_NEWUSER as u64;
        let with_own_users = condition(0, SeccompCmpOp::MaskedEq(users), users)?;
        rules.insert(libc::SYS_clone, vec![with_own_users]);
        match self {
            Calls::OfProgram => rules.append(&mut whole(&CLOSED_TO_PROGRAMS)),
            Calls::OfKernel => {
                let of_network = condition(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?;
                rules.insert(libc::SYS_socket, vec![of_network]);
            }
        }
        Ok(rules)
    }
}

/// Calls, each with the arguments that are refused; with any if there are none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn condition(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)?;
    SeccompRule::new(vec![condition])
}

/// What answers these calls with an error, and lets all others through.
fn filter(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(error as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    /// Behind it, in a thread of its own.
    fn behind<T: Send + 'static>(calls: Calls, tried: fn() -> T) -> T {
        let confined = move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            calls.close().unwrap();
            tried()
        };
        std::thread::spawn(confined).join().unwrap()
    }

    fn is_refused<T>(tried: io::Result<T>) -> bool {
        tried.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
    }

    #[test]
    fn nothing_leaves_the_machine() {
        let udp = || is_refused(UdpSocket::bind("127.0.0.1:0"));
        assert!(!udp());
        assert!(behind(Calls::OfProgram, udp) && behind(Calls::OfKernel, udp));
    }

    #[test]
    fn a_kernel_connects_to_a_socket_of_this_machine_and_a_program_does_not() {
        let local = || is_refused(UnixDatagram::unbound());
        assert!(behind(Calls::OfProgram, local) && !behind(Calls::OfKernel, local));
        assert!(behind(Calls::OfProgram, || UnixStream::pair().is_ok()));
    }

    #[test]
    fn no_one_gets_users_of_its_own_and_everyone_starts_threads_and_processes() {
        use nix::sched::{CloneFlags, unshare};
        for calls in [Calls::OfProgram, Calls::OfKernel] {
            let own_users = || unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from);
            assert!(is_refused(behind(calls, own_users)));
            assert!(behind(calls, || std::thread::spawn(|| true).join().unwrap()));
            let starts = || std::process::Command::new("/bin/true").status().unwrap().success();
            assert!(behind(calls, starts));
        }
    }
}
