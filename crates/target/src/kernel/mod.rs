//! A real Linux kernel as an ordinary process (User Mode Linux), with our NICs on its PCI buses.
//!
//! The kernel connects to our socket once for each card ([`attached`]), speaks vhost-user ([`handshake`]) and
//! shares all its memory. Then a card is attached in one of two ways, each a [`Port`](port::Port):
//!
//! - by a PCI bridge of ours, a module in the guest ([`bridge`]): a ring for register accesses and one for
//!   interrupts. It takes several cards, each on a bus of its own. An access needs no system call, an interrupt none while the guest is idle and polls;
//! - by the kernel's own virt-pci, `CONFIG_UML_PCI_OVER_VIRTIO`: a queue for register accesses ([`commands`])
//!   and one for interrupts ([`interrupts`]). An interrupt costs one write to a socket.
//!
//! With the bridge traps 2, 3, 5, 8, 14, 16 and 17 do not exist: a read waits for ten seconds, INTx is a level
//! in memory, 1,024 messages are kept, `memset_io` is writes, and an access is safe at any moment.
//!
//! # The traps of User Mode Linux
//!
//! What can lose the device or an interrupt, where that is handled, and what tests it. A test that is
//! named without a path is beside the code that is named; `kernel/…` is `crates/lab/tests/kernel/…`,
//! a real kernel, and `rtl8168/…` is `crates/nic/tests/rtl8168/…`.
//!
//! 1. Without the feature BACKEND_REQ the kernel requests interrupt 0, and its probe fails.
//!    `Negotiation::answer` in [`handshake`]; `offers_what_the_kernel_cannot_do_without`.
//! 2. A read spins for about 40 ms. Then it returns all ones, and the device is gone: the late answer is
//!    taken for that of the next read, and so on for ever. A handler then finds no reason for its interrupt,
//!    and receiving stalls. `READ_PATIENCE` in [`process`] makes the kernel wait longer (6.1 has no such
//!    parameter, and is lost if our side has no core for 40 ms). REPLY_ACK makes it wait for the mapping;
//!    `map_region` makes all pages present at once; `serve_connection` takes queues up as soon as they are
//!    kicked; `CommandQueue::serve` is in every poll. `all_of_a_region_is_there_once_it_is_mapped`;
//!    `kernel/receive.rs`: `a_guest_with_much_memory_is_ready_in_time`,
//!    `a_driver_waits_for_its_read_while_our_core_is_taken_from_us`.
//! 3. INTx cannot be requested, so the chip must be one for which r8169 uses MSI: XID 0x3c0 in
//!    `crates/nic/src/rtl8168/regs.rs`. INTx is counted in [`interrupts`]:
//!    `intx_is_counted_as_undeliverable`; `rtl8168/registers.rs`: `linux_recognises_the_chip`;
//!    `kernel/receive.rs`: `the_driver_uses_a_message_interrupt`; `kernel/trouble.rs`:
//!    `a_driver_that_cannot_have_its_interrupt_is_an_error`.
//! 4. A level that is looked at once for a batch of writes is never seen to fall. `Causes::update` in
//!    `crates/nic/src/queue/causes.rs` sets it after every change; `crates/pci/src/interrupt/tests.rs`:
//!    `a_message_for_each_rise_and_none_while_the_level_stays`; `rtl8168/interrupts.rs`:
//!    `the_level_is_worked_out_after_every_write`.
//! 5. The guest gives ten interrupt buffers. Messages wait in order in [`interrupts`], 256 at most:
//!    `with_no_buffer_free_an_interrupt_waits_for_one_and_keeps_its_place`,
//!    `a_guest_that_never_reads_costs_bounded_memory`.
//! 6. Call descriptors are sockets, eight bytes a signal, and a full one must not make us wait. [`line`](self::line),
//!    `signal_guest` in [`interrupts`]: `a_message_carries_the_number_and_one_signal`,
//!    `a_full_line_does_not_stop_us`.
//! 7. A SIGIO on the way to idle is noticed at the next tick. [`interrupts`] signals again (after 60 µs,
//!    doubling to 4 ms), and a periodic tick bounds the rest (`kernel/config/base.config`):
//!    `a_message_that_lies_unread_is_signalled_again_ever_more_rarely`.
//! 8. The kernel must not write an eventfd at every access: `CommandQueue::new` and `InterruptQueue::new`
//!    switch notifications off. `a_configuration_read_is_answered_and_notifications_are_off`,
//!    `a_message_carries_the_number_and_one_signal`.
//! 9. Flag registers hand shake through bit 31, and the PHY's id must have a driver.
//!    `crates/nic/src/rtl8168/indirect.rs`, `Rtl8168::phy_command`, `PHY_ID`; `rtl8168/registers.rs`:
//!    `windows_shake_hands_with_bit_31`; `rtl8168/link.rs`: `linux_finds_a_driver_for_its_phy`.
//! 10. Newer r8169 defers interrupts. `GuestSettings::defer_nothing`; the result has the settings in force,
//!     and warns. `kernel/receive.rs`: `deferred_interrupts_are_few_and_the_result_says_so`.
//! 11. Frames up to 16,383 bytes with check sequence are received, whatever the MTU. `MAX_FRAME_BYTES` in
//!     `crates/wire/src/frame.rs`, `set_max_size` of the model's queue; `kernel/receive.rs`:
//!     `every_size_from_the_shortest_to_the_longest_frame_arrives`.
//! 12. A kernel that shuts down waits for answers, and leaves traced children. `Process::stop` ends the whole
//!     process group with SIGKILL and reaps it, so nothing is waited for; a guard process does it when we are
//!     killed; while the guest powers off by itself, `housekeep` keeps serving.
//!     `crates/target/src/group.rs`: `the_guard_cleans_up_when_its_line_closes`; `kernel/trouble.rs`:
//!     `stopping_leaves_no_process_and_no_file`; `crates/cli/tests/command.rs`:
//!     `even_sigkill_leaves_no_process_and_no_file`.
//! 13. Messages that are queued together are handled back to back, so an interval can vanish. Intervals are
//!     measured at injection, rise and handler. `rtl8168/interrupts.rs`:
//!     `the_probe_sees_the_handlers_first_look`; `kernel/receive.rs`:
//!     `ten_thousand_packets_at_38_us_are_all_accepted_and_delivered_twenty_times`.
//! 14. `memset_io` can arrive as a configuration write. `Access::decode` in [`message`], `perform` in
//!     [`commands`]; it is counted, and the result warns.
//!     `a_memset_that_comes_as_a_configuration_write_is_a_memset`,
//!     `a_memset_reaches_the_bar_whichever_way_it_comes`.
//! 15. Memory must be warm: `map_region` makes all pages present, the plan has a `Warmup`, and `Ledger::new`
//!     touches its memory beforehand. `all_of_a_region_is_there_once_it_is_mapped`.
//! 16. A driver that only writes runs the queue out of descriptors, because the guest collects them at a
//!     read. [`port`] signals after 128 writes without a read, at a safe moment:
//!     `posted_writes_without_a_read_make_the_guest_collect_its_buffers`,
//!     `a_driver_that_only_writes_is_made_to_take_its_buffers_back`.
//! 17. The kernel does not protect its command queue against its own interrupts. [`port`] says what follows
//!     from that: `in_an_access_the_guest_is_not_signalled_however_long_that_takes`, and the tests of [`halt`];
//!     `kernel/transmit.rs`: `every_datagram_sent_reaches_the_wire_once`,
//!     `a_tcp_stream_arrives_whole_with_and_without_segmentation_offload`; `kernel/device.rs`:
//!     `the_driver_can_take_the_interface_down_and_up_and_renegotiate`.
//! 18. Before Linux 6.13 it has no room for the registers of processors with AMX, and its first program dies. What
//!     is loaded before its C library (`kernel/preload/xstate.c`) writes the rest of them; `kernel/tests/preload.rs`:
//!     `registers_that_a_kernel_has_no_room_for_do_not_keep_it_from_writing_the_others`.
//! 19. It makes its memory in a file that it could cut short, and an access of ours to what is missing is a SIGBUS. What
//!     is loaded before its C library (`kernel/preload/memory.c`) makes another, which `map_region` seals; `check_memory`
//!     watches one that cannot be sealed. `kernel/tests/preload.rs`:
//!     `the_file_of_a_kernels_memory_can_be_sealed_and_other_files_are_opened_as_ever`; `kernel/trouble.rs`:
//!     `a_kernel_cannot_cut_its_memory_short_under_us`; `memory_that_is_cut_short_is_an_error_at_the_next_look`.

