//! The driver's end of the window that the support side shares with it.
//!
//! What lies in it is looked at as if the other side meant harm: the header is checked before anything
//! is mapped by it, and afterwards a word is only ever a value, never a place.

mod error;
mod header;
mod window;

use std::env;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warikomi_clock::{Time, TscClock, read_tsc};
use warikomi_pci::attach::layout::{self, bells};
use warikomi_pci::attach::{Access, Operation, Space, area};
use warikomi_pci::{DmaMemory, Mmio, MmioError, SharedMemory, Width};
use warikomi_shared::{Message, Producer, SharedWords, Sleeper, Woken, Words};

pub use self::error::AttachError;
use self::error::bad;
use self::header::{Header, map, sealed_length};
pub use self::window::Window;

/// How long it spins before it lets others run, on a machine where both sides share a core.
const SPIN_NS: u64 = 20_000;
const PAGE_BYTES: usize = 4_096;

/// The support side is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the support side is gone: it has ended, or closed the driver's socket")]
pub struct SupportGone;

/// A device, as the region shows it.
#[derive(Debug)]
pub struct Device {
    words: SharedWords,
    window: Window<SharedWords>,
    memory: SharedMemory,
    dma: (u64, u64),
    packets: Option<(u64, u64)>,
    state: Option<SharedWords>,
    generation: u32,
    way: u64,
    state_version: u64,
    store: Option<OwnedFd>,
    socket: OwnedFd,
    wakeup: File,
    files: Vec<OwnedFd>,
    requests: Producer<SharedWords>,
    reads: u64,
    bar: u8,
    clock: TscClock,
}

/// The files of the first message.
fn greeting(socket: &OwnedFd) -> Result<Vec<OwnedFd>, AttachError> {
    let (message, files) = warikomi_shared::receive(socket)
        .map_err(|error| AttachError::NoRegion(error.to_string()))?;
    if message.is_empty() {
        return Err(AttachError::NoRegion("it closed the socket".to_owned()));
    }
    if message != layout::HELLO {
        let seen = String::from_utf8_lossy(&message[..message.len().min(40)]).into_owned();
        return Err(AttachError::NoRegion(format!("it says {seen:?}, not what this driver knows")));
    }
    Ok(files)
}

impl Device {
    /// Attaches to the device whose socket the environment names.
    pub fn from_environment() -> Result<Device, AttachError> {
        let no_socket = |problem| AttachError::NoSocket { problem };
        let text = env::var(layout::SOCKET_VARIABLE).map_err(|_| no_socket("is not set"))?;
        if text != "0" {
            return Err(no_socket("is not 0, which is standard input"));
        }
        let socket = warikomi_shared::take_input()
            .map_err(|_| no_socket("names standard input, which is no socket"))?;
        Device::attach(socket)
    }

    /// Attaches to the device at the other end of `socket`.
    pub fn attach(socket: OwnedFd) -> Result<Device, AttachError> {
        let mut files = greeting(&socket)?.into_iter();
        let mut file =
            |what: &str| files.next().ok_or_else(|| bad(format!("it came without {what}")));
        let window = File::from(file("a window")?);
        let wakeup = file("a pipe")?;
        let bytes = sealed_length(&window)?;
        if bytes < layout::WINDOW_BYTES {
            return Err(bad(format!("its window has only {bytes} bytes")));
        }
        let words = SharedWords::map(window, 0, layout::WINDOW_BYTES as usize)?;
        let head = Header::read(&words)?;
        let mut part = |what: &str, bytes: u64| {
            let file = File::from(file(what)?);
            let there = sealed_length(&file)?;
            if there < bytes {
                return Err(bad(format!("{what} has {there} bytes, its header says {bytes}")));
            }
            Ok(file)
        };
        let mut ranges = vec![(part("DMA memory", head.dma.1)?, head.dma)];
        if let Some(packets) = head.packets {
            ranges.push((part("packet memory", packets.1)?, packets));
        }
        let state = match head.state_bytes {
            0 => None,
            bytes => Some(SharedWords::map(part("the state area", bytes)?, 0, bytes as usize)?),
        };
        let store = match head.way {
            layout::way::DATA_STORE => Some(file("a socket to the data store")?),
            _ => None,
        };
        Ok(Device {
            memory: map(ranges)?,
            dma: head.dma,
            packets: head.packets,
            state,
            generation: head.generation,
            way: head.way,
            state_version: area::VERSION,
            store,
            socket,
            wakeup: wakeup.into(),
            files: files.collect(),
            requests: Producer::new(words.clone(), layout::REQUESTS),
            window: Window::new(words.clone()),
            reads: words.load(bells::ANSWERED, Acquire),
            bar: head.bar,
            clock: TscClock::with_frequency(0, head.tsc_hz as f64),
            words,
        })
    }

