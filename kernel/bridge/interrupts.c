// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts: INTx, which is a level in the window, and messages, which are numbers in a ring. This
 * side polls for them while the kernel has nothing else to do, and looks behind each access; otherwise it
 * is signalled.
 */
#include <linux/delay.h>
#include <linux/hardirq.h>
#include <linux/irq.h>
#include <linux/kthread.h>
#include <linux/msi.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/version.h>
#include <uapi/linux/sched/types.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
#include <linux/irqchip/irq-msi-lib.h>
#endif

#include "bridge.h"

/* How often a level is handled before it is looked at anew. */
#define PIN_ROUNDS 8

static void pin_mask(struct irq_data *data)
{
	struct card *card = irq_data_get_irq_chip_data(data);

	WRITE_ONCE(card->pin_masked, true);
}

static void pin_unmask(struct irq_data *data)
{
	struct card *card = irq_data_get_irq_chip_data(data);

	WRITE_ONCE(card->pin_masked, false);
	/* By a handler's thread: the other side does not signal a level that it has signalled. */
	if (!in_hardirq() && READ_ONCE(card->window[WB_PIN_LEVEL]))
		schedule_work(&bridge.retrigger);
}

static struct irq_chip pin_chip = {
	.name = "warikomi INTx",
	.irq_mask = pin_mask,
	.irq_unmask = pin_unmask,
};

static int pin_map(struct irq_domain *domain, unsigned int virq, irq_hw_number_t number)
{
	irq_set_chip_and_handler(virq, &pin_chip, handle_level_irq);
	irq_set_chip_data(virq, &bridge.cards[number]);
	irq_set_status_flags(virq, IRQ_LEVEL);
	return 0;
}

static const struct irq_domain_ops pin_ops = {
	.map = pin_map,
};

static void compose(struct irq_data *data, struct msi_msg *message)
{
	message->address_hi = 0;
	message->address_lo = 0xa0000;
	message->data = data->hwirq;
}

/* A message has no level: nothing is to be acknowledged. */
static void acknowledge(struct irq_data *data)
{
}

static void take_retriggered(struct work_struct *work)
{
	take_interrupts_soon();
}

/* It came while it was disabled. The other side knows of nothing that it should signal. */
static int retrigger(struct irq_data *data)
{
	set_bit(data->hwirq, &bridge.retriggered);
	schedule_work(&bridge.retrigger);
	return 1;
}

static struct irq_chip message_chip = {
	.name = "warikomi MSI",
	.irq_compose_msi_msg = compose,
	.irq_ack = acknowledge,
	.irq_retrigger = retrigger,
};

/*
 * A card makes its numbers of the first one by changing low bits, so it has a power of two of them to
 * itself. Those that were not asked for go with the last vector: they are freed one by one.
 */
static int vectors_alloc(struct irq_domain *domain, unsigned int virq, unsigned int count,
			 void *arg)
{
	int order = get_count_order(count);
	unsigned long numbers;
	int first, i;

	mutex_lock(&bridge.vectors_lock);
	first = bitmap_find_free_region(bridge.vectors, VECTORS, order);
	mutex_unlock(&bridge.vectors_lock);
	if (first < 0)
		return -ENOSPC;
	for (i = 0; i < count; i++) {
		numbers = i + 1 < count ? 1 : BIT(order) - i;
		irq_domain_set_info(domain, virq + i, first + i, &message_chip, (void *)numbers,
				    handle_edge_irq, NULL, NULL);
	}
	return 0;
}

static void vectors_free(struct irq_domain *domain, unsigned int virq, unsigned int count)
{
	struct irq_data *data;
	unsigned int i;

	mutex_lock(&bridge.vectors_lock);
	for (i = 0; i < count; i++) {
		data = irq_domain_get_irq_data(domain, virq + i);
		bitmap_clear(bridge.vectors, data->hwirq, (unsigned long)data->chip_data);
	}
	mutex_unlock(&bridge.vectors_lock);
}

static const struct irq_domain_ops vectors_ops = {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	.select = msi_lib_irq_domain_select,
#endif
	.alloc = vectors_alloc,
	.free = vectors_free,
};

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
static const struct msi_parent_ops parent_ops = {
	.required_flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS |
			  MSI_FLAG_NO_AFFINITY,
	.supported_flags = MSI_GENERIC_FLAGS_MASK | MSI_FLAG_PCI_MSIX | MSI_FLAG_MULTI_PCI_MSI,
	.chip_flags = MSI_CHIP_FLAG_SET_ACK,
	.bus_select_token = DOMAIN_BUS_NEXUS,
	.bus_select_mask = MATCH_PCI_MSI,
	.prefix = "warikomi-",
	.init_dev_msi_info = msi_lib_init_dev_msi_info,
};