mod attached;
mod bridge;
mod calendar;
mod charge;
mod commands;
mod halt;
mod handshake;
#[cfg(test)]
mod hostile;
mod in_step;
mod interrupts;
mod line;
mod message;
mod news;
mod options;
mod peer;
mod port;
mod process;
mod symbols;
#[cfg(test)]
mod testing;
mod unserved;
mod vhost_user;

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;
use warikomi_clock::{Clock, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};
use warikomi_protocol::commands::{PingAgent, ReadFile, WriteFile};
use warikomi_protocol::{Ready, Request};

use self::attached::AttachedCard;
use self::calendar::Calendar;
use self::halt::Halt;
use self::handshake::Connection;
use self::news::News;
pub use self::options::{Attachment, GuestCosts, LaunchOptions};
pub use self::peer::PeerCard;
use self::process::{Channels, Process};
use self::symbols::KernelMap;
use self::vhost_user::VhostUserError;
use crate::agent::AgentLine;
use crate::console::Console;
use crate::request::over_line;
use crate::{
    Agent, CardId, ConsoleTail, Interrupted, Pass, PassHook, Slot, Target, TargetCounters,
    TargetError, wait,
};

/// How long the kernel may take from its start to its connection to the NIC.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// From there to a device that can be used.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(20);

/// From there to the agent's first report.
pub const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Messages of the kernel from here on upwards go to the console when all shall: all but debugging.
const CONSOLE_LEVEL: &str = "7";

