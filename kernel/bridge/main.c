// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI host bridge for User Mode Linux.
 *
 * The cards behind it are played by another process, which shares this kernel's memory. Each is
 * alone on a bus, and has a virtio device that hands its window over. Register accesses are entries
 * of a ring that the other side polls. Interrupts are numbers in a ring that this side polls while
 * the kernel has nothing else to do; otherwise it is signalled. What lies where in the window that
 * both share is in warikomi_bridge.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/time-internal.h>
#include <linux/virtio_config.h>

#include "bridge.h"

#define WINDOW_ORDER get_order(WB_WINDOW_BYTES)

struct bridge bridge = { .end = bridge.cards };

static int map_pin(const struct pci_dev *dev, u8 slot, u8 pin)
{
	const struct card *card = dev->sysdata;

	return card->pin_irq;
}

static int add_bus(struct card *card)
{
	struct pci_host_bridge *host = pci_alloc_host_bridge(0);
	int err;

	if (!host)
		return -ENOMEM;
	pci_add_resource(&host->windows, &card->memory);
	pci_add_resource(&host->windows, &card->bus_numbers);
	host->ops = &bridge_config_ops;
	host->busnr = card->bus_numbers.start;
	host->map_irq = map_pin;
	host->sysdata = card;
	host->dev.parent = &card->vdev->dev;
	dev_set_msi_domain(&host->dev, bridge.msi);
	err = pci_host_probe(host);
	if (err) {
		pci_free_host_bridge(host);
		return err;
	}
	card->host = host;
	return 0;
}

static void remove_device(struct pci_bus *bus)
{
	struct pci_dev *pdev = pci_get_slot(bus, 0);

	if (!pdev)
		return;
	/* Drivers ask by pci_channel_offline() whether there is anything to talk to. */
	pdev->error_state = pci_channel_io_perm_failure;
	pci_stop_and_remove_bus_device_locked(pdev);
	pci_dev_put(pdev);
}

/* What has been pulled out is removed, also if it is back already: it is not what it was. */
static void see_to_slot(struct card *card)
{
	u64 plugs = load(card, WB_HEADER_PLUGS);

	if (plugs == card->plugs)
		return;
	card->plugs = plugs;
	remove_device(card->host->bus);
	if (plugs % 2)
		return;
	pci_lock_rescan_remove();
	pci_rescan_bus(card->host->bus);
	pci_unlock_rescan_remove();
}

static void remove_bus(struct card *card)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(card->host->bus);
	pci_remove_root_bus(card->host->bus);
	pci_unlock_rescan_remove();
	pci_free_host_bridge(card->host);
	card->host = NULL;
}

static void see_to_bus(struct card *card)
{
	int err = 0;

	if (card->leaves && card->host)
		remove_bus(card);
	if (card->leaves || !card->vdev)
		return;
	if (!card->host)
		err = add_bus(card);
	if (err)
		pr_err("cannot bring the bus of card %u up: %d\n", card->number, err);
	else
		see_to_slot(card);
}

/* One for all cards, and so never beside itself: until 6.12 a scan takes no lock, and no bus goes during another's. */
static void see_to_buses(struct work_struct *work)
{
	struct card *first = bridge.cards;
	struct card *card;

	for (card = first; card < bridge.end; card++)
		see_to_bus(card);
	/* In virtual time there is none: while others can run it yields, for which no time passes. */
	if (first->host && !bridge.poller && !load(first, WB_HEADER_IN_STEP) && start_poller())
		pr_err("cannot poll for interrupts\n");
}

/* While the system is suspended no card comes or goes. */
void see_to_buses_soon(void)
{
	queue_work(system_freezable_wq, &bridge.see_to_buses);
}

/*
 * In virtual time a kernel that waits forgets what else than an interrupt comes in (epoll tells it once, and it looks
 * for events of virtual time only). While it tells its time it keeps that for later, and interrupts are on here.
 */
static void listen(struct work_struct *work)
{
	time_travel_propagate_time();
}

/*
 * Computing takes no virtual time, so a program that computes writes here for how long: interrupts come meanwhile, and
 * others run behind it. More at once would keep them from it.
 */
static int compute(const char *text, const struct kernel_param *param)
{
	unsigned long ns;
	int err = kstrtoul(text, 0, &ns);

	if (err)
		return err;
	if (ns > NSEC_PER_MSEC)
		return -EINVAL;
	ndelay(ns);
	return 0;
}

static const struct kernel_param_ops compute_ops = { .set = compute };
module_param_cb(compute_ns, &compute_ops, NULL, 0200);
MODULE_PARM_DESC(compute_ns, "lets so much virtual time pass as is written to it, 1 ms at most");

