//! The only unsafe code of the agent: system calls that `nix` does not wrap (interface ioctls,
//! a batched receive that allocates nothing), and the time-stamp counter.
#![allow(unsafe_code)]

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
fn rdtsc() -> u64 {
    // SAFETY: the instruction has no operands and no effect but its result; every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// An ioctl that takes a pointer to a plain C structure.
///
/// `argument` must be the structure that `request` expects; the callers in `netif` and `ethtool`
/// are the list of those.
fn ioctl<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: `fd` is open for the length of the borrow and `argument` is a live, exclusive,
    // initialised `T` for the length of the call; the functions below are the only callers and pair
    // each request with the structure that the kernel reads and writes for it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An interface request (`struct ifreq`) for one of the SIOC[GS]IF* numbers.
pub(super) fn interface_ioctl(
    fd: BorrowedFd<'_>,
    request: u64,
    argument: &mut libc::ifreq,
) -> io::Result<()> {
    ioctl(fd, request, argument)
}

/// `SIOCETHTOOL`: `data` starts with the command word, and is as long as that command needs; the
/// kernel reads and writes inside it only, because the lengths in it are checked by the callers.
pub(super) fn ethtool_ioctl(fd: BorrowedFd<'_>, name: &str, data: &mut [u32]) -> io::Result<()> {
    let mut request = empty_ifreq(name)?;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    ioctl(fd, libc::SIOCETHTOOL, &mut request)
}

/// `SIOCSARP` with a permanent entry.
pub(super) fn arp_ioctl(fd: BorrowedFd<'_>, argument: &mut libc::arpreq) -> io::Result<()> {
    ioctl(fd, libc::SIOCSARP, argument)
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
pub(super) fn vlan_ioctl(fd: BorrowedFd<'_>, argument: &mut VlanRequest) -> io::Result<()> {
    const SIOCSIFVLAN: u64 = 0x8983;
    ioctl(fd, SIOCSIFVLAN, argument)
}

/// An `ifreq` for the named interface, all else zero.
pub(super) fn empty_ifreq(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is a C structure of arrays and integers, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, so that the name ends.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is no interface name (1 to 15 bytes)"),
        ));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte.cast_signed();
    }
    Ok(request)
}

/// The flags of an `ifreq` that the kernel filled in with SIOCGIFFLAGS.
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
pub(super) fn epoll_ioctl(fd: BorrowedFd<'_>, argument: &mut EpollParams) -> io::Result<()> {
    // _IOW(0x8a, 1, struct epoll_params)
    const EPIOCSPARAMS: u64 = 0x4008_8a01;
    const _: () = assert!(size_of::<EpollParams>() == 8);
    ioctl(fd, EPIOCSPARAMS, argument)
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
pub(super) fn run_last() -> io::Result<()> {
    const LAST: libc::c_int = 19;
    const THIS_THREAD: libc::id_t = 0;
    // SAFETY: it takes numbers only.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, LAST) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