/// Bits of /proc/sys/kernel/tainted: the kernel has died, or warned (Linux,
/// Documentation/admin-guide/tainted-kernels.rst).
const TAINTED: u64 = 1 << 7 | 1 << 9;

/// What failed when something cannot be listened to.
const LISTEN: &str = "cannot listen to the guest";

/// A running kernel with its NICs.
pub struct KernelTarget {
    cards: Vec<AttachedCard>,
    clock: Clock,
    interrupted: Interrupted,
    process: Process,
    news: News,
    halt: Rc<Halt>,
    listener: UnixListener,
    agent: AgentLine,
    console: Console,
    shared_core: bool,
    attachment: Attachment,
    /// Memory that the guest was given.
    given_bytes: u64,
    /// The end of the latest hiccup of the guest.
    last_hiccup: Time,
    hook: Option<Box<dyn PassHook>>,
    /// In virtual time.
    calendar: Option<Calendar>,
    /// Whether the guest was asked to listen, and has not yet.
    asked_to_listen: bool,
    /// When something outside of the target is due: virtual time does not go beyond.
    due: Time,
}

impl KernelTarget {
    /// Starts a kernel and attaches these cards to it; returns when its agent has reported.
    pub fn start(
        options: &LaunchOptions,
        nics: Vec<Box<dyn Nic>>,
        clock: Clock,
        interrupted: Interrupted,
    ) -> Result<(KernelTarget, Ready), TargetError> {
        options.attachment.check_room(nics.len())?;
        let (process, channels) = Process::start(options, nics.len(), &clock)?;
        let Channels { listener, agent, console, calendar } = channels;
        let map = KernelMap::read(&options.kernel);
        let halt = Halt::new(process.id(), map)
            .map_err(TargetError::system("cannot see where the kernel's process is (/proc)"))?;
        let news = News::of_process(process.id())
            .map_err(TargetError::system("cannot watch the kernel's process"))?;
        let agent =
            AgentLine::new(agent).map_err(TargetError::system("cannot set up the agent's line"))?;
        let console = Console::new(console);
        news.add(&agent).and_then(|()| news.add(&console)).map_err(TargetError::system(LISTEN))?;
        let cards = nics.into_iter().map(AttachedCard::new).collect::<Result<_, _>>();
        let mut target = KernelTarget {
            cards: cards.map_err(TargetError::system("cannot map memory"))?,
            clock,
            interrupted,
            process,
            news,
            halt: Rc::new(halt),
            listener,
            agent,
            console,
            shared_core: options.shared_core,
            attachment: options.attachment,
            given_bytes: process::given_bytes(options),
            last_hiccup: Time::ZERO,
            hook: None,
            calendar,
            asked_to_listen: false,
            due: Time::NEVER,
        };
        target.attach()?;
        let ready = target.wait_ready()?;
        if let Clock::Virtual(clock) = clock {
            let target: &mut dyn Target = &mut target;
            clock.set_counter(target.ask(PingAgent {}, Duration::ZERO)?.tsc);
        }
        Ok((target, ready))
    }

