// SPDX-License-Identifier: GPL-2.0
/* Register and configuration accesses: entries of a ring, which the other side polls. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/logic_iomem.h>

#include "bridge.h"

/* Waits until a word has this value; the other side may have lost its processor for long. */
static bool wait_for(struct card *card, unsigned int word, u64 value)
{
	u64 begun = ticks();

	while (load(card, word) != value) {
		if (unlikely(ticks() - begun > load(card, WB_HEADER_PATIENCE_TICKS))) {
			pr_err("card %u has stopped answering\n", card->number);
			card->dead = true;
			return false;
		}
		relax();
	}
	return true;
}

static bool post(struct card *card, u64 kind, u64 space, u32 offset, int size, u64 value)
{
	u64 *latest = &card->window[WB_REQUESTS_LATEST];
	u64 access = kind | space << 8 | (u64)size << 16 | (u64)offset << 32;
	u64 *entry;

	if (card->dead)
		return false;
	/* The other side's word is looked at once a ring: it would be fetched from its core. */
	if (card->posted - card->carried_out >= WB_REQUESTS_CAPACITY) {
		if (!wait_for(card, WB_REQUESTS_TAIL, card->posted))
			return false;
		card->carried_out = card->posted;
	}
	entry = &card->window[WB_REQUESTS_ENTRIES + card->posted % WB_REQUESTS_CAPACITY * 2];
	WRITE_ONCE(entry[0], access);
	WRITE_ONCE(entry[1], value);
	WRITE_ONCE(latest[0], card->posted);
	/* The number before the entry: the other side reads both the other way round. */
	virt_wmb();
	WRITE_ONCE(latest[1], access);
	WRITE_ONCE(latest[2], value);
	store(card, WB_REQUESTS_HEAD, ++card->posted);
	return true;
}

/* In step with the other side an access has a time, and takes some. */
static u64 carried_out_in_step(struct card *card)
{
	if (!load(card, WB_HEADER_IN_STEP) || !wait_for(card, WB_REQUESTS_TAIL, card->posted))
		return 0;
	return READ_ONCE(card->window[WB_DELAY_NS]);
}

/* In virtual time others may have their turn meanwhile; in real time there is no delay. */
static void let_pass(u64 delay_ns)
{
	if (delay_ns)
		ndelay(delay_ns);
	take_interrupts_soon();
}

static void write_card(struct card *card, u64 space, u32 offset, int size, u64 value)
{
	u64 delay_ns = 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&card->access_lock, flags);
	if (post(card, WB_ACCESS_WRITE, space, offset, size, value))
		delay_ns = carried_out_in_step(card);
	raw_spin_unlock_irqrestore(&card->access_lock, flags);
	let_pass(delay_ns);
}

static u64 read_card(struct card *card, u64 space, u32 offset, int size)
{
	unsigned long flags;
	u64 value = ~0ULL;
	u64 delay_ns = 0;

	raw_spin_lock_irqsave(&card->access_lock, flags);
	if (post(card, WB_ACCESS_READ, space, offset, size, ++card->reads) &&
	    wait_for(card, WB_ANSWERED, card->reads)) {
		value = READ_ONCE(card->window[WB_ANSWER]);
		delay_ns = carried_out_in_step(card);
	}
	raw_spin_unlock_irqrestore(&card->access_lock, flags);
	let_pass(delay_ns);
	return value;
}

static unsigned long bar_read(void *priv, unsigned int offset, int size)
{
	const struct bar *bar = priv;

	return read_card(bar->card, bar->number, offset, size);
}

static void bar_write(void *priv, unsigned int offset, int size, unsigned long value)
{
	const struct bar *bar = priv;

	write_card(bar->card, bar->number, offset, size, value);
}

/* The largest naturally aligned piece, as a bridge would split an access. */
static int piece(unsigned int offset, int left)
{
	int size = 8;

	while (size > left || offset % size)
		size /= 2;
	return size;
}

static void bar_set(void *bar, unsigned int offset, u8 value, int left)
{
	int size;

	for (; left > 0; offset += size, left -= size) {
		size = piece(offset, left);
		bar_write(bar, offset, size, value * 0x0101010101010101ULL);
	}
}

static void bar_copy_from(void *bar, void *buffer, unsigned int offset, int left)
{
	unsigned long value;
	int size;

	for (; left > 0; offset += size, buffer += size, left -= size) {
		size = piece(offset, left);
		value = bar_read(bar, offset, size);
		memcpy(buffer, &value, size);
	}
}

static void bar_copy_to(void *bar, unsigned int offset, const void *buffer, int left)
{
	unsigned long value;
	int size;

	for (; left > 0; offset += size, buffer += size, left -= size) {
		size = piece(offset, left);
		value = 0;
		memcpy(&value, buffer, size);
		bar_write(bar, offset, size, value);
	}
}

static const struct logic_iomem_ops bar_ops = {
	.read = bar_read,
	.write = bar_write,
	.set = bar_set,
	.copy_from = bar_copy_from,
	.copy_to = bar_copy_to,
};

/* virt-pci has what lies above, and from 6.12 on 0x10000000 to 0x1fffffff. */
static struct resource bridge_memory = {
	.name = "warikomi PCI memory",
	.start = 0xe0000000,
	.end = 0xe0000000 + WB_CARDS * CARD_MEMORY_BYTES - 1,
	.flags = IORESOURCE_MEM,
};

static long map_bar(unsigned long offset, size_t size, const struct logic_iomem_ops **ops,
		    void **bar)
{
	struct card *card = &bridge.cards[offset / CARD_MEMORY_BYTES];
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(0, card->bus_numbers.start, 0);
	resource_size_t at = bridge_memory.start + offset;
	long found = -ENOENT;
	int i;

	if (!pdev)
		return found;
	for (i = 0; i < PCI_STD_NUM_BARS; i++) {
		struct resource *r = &pdev->resource[i];

		if (resource_type(r) != IORESOURCE_MEM || at < r->start || at + size - 1 > r->end)
			continue;
		*ops = &bar_ops;
		*bar = &card->bars[i];
		found = at - r->start;
		break;
	}
	pci_dev_put(pdev);
	return found;
}

static const struct logic_iomem_region_ops memory_ops = {
	.map = map_bar,
};

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	if (devfn) {
		*value = ~0;
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	*value = read_card(bus->sysdata, WB_ACCESS_CONFIG, where, size);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	if (devfn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	write_card(bus->sysdata, WB_ACCESS_CONFIG, where, size, value);
	return PCIBIOS_SUCCESSFUL;
}

struct pci_ops bridge_config_ops = {
	.read = config_read,
	.write = config_write,
};

static int make_card(struct card *card)
{
	int i;

	for (i = 0; i < PCI_STD_NUM_BARS; i++)
		card->bars[i] = (struct bar){ .card = card, .number = i };
	raw_spin_lock_init(&card->access_lock);
	card->memory.name = "warikomi PCI card";
	card->memory.start = bridge_memory.start + card->number * CARD_MEMORY_BYTES;
	card->memory.end = card->memory.start + CARD_MEMORY_BYTES - 1;
	card->memory.flags = IORESOURCE_MEM;
	return request_resource(&bridge_memory, &card->memory);
}

int make_accesses(void)
{
	int err = logic_iomem_add_region(&bridge_memory, &memory_ops);
	int i;

	for (i = 0; i < WB_CARDS && !err; i++)
		err = make_card(&bridge.cards[i]);
	return err;
}
