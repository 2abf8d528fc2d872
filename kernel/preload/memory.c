// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The file of a kernel's memory. A User Mode Linux makes it in a directory (O_TMPFILE; make_tempfile() in
 * arch/um/os-Linux/mem.c), and shares it with its devices. Such a file can be cut short while others use what is in it,
 * which ends them (SIGBUS). So it gets one of memfd_create() in its place, which those who are handed it can seal
 * against that. Where the host has none it gets what it has asked for.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
/* Not <fcntl.h>, which may have functions of the C library's own under these names. */
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);

static int open_or_make(const char *path, int flags, mode_t mode)
{
	static int (*host_open)(const char *, int, ...);
	int file;

	if ((flags & O_TMPFILE) == O_TMPFILE) {
		file = syscall(SYS_memfd_create, "memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (file >= 0)
			return file;
	}
	if (!host_open)
		host_open = dlsym(RTLD_NEXT, "open64");
	return host_open(path, flags, mode);
}

/* The mode is there if a file may be made. */
#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list arguments;                                                                 \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_start(arguments, flags);                                                \
			mode = va_arg(arguments, mode_t);                                          \
			va_end(arguments);                                                         \
		}                                                                                  \
		return open_or_make(path, flags, mode);                                            \
	}

OPEN(open)
OPEN(open64)