/* Another card's interrupt looks at every card: it would take messages until the old count comes round. */
static void clear_window(struct card *card)
{
	unsigned long flags;

	local_irq_save(flags);
	memset(card->window, 0, WB_WINDOW_BYTES);
	card->dead = false;
	card->posted = 0;
	card->carried_out = 0;
	card->reads = 0;
	card->taken = 0;
	card->plugs = 0;
	card->listens = 0;
	if (card == bridge.cards)
		bridge.hiccups = 0;
	card->window[WB_HEADER_MAGIC] = WB_MAGIC;
	card->window[WB_HEADER_VERSION] = WB_VERSION;
	/* Until the other side says how long an access may take. */
	card->window[WB_HEADER_PATIENCE_TICKS] = ~0ULL;
	card->window[WB_SLEEPING] = WB_SLEEPS;
	bridge.attention = WB_SLEEPS;
	local_irq_restore(flags);
}

static int make_window(struct card *card)
{
	/* Linear: a module's own data has no address that a card could use. */
	if (!card->window)
		card->window = (u64 *)__get_free_pages(GFP_KERNEL, WINDOW_ORDER);
	if (!card->window)
		return -ENOMEM;
	clear_window(card);
	return 0;
}

static struct card *free_card(void)
{
	struct card *card;

	for (card = bridge.cards; card < bridge.cards + WB_CARDS; card++)
		if (!card->vdev)
			return card;
	return NULL;
}

/*
 * In virtual time an interrupt for a change of the configuration is an event, which waits until this side does. One for
 * the queue interrupts whatever runs.
 */
static void struck(struct virtqueue *queue)
{
	signalled(queue->vdev);
}

static int bridge_probe(struct virtio_device *vdev)
{
	struct card *card = free_card();
	struct scatterlist buffer;
	int err;

	if (!card)
		return -ENOSPC;
	err = make_window(card);
	if (err)
		return err;
	/* Never suspended: cards are put to sleep and woken by way of it. */
	dev_pm_syscore_device(vdev->dev.parent, true);
	card->queue = virtio_find_single_vq(vdev, struck, "window");
	if (IS_ERR(card->queue))
		return PTR_ERR(card->queue);
	/* A queue's signals are not held back. */
	vdev->priv = card;
	virtio_device_ready(vdev);
	sg_init_one(&buffer, card->window, WB_WINDOW_BYTES);
	err = virtqueue_add_inbuf(card->queue, &buffer, 1, card->window, GFP_KERNEL);
	if (err)
		return err;
	virtqueue_kick(card->queue);
	card->leaves = false;
	card->vdev = vdev;
	if (bridge.end <= card)
		bridge.end = card + 1;
	/* The other signals are held back until this returns. */
	see_to_buses_soon();
	return 0;
}

static void bridge_remove(struct virtio_device *vdev)
{
	struct card *card = vdev->priv;

	card->leaves = true;
	see_to_buses_soon();
	flush_work(&bridge.see_to_buses);
	if (card == bridge.cards)
		stop_poller();
	virtio_reset_device(vdev);
	vdev->config->del_vqs(vdev);
	/* Only now: the window is not another's before the other side has let it go. */
	card->vdev = NULL;
}

static const struct virtio_device_id ids[] = { { WB_VIRTIO_DEVICE, VIRTIO_DEV_ANY_ID }, { 0 } };

static struct virtio_driver bridge_driver = {
	.driver.name = KBUILD_MODNAME,
	.driver.owner = THIS_MODULE,
	.id_table = ids,
	.probe = bridge_probe,
	.remove = bridge_remove,
	.config_changed = signalled,
};

static void number_card(struct card *card, unsigned int number)
{
	card->number = number;
	card->bus_numbers.name = "warikomi PCI buses";
	card->bus_numbers.start = FIRST_BUS + number;
	card->bus_numbers.end = FIRST_BUS + number;
	card->bus_numbers.flags = IORESOURCE_BUS;
}

static int __init bridge_init(void)
{
	unsigned int i;
	int err;

	/* The poller would run beside the handlers that it calls. */
	if (num_possible_cpus() > 1)
		return -EOPNOTSUPP;
	INIT_WORK(&bridge.see_to_buses, see_to_buses);
	INIT_WORK(&bridge.listen, listen);
	for (i = 0; i < WB_CARDS; i++)
		number_card(&bridge.cards[i], i);
	err = make_interrupts();
	if (!err)
		err = make_accesses();
	return err ? err : register_virtio_driver(&bridge_driver);
}
module_init(bridge_init);

/* No module_exit(): a region of logic_iomem stays for good. */
MODULE_DESCRIPTION("PCI host bridge over shared memory for User Mode Linux");
MODULE_LICENSE("GPL");