static int make_message_domains(struct fwnode_handle *fwnode)
{
	struct irq_domain_info info = { .fwnode = fwnode, .ops = &vectors_ops, .size = VECTORS };

	bridge.msi_inner = msi_create_parent_irq_domain(&info, &parent_ops);
	bridge.msi = bridge.msi_inner;
	return bridge.msi ? 0 : -ENOMEM;
}
#else
static struct irq_chip pci_message_chip = {
	.name = "warikomi PCI-MSI",
	.irq_mask = pci_msi_mask_irq,
	.irq_unmask = pci_msi_unmask_irq,
	.irq_ack = irq_chip_ack_parent,
	.irq_retrigger = irq_chip_retrigger_hierarchy,
};

static struct msi_domain_info pci_message_info = {
	.flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS | MSI_FLAG_PCI_MSIX |
		 MSI_FLAG_MULTI_PCI_MSI,
	.chip = &pci_message_chip,
};

static int make_message_domains(struct fwnode_handle *fwnode)
{
	bridge.msi_inner = irq_domain_create_linear(fwnode, VECTORS, &vectors_ops, NULL);
	if (!bridge.msi_inner)
		return -ENOMEM;
	bridge.msi = pci_msi_create_irq_domain(fwnode, &pci_message_info, bridge.msi_inner);
	return bridge.msi ? 0 : -ENOMEM;
}
#endif

static int make_pin(struct card *card)
{
	card->pin_masked = true;
	card->pin_irq = irq_create_mapping(bridge.pin, card->number);
	return card->pin_irq ? 0 : -ENOMEM;
}

int make_interrupts(void)
{
	struct fwnode_handle *fwnode = irq_domain_alloc_named_fwnode("warikomi-pci");
	int err, i;

	mutex_init(&bridge.vectors_lock);
	INIT_WORK(&bridge.retrigger, take_retriggered);
	if (!fwnode)
		return -ENOMEM;
	err = make_message_domains(fwnode);
	if (err)
		return err;
	bridge.pin = irq_domain_create_linear(NULL, WB_CARDS, &pin_ops, NULL);
	if (!bridge.pin)
		return -ENOMEM;
	for (i = 0; i < WB_CARDS && !err; i++)
		err = make_pin(&bridge.cards[i]);
	return err;
}

/* ---- taking them ---- */

static bool pin_is_asserted(struct card *card)
{
	if (!READ_ONCE(card->window[WB_PIN_LEVEL]) || READ_ONCE(card->pin_masked))
		return false;
	/* The level holds for what the card has seen: writes that were under way may change it. */
	return load(card, WB_REQUESTS_TAIL) == card->posted &&
	       READ_ONCE(card->window[WB_PIN_LEVEL]);
}

static bool is_pending(void)
{
	struct card *card;

	for (card = bridge.cards; card < bridge.end; card++)
		if (card->taken != load(card, WB_INTERRUPTS) || pin_is_asserted(card))
			return true;
	return READ_ONCE(bridge.retriggered);
}

/* In virtual time an interrupt takes what was declared until its handler runs; in real time nothing is. */
static void interrupt(struct irq_domain *domain, unsigned int number)
{
	u64 ps = bridge.rest_ps + READ_ONCE(bridge.cards->window[WB_HEADER_INTERRUPT_PS]);

	if (ps >= PSEC_PER_NSEC)
		ndelay(ps / PSEC_PER_NSEC);
	bridge.rest_ps = ps % PSEC_PER_NSEC;
	generic_handle_domain_irq(domain, number);
}

/* The vector of the first message that has not been taken, unless it was written over. */
static int next_vector(struct card *card)
{
	u64 latest = READ_ONCE(card->window[WB_LATEST]);
	u64 vector;

	if (latest >> 16 == (card->taken & GENMASK_ULL(47, 0)))
		return latest & 0xffff;
	/* The place before the count, which says whether it was this message's up to then. */
	vector = load(card, WB_MESSAGES + card->taken % WB_MESSAGES_CAPACITY);
	if (load(card, WB_INTERRUPTS) - card->taken >= WB_MESSAGES_CAPACITY)
		return -ENOENT;
	return vector;
}

static void take_messages(struct card *card)
{
	int vector;

	while (load(card, WB_INTERRUPTS) != card->taken) {
		vector = next_vector(card);
		/* Before the handler, in which time may pass: it is not to be told of this one again. */
		store(card, WB_TAKEN, ++card->taken);
		if (vector >= 0) {
			interrupt(bridge.msi_inner, vector);
		} else {
			/* It may have been any: each has its turn. */
			bridge.retriggered = ~0UL;
		}
	}
}

static void take_pin(struct card *card)
{
	int round;

	/* A level that no handler takes shall not keep the kernel from all else. */
	for (round = 0; round < PIN_ROUNDS && pin_is_asserted(card); round++)
		interrupt(bridge.pin, card->number);
}

