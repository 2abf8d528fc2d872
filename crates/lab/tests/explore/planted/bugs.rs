//! The bugs: what is changed in the driver, and what must be found.

use warikomi_lab::strike::Verdict;

use crate::copies::Changes;

/// The Linux of whose driver the copies are made.
pub(crate) const DRIVER_VERSION: &str = "6.1";

/// A bug.
pub(crate) struct Bug {
    /// The module's name.
    pub(crate) name: &'static str,
    /// Text of the driver, and what it is replaced by.
    pub(crate) changes: Changes,
    /// What the traffic must be.
    pub(crate) operation: &'static str,
    /// Verdicts of which at least one must be found.
    pub(crate) verdicts: &'static [Verdict],
    /// What the place that is named must begin with: the kernel's own checks report some bugs wherever it strikes.
    pub(crate) function: &'static str,
}

const END_OF_POLL: &str = "	if (work_done < budget && napi_complete_done(napi, work_done))
		rtl_irq_enable(tp);
";

/// Every bug.
pub(crate) const BUGS: &[Bug] = &[
    // What comes between the last look at the rings and the acknowledgement has no interrupt.
    Bug {
        name: "r8169_ack_late",
        changes: &[
            ("out:\n\trtl_ack_events(tp, status);\n", "out:\n"),
            (
                END_OF_POLL,
                "	if (work_done < budget && napi_complete_done(napi, work_done)) {
		rtl_ack_events(tp, 0xffff);
		rtl_irq_enable(tp);
	}
",
            ),
        ],
        operation: "ping",
        verdicts: &[Verdict::Stuck, Verdict::Hung],
        // Wherever the second of two packets comes while the first is in hand.
        function: "rtl8169_",
    },
    // A packet that comes before the card is quiet is read from a buffer that was given back.
    Bug {
        name: "r8169_free_early",
        changes: &[(
            "	netif_stop_queue(dev);\n	rtl8169_down(tp);\n	rtl8169_rx_clear(tp);\n",
            "	netif_stop_queue(dev);
	for (int i = 0; i < NUM_RX_DESC; i++) {
		__free_pages(tp->Rx_databuff[i], get_order(R8169_RX_BUF_SIZE));
		tp->Rx_databuff[i] = NULL;
	}
	rtl8169_down(tp);
	rtl8169_rx_clear(tp);
",
        )],
        operation: "ip link set eth0 down",
        verdicts: &[Verdict::Oops, Verdict::MemoryReport, Verdict::Warned],
        function: "rtl8169_",
    },
    // The shape of "r8169: prevent potential deadlock in rtl8169_close": the work takes the lock that is held. The
    // work is scheduled when the link goes, which this driver does for later chips.
    Bug {
        name: "r8169_cancel_sync",
        changes: &[
            (
                "	cancel_work(&tp->wk.work);\n\n	free_irq",
                "	cancel_work_sync(&tp->wk.work);\n\n	free_irq",
            ),
            (
                "		if (rtl_is_8125(tp))
			rtl_schedule_task(tp, RTL_FLAG_TASK_RESET_NO_QUEUE_WAKE);
",
                "		rtl_schedule_task(tp, RTL_FLAG_TASK_RESET_NO_QUEUE_WAKE);
",
            ),
        ],
        operation: "ip link set eth0 down",
        verdicts: &[Verdict::LockReport, Verdict::Hung],
        function: "rtl8169_",
    },
    // A lock that the handler takes, too, without interrupts off.
    Bug {
        name: "r8169_lock_open",
        changes: &[
            (
                "	if (status & LinkChg)\n		phy_mac_interrupt(tp->phydev);\n",
                "	spin_lock(&tp->config25_lock);
	spin_unlock(&tp->config25_lock);
	if (status & LinkChg)
		phy_mac_interrupt(tp->phydev);
",
            ),
            (
                "	if (door_bell)
		rtl8169_doorbell(tp);
",
                "	spin_lock(&tp->config25_lock);
	if (door_bell)
		rtl8169_doorbell(tp);
	spin_unlock(&tp->config25_lock);
",
            ),
        ],
        operation: "ping",
        verdicts: &[Verdict::LockReport],
        function: "rtl8169_",
    },
    // The word that a poll is under way is taken back only when the mask is open again: an interrupt in between is
    // taken for one that the poll sees to.
    Bug {
        name: "r8169_flag_late",
        changes: &[
            ("	u32 irq_mask;\n	int irq;\n", "	u32 irq_mask;\n	bool polls;\n	int irq;\n"),
            (
                "	rtl_irq_disable(tp);\n	napi_schedule(&tp->napi);\nout:\n",
                "	if (tp->polls)
		goto out;
	rtl_irq_disable(tp);
	napi_schedule(&tp->napi);
out:
",
            ),
            (
                END_OF_POLL,
                "	tp->polls = true;
	if (work_done < budget && napi_complete_done(napi, work_done))
		rtl_irq_enable(tp);
	tp->polls = false;
",
            ),
        ],
        operation: "ping",
        verdicts: &[Verdict::Stuck],
        function: "rtl8169_poll",
    },
    // The mask is opened before NAPI has completed, and the handler leaves what comes meanwhile to the poll that is
    // under way by what NAPI says. (With `napi_schedule`, which notes that it was missed, this would do no harm.)
    Bug {
        name: "r8169_open_early",
        changes: &[
            (
                "	rtl_irq_disable(tp);\n	napi_schedule(&tp->napi);\nout:\n",
                "	if (test_bit(NAPI_STATE_SCHED, &tp->napi.state))
		goto out;
	rtl_irq_disable(tp);
	napi_schedule(&tp->napi);
out:
",
            ),
            (
                END_OF_POLL,
                "	if (work_done < budget) {
		rtl_irq_enable(tp);
		napi_complete_done(napi, work_done);
	}
",
            ),
        ],
        operation: "ping",
        verdicts: &[Verdict::Stuck],
        function: "rtl8169_poll",
    },
    // What comes while a poll ends is noted, and taken by a last look behind the poll: what this finds is kept for a
    // poll that does not come.
    Bug {
        name: "r8169_last_look",
        changes: &[
            (
                "	u32 irq_mask;\n	int irq;\n",
                "	u32 irq_mask;\n	bool ends;\n	bool noted;\n	int irq;\n",
            ),
            (
                "	rtl_irq_disable(tp);\n	napi_schedule(&tp->napi);\nout:\n",
                "	if (tp->ends) {
		tp->noted = true;
		goto out;
	}
	rtl_irq_disable(tp);
	napi_schedule(&tp->napi);
out:
",
            ),
            (
                END_OF_POLL,
                "	tp->noted = false;
	tp->ends = true;
	if (work_done < budget && napi_complete_done(napi, work_done)) {
		unsigned long flags;
		bool noted;

		rtl_irq_enable(tp);
		local_irq_save(flags);
		noted = tp->noted;
		tp->ends = noted;
		local_irq_restore(flags);
		if (noted) {
			rtl_tx(dev, tp, budget);
			rtl_rx(dev, tp, budget);
		}
	}
	tp->ends = false;
",
            ),
        ],
        operation: "ping",
        verdicts: &[Verdict::Stuck],
        function: "rtl8169_poll",
    },
];

