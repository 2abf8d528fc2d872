// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI host bridge for User Mode Linux.
 *
 * The card behind it is played by another process, which shares this kernel's memory. Register
 * accesses are entries of a ring that the other side polls. Interrupts are numbers in a ring that
 * this side polls while the kernel has nothing else to do; otherwise it is signalled. What lies
 * where in the window that both share is in warikomi_bridge.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq.h>
#include <linux/module.h>
#include <linux/virtio_config.h>

#include "bridge.h"

#define WINDOW_ORDER get_order(WB_WINDOW_BYTES)

struct bridge bridge;

static struct resource bus_numbers = {
	.name = "warikomi PCI buses",
	.start = BUS_NUMBER,
	.end = BUS_NUMBER,
	.flags = IORESOURCE_BUS,
};

static int map_pin(const struct pci_dev *dev, u8 slot, u8 pin)
{
	return bridge.pin_irq;
}

static int add_bus(void)
{
	struct pci_host_bridge *host = pci_alloc_host_bridge(0);
	int err;

	if (!host)
		return -ENOMEM;
	pci_add_resource(&host->windows, &bridge_memory);
	pci_add_resource(&host->windows, &bus_numbers);
	host->ops = &bridge_config_ops;
	host->busnr = BUS_NUMBER;
	host->map_irq = map_pin;
	host->dev.parent = &bridge.vdev->dev;
	dev_set_msi_domain(&host->dev, bridge.msi);
	err = pci_host_probe(host);
	if (err) {
		pci_free_host_bridge(host);
		return err;
	}
	bridge.host = host;
	return 0;
}

static void bring_up(struct work_struct *work)
{
	int err = add_bus();

	if (!err)
		err = start_poller();
	if (err)
		pr_err("cannot bring the bus up: %d\n", err);
}

static void hand_over_window(void)
{
	u64 *window = bridge.window;

	memset(window, 0, WB_WINDOW_BYTES);
	bridge.posted = 0;
	bridge.carried_out = 0;
	bridge.reads = 0;
	bridge.taken = 0;
	bridge.hiccups = 0;
	window[WB_HEADER_MAGIC] = WB_MAGIC;
	window[WB_HEADER_VERSION] = WB_VERSION;
	/* Until the other side says how long an access may take. */
	window[WB_HEADER_PATIENCE_TICKS] = ~0ULL;
	bridge.attention = WB_SLEEPS;
	window[WB_SLEEPING] = WB_SLEEPS;
}

static void nothing_comes_back(struct virtqueue *queue)
{
}

static int bridge_probe(struct virtio_device *vdev)
{
	struct scatterlist buffer;
	int err;

	bridge.vdev = vdev;
	bridge.queue = virtio_find_single_vq(vdev, nothing_comes_back, "window");
	if (IS_ERR(bridge.queue))
		return PTR_ERR(bridge.queue);
	virtio_device_ready(vdev);
	hand_over_window();
	sg_init_one(&buffer, bridge.window, WB_WINDOW_BYTES);
	err = virtqueue_add_inbuf(bridge.queue, &buffer, 1, bridge.window, GFP_KERNEL);
	if (err)
		return err;
	virtqueue_kick(bridge.queue);
	/* Signals are held back until this returns. */
	schedule_work(&bridge.bring_up);
	return 0;
}

static void bridge_remove(struct virtio_device *vdev)
{
	flush_work(&bridge.bring_up);
	stop_poller();
	if (bridge.host) {
		pci_lock_rescan_remove();
		pci_stop_root_bus(bridge.host->bus);
		pci_remove_root_bus(bridge.host->bus);
		pci_unlock_rescan_remove();
		pci_free_host_bridge(bridge.host);
	}
	bridge.host = NULL;
	cancel_work_sync(&bridge.retrigger);
	virtio_reset_device(vdev);
	vdev->config->del_vqs(vdev);
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

static int __init bridge_init(void)
{
	int err;

	/* The poller would run beside the handlers that it calls. */
	if (num_possible_cpus() > 1)
		return -EOPNOTSUPP;
	INIT_WORK(&bridge.bring_up, bring_up);
	/* Linear: a module's own data has no address that a card could use. */
	bridge.window = (u64 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, WINDOW_ORDER);
	if (!bridge.window)
		return -ENOMEM;
	err = make_interrupts();
	if (!err)
		err = make_accesses();
	return err ? err : register_virtio_driver(&bridge_driver);
}
module_init(bridge_init);

/* No module_exit(): a region of logic_iomem stays for good. */
MODULE_DESCRIPTION("PCI host bridge over shared memory for User Mode Linux");
MODULE_LICENSE("GPL");
