//! The agent, in the order of its life: [`boot`] sets up the guest, [`channel`] reads requests,
//! [`dispatch`] hands each to the module that knows.

mod boot;
mod bridge;
mod channel;
mod compute;
mod configure;
mod counters;
mod dispatch;
mod drivers;
mod error;
mod ethtool;
mod files;
mod frames;
mod joining;
mod link;
mod netdev;
mod netif;
mod netlink;
mod pci;
mod ping;
mod pktgen;
mod programs;
mod receive;
mod root;
mod sys;
mod transmit;
mod wait;
mod work;

use std::process::ExitCode;

use warikomi_protocol::Event;

/// Runs until the support side asks for the end, or goes away.
pub(crate) fn main() -> ExitCode {
    if std::process::id() != 1 {
        // A child of the first program, to become a program of the host.
        if let Some(program) = programs::Launch::of_arguments() {
            return program.become_it();
        }
        eprintln!(
            "warikomi-guest is the first program of a kernel target and does nothing elsewhere; \
             `warikomi kernel build` puts it into the target's initramfs"
        );
        return ExitCode::from(2);
    }
    match serve() {
        Ok(()) => boot::power_off(),
        Err(error) => {
            // Shown on the console, which the support side keeps; then the guest stops, so that
            // nothing waits for an agent that cannot speak.
            eprintln!("warikomi-guest: {error}");
            boot::power_off()
        }
    }
}

fn serve() -> error::Result<()> {
    let warnings = boot::set_up();
    let mut channel = channel::Channel::open()?;
    channel.send(&Event::Ready(boot::ready(warnings)).to_line())?;
    let mut agent = dispatch::Agent::default();
    while let Some(line) = channel.next_line()? {
        let (response, last_act) = agent.answer(&line);
        channel.send(&response.to_line())?;
        if let Some(act) = last_act {
            act.perform();
        }
    }
    Ok(())
}
