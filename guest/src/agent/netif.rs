//! One network interface: sysfs for what can be read there, ioctls for the rest.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::error::{self, AgentError, Context, Result};
use super::sys;

/// A MAC address.
pub(super) type Mac = [u8; 6];

/// An interface that exists (or did when it was looked up).
pub(super) struct Interface {
    pub(super) name: String,
    /// Any socket serves to send an ioctl.
    control: OwnedFd,
}

impl Interface {
    pub(super) fn named(name: &str) -> Result<Self> {
        let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if !plain || !sysfs_of(name).exists() {
            return Err(AgentError::Other(format!(
                "there is no interface {name:?} (there are: {})",
                names().join(", ")
            )));
        }
        let control = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .context(|| "open a control socket".to_owned())?;
        Ok(Self { name: name.to_owned(), control })
    }

    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// A file of `/sys/class/net/<name>`.
    pub(super) fn sysfs(&self, file: &str) -> PathBuf {
        sysfs_of(&self.name).join(file)
    }

    /// A number from there; `None` if the kernel has no such file or no such value now.
    pub(super) fn number<T: std::str::FromStr>(&self, file: &str) -> Option<T> {
        error::read(self.sysfs(file)).ok()?.trim().parse().ok()
    }

    pub(super) fn mac(&self) -> Result<String> {
        Ok(error::read(self.sysfs("address"))?.trim().to_owned())
    }

    pub(super) fn set_mac(&self, mac: Mac) -> Result<()> {
        let what = || format!("give {} the address {mac:02x?}", self.name);
        let mut request = sys::empty_ifreq(&self.name).context(what)?;
        request.ifr_ifru.ifru_hwaddr = hardware_address(mac);
        sys::interface_ioctl(self.control(), libc::SIOCSIFHWADDR, &mut request).context(what)
    }

    pub(super) fn flags(&self) -> Result<i32> {
        let what = || format!("read the flags of {}", self.name);
        let mut request = sys::empty_ifreq(&self.name).context(what)?;
        sys::interface_ioctl(self.control(), libc::SIOCGIFFLAGS, &mut request).context(what)?;
        Ok(sys::flags_of(&request))
    }

    /// Sets or clears one of `IFF_*`.
    pub(super) fn set_flag(&self, flag: i32, on: bool) -> Result<()> {
        let before = self.flags()?;
        let after = if on { before | flag } else { before & !flag };
        if after == before {
            return Ok(());
        }
        let what = || format!("change the flags of {} from {before:#x} to {after:#x}", self.name);
        let mut request = sys::empty_ifreq(&self.name).context(what)?;
        // The kernel takes the low 16 bits.
        request.ifr_ifru.ifru_flags = after as libc::c_short;
        sys::interface_ioctl(self.control(), libc::SIOCSIFFLAGS, &mut request).context(what)
    }

    pub(super) fn set_up(&self, on: bool) -> Result<()> {
        self.set_flag(libc::IFF_UP, on)
    }

    pub(super) fn set_mtu(&self, mtu: u32) -> Result<()> {
        error::write(self.sysfs("mtu"), &mtu.to_string())
    }

    pub(super) fn set_address(&self, cidr: &Cidr) -> Result<()> {
        let what = || format!("give {} the address {}/{}", self.name, cidr.address, cidr.prefix);
        for (number, address) in
            [(libc::SIOCSIFADDR, cidr.address), (libc::SIOCSIFNETMASK, cidr.netmask())]
        {
            let mut request = sys::empty_ifreq(&self.name).context(what)?;
            request.ifr_ifru.ifru_addr = internet_address(address);
            sys::interface_ioctl(self.control(), number, &mut request).context(what)?;
        }
        Ok(())
    }

    /// A permanent neighbour entry.
    pub(super) fn set_neighbour(&self, ip: Ipv4Addr, mac: Mac) -> Result<()> {
        let what = || format!("make {ip} a neighbour on {}", self.name);
        let name = sys::empty_ifreq(&self.name).context(what)?.ifr_name;
        let mut request = libc::arpreq {
            arp_pa: internet_address(ip),
            arp_ha: hardware_address(mac),
            arp_flags: libc::ATF_PERM | libc::ATF_COM,
            arp_netmask: internet_address(Ipv4Addr::UNSPECIFIED),
            arp_dev: name,
        };
        sys::arp_ioctl(self.control(), &mut request).context(what)
    }

    /// Adds a hardware address to the multicast filter.
    pub(super) fn add_multicast(&self, mac: Mac) -> Result<()> {
        let what = || format!("add {mac:02x?} to the multicast filter of {}", self.name);
        let mut request = sys::empty_ifreq(&self.name).context(what)?;
        let mut address = hardware_address(mac);
        // SIOCADDMULTI wants no address family.
        address.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
        request.ifr_ifru.ifru_hwaddr = address;
        sys::interface_ioctl(self.control(), libc::SIOCADDMULTI, &mut request).context(what)
    }

