/* The first program of a guest: how long reads and writes of a card's registers take. Prints, and turns the guest off. */

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

/* A timer's register of the RTL8168, in which 0 changes nothing. */
enum { COUNT = 20000, PAGE = 4096, TIMER = 0x58 };

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return (difference > 0) - (difference < 0);
}

/* Opens a file of the card: the first device of this vendor. */
static int open_file(const char *vendor, const char *name, int flags)
{
	DIR *devices = opendir("/sys/bus/pci/devices");
	struct dirent *device;
	char path[512], text[16];

	while (devices && (device = readdir(devices))) {
		int file;
		ssize_t bytes;

		snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", device->d_name);
		file = open(path, O_RDONLY);
		bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
		close(file);
		if (bytes <= 0)
			continue;
		text[bytes] = 0;
		if (strncmp(text, vendor, strlen(vendor)) == 0) {
			snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device->d_name, name);
			return open(path, flags);
		}
	}
	return -1;
}

/* The clock of a translated guest takes a microsecond to read; the processor's counter does not. */
static void measure(const char *what, volatile uint8_t *registers, int writes)
{
	static double times[COUNT];
	double begun_us = now_us(), us_per_tick;
	uint64_t begun = __builtin_ia32_rdtsc(), before = begun;

	for (int at = 0; at < COUNT; at++) {
		uint64_t after;

		if (writes)
			*(volatile uint32_t *)(registers + TIMER) = 0;
		else
			(void)*(volatile uint32_t *)registers;
		after = __builtin_ia32_rdtsc();
		times[at] = (double)(after - before);
		before = after;
	}
	us_per_tick = (now_us() - begun_us) / (double)(before - begun);
	qsort(times, COUNT, sizeof *times, compare);
	printf("latency: %s: min %.2f us, p50 %.2f us, p90 %.2f us, p99 %.2f us\n", what, times[0] * us_per_tick,
	       times[COUNT / 2] * us_per_tick, times[COUNT / 10 * 9] * us_per_tick,
	       times[COUNT / 100 * 99] * us_per_tick);
}

int main(void)
{
	volatile uint8_t *registers = MAP_FAILED;
	int file;

	mount("sysfs", "/sys", "sysfs", 0, NULL);
	file = open_file("0x10ec", "enable", O_WRONLY);
	if (file >= 0 && write(file, "1", 1) == 1)
		file = open_file("0x10ec", "resource2", O_RDWR);
	if (file >= 0)
		registers = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (registers == MAP_FAILED) {
		perror("latency: no card");
	} else {
		measure("read", registers, 0);
		measure("write", registers, 1);
	}
	fflush(stdout);
	sleep(1);
	reboot(RB_POWER_OFF);
	return 1;
}
