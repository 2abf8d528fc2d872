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

/// Makes a file as a User Mode Linux makes that of its memory, seals it, and cuts it short. Also opens files as anything
/// does: one that there is, and a new one.
const MEMORY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	struct stat about;
	int file = open(arguments[1], O_CLOEXEC | O_RDWR | O_EXCL | O_TMPFILE, 0700);

	if (file < 0 || pwrite(file, "", 1, 65535) != 1)
		return 10;
	if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return 11;
	if (ftruncate(file, 4096) == 0)
		return 12;
	if (open("/no/such/file", O_RDONLY) >= 0 || open("/etc/passwd", O_RDONLY) < 0)
		return 13;
	umask(0);
	file = open(arguments[2], O_RDWR | O_CREAT | O_EXCL, 0640);
	return fstat(file, &about) < 0 || (about.st_mode & 07777) != 0640 ? 14 : 0;
}
"#;

fn compiled(directory: &Path, name: &str, source: &str) -> Command {
    compiled_with(directory, name, source, &[])
}

fn compiled_with(directory: &Path, name: &str, source: &str, options: &[&str]) -> Command {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.args(options).arg("-o").arg(&program).arg(&file).status().unwrap();
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
fn the_file_of_a_kernels_memory_can_be_sealed_and_other_files_are_opened_as_ever() {
    let directory = tempfile::tempdir().unwrap();
    let library = preload(directory.path());
    for (name, options) in [("open", &[][..]), ("open64", &["-D_FILE_OFFSET_BITS=64"][..])] {
        let mut program = compiled_with(directory.path(), name, MEMORY, options);
        program.arg(directory.path()).arg(directory.path().join(format!("made by {name}")));
        let alone = program.status().unwrap().code();
        assert_eq!(alone, Some(11), "such a file can be sealed here: nothing is tested");
        assert_eq!(program.env("LD_PRELOAD", &library).status().unwrap().code(), Some(0), "{name}");
    }
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
