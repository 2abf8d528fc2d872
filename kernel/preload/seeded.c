// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Randomness from a seed. A User Mode Linux asks its host for randomness by getrandom(). In virtual time WARIKOMI_SEED
 * is set, and the answers follow from it, so that two runs have the same. Without it the host answers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int seeded;
static uint64_t state;

/* Before the kernel's own main(), which has functions of its own under some of the C library's names. */
__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("WARIKOMI_SEED");

	seeded = seed != NULL;
	state = seed ? strtoull(seed, NULL, 10) : 0;
}

/* SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). */
static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *bytes = buffer;
	size_t i;

	if (!seeded)
		return syscall(SYS_getrandom, buffer, length, flags);
	for (i = 0; i < length; i++)
		bytes[i] = next() >> 56;
	return length;
}