    fn attach(&mut self) -> Result<(), TargetError> {
        for card in 0..self.cards.len() {
            let connection = self.accept()?;
            self.check_calendar()?;
            self.news.add(&connection).map_err(TargetError::system(LISTEN))?;
            self.cards[card].connect(connection);
        }
        let attached =
            wait::until(self, ATTACH_TIMEOUT, |target| target.is_attached().then_some(()))?;
        attached.ok_or_else(|| TargetError::NotAttached {
            within: ATTACH_TIMEOUT,
            console: self.console(),
        })
    }

    /// The connection for the next card; those before are served meanwhile.
    fn accept(&mut self) -> Result<Connection, TargetError> {
        let accepted = wait::until(self, CONNECT_TIMEOUT, |target| {
            let accepted = target.listener.accept();
            let ours = match &accepted {
                Ok((stream, _)) => warikomi_shared::is_peer_trusted(stream),
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            ours.then_some(accepted)
        })?;
        let (stream, _) = accepted
            .ok_or_else(|| TargetError::NotConnected {
                within: CONNECT_TIMEOUT,
                console: self.console(),
            })?
            .map_err(TargetError::system("cannot accept the kernel"))?;
        Connection::new(stream, self.attachment, self.given_bytes)
            .map_err(TargetError::system("cannot set up the NIC's connection"))
    }

    fn is_attached(&self) -> bool {
        self.cards.iter().all(|card| card.port().is_some())
    }

    fn wait_ready(&mut self) -> Result<Ready, TargetError> {
        let ready = wait::until(self, READY_TIMEOUT, |target| target.agent.ready().cloned())?;
        ready
            .ok_or_else(|| TargetError::NotReady { within: READY_TIMEOUT, console: self.console() })
    }

    fn serve_connections(&mut self) -> Result<(), TargetError> {
        let KernelTarget { cards, halt, clock, .. } = self;
        let served = cards.iter_mut().try_for_each(|card| card.serve_connection(halt, clock));
        served.map_err(|error| self.explain(error))
    }

    /// A guest that has cut its memory short gets no further access to it from us.
    fn check_memory(&mut self) -> Result<(), TargetError> {
        let checked = self.cards.iter().try_for_each(AttachedCard::check_memory);
        checked.map_err(|error| {
            self.cards.iter_mut().for_each(AttachedCard::detach);
            self.explain(error)
        })
    }

    /// A broken connection is usually the kernel's end; its console and status say more.
    fn explain(&mut self, error: VhostUserError) -> TargetError {
        const LAST_WORDS: Duration = Duration::from_millis(300);
        let deadline = Instant::now() + LAST_WORDS;
        while Instant::now() < deadline && !self.interrupted.is_set() {
            if let Err(better) = self.look_at_guest() {
                return better;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let console = self.console();
        match error {
            VhostUserError::Closed => TargetError::ConnectionLost { console },
            other => TargetError::Protocol { error: other.to_string(), console },
        }
    }

    #[inline]
    fn call_hook(&mut self) -> Result<(), TargetError> {
        let Some(mut hook) = self.hook.take() else { return Ok(()) };
        let passed = hook.pass(self);
        self.hook = Some(hook);
        passed
    }

    fn look_at_guest(&mut self) -> Result<(), TargetError> {
        self.console.drain();
        if let Some(message) = self.console.panic() {
            let message = message.to_owned();
            // The lines behind the message say where it happened.
            std::thread::sleep(Duration::from_millis(50));
            self.console.drain_all();
            return Err(TargetError::Panicked { message, console: self.console() });
        }
        if let Some(status) = self.process.exit_status() {
            self.console.drain_all();
            let status = status.to_string();
            return Err(TargetError::Exited { status, console: self.console() });
        }
        Ok(())
    }
}

impl Target for KernelTarget {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        if self.calendar.is_some() {
            return self.step();
        }
        let mut pass = Pass::idle(self.clock.now());
        for card in &mut self.cards {
            card.poll(&self.clock, &mut pass);
        }
        self.call_hook()?;
        Ok(pass)
    }

    fn wait_for_writes(&mut self, wait: bool) {
        // In virtual time it does anyway.
        if self.calendar.is_some() {
            return;
        }
        let ports = self.cards.iter_mut().filter_map(AttachedCard::port_mut);
        ports.for_each(|port| port.wait_for_writes(wait));
    }

    fn set_hook(&mut self, hook: Option<Box<dyn PassHook>>) -> bool {
        self.hook = hook;
        true
    }

    fn keep_clear_of(&mut self, due: Time) {
        self.due = due;
        let ports = self.cards.iter_mut().filter_map(AttachedCard::port_mut);
        ports.for_each(|port| port.keep_clear_of(due));
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        if self.calendar.as_ref().is_some_and(|calendar| !calendar.is_waiting()) {
            return self.look_after_guest(false);
        }
        self.check_memory()?;
        // A queue that is not complete yet says nothing when it becomes so, nor does the time of a request that has come
        // in part.
        let waits = || self.cards.iter().any(AttachedCard::is_waiting);
        if !self.is_attached() || waits() || self.news.is_any() {
            self.look_at_guest()?;
            self.serve_connections()?;
            self.agent.listen();
        }
        // In virtual time a guest has its times to be spoken to.
        if self.calendar.is_none() && self.agent.has_to_send() {
            self.agent.speak();
        }
        Ok(())
    }

    fn cards(&self) -> usize {
        self.cards.len()
    }

    #[inline]
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        let index = card.among(self.cards())?;
        Ok(self.cards[index].parts(&self.clock))
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        let index = card.among(self.cards())?;
        Ok(self.cards[index].slot())
    }

    fn memory(&self, card: CardId) -> Option<&SharedMemory> {
        let index = card.among(self.cards()).ok()?;
        self.cards[index].port().map(|port| port.memory())
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn console(&self) -> ConsoleTail {
        self.console.tail()
    }

    fn printed_lines(&self) -> u64 {
        self.console.printed()
    }

    fn shares_a_core(&self) -> bool {
        self.shared_core
    }

    fn process_id(&self) -> u32 {
        self.process.id()
    }

    fn counters(&self) -> TargetCounters {
        let counters = self.cards.iter().map(AttachedCard::counters);
        counters.fold(TargetCounters::default(), |sum, counters| sum.with(&counters))
    }

    fn take_hiccups(&mut self, each: &mut dyn FnMut(Time, Time)) -> bool {
        let KernelTarget { cards, clock, last_hiccup, .. } = self;
        // The guest has one poller, which tells by the first card.
        let Some(port) = cards.first_mut().and_then(AttachedCard::port_mut) else { return false };
        let now = clock.now();
        port.take_hiccups(&mut |from, until| {
            // In order, and not of the future, whatever a guest has written.
            let (from, until) = (clock.at(from).max(*last_hiccup), clock.at(until).min(now));
            if from < until {
                *last_hiccup = until;
                each(from, until);
            }
        });
        self.attachment == Attachment::Bridge { polling: true }
    }

    fn stop(&mut self) -> Result<(), TargetError> {
        self.cards.iter_mut().for_each(AttachedCard::detach);
        self.process.stop()
    }

    fn agent(&mut self) -> Option<&mut dyn Agent> {
        Some(self)
    }
}

impl Agent for KernelTarget {
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError> {
        over_line(self, |target| Some(&mut target.agent), request, allowance)
    }

    fn post(&mut self, request: Request) -> Option<u64> {
        let posted = self.agent.post(request);
        // In virtual time a guest has its times to be spoken to.
        if self.calendar.is_none() {
            self.agent.pump();
        }
        Some(posted)
    }

    fn answer(&mut self, request: u64) -> Option<Result<Value, String>> {
        self.agent.outcome(request)
    }

    fn has_application(&self) -> bool {
        true
    }

    fn set_polled(&mut self, polled: bool) {
        for port in self.cards.iter_mut().filter_map(AttachedCard::port_mut) {
            port.set_polled(polled);
        }
    }

    fn print_all(&mut self) -> Result<(), TargetError> {
        let path = "/proc/sys/kernel/printk".into();
        let write = WriteFile { path, text: CONSOLE_LEVEL.into() };
        self.request(write.into(), Duration::ZERO).map(|_| ())
    }

    fn fault_marks(&mut self) -> Result<u64, TargetError> {
        let target: &mut dyn Target = self;
        let file = ReadFile { path: "/proc/sys/kernel/tainted".into() };
        let tainted: u64 = target.ask(file, Duration::ZERO)?.text.trim().parse().unwrap_or(0);
        Ok(tainted & TAINTED)
    }
}
