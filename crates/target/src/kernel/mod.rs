//! A real Linux kernel as an ordinary process (User Mode Linux), with our NIC on its PCI bus.
//!
//! The kernel connects to our socket, speaks vhost-user ([`handshake`]) and shares all its memory. Then a card
//! is attached in one of two ways, each a [`Port`](port::Port):
//!
//! - by a PCI bridge of ours, a module in the guest ([`bridge`]): a ring for register accesses and one for
//!   interrupts. An access needs no system call, an interrupt none while the guest is idle and polls;
//! - by the kernel's own virt-pci, `CONFIG_UML_PCI_OVER_VIRTIO`: a queue for register accesses ([`commands`])
//!   and one for interrupts ([`interrupts`]). An interrupt costs one write to a pipe.
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
//! 6. Call descriptors are pipes, eight bytes a signal, and a full one must not block. `never_block` in
//!    [`handshake`], `signal_guest` in [`interrupts`]: `a_message_carries_the_number_and_one_signal`,
//!    `a_full_pipe_does_not_stop_us`.
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

mod bridge;
mod commands;
mod halt;
mod handshake;
mod interrupts;
mod message;
mod news;
mod options;
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
use warikomi_clock::{Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::{Host, IntrLine, SharedMemory};
use warikomi_protocol::commands::{ReadFile, WriteFile};
use warikomi_protocol::{Ready, Request};

use self::halt::Halt;
use self::handshake::Connection;
use self::news::News;
pub use self::options::{Attachment, LaunchOptions};
use self::port::Port;
use self::process::{Channels, Process};
use self::symbols::KernelMap;
use self::vhost_user::VhostUserError;
use crate::agent::AgentLine;
use crate::console::Console;
use crate::request::over_line;
use crate::{
    Agent, CardId, ConsoleTail, Interrupted, Pass, Slot, Target, TargetCounters, TargetError, wait,
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

/// A running kernel with a NIC.
pub struct KernelTarget {
    nic: Slot,
    clock: TscClock,
    interrupted: Interrupted,
    process: Process,
    news: News,
    halt: Rc<Halt>,
    listener: UnixListener,
    connection: Option<Connection>,
    port: Option<Box<dyn Port>>,
    /// Takes interrupts while no kernel is attached.
    nowhere: Nowhere,
    nothing: SharedMemory,
    agent: AgentLine,
    console: Console,
    counters: TargetCounters,
    shared_core: bool,
    attachment: Attachment,
    /// The end of the latest hiccup of the guest.
    last_hiccup: Time,
    /// Signals up to the last pass.
    signals_seen: u64,
}

/// Interrupts of a NIC in a slot that nobody looks at.
struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _: warikomi_pci::Interrupt) {}
}

impl KernelTarget {
    /// Starts a kernel and attaches `nic` to it; returns when its agent has reported.
    pub fn start(
        options: &LaunchOptions,
        nic: Box<dyn Nic>,
        clock: TscClock,
        interrupted: Interrupted,
    ) -> Result<(KernelTarget, Ready), TargetError> {
        let (process, Channels { listener, agent, console }) = Process::start(options)?;
        let map = KernelMap::read(&options.kernel);
        let halt = Halt::new(process.id(), map)
            .map_err(TargetError::system("cannot see where the kernel's process is (/proc)"))?;
        let news = News::of_process(process.id())
            .map_err(TargetError::system("cannot watch the kernel's process"))?;
        let agent =
            AgentLine::new(agent).map_err(TargetError::system("cannot set up the agent's line"))?;
        let console = Console::new(console);
        news.add(&agent).and_then(|()| news.add(&console)).map_err(TargetError::system(LISTEN))?;
        let mut target = KernelTarget {
            nic: Slot::new(nic),
            clock,
            interrupted,
            process,
            news,
            halt: Rc::new(halt),
            listener,
            connection: None,
            port: None,
            nowhere: Nowhere,
            nothing: SharedMemory::anonymous(0, 4096)
                .map_err(TargetError::system("cannot map memory"))?,
            agent,
            console,
            counters: TargetCounters::default(),
            shared_core: options.shared_core,
            attachment: options.attachment,
            last_hiccup: Time::ZERO,
            signals_seen: 0,
        };
        target.attach()?;
        let ready = target.wait_ready()?;
        Ok((target, ready))
    }

    fn attach(&mut self) -> Result<(), TargetError> {
        self.accept()?;
        let attached =
            wait::until(self, ATTACH_TIMEOUT, |target| target.port.as_ref().map(|_| ()))?;
        attached.ok_or_else(|| TargetError::NotAttached {
            within: ATTACH_TIMEOUT,
            console: self.console(),
        })
    }