    /// The memory that the device reaches by DMA: that of the region, and packet memory.
    pub fn memory(&self) -> SharedMemory {
        self.memory.clone()
    }

    /// Bus address and length in bytes of the region's DMA memory.
    pub fn dma(&self) -> (u64, u64) {
        self.dma
    }

    /// Bus address and length in bytes of packet memory, if there is any.
    pub fn packets(&self) -> Option<(u64, u64)> {
        self.packets
    }

    /// The state area, if this device's driver can be replaced while it runs.
    pub fn state(&self) -> Option<&SharedWords> {
        self.state.as_ref()
    }

    /// The driver's generation.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How this device's drivers follow one another ([`layout::way`]).
    pub fn way(&self) -> u64 {
        self.way
    }

    /// The version of the state area that the driver is to write, and the newest that it knows.
    pub fn state_version(&self) -> u64 {
        self.state_version
    }

    /// Makes the driver one of an older version of the state area.
    pub fn set_state_version(&mut self, version: u64) {
        self.state_version = version;
    }

    /// The socket to the data store, if what a driver knows goes through one; once.
    pub fn take_store(&mut self) -> Option<OwnedFd> {
        self.store.take()
    }

    /// Touches what of the device's memory a driver with `ring_bytes` of rings will use, so that taking the
    /// device over does not wait for page tables. (To lock all memory instead takes milliseconds of the core that
    /// the running driver needs; a rehearsal touches the rest.)
    pub fn warm(&self, ring_bytes: usize) {
        for at in (0..ring_bytes as u64).step_by(PAGE_BYTES) {
            let _ = self.memory.load_u32(self.dma.0 + at);
        }
        for words in [Some(&self.words), self.state.as_ref()].into_iter().flatten() {
            for at in (0..words.len()).step_by(PAGE_BYTES / size_of::<u64>()) {
                words.load(at, Relaxed);
            }
        }
    }

