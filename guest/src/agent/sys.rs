//! The only unsafe code of the agent: system calls that `nix` does not wrap (interface ioctls,
//! a batched receive that allocates nothing), and the time-stamp counter.
//!
//! Nothing here believes its callers: what the kernel would read or write beyond is refused.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::LazyLock;

use nix::time::{ClockId, clock_gettime};

/// The parameter of a kernel whose time is virtual.
const VIRTUAL_CLOCK: &str = "warikomi.clock=virtual";

static TIME_IS_VIRTUAL: LazyLock<bool> = LazyLock::new(|| {
    let parameters = super::error::read("/proc/cmdline").unwrap_or_default();
    parameters.split_whitespace().any(|word| word == VIRTUAL_CLOCK)
});

/// The counter that both sides share: nanoseconds where time is virtual, else the processor's.
#[inline]
pub(super) fn counter() -> u64 {
    if time_is_virtual() { monotonic_ns() } else { rdtsc() }
}

/// Whether this kernel's time is virtual.
#[inline]
pub(super) fn time_is_virtual() -> bool {
    *TIME_IS_VIRTUAL
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Reads the time-stamp counter. A User Mode Linux process reads the host's.
#[inline]
#[expect(unsafe_code, reason = "the instruction has no other form")]
fn rdtsc() -> u64 {
    // SAFETY: the instruction has no operands and no effect but its result; every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// An ioctl that takes a pointer to a plain C structure.
///
/// # Safety
///
/// `T` must be the structure that the kernel reads and writes for `request`, and a pointer in it must lead to memory
/// that is as long as the kernel takes it to be.
#[expect(unsafe_code, reason = "the libraries have no such requests")]
unsafe fn ioctl<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: `fd` is open for the length of the borrow and `argument` is a live, exclusive,
    // initialised `T` for the length of the call; the rest is this function's contract.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Requests whose `struct ifreq` has its value inside, and no pointer.
const INTERFACE_REQUESTS: [u64; 6] = [
    libc::SIOCGIFFLAGS,
    libc::SIOCSIFFLAGS,
    libc::SIOCSIFADDR,
    libc::SIOCSIFNETMASK,
    libc::SIOCSIFHWADDR,
    libc::SIOCADDMULTI,
];

/// An interface request (`struct ifreq`) for one of [`INTERFACE_REQUESTS`]; any other is refused.
#[expect(unsafe_code, reason = "calls `ioctl`")]
pub(super) fn interface_ioctl(
    fd: BorrowedFd<'_>,
    request: u64,
    argument: &mut libc::ifreq,
) -> io::Result<()> {
    if !INTERFACE_REQUESTS.contains(&request) {
        return Err(refused(format!("{request:#x} is no request of an interface that is known")));
    }
    // SAFETY: all of these take an `ifreq`, and the kernel follows no pointer in it for them.
    unsafe { ioctl(fd, request, argument) }
}

/// Commands of `SIOCETHTOOL`, by the names that `linux/ethtool.h` has for them.
pub(super) mod ethtool {
    pub(in super::super) const NWAY_RST: u32 = 0x09;
    pub(in super::super) const GCOALESCE: u32 = 0x0e;
    pub(in super::super) const SCOALESCE: u32 = 0x0f;
    pub(in super::super) const TEST: u32 = 0x1a;
    pub(in super::super) const GSTRINGS: u32 = 0x1b;
    pub(in super::super) const GSTATS: u32 = 0x1d;
    pub(in super::super) const SRXFH: u32 = 0x2a;
    pub(in super::super) const GSSET_INFO: u32 = 0x37;
    pub(in super::super) const GFEATURES: u32 = 0x3a;
    pub(in super::super) const SFEATURES: u32 = 0x3b;
    pub(in super::super) const GCHANNELS: u32 = 0x3c;
    pub(in super::super) const SCHANNELS: u32 = 0x3d;

    /// Sets of strings.
    pub(in super::super) const SS_TEST: u32 = 0;
    pub(in super::super) const SS_STATS: u32 = 1;
    pub(in super::super) const SS_FEATURES: u32 = 4;

    /// `struct ethtool_coalesce` is the command and 22 words.
    pub(in super::super) const COALESCE_WORDS: usize = 23;
    /// `struct ethtool_channels` is the command and 8 words.
    pub(in super::super) const CHANNELS_WORDS: usize = 9;
    /// Of `struct ethtool_rxnfc` SRXFH takes the command, the kind of flow, and 64 bits.
    pub(in super::super) const FLOW_HASH_WORDS: usize = 4;
    /// Length of one string of a set (ETH_GSTRING_LEN), in bytes.
    pub(in super::super) const STRING_BYTES: usize = 32;
}

/// `SIOCETHTOOL`: `data` starts with the command word; if it is shorter than what the kernel reads and writes for
/// that, it is refused.
pub(super) fn ethtool_ioctl(fd: BorrowedFd<'_>, name: &str, data: &mut [u32]) -> io::Result<()> {
    let needed = ethtool_words(data, |set| string_count(fd, name, set))?;
    if data.len() < needed {
        let (command, have) = (data.first().copied().unwrap_or_default(), data.len());
        let what = format!("the ethtool command {command:#x} takes {needed} words, not {have}");
        return Err(refused(what));
    }
    ethtool_request(fd, name, data)
}

/// How many strings the interface has in a set; none if the kernel does not know the set.
pub(super) fn string_count(fd: BorrowedFd<'_>, name: &str, set: u32) -> io::Result<u32> {
    let mask = 1u32.checked_shl(set).ok_or_else(|| refused(format!("no set of strings {set}")))?;
    // The command, a word that is reserved, the mask in 64 bits, and a count for each of its bits.
    let mut info = [ethtool::GSSET_INFO, 0, mask, 0, 0];
    ethtool_request(fd, name, &mut info)?;
    Ok(if info[2] == 0 { 0 } else { info[4] })
}

#[expect(unsafe_code, reason = "calls `ioctl`")]
fn ethtool_request(fd: BorrowedFd<'_>, name: &str, data: &mut [u32]) -> io::Result<()> {
    let mut request = empty_ifreq(name)?;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: the request takes an `ifreq`, and both callers have seen to it that `data` is as long as its command
    // needs. The kernel counts a set of strings anew; only the driver can have changed that count since, and a
    // driver that is wrong in this is in the kernel already.
    unsafe { ioctl(fd, libc::SIOCETHTOOL, &mut request) }
}

/// How many words the kernel reads and writes for a command and the lengths in it. Of strings and statistics it takes
/// its own count, whatever `data` says.
fn ethtool_words(data: &[u32], strings: impl FnOnce(u32) -> io::Result<u32>) -> io::Result<usize> {
    let word = |at: usize| data.get(at).copied().unwrap_or_default();
    let string_words = ethtool::STRING_BYTES / size_of::<u32>();
    let (head, count, each) = match word(0) {
        ethtool::NWAY_RST => (1, 0, 0),
        ethtool::GCOALESCE | ethtool::SCOALESCE => (ethtool::COALESCE_WORDS, 0, 0),
        ethtool::GCHANNELS | ethtool::SCHANNELS => (ethtool::CHANNELS_WORDS, 0, 0),
        ethtool::SRXFH => (ethtool::FLOW_HASH_WORDS, 0, 0),
        ethtool::TEST => (4, strings(ethtool::SS_TEST)?, 2),
        ethtool::GSTRINGS => (3, strings(word(1))?, string_words),
        ethtool::GSTATS => (2, strings(ethtool::SS_STATS)?, 2),
        // Blocks of four words that are written, of two that are read.
        ethtool::GFEATURES => (2, word(1), 4),
        ethtool::SFEATURES => (2, word(1), 2),
        other => return Err(refused(format!("{other:#x} is no ethtool command that is known"))),
    };
    let words = (count as usize).checked_mul(each).and_then(|words| words.checked_add(head));
    words.ok_or_else(|| refused(format!("{count} entries are no length")))
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// `SIOCSARP` with a permanent entry.
#[expect(unsafe_code, reason = "calls `ioctl`")]
pub(super) fn arp_ioctl(fd: BorrowedFd<'_>, argument: &mut libc::arpreq) -> io::Result<()> {
    // SAFETY: the request takes an `arpreq`, which has no pointer.
    unsafe { ioctl(fd, libc::SIOCSARP, argument) }
}

/// `struct vlan_ioctl_args` of `linux/if_vlan.h`.
#[repr(C)]
pub(super) struct VlanRequest {
    pub(super) command: libc::c_int,
    pub(super) device: [u8; 24],
    /// A union of 24 bytes; the first member that matters here is an `int`.
    pub(super) value: libc::c_int,
    pub(super) rest: [u8; 20],
    pub(super) vlan_qos: libc::c_short,
}

/// `SIOCSIFVLAN`.
#[expect(unsafe_code, reason = "calls `ioctl`")]
pub(super) fn vlan_ioctl(fd: BorrowedFd<'_>, argument: &mut VlanRequest) -> io::Result<()> {
    const SIOCSIFVLAN: u64 = 0x8983;
    const _: () = assert!(size_of::<VlanRequest>() == 56);
    // SAFETY: the request takes this structure, which has the kernel's length and no pointer.
    unsafe { ioctl(fd, SIOCSIFVLAN, argument) }
}

/// An `ifreq` for the named interface, all else zero.
#[expect(unsafe_code, reason = "the structure holds a union")]
pub(super) fn empty_ifreq(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is a C structure of arrays and integers, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, so that the name ends.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(refused(format!("{name:?} is no interface name (1 to 15 bytes)")));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte.cast_signed();
    }
    Ok(request)
}

/// The flags of an `ifreq` that the kernel filled in with SIOCGIFFLAGS.
#[expect(unsafe_code, reason = "the flags are in a union")]
pub(super) fn flags_of(request: &libc::ifreq) -> i32 {
    // SAFETY: every bit pattern is a `c_short`, and the union has at least its size.
    i32::from(unsafe { request.ifr_ifru.ifru_flags })
}

/// A packet socket (packet(7)) on the interface of this number, which takes frames that begin with a
/// `struct virtio_net_hdr`; the kernel notes when each leaves the driver (`SO_TIMESTAMPING`).
///
/// Past the interface's queue it has room for more frames than a driver's ring.
pub(super) fn packet_sender(interface: libc::c_int, past_queue: bool) -> io::Result<OwnedFd> {
    const PACKET_VNET_HDR: libc::c_int = 15;
    const PACKET_QDISC_BYPASS: libc::c_int = 20;
    const ROOM_BYTES: libc::c_int = 4 << 20;
    let stamps = libc::SOF_TIMESTAMPING_TX_SOFTWARE as libc::c_int;
    let socket = packet_socket(interface, 0)?;
    set_option(socket.as_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    if past_queue {
        set_option(socket.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        set_socket_option(socket.as_fd(), libc::SO_SNDBUFFORCE, ROOM_BYTES)?;
    } else {
        set_socket_option(socket.as_fd(), libc::SO_TIMESTAMPING, stamps)?;
    }
    Ok(socket)
}

/// A packet socket that is given a copy of every frame, as tcpdump's is.
pub(super) fn packet_listener(interface: libc::c_int) -> io::Result<OwnedFd> {
    packet_socket(interface, libc::ETH_P_ALL as u16)
}

/// A packet socket bound to an interface and a type of frames.
#[expect(unsafe_code, reason = "`nix` binds no packet socket")]
fn packet_socket(interface: libc::c_int, protocol: u16) -> io::Result<OwnedFd> {
    // SAFETY: the call takes three numbers.
    let made = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it has just been opened, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: `sockaddr_ll` is a C structure of integers, for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface;
    // SAFETY: the kernel reads `address`, which lives through the call, and no more than its size.
    let bound = unsafe {
        libc::bind(
            made,
            (&raw const address).cast::<libc::sockaddr>(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// `SO_MEMINFO`: the socket's counters, of which index 8 is what it dropped.
pub(super) fn socket_drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SO_MEMINFO: libc::c_int = 55;
    const DROPS: usize = 8;
    let values: [u32; DROPS + 1] = socket_numbers(fd, libc::SOL_SOCKET, SO_MEMINFO)?;
    Ok(u64::from(values[DROPS]))
}

/// Segments that a connection has sent again: `tcpi_total_retrans` of `struct tcp_info`, behind 8 bytes
/// and 23 numbers.
pub(super) fn retransmitted(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const TOTAL_RETRANS: usize = 2 + 23;
    let values: [u32; TOTAL_RETRANS + 1] = socket_numbers(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(u64::from(values[TOTAL_RETRANS]))
}

/// A socket option that is an array of numbers; those that the kernel does not have are 0.
#[expect(unsafe_code, reason = "`nix` has no such options")]
fn socket_numbers<const COUNT: usize>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<[u32; COUNT]> {
    let mut values = [0u32; COUNT];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: `values` is writable for `length` bytes, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            values.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(values) }
}

/// Sets a socket option of `SOL_SOCKET` that is a number.
pub(super) fn set_socket_option(
    fd: BorrowedFd<'_>,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, option, value)
}

#[expect(unsafe_code, reason = "`nix` has no such options")]
fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads `value`, which lives through the call, and no more than its size.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast::<c_void>(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct epoll_params` of `linux/eventpoll.h`.
#[repr(C)]
#[derive(Default)]
pub(super) struct EpollParams {
    pub(super) busy_poll_usecs: u32,
    pub(super) busy_poll_budget: u16,
    pub(super) prefer_busy_poll: u8,
    /// Zero, or the kernel refuses.
    pub(super) pad: u8,
}

/// `EPIOCSPARAMS`.
#[expect(unsafe_code, reason = "calls `ioctl`")]
pub(super) fn epoll_ioctl(fd: BorrowedFd<'_>, argument: &mut EpollParams) -> io::Result<()> {
    // _IOW(0x8a, 1, struct epoll_params)
    const EPIOCSPARAMS: u64 = 0x4008_8a01;
    const _: () = assert!(size_of::<EpollParams>() == 8);
    // SAFETY: the request takes this structure, which has the length that its number says and no pointer.
    unsafe { ioctl(fd, EPIOCSPARAMS, argument) }
}

/// Buffers for receiving a batch of datagrams in one system call, allocated once.
pub(super) struct Batch {
    /// `datagrams * stride` bytes; `messages` point into it through `vectors`.
    buffer: Vec<u8>,
    stride: usize,
    messages: Vec<libc::mmsghdr>,
    /// Only the kernel reads these, through `messages`; kept here so that they live as long.
    _vectors: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in `messages` and `_vectors` point only into heap memory that this
// value owns exclusively and that does not move with it.
#[expect(unsafe_code, reason = "its messages point into it")]
unsafe impl Send for Batch {}

/// One datagram of a batch.
pub(super) struct Datagram<'a> {
    /// The bytes that were copied.
    pub(super) bytes: &'a [u8],
    /// Its full length, in bytes.
    pub(super) length: usize,
}

impl Batch {
    /// Room for `datagrams` of at most `stride` bytes each.
    #[expect(unsafe_code, reason = "an empty message is zeros")]
    pub(super) fn new(datagrams: usize, stride: usize) -> Self {
        let mut buffer = vec![0u8; datagrams * stride];
        let mut vectors: Vec<libc::iovec> = buffer
            .chunks_exact_mut(stride)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: stride })
            .collect();
        let messages = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: all zeros is a value of this C structure: no name, no control data.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        Self { buffer, stride, messages, _vectors: vectors }
    }

    /// Datagrams that one call can return.
    pub(super) fn capacity(&self) -> usize {
        self.messages.len()
    }

    /// Waits for a first datagram (as long as the socket's receive timeout says, or not at all),
    /// then takes what else is there. How many came.
    #[expect(unsafe_code, reason = "`nix` allocates for each call")]
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, wait: bool) -> io::Result<usize> {
        let waiting = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: every message points at one vector, every vector at its own `stride` bytes of
        // `buffer`; all three are owned by `self`, exclusively borrowed, and never resized.
        let result = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as libc::c_uint,
                waiting | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// The first `count` datagrams of the last call.
    #[inline]
    pub(super) fn datagrams(&self, count: usize) -> impl Iterator<Item = Datagram<'_>> {
        self.buffer.chunks_exact(self.stride).zip(&self.messages).take(count).map(
            |(slot, message)| {
                let length = message.msg_len as usize;
                Datagram { bytes: &slot[..length.min(slot.len())], length }
            },
        )
    }
}

/// Makes this thread the last to run when others want to.
#[expect(unsafe_code, reason = "`nix` has no such call")]
pub(super) fn run_last() -> io::Result<()> {
    const LAST: libc::c_int = 19;
    const THIS_THREAD: libc::id_t = 0;
    // SAFETY: it takes numbers only.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, LAST) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

    #[test]
    fn data_that_is_too_short_for_its_command_is_refused() {
        let strings = |count| move |_| Ok(count);
        let words = |data: &[u32], count| ethtool_words(data, strings(count)).unwrap();
        assert_eq!(words(&[ethtool::NWAY_RST], 9), 1);
        assert_eq!(words(&[ethtool::GCOALESCE], 9), 23);
        assert_eq!((words(&[ethtool::SCHANNELS], 9), words(&[ethtool::SRXFH], 9)), (9, 4));
        // The kernel's own count decides, not the one that is given.
        assert_eq!(words(&[ethtool::GSTRINGS, 1, 2], 9), 3 + 9 * 8);
        assert_eq!(words(&[ethtool::GSTATS, 2], 9), 2 + 9 * 2);
        assert_eq!(words(&[ethtool::GFEATURES, 3], 9), 2 + 3 * 4);
        assert_eq!(words(&[ethtool::SFEATURES, 3], 9), 2 + 3 * 2);
        assert!(words(&[ethtool::GFEATURES, u32::MAX], 9) > 1 << 33);
        for unknown in [&[][..], &[0x42]] {
            assert!(ethtool_words(unknown, strings(0)).is_err(), "{unknown:?}");
        }
    }

    #[test]
    fn requests_that_could_lead_elsewhere_never_reach_the_kernel() {
        let any = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
        let any = any.unwrap();
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        let mut request = empty_ifreq("lo").unwrap();
        let given = interface_ioctl(any.as_fd(), libc::SIOCETHTOOL, &mut request);
        assert_eq!(kind(given), io::ErrorKind::InvalidInput);
        for short in [
            &mut [][..],
            &mut [0x42, 0, 0],
            &mut [ethtool::SCOALESCE; 22],
            &mut [ethtool::SCHANNELS; 8],
            &mut [ethtool::SRXFH; 3],
            &mut [ethtool::GFEATURES, 1, 0, 0, 0],
            &mut [ethtool::SFEATURES, u32::MAX, 0, 0],
        ] {
            let given = ethtool_ioctl(any.as_fd(), "lo", short);
            assert_eq!(kind(given), io::ErrorKind::InvalidInput, "{short:?}");
        }
    }
}