    fn accept(&mut self) -> Result<(), TargetError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let connection = Connection::new(stream, self.attachment)
                        .map_err(TargetError::system("cannot set up the NIC's connection"))?;
                    self.news.add(&connection).map_err(TargetError::system(LISTEN))?;
                    self.connection = Some(connection);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    return Err(TargetError::System { what: "cannot accept the kernel", error });
                }
            }
            self.housekeep()?;
            if Instant::now() >= deadline {
                let console = self.console();
                return Err(TargetError::NotConnected { within: CONNECT_TIMEOUT, console });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_ready(&mut self) -> Result<Ready, TargetError> {
        let ready = wait::until(self, READY_TIMEOUT, |target| target.agent.ready().cloned())?;
        ready
            .ok_or_else(|| TargetError::NotReady { within: READY_TIMEOUT, console: self.console() })
    }

    /// Answers vhost-user requests, and takes new queues into use.
    fn serve_connection(&mut self) -> Result<(), TargetError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let served = connection.serve();
        let port = match served {
            Ok(()) if connection.take_changed() => connection.port(&self.halt, &self.clock),
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        };
        match port {
            Ok(port) => {
                if port.is_some() && self.port.is_none() {
                    self.power_on();
                }
                self.keep_counters();
                self.port = port;
                Ok(())
            }
            Err(error) => {
                self.connection = None;
                self.port = None;
                Err(self.explain(error))
            }
        }
    }

    /// A broken connection is usually the kernel's end; its console and status say more.
    fn explain(&mut self, error: VhostUserError) -> TargetError {
        const LAST_WORDS: Duration = Duration::from_millis(300);
        let deadline = Instant::now() + LAST_WORDS;
        while Instant::now() < deadline {
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

    fn look_at_guest(&mut self) -> Result<(), TargetError> {
        self.console.drain();
        if let Some(message) = self.console.panic() {
            let message = message.to_owned();
            // The lines behind the message say where it happened.
            std::thread::sleep(Duration::from_millis(50));
            self.console.drain();
            return Err(TargetError::Panicked { message, console: self.console() });
        }
        if let Some(status) = self.process.exit_status() {
            self.console.drain();
            let status = status.to_string();
            return Err(TargetError::Exited { status, console: self.console() });
        }
        Ok(())
    }

    fn power_on(&mut self) {
        let mut host =
            Host { now: self.clock.now(), memory: &self.nothing, interrupts: &mut self.nowhere };
        self.nic.power_on(&mut host);
    }

    /// The queues' counters would go with the queues.
    fn keep_counters(&mut self) {
        self.counters = self.counters();
    }
}

impl Target for KernelTarget {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let now = self.clock.now();
        let Some(port) = &mut self.port else { return Ok(Pass::idle(now)) };
        let signals = port.signals();
        let signalled = std::mem::replace(&mut self.signals_seen, signals) != signals;
        let served = port.poll(&mut *self.nic, &self.clock, now);
        self.counters.accesses += served.accesses;
        self.counters.malformed += served.malformed;
        self.counters.disguised_fills += served.disguised;
        self.nic.poll(&mut port.host(now));
        Ok(Pass { at: now, worked: served.accesses > 0, signalled })
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        // A queue that is not complete yet says nothing when it becomes so.
        if self.port.is_none() || self.news.is_any() {
            self.look_at_guest()?;
            self.serve_connection()?;
            self.agent.pump();
        } else if self.agent.has_to_send() {
            self.agent.pump();
        }
        Ok(())
    }

    fn cards(&self) -> usize {
        1
    }

    #[inline]
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        card.among(self.cards())?;
        let now = self.clock.now();
        let host = match &mut self.port {
            Some(port) => port.host(now),
            None => Host { now, memory: &self.nothing, interrupts: &mut self.nowhere },
        };
        Ok((&mut *self.nic, host))
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        card.among(self.cards())?;
        Ok(&mut self.nic)
    }

    fn memory(&self, card: CardId) -> Option<&SharedMemory> {
        card.among(self.cards()).ok()?;
        self.port.as_ref().map(|port| port.memory())
    }

    fn clock(&self) -> TscClock {
        self.clock
    }

    fn console(&self) -> ConsoleTail {
        self.console.tail()
    }

    fn shares_a_core(&self) -> bool {
        self.shared_core
    }

    fn process_id(&self) -> u32 {
        self.process.id()
    }

    fn counters(&self) -> TargetCounters {
        let Some(port) = &self.port else { return self.counters };
        self.counters.with(&port.counters())
    }

    fn take_hiccups(&mut self, each: &mut dyn FnMut(Time, Time)) -> bool {
        let KernelTarget { port: Some(port), clock, last_hiccup, .. } = self else { return false };
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
        self.keep_counters();
        self.port = None;
        self.connection = None;
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

    fn has_application(&self) -> bool {
        true
    }

    fn set_polled(&mut self, polled: bool) {
        if let Some(port) = &mut self.port {
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
