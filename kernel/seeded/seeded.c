// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A library that stands before the C library of a User Mode Linux in virtual time. The kernel asks its host for
 * randomness by getrandom(); here the answers follow from a seed, so that two runs have the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

static uint64_t state;

/* Before the kernel's own main(), which has functions of its own under some of the C library's names. */
__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("WARIKOMI_SEED");

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

	(void)flags;
	for (i = 0; i < length; i++)
		bytes[i] = next() >> 56;
	return length;
}
