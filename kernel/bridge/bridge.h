/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the bridge share. */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <linux/irqdomain.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/workqueue.h>

#include "warikomi_bridge.h"

/* virt-pci has bus 0. */
#define BUS_NUMBER 1
#define VECTORS 32

struct bridge {
	struct virtio_device *vdev;
	struct virtqueue *queue;
	u64 *window;
	struct pci_host_bridge *host;
	struct irq_domain *msi_inner;
	struct irq_domain *msi;
	struct irq_domain *pin;
	unsigned int pin_irq;
	bool pin_masked;
	DECLARE_BITMAP(vectors, VECTORS);
	struct mutex vectors_lock;	/* the bitmap */
	unsigned long retriggered;	/* vectors whose handlers shall run once more */
	struct work_struct retrigger;	/* runs them, where nothing else will */
	raw_spinlock_t access_lock;	/* the ring of accesses, and the answer */
	u64 posted;			/* accesses put into the ring */
	u64 carried_out;		/* accesses known to have been carried out */
	u64 reads;			/* reads among them */
	u64 taken;			/* interrupts taken from their ring */
	u64 hiccups;			/* times that the poller was not running */
	u64 attention;			/* what WB_SLEEPING says, unless it was woken */
	bool dead;			/* a read was not answered */
	struct task_struct *poller;
	u8 bar_numbers[PCI_STD_NUM_BARS];
	struct work_struct bring_up;
};

/* A kernel has one: a region of logic_iomem cannot be taken back. */
extern struct bridge bridge;

/*
 * The other side has a processor of its own even if this kernel knows of one only: virt_, not smp_.
 *
 * Everything that the other side did before it wrote the word is seen behind this.
 */
static inline u64 load(unsigned int word)
{
	return virt_load_acquire(&bridge.window[word]);
}

/* Everything that was done before this is seen by a reader of the word. */
static inline void store(unsigned int word, u64 value)
{
	virt_store_release(&bridge.window[word], value);
}

static inline u64 ticks(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* access.c */
extern struct resource bridge_memory;
extern struct pci_ops bridge_config_ops;
int make_accesses(void);

/* interrupts.c */
int make_interrupts(void);
void take_interrupts_soon(void);
void signalled(struct virtio_device *vdev);
int start_poller(void);
void stop_poller(void);

#endif
