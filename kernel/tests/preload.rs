//! What is loaded into a kernel, loaded into a program that does what the kernel does.

use std::path::Path;
use std::process::Command;

use warikomi_kernel::PRELOAD;

/// A tracer that has room for a part of its child's registers only, as an old User Mode Linux has. It writes `xmm0`.
const SHORT_OF_ROOM: &str = r#"
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char before[65536], after[65536], part[65536];

int main(void)
{
	struct iovec all = { before, sizeof(before) };
	/* xmm0 and the header's bit for it, Intel SDM volume 1, section 13.4. */
	uint64_t value = 0x0123456789abcdef;
	pid_t child = fork();
	int status;

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return 10;
	if (ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &all) < 0 || all.iov_len <= 576)
		return 11;
	/* Reading a part is allowed. */
	struct iovec some = { part, 576 };
	if (ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &some) < 0)
		return 12;
	memcpy(part + 160, &value, sizeof(value));
	part[512] |= 2;
	for (int again = 0; again < 2; again++)
		if (ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &some) < 0)
			return 13;
	all.iov_base = after;
	if (ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &all) < 0)
		return 14;
	/* The whole is taken as well. */
	if (ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &all) < 0)
		return 15;
	ptrace(PTRACE_KILL, child, 0, 0);
	waitpid(child, &status, 0);
	return memcmp(after + 160, &value, sizeof(value)) ? 16 : 0;
}
"#;

/// Prints eight bytes of the host's, or of the seed.
const RANDOM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

int main(void)
{
	uint64_t value;

	if (getrandom(&value, sizeof(value), 0) != sizeof(value))
		return 1;
	printf("%016lx\n", value);
	return 0;
}
"#;

fn compiled(directory: &Path, name: &str, source: &str) -> Command {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc").arg("-o").arg(&program).arg(&file).status().unwrap();
    assert!(status.success());
    Command::new(program)
}

fn preload(directory: &Path) -> std::path::PathBuf {
    let library = directory.join("preload.so");
    std::fs::write(&library, PRELOAD).unwrap();
    library
}

#[test]
fn registers_that_a_kernel_has_no_room_for_do_not_keep_it_from_writing_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let library = preload(directory.path());
    let mut program = compiled(directory.path(), "short_of_room", SHORT_OF_ROOM);
    let alone = program.status().unwrap().code();
    assert_eq!(alone, Some(13), "the host takes a part of the registers: nothing is tested");
    assert_eq!(program.env("LD_PRELOAD", library).status().unwrap().code(), Some(0));
}

#[test]
fn randomness_is_the_hosts_unless_there_is_a_seed() {
    let directory = tempfile::tempdir().unwrap();
    let library = preload(directory.path());
    let mut program = compiled(directory.path(), "random", RANDOM);
    program.env("LD_PRELOAD", library);
    let mut drawn = || String::from_utf8(program.output().unwrap().stdout).unwrap();
    assert_ne!(drawn(), drawn());
    program.env("WARIKOMI_SEED", "7");
    let mut drawn = || String::from_utf8(program.output().unwrap().stdout).unwrap();
    assert_eq!((drawn(), drawn().len()), (drawn(), 17));
}