    /// The files that came behind those of the device, for whatever is above the driver.
    pub fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }

    /// The time stamp counter as a clock.
    pub fn clock(&self) -> TscClock {
        self.clock
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The words that it shares with the support side.
    #[inline]
    pub fn window(&self) -> &Window<SharedWords> {
        &self.window
    }

    /// Whether an interrupt has come that was not taken.
    #[inline]
    pub fn interrupt_pending(&self) -> bool {
        self.window.interrupt_pending()
    }

    /// Takes one interrupt, if one has come: they are taken one by one; the message of its vector. It is stamped
    /// with the time.
    #[inline]
    pub fn take_interrupt(&mut self) -> Option<Message> {
        self.window.take_interrupt(read_tsc)
    }

    /// Interrupts taken so far.
    #[inline]
    pub fn interrupts_taken(&self) -> u64 {
        self.window.interrupts_taken()
    }

    /// The end that sleeps; see [`Sleeper::sleep_unless`], whose second part is
    /// [`wait`](Self::wait).
    #[inline]
    pub fn sleeper(&self) -> Sleeper<SharedWords> {
        self.window.sleeper()
    }

    /// Waits while the baton is `generation`'s, for `timeout` at most; may also return early.
    pub fn wait_for_baton(&self, generation: u32, timeout: Duration) {
        if let Some(area) = &self.state {
            area.wait_while(area::BATON, generation, timeout);
        }
    }

    /// Waits for the support side's bell, for `other`, or until the time is up.
    pub fn wait(
        &self,
        other: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> Result<Woken, SupportGone> {
        let mut files = vec![
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&self.wakeup, PollFlags::IN),
        ];
        files.extend(other.as_ref().map(|other| PollFd::new(other, PollFlags::IN)));
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        let ready = match poll(&mut files, Some(&timeout)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(Woken::Called),
            Err(_) => return Err(SupportGone),
        };
        // Nothing is ever sent on the socket after the first message, so this is its end.
        if !files[0].revents().is_empty() {
            return Err(SupportGone);
        }
        if files[1].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.wakeup, &mut [0_u8; 8]);
        } else if !files[1].revents().is_empty() {
            return Err(SupportGone);
        }
        Ok(if ready == 0 { Woken::TimedOut } else { Woken::Called })
    }

    /// Whether the support side is still there.
    pub fn check_support(&self) -> Result<(), SupportGone> {
        let mut files = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(_) => Ok(()),
            Ok(_) => Err(SupportGone),
        }
    }

    /// A word of the orders page ([`layout::orders`]).
    #[inline]
    pub fn order(&self, word: usize) -> u64 {
        self.window.order(word)
    }

    /// Writes a word of the report page ([`layout::report`]); seen after what was written before.
    #[inline]
    pub fn report(&self, word: usize, value: u64) {
        self.window.report(word, value);
    }

    /// Leaves the driver's last words.
    pub fn last_words(&self, text: &str) {
        self.window.last_words(text);
    }

    /// Puts an access on the ring, waiting for room if need be.
    #[inline]
    fn request(&mut self, access: Access) -> Result<(), MmioError> {
        if !self.requests.push(access.to_entry()) {
            self.wait_until(access, |device| device.requests.push(access.to_entry()))?;
        }
        self.requests.publish();
        Ok(())
    }

    #[inline]
    fn write_to(
        &mut self,
        space: Space,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        let operation = Operation::Write(value & width.mask());
        self.request(Access { space, offset: place(offset), width, operation })
    }

    fn read_from(&mut self, space: Space, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.reads = self.reads.wrapping_add(1);
        let number = self.reads;
        let operation = Operation::Read(number);
        let access = Access { space, offset: place(offset), width, operation };
        self.request(access)?;
        self.wait_until(access, |device| device.words.load(bells::ANSWERED, Acquire) == number)?;
        Ok(self.words.load(bells::ANSWER, Relaxed) & width.mask())
    }

    /// Spins until `done`, for a while; then gives up.
    #[inline]
    fn wait_until(
        &mut self,
        access: Access,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), MmioError> {
        // Most answers come within a microsecond: so long without looking at the time.
        for _ in 0..64 {
            if done(self) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.wait_patiently(access, done)
    }

    #[cold]
    fn wait_patiently(
        &mut self,
        access: Access,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), MmioError> {
        let begun = self.now();
        let mut looks = 0_u64;
        while !done(self) {
            let waited_ns = self.now().since(begun).as_ps() / 1_000;
            if waited_ns < SPIN_NS {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            looks += 1;
            let gone = looks.is_multiple_of(64) && self.check_support().is_err();
            if gone || waited_ns > layout::ACCESS_TIMEOUT_NS {
                let write = matches!(access.operation, Operation::Write(_));
                let within_ms = waited_ns / 1_000_000;
                return Err(MmioError { offset: access.offset.into(), write, within_ms });
            }
        }
        Ok(())
    }
}

/// Offsets beyond 32 bits are nowhere; so is the last of them.
#[inline]
fn place(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

impl Mmio for Device {
    #[inline]
    fn register_bar(&self) -> u8 {
        self.bar
    }

    #[inline]
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.read_from(Space::Bar(bar), offset, width)
    }

    #[inline]
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.write_to(Space::Bar(bar), offset, width, value)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.read_from(Space::Config, offset.into(), width)
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.write_to(Space::Config, offset.into(), width, value)
    }
}