    /// Makes a VLAN interface on top; its name.
    pub(super) fn add_vlan(&self, id: u16) -> Result<String> {
        const ADD_VLAN_CMD: libc::c_int = 0;
        self.vlan_request(ADD_VLAN_CMD, id.into())
            .context(|| format!("make VLAN {id} on {}", self.name))?;
        Ok(self.vlan_name(id))
    }

    /// Of a VLAN's interface: the tag stays part of its header.
    pub(super) fn keep_tag_in_header(&self) -> Result<()> {
        const SET_VLAN_FLAG_CMD: libc::c_int = 7;
        const VLAN_FLAG_REORDER_HDR: libc::c_int = 1;
        // What it is set to is where the priority else is: 0, off.
        self.vlan_request(SET_VLAN_FLAG_CMD, VLAN_FLAG_REORDER_HDR)
            .context(|| format!("keep the tag in the header of {}", self.name))
    }

    fn vlan_request(&self, command: libc::c_int, value: libc::c_int) -> std::io::Result<()> {
        let mut device = [0; 24];
        for (slot, byte) in device.iter_mut().zip(self.name.bytes().take(15)) {
            *slot = byte;
        }
        let mut request = sys::VlanRequest { command, device, value, rest: [0; 20], vlan_qos: 0 };
        sys::vlan_ioctl(self.control(), &mut request)
    }

    /// What the kernel calls a VLAN on this interface.
    pub(super) fn vlan_name(&self, id: u16) -> String {
        format!("{}.{id}", self.name)
    }
}

fn sysfs_of(name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(name)
}

/// Every interface.
pub(super) fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// An IPv4 address and the length of its network's prefix.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    pub(super) address: Ipv4Addr,
    pub(super) prefix: u32,
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let invalid = || AgentError::Invalid {
            what: "the address",
            expected: "an IPv4 address and prefix length, as 10.9.0.1/24",
            given: text.to_owned(),
        };
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address = address.parse().map_err(|_| invalid())?;
        let prefix = prefix.parse().ok().filter(|&bits| bits <= 32).ok_or_else(invalid)?;
        Ok(Self { address, prefix })
    }

    fn netmask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0))
    }
}

pub(super) fn parse_mac(text: &str) -> Result<Mac> {
    let invalid = || AgentError::Invalid {
        what: "the hardware address",
        expected: "six bytes, as 02:00:00:00:00:01",
        given: text.to_owned(),
    };
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| if part.len() == 2 { u8::from_str_radix(part, 16).ok() } else { None })
        .collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(invalid)
}

pub(super) fn parse_ip(text: &str) -> Result<Ipv4Addr> {
    text.parse().map_err(|_| AgentError::Invalid {
        what: "the address",
        expected: "an IPv4 address",
        given: text.to_owned(),
    })
}

pub(super) fn parse_destination(text: &str) -> Result<SocketAddrV4> {
    text.parse().map_err(|_| AgentError::Invalid {
        what: "the destination",
        expected: "an IPv4 address and a port, as 10.9.0.2:5001",
        given: text.to_owned(),
    })
}

fn internet_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (slot, byte) in data[2..6].iter_mut().zip(address.octets()) {
        *slot = byte.cast_signed();
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn hardware_address(mac: Mac) -> libc::sockaddr {
    let mut data = [0; 14];
    for (slot, byte) in data.iter_mut().zip(mac) {
        *slot = byte.cast_signed();
    }
    libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let cidr = Cidr::parse("10.9.0.1/24").unwrap();
        assert_eq!(cidr.netmask(), Ipv4Addr::new(255, 255, 255, 0));
        assert_eq!(Cidr::parse("1.2.3.4/0").unwrap().netmask(), Ipv4Addr::UNSPECIFIED);
        assert_eq!(Cidr::parse("1.2.3.4/32").unwrap().netmask(), Ipv4Addr::BROADCAST);
        for bad in ["10.9.0.1", "10.9.0.1/33", "10.9.0/24", "x/8", ""] {
            assert!(Cidr::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_mac("02:57:4b:00:00:01").unwrap(), [2, 0x57, 0x4b, 0, 0, 1]);
        for bad in ["02:57:4b:00:00", "02:57:4b:00:00:01:02", "2:57:4b:00:00:01", "", "+1:0:0"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interface_name_cannot_be_a_path() {
        assert!(Interface::named("../../../etc").is_err());
        assert!(Interface::named("").is_err());
    }
}