/// Drivers that let the card transfer where it must not, which a strict card names.
pub(super) const STRAY: &[(&str, Changes)] = &[
    // Buffers are unmapped as soon as they are on the ring, and used all the same.
    (
        "r8169_unmaps",
        &[(
            "	desc->addr = cpu_to_le64(mapping);
	rtl8169_mark_to_asic(desc);
",
            "	desc->addr = cpu_to_le64(mapping);
	rtl8169_mark_to_asic(desc);
	dma_unmap_page(d, mapping, R8169_RX_BUF_SIZE, DMA_FROM_DEVICE);
",
        )],
    ),
    // A frame is in a copy, which is freed before the card has sent it.
    (
        "r8169_frees",
        &[(
            "	if (unlikely(rtl8169_tx_map(tp, opts, skb_headlen(skb), skb->data,
				    entry, false)))
		goto err_dma_0;
",
            "	void *copy = kmemdup(skb->data, skb_headlen(skb), GFP_ATOMIC);

	if (unlikely(rtl8169_tx_map(tp, opts, skb_headlen(skb), copy,
				    entry, false)))
		goto err_dma_0;
	kfree(copy);
",
        )],
    ),
    // Buffers to which the card writes are mapped for the other direction.
    (
        "r8169_direction",
        &[(
            "	mapping = dma_map_page(d, data, 0, R8169_RX_BUF_SIZE, DMA_FROM_DEVICE);
",
            "	mapping = dma_map_page(d, data, 0, R8169_RX_BUF_SIZE, DMA_TO_DEVICE);
",
        )],
    ),
];

/// A driver without a bug, that rings a doorbell for each frame and no more.
pub(crate) const RINGS_ONCE: &str = "r8169_rings_once";

/// Without the doorbell that `rtl_tx` rings once more, because real cards lose some.
pub(super) const WITHOUT_HACK: Changes = &[(
    "		if (READ_ONCE(tp->cur_tx) != dirty_tx && skb)
			rtl8169_doorbell(tp);
",
    "",
)];

/// A driver without a bug, in which places have names.
pub(crate) const MARKED: &str = "r8169_here";

/// Where the names are: in a function, in one that is inlined, and in one that only an operation calls.
pub(super) const MARKS: Changes = &[
    ("#include \"r8169.h\"\n", "#include \"r8169.h\"\n#include \"warikomi_here.h\"\n"),
    (
        END_OF_POLL,
        "	if (work_done < budget && napi_complete_done(napi, work_done)) {
		warikomi_here(completed);
		rtl_irq_enable(tp);
	}
",
    ),
    (
        "		dma_rmb();\n\n		if (unlikely(status & RxRES)) {\n",
        "		dma_rmb();
		warikomi_here(taken);

		if (unlikely(status & RxRES)) {
",
    ),
    (
        "	rtl8169_down(tp);\n	rtl8169_rx_clear(tp);\n\n	cancel_work",
        "	rtl8169_down(tp);
	warikomi_here(card_down);
	rtl8169_rx_clear(tp);

	cancel_work",
    ),
];