/* In hard interrupt context. */
static void take_interrupts(void)
{
	unsigned int vector;
	struct card *card;

	for (card = bridge.cards; card < bridge.end; card++)
		take_messages(card);
	for (vector = 0; READ_ONCE(bridge.retriggered) && vector < VECTORS; vector++)
		if (test_and_clear_bit(vector, &bridge.retriggered))
			interrupt(bridge.msi_inner, vector);
	for (card = bridge.cards; card < bridge.end; card++)
		take_pin(card);
}

/* As if the interrupt came now: handlers in hard interrupt context, then softirqs. */
static void be_interrupted(void)
{
	unsigned long flags;

	local_bh_disable();
	local_irq_save(flags);
	__irq_enter();
	take_interrupts();
	__irq_exit();
	local_irq_restore(flags);
	local_bh_enable();
}

/* Says whether this side looks at the rings by itself. */
static void say(u64 attention)
{
	struct card *card;

	WRITE_ONCE(bridge.attention, attention);
	for (card = bridge.cards; card < bridge.end; card++)
		store(card, WB_SLEEPING, attention);
	/* The word before the look at the rings that follows: the other side fills, then looks. */
	virt_mb();
}

/* Once there is nothing else to do, the poller goes to sleep anew. */
static void be_busy(void)
{
	say(WB_BUSY);
	if (bridge.poller)
		wake_up_process(bridge.poller);
}

/* Behind an access: what the access has caused, or came meanwhile, needs no signal. */
void take_interrupts_soon(void)
{
	if (unlikely(READ_ONCE(bridge.attention) == WB_SLEEPS))
		be_busy();
	if (is_pending() && !irqs_disabled() && !in_hardirq())
		be_interrupted();
}

/* Notes that this side was not running, if it took longer than it may. */
static void watch(u64 from, u64 until, u64 most)
{
	u64 place = WB_HICCUP_TIMES + bridge.hiccups % WB_HICCUPS_CAPACITY * 2;
	u64 *entry = &bridge.cards->window[place];

	if (likely(until - from <= most))
		return;
	WRITE_ONCE(entry[0], from);
	WRITE_ONCE(entry[1], until);
	store(bridge.cards, WB_HICCUPS, ++bridge.hiccups);
}

/* RCU is one of those who want it: at a tick it asks for a task to be scheduled. */
static void poll_until_wanted_elsewhere(void)
{
	u64 look_ticks = load(bridge.cards, WB_HEADER_LOOK_TICKS);
	u64 work_ticks = load(bridge.cards, WB_HEADER_WORK_TICKS);
	unsigned long tick = jiffies;
	u64 last = ticks();

	preempt_disable();
	say(WB_LOOKS);
	while (!need_resched()) {
		bool works = is_pending();
		unsigned long before, after;
		u64 now;

		if (works)
			be_interrupted();
		before = jiffies;
		now = ticks();
		after = jiffies;
		/* What its own tick takes is this side's own. */
		if (after == tick)
			watch(last, now, works ? work_ticks : look_ticks);
		last = now;
		tick = before;
		cpu_relax();
	}
	say(WB_BUSY);
	take_interrupts_soon();
	preempt_enable();
}

/* So that the processor sleeps as well. */
static void sleep_until_busy(void)
{
	set_current_state(TASK_INTERRUPTIBLE);
	say(WB_SLEEPS);
	if (!is_pending() && !kthread_should_stop())
		schedule();
	__set_current_state(TASK_RUNNING);
	take_interrupts_soon();
}

/* Of policy SCHED_IDLE: runs when nothing else does. */
static int attend(void *unused)
{
	while (!kthread_should_stop()) {
		/* Fairness alone has chosen us: the others shall have it. */
		if (!single_task_running()) {
			yield();
		} else if (load(bridge.cards, WB_HEADER_POLLING)) {
			poll_until_wanted_elsewhere();
			schedule();
		} else {
			sleep_until_busy();
		}
	}
	return 0;
}

/* In a hard interrupt. */
void signalled(struct virtio_device *vdev)
{
	struct card *card = vdev->priv;
	u64 listens = load(card, WB_HEADER_LISTENS);

	/* The other side takes a sleep back when it signals. */
	if (READ_ONCE(bridge.attention) != WB_LOOKS)
		be_busy();
	take_interrupts();
	if (load(card, WB_HEADER_PLUGS) != card->plugs)
		see_to_buses_soon();
	if (listens != card->listens)
		schedule_work(&bridge.listen);
	card->listens = listens;
}

int start_poller(void)
{
	const struct sched_attr idle = { .size = sizeof(idle), .sched_policy = SCHED_IDLE };
	struct task_struct *poller = kthread_create(attend, NULL, "warikomi");

	if (IS_ERR(poller))
		return PTR_ERR(poller);
	sched_setattr_nocheck(poller, &idle);
	bridge.poller = poller;
	wake_up_process(poller);
	return 0;
}

void stop_poller(void)
{
	struct task_struct *poller = bridge.poller;

	/* First, because a signal wakes it, also once it has ended. */
	bridge.poller = NULL;
	if (poller)
		kthread_stop(poller);
}
