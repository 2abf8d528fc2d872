// SPDX-License-Identifier: GPL-2.0
/*
 * A driver for tests: the two vectors of the test card duo, each with a handler of its own.
 *
 * The card's data sheet is in crates/testbench/src/cards/duo/mod.rs. The card's directory in sysfs
 * has two more files. "counts" says how often the handler of each vector has run. "disabled" has a
 * bit for each vector that disable_irq() was called for; writing it disables and enables.
 */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>

#define VECTORS 2

#define CONTROL 0x04
#define CONTROL_RESET BIT(0)
#define CONTROL_RX_ENABLE BIT(2)
#define CONTROL_STEER BIT(3)
#define INTR_STATUS(vector) (0x20 + 0x10 * (vector))
#define INTR_MASK(vector) (0x24 + 0x10 * (vector))
#define INTR_ALL 0x3f
#define RX_RING(queue) (0x40 + 0x10 * (queue))
#define RING_BYTES 4096

static bool lazy;
module_param(lazy, bool, 0444);
MODULE_PARM_DESC(lazy, "A disabled vector is masked at the card when it comes, not before");

static unsigned int messages;
module_param(messages, uint, 0444);
MODULE_PARM_DESC(messages, "Messages of MSI to ask for, instead of vectors of MSI-X; two are used");

struct card;

struct vector {
	struct card *card;
	unsigned int number;
	atomic_t count;
};

struct card {
	struct pci_dev *pdev;
	void __iomem *registers;
	void *rings;
	dma_addr_t rings_at;
	struct vector vectors[VECTORS];
	struct mutex disabled_lock;	/* the bits, and the calls that they tell of */
	unsigned int disabled;
};

static irqreturn_t handle(int irq, void *data)
{
	struct vector *vector = data;
	void __iomem *status = vector->card->registers + INTR_STATUS(vector->number);

	/* Ones clear. The vector's level falls, and its next rise is the next message. */
	writel(readl(status), status);
	atomic_inc(&vector->count);
	return IRQ_HANDLED;
}

static ssize_t counts_show(struct device *dev, struct device_attribute *attr, char *text)
{
	struct card *card = dev_get_drvdata(dev);

	return sysfs_emit(text, "%d %d\n", atomic_read(&card->vectors[0].count),
			  atomic_read(&card->vectors[1].count));
}
static DEVICE_ATTR_RO(counts);

static ssize_t disabled_show(struct device *dev, struct device_attribute *attr, char *text)
{
	struct card *card = dev_get_drvdata(dev);

	return sysfs_emit(text, "%u\n", READ_ONCE(card->disabled));
}

static ssize_t disabled_store(struct device *dev, struct device_attribute *attr, const char *text,
			      size_t length)
{
	struct card *card = dev_get_drvdata(dev);
	unsigned int disabled, i;
	int err = kstrtouint(text, 0, &disabled);

	if (err)
		return err;
	if (disabled >= BIT(VECTORS))
		return -ERANGE;
	mutex_lock(&card->disabled_lock);
	for (i = 0; i < VECTORS; i++) {
		if (!((card->disabled ^ disabled) & BIT(i)))
			continue;
		if (disabled & BIT(i))
			disable_irq(pci_irq_vector(card->pdev, i));
		else
			enable_irq(pci_irq_vector(card->pdev, i));
	}
	WRITE_ONCE(card->disabled, disabled);
	mutex_unlock(&card->disabled_lock);
	return length;
}
static DEVICE_ATTR_RW(disabled);

static struct attribute *card_attrs[] = {
	&dev_attr_counts.attr,
	&dev_attr_disabled.attr,
	NULL,
};
ATTRIBUTE_GROUPS(card);

/* Frames go to both queues, and find no descriptor there: each vector tells of those of its queue. */
static void start(struct card *card)
{
	unsigned int i;

	writel(CONTROL_RESET, card->registers + CONTROL);
	for (i = 0; i < VECTORS; i++) {
		lo_hi_writeq(card->rings_at + i * RING_BYTES, card->registers + RX_RING(i));
		writel(INTR_ALL, card->registers + INTR_MASK(i));
	}
	writel(CONTROL_RX_ENABLE | CONTROL_STEER, card->registers + CONTROL);
}

/* A reset also masks everything; the read comes back when that is done. */
static void quiesce(struct card *card)
{
	writel(CONTROL_RESET, card->registers + CONTROL);
	readl(card->registers + CONTROL);
}

static void free_vectors(struct card *card, unsigned int count)
{
	while (count--)
		free_irq(pci_irq_vector(card->pdev, count), &card->vectors[count]);
	pci_free_irq_vectors(card->pdev);
}

static int request_vectors(struct card *card)
{
	unsigned int wanted = messages ?: VECTORS;
	int err = pci_alloc_irq_vectors(card->pdev, wanted, wanted,
					messages ? PCI_IRQ_MSI : PCI_IRQ_MSIX);
	unsigned int i;

	if (err < 0)
		return err;
	for (i = 0; i < VECTORS; i++) {
		int irq = pci_irq_vector(card->pdev, i);

		card->vectors[i].card = card;
		card->vectors[i].number = i;
		if (!lazy)
			irq_set_status_flags(irq, IRQ_DISABLE_UNLAZY);
		err = request_irq(irq, handle, 0, KBUILD_MODNAME, &card->vectors[i]);
		if (err) {
			free_vectors(card, i);
			return err;
		}
	}
	return 0;
}

static int card_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct card *card = devm_kzalloc(&pdev->dev, sizeof(*card), GFP_KERNEL);
	int err;

	if (!card)
		return -ENOMEM;
	card->pdev = pdev;
	mutex_init(&card->disabled_lock);
	pci_set_drvdata(pdev, card);
	card->rings = dmam_alloc_coherent(&pdev->dev, VECTORS * RING_BYTES, &card->rings_at,
					  GFP_KERNEL);
	if (!card->rings)
		return -ENOMEM;
	err = pci_enable_device(pdev);
	if (err)
		return err;
	pci_set_master(pdev);
	card->registers = pci_iomap(pdev, 0, 0);
	if (!card->registers) {
		err = -ENOMEM;
		goto disable;
	}
	err = request_vectors(card);
	if (err)
		goto unmap;
	start(card);
	return 0;

unmap:
	pci_iounmap(pdev, card->registers);
disable:
	pci_disable_device(pdev);
	return err;
}

static void card_remove(struct pci_dev *pdev)
{
	struct card *card = pci_get_drvdata(pdev);

	quiesce(card);
	free_vectors(card, VECTORS);
	pci_iounmap(pdev, card->registers);
	pci_disable_device(pdev);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x1234, 0x0d02) }, { 0 } };
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver card_driver = {
	.name = KBUILD_MODNAME,
	.id_table = ids,
	.probe = card_probe,
	.remove = card_remove,
	.dev_groups = card_groups,
};
module_pci_driver(card_driver);

MODULE_DESCRIPTION("The two vectors of a test card");
MODULE_LICENSE("GPL");
