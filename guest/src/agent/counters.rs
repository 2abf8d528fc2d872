//! Everything that the kernel counts about an interface.

use std::collections::BTreeMap;

use warikomi_protocol::answers::{Counters, InterruptKind, InterruptLine};

use super::error::{self, Context, Result};
use super::ethtool::Ethtool;
use super::netif::Interface;
use super::{pci, sys};

pub(super) fn counters(interface: &Interface) -> Result<Counters> {
    let (interrupt_kind, numbers) = interrupts_of(interface);
    let softnet = softnet(&error::read("/proc/net/softnet_stat")?);
    Ok(Counters {
        interface: statistics(interface)?,
        driver: Ethtool::new(interface).statistics()?,
        interrupts: interrupt_lines(&error::read("/proc/interrupts")?, &numbers, &interface.name),
        interrupt_kind,
        softnet_processed: softnet[0],
        softnet_dropped: softnet[1],
        softnet_squeezed: softnet[2],
        protocol: protocol(&error::read("/proc/net/snmp")?),
        tsc: sys::counter(),
    })
}

fn statistics(interface: &Interface) -> Result<BTreeMap<String, u64>> {
    let directory = interface.sysfs("statistics");
    let entries =
        std::fs::read_dir(&directory).context(|| format!("list {}", directory.display()))?;
    let mut values = BTreeMap::new();
    for entry in entries.flatten() {
        let value = error::read(entry.path())?.trim().parse().unwrap_or(0);
        values.insert(pci::file_name(&entry.path()), value);
    }
    Ok(values)
}

/// How the device interrupts, and the numbers of its interrupts.
fn interrupts_of(interface: &Interface) -> (InterruptKind, Vec<String>) {
    let mut kind = InterruptKind::Intx;
    let mut numbers = Vec::new();
    if let Ok(entries) = std::fs::read_dir(interface.sysfs("device/msi_irqs")) {
        for entry in entries.flatten() {
            let text = error::read(entry.path()).unwrap_or_default();
            kind = if text.trim() == "msix" { InterruptKind::MsiX } else { InterruptKind::Msi };
            numbers.push(pci::file_name(&entry.path()));
        }
    }
    if numbers.is_empty() {
        numbers.extend(interface.number::<u32>("device/irq").map(|number| number.to_string()));
    }
    (kind, numbers)
}

/// The lines of `/proc/interrupts` with one of these numbers, or with the interface's name.
fn interrupt_lines(text: &str, numbers: &[String], name: &str) -> Vec<InterruptLine> {
    text.lines()
        .filter_map(|line| {
            let (irq, rest) = line.split_once(':')?;
            let irq = irq.trim();
            let mut words = rest.split_whitespace().peekable();
            let mut count = 0;
            while let Some(value) = words.peek().and_then(|word| word.parse::<u64>().ok()) {
                count += value;
                words.next();
            }
            let description = words.collect::<Vec<_>>().join(" ");
            let ours = numbers.iter().any(|number| number == irq)
                || description.split_whitespace().any(|word| word == name);
            ours.then(|| InterruptLine { irq: irq.to_owned(), count, description })
        })
        .collect()
}

/// Processed, dropped, squeezed: the first three columns, hexadecimal, a line a processor.
fn softnet(text: &str) -> [u64; 3] {
    let mut sums = [0; 3];
    for line in text.lines() {
        for (sum, word) in sums.iter_mut().zip(line.split_whitespace()) {
            *sum += u64::from_str_radix(word, 16).unwrap_or(0);
        }
    }
    sums
}

/// `Udp:` and `Ip:` come as a line of names and a line of values.
fn protocol(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (Some((layer, names)), Some((_, numbers))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if layer != "Udp" && layer != "Ip" {
            continue;
        }
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
            values.insert(format!("{layer}{name}"), number.parse().unwrap_or(0));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_interrupts_are_found_by_number_and_by_name() {
        let text = "           CPU0\n  0:  5  SIGVTALRM  hr timer\n 64:  12  virtio  0  eth0\n\
                    65:  7  PCI-MSI x\n";
        let lines = interrupt_lines(text, &["65".into()], "eth0");
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].irq.as_str(), lines[0].count), ("64", 12));
        assert_eq!((lines[1].irq.as_str(), lines[1].count), ("65", 7));
        assert_eq!(lines[1].description, "PCI-MSI x");
    }

    #[test]
    fn kernel_tables_are_summed_and_paired() {
        assert_eq!(softnet("0000000a 00000001 00000002 0\n00000001 0 0 0\n"), [11, 1, 2]);
        let values = protocol("Ip: A B\nIp: 1 2\nTcp: X\nTcp: 9\nUdp: RcvbufErrors\nUdp: 3\n");
        assert_eq!(values.get("UdpRcvbufErrors"), Some(&3));
        assert_eq!(values.get("IpB"), Some(&2));
        assert!(!values.contains_key("TcpX"));
    }
}
