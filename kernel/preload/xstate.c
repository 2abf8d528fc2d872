// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The whole state of a processor's registers. A User Mode Linux keeps the vector registers of its programs by ptrace():
 * it reads the state of the traced process and writes it back. Before Linux 6.13 it has room for 2,696 bytes
 * (HOST_FP_SIZE in arch/x86/um/user-offsets.c), which was all up to AVX-512 and protection keys. The host lets it read
 * so much, but takes back nothing but the whole (xstateregs_set() in arch/x86/kernel/fpu/regset.c), and processors with
 * AMX have 11,008 bytes: there the kernel's first program dies. So what is too short is written with nothing behind it.
 * There is nothing: AMX must be asked for by arch_prctl(), which a User Mode Linux does not offer its programs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

/* More than any processor has. */
#define MOST_BYTES 65536

static long (*host_ptrace)(enum __ptrace_request, pid_t, void *, void *);

__attribute__((constructor)) static void begin(void)
{
	host_ptrace = dlsym(RTLD_NEXT, "ptrace");
}

/* Bytes of the state, once it is known that the kernel's is too short. */
static size_t state_bytes;

static long set_whole_state(pid_t pid, void *kind, const struct iovec *given)
{
	/* A kernel traces from one thread. What is behind its part stays 0: not in use. */
	static unsigned char whole[MOST_BYTES];
	struct iovec all = { whole, state_bytes };

	memcpy(whole, given->iov_base, given->iov_len);
	return host_ptrace(PTRACE_SETREGSET, pid, kind, &all);
}

/* Asks the host how long the state is. */
static void measure_state(pid_t pid, void *kind)
{
	static unsigned char any[MOST_BYTES];
	struct iovec all = { any, sizeof(any) };

	if (host_ptrace(PTRACE_GETREGSET, pid, kind, &all) == 0)
		state_bytes = all.iov_len;
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	pid_t pid;
	void *address, *data;
	long result;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return host_ptrace(request, pid, address, data);
	if (state_bytes == 0) {
		result = host_ptrace(request, pid, address, data);
		if (result == 0 || errno != EFAULT)
			return result;
		measure_state(pid, address);
	}
	if (((struct iovec *)data)->iov_len < state_bytes)
		return set_whole_state(pid, address, data);
	return host_ptrace(request, pid, address, data);
}
