/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the bridge share. */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <linux/irqdomain.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/workqueue.h>

#include "warikomi_bridge.h"

/* Each card is alone on a bus, from this one on; virt-pci has bus 0. */
#define FIRST_BUS 1
/* Of the address space, for a card's BARs. */
#define CARD_MEMORY_BYTES (60 * SZ_1M)
/* The bits of bridge.retriggered. */
#define VECTORS BITS_PER_LONG

struct card;

/* What an access to a BAR is told. */
struct bar {
	struct card *card;
	u8 number;
};

/* What every card has of its own. */
struct card {
	u64 *window;
	u64 taken;			/* interrupts taken from their ring */
	u64 posted;			/* accesses put into the ring */
	u64 carried_out;		/* accesses known to have been carried out */
	u64 reads;			/* reads among them */
	raw_spinlock_t access_lock;	/* the ring of accesses, and the answer */
	bool dead;			/* a read was not answered */
	bool pin_masked;
	unsigned int number;
	unsigned int pin_irq;
	struct bar bars[PCI_STD_NUM_BARS];
	u64 plugs;			/* times it was pulled out or plugged in that have been seen to */
	u64 listens;			/* times it was asked to listen, likewise */
	struct virtio_device *vdev;	/* none: free for the next one */
	bool leaves;			/* its bus is to go, and no other comes */
	struct virtqueue *queue;
	struct pci_host_bridge *host;
	struct resource memory;
	struct resource bus_numbers;
};

/* What a kernel has once. */
struct bridge {
	struct irq_domain *msi_inner;
	struct irq_domain *msi;
	struct irq_domain *pin;
	struct card *end;		/* behind the last card that there was */
	u64 attention;			/* what every WB_SLEEPING says, unless it was woken */
	unsigned long retriggered;	/* vectors whose handlers shall run once more */
	struct work_struct retrigger;	/* runs them, where nothing else will */
	u64 rest_ps;			/* of what interrupts take, what is left of a nanosecond */
	u64 hiccups;			/* times that the poller was not running */
	struct task_struct *poller;
	struct mutex vectors_lock;	/* the bitmap */
	DECLARE_BITMAP(vectors, VECTORS);
	struct work_struct see_to_buses;
	struct work_struct listen;
	struct card cards[WB_CARDS];	/* of the first one the poller has its orders */
};

/* The cards are not allocated: a region of logic_iomem cannot be taken back. */
extern struct bridge bridge;

/*
 * The other side has a processor of its own even if this kernel knows of one only: virt_, not smp_.
 *
 * Everything that the other side did before it wrote the word is seen behind this.
 */
static inline u64 load(const struct card *card, unsigned int word)
{
	/* pairs with the other side's release */
	return virt_load_acquire(&card->window[word]);
}

/* Everything that was done before this is seen by a reader of the word. */
static inline void store(const struct card *card, unsigned int word, u64 value)
{
	/* pairs with the other side's acquire */
	virt_store_release(&card->window[word], value);
}

static inline u64 ticks(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* In virtual time cpu_relax() lets a nanosecond pass; how often we look shall not be seen. */
static inline void relax(void)
{
	asm volatile("pause");
}

/* main.c */
void see_to_buses_soon(void);

/* access.c */
extern struct pci_ops bridge_config_ops;
int make_accesses(void);

/* interrupts.c */
int make_interrupts(void);
void take_interrupts_soon(void);
void signalled(struct virtio_device *vdev);
int start_poller(void);
void stop_poller(void);

#endif
