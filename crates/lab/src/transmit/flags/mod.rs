//! `warikomi transmit`.

mod card;
mod compared;
mod kernel;
mod messages;
mod mixed;
mod sender;
mod time;

use clap::Args;
use warikomi_clock::Seed;
use warikomi_measure::RunResult;
use warikomi_measure::published;
use warikomi_nic::NicOptions;
use warikomi_session::flags::{given, refuse};
use warikomi_session::{
    CostArguments, Session, StrictArguments, Strictness, TargetArguments, Usual,
};
use warikomi_stack::buffers::BufferKind;
use warikomi_wire::Wire;

use self::card::CardArguments;
use self::compared::ComparedArguments;
use self::kernel::{KernelSending, given_or};
use self::messages::MessageArguments;
use self::mixed::MixedArguments;
use self::sender::SenderArguments;
use self::time::TimeArguments;
use super::kernel::{Judge, JudgingHost};
use super::made::Transmitted;
use super::options::{Options, driver};
use super::{columns, fitted, kernel as guest, mixed as mixed_load, real, segmentation, simulated};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// Compares ways to send: how completed transfers are noticed, which buffers messages are copied into, and
/// what goes through a bounce buffer, by message size, on one card or several (--cards).
///
/// A process sends UDP datagrams as fast as it can (or at a pace) through socket, UDP/IP, buffers and a driver
/// of ours, all in one thread as in one kernel. Buffers are BSD's chains of mbufs with clusters of 2 or 4 KB, or
/// one contiguous buffer for each packet, as Linux has them; UDP's checksum walks the chain, or is summed up while the
/// contiguous buffer is filled (--checksum). Completion: interrupt (each packet interrupts),
/// interrupt-free (each transmit first asks what was sent; dead-locks if the send buffer is full before the
/// device is), adaptive (free of interrupts until the send buffer runs short), adaptive-published (the same, but as
/// published it asks the device before each packet). Bounce buffer: the header and
/// the first so many clusters are copied together, so that one DMA transfer replaces several; auto chooses
/// for each kind of packet by what copies and transfers cost.
///
/// A message that is longer than the card's MTU is cut by IP into fragments. With --senders tcp it goes over a TCP
/// connection instead, and is cut into segments by the stack or by the card (--tso off,on; ge10 and rtl8168 can).
///
/// Each row tells the throughput in packets and in bits of messages, the processor's share, interrupts and DMA
/// transfers for each packet, what was copied, drops at the socket, and how long packets were in the driver.
/// Every frame is judged on the wire: one that is lost, doubled, out of order or changed fails the run. It ends
/// with advice for this machine, card and traffic.
///
/// With --target kernel a real kernel sends, by its unmodified driver: its packet generator (pktgen), an
/// application with a UDP socket, and one that writes to a TCP connection, each with interrupts coalesced or
/// not, pktgen in bursts (xmit_more), TCP with and without segmentation offload. Buffers are the kernel's
/// own; --systems, --completions and --bounces have no meaning there.
///
/// Keeps plan.toml, result.json and repetitions.csv in a directory of its own; `warikomi report` draws them.
/// The whole comparison takes about two minutes. Leave the machine alone meanwhile.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Transmit {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    strict: StrictArguments,
    #[command(flatten)]
    card: CardArguments,
    #[command(flatten)]
    sender: SenderArguments,
    #[command(flatten)]
    messages: MessageArguments,
    #[command(flatten)]
    compared: ComparedArguments,
    #[command(flatten)]
    time: TimeArguments,
    #[command(flatten)]
    mixed: MixedArguments,
    #[command(flatten)]
    kernel: KernelSending,
    #[command(flatten)]
    kernel_costs: CostArguments,
}

const EXAMPLES: &str = "\
Examples:
  warikomi transmit
      Everything that was published, on the card that was published, in about two minutes.
  warikomi transmit --sizes 64,1472,65507 --systems mbuf-2k --bounces none,auto
      Three sizes, one system; 65,507 bytes (\"64 KB\") is the longest payload of a UDP datagram.
  warikomi transmit --virtual --costs fitted-bsd-2004 --bus fitted-2004 --separate
      A machine fitted to what was published, in virtual time; and where the mbufs' throughput goes.
  warikomi transmit --model rtl8168 --bus pcie1-x1 --line-rate 1G
      Another card, on another bus, on a line of 1 Gbit/s.
  warikomi transmit --cards oc48,ge10 --systems mbuf-2k,contiguous --completions adaptive --bounces none
      Two buffer systems over two cards, in packets and bits a second: OC-48c, and 10 Gigabit Ethernet on PCI-X.
  warikomi transmit --cards ge10 --mtu 1500 --senders tcp --completions interrupt,adaptive
      What segmentation offload (TSO) saves on a 10 Gigabit Ethernet card: throughput, processor, DMA transfers.
  warikomi transmit --mixture 64x10,1472x5 --mixture random --completions interrupt,adaptive
      Mixtures: sizes in turn, and any size each time.
  warikomi transmit --mixed --systems mbuf-2k --bounces none,all
      A mixed load while frames come: adapting to more resources against each fixed choice, with a verdict.
  warikomi transmit --both --sizes 64,4096
      Real and virtual time side by side, with their difference.
  warikomi transmit --target kernel --senders pktgen,udp --sizes 64,1472
      A real kernel: what xmit_more and coalesced interrupts save.
  warikomi transmit --target kernel --senders tcp --bus pcie1-x1 --line-rate 1G
      What segmentation offload saves on a line of 1 Gbit/s.";

impl Experiment for Transmit {
    const NAME: &'static str = "transmit";
    const ABOUT: &'static str =
        "Compare ways to send: completion by interrupt or without, buffers, bounce buffers";
    const PUBLISHED: Option<&'static str> = Some(published::ADAPTIVE_TRANSMIT);

    fn strict(&self) -> Option<Strictness> {
        self.strict.strict
    }

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        if self.target.asks_for_kernel() {
            let (messages, compared) = (self.messages.of_process(), self.compared.of_process());
            let (card, time) = (self.card.of_process(), self.time.of_process());
            let mixed = self.mixed.of_process();
            refuse(&[mixed, card, messages, compared, time].concat(), "process")?;
            if !self.time.virtual_time {
                self.messages.refuse_seed()?;
            }
            return self.run_in_kernel(watch);
        }
        refuse(&[self.kernel.given(), self.kernel_costs.given()].concat(), "kernel")?;
        self.strict.refuse_if_simulated(self.time.virtual_time || self.time.both)?;
        if self.mixed.mixed {
            return Ok(Conclusion::new(self.run_mixed(watch)?.result));
        }
        let found = self.run_in_process(watch)?;
        Ok(Conclusion::new(found.result).with_table("repetitions", found.repetitions))
    }

    fn describe(result: &mut RunResult) {
        // A kernel's rows say what sent, those of a mixed load in which phase, and those of TCP who cut its segments.
        let have = |key: &str| result.rows.iter().flatten().any(|row| row.contains_key(key));
        let (sender, phase, tso) = (have("sender"), have("phase"), have("tso"));
        match (sender, phase, tso) {
            (true, ..) => guest::columns::describe(result),
            (_, true, _) => mixed_load::describe(result),
            (.., true) => segmentation::describe(result),
            _ => columns::describe(result),
        }
        fitted::mark(result);
    }
}

impl Transmit {
    fn run_in_process(&self, watch: &mut Watch) -> Result<Transmitted, Error> {
        let (cards, costs) = (self.in_process()?, self.time.costs()?);
        if self.time.virtual_time {
            return simulated::transmit_all(&cards, &costs, watch);
        }
        let mut found = real::transmit_all(&cards, watch)?;
        if self.time.both {
            let simulated = simulated::transmit_all(&cards, &costs, watch)?;
            simulated::beside(&mut found, &simulated);
        }
        Ok(found)
    }

    fn run_mixed(&self, watch: &mut Watch) -> Result<Transmitted, Error> {
        let compared = given([
            ("--all-pairs", self.compared.all_pairs),
            ("--separate", self.compared.separate),
            ("--cards", !self.card.cards.is_empty()),
        ]);
        let sender = self.sender.of_one_load();
        let others =
            [self.messages.of_one_load(), self.time.of_one_load(), compared, sender].concat();
        self.mixed.refuse(&others)?;
        let load = self.mixed.load(self.time.phase(), self.time.repeat)?;
        let (cards, costs) = (self.in_process()?, self.time.costs()?);
        let options = cards.first().ok_or_else(|| Error::impossible("there is no card"))?;
        match self.time.virtual_time {
            true => mixed_load::in_virtual_time(options, &load, &costs, watch),
            false => mixed_load::in_real_time(options, &load, watch),
        }
    }

    fn run_in_kernel(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let sending = |session: &mut Session, judge: &Judge, options: &_, watch: &mut _| {
            guest::transmit(session, judge, options, watch)
        };
        let mut found = self.carry_out_in_kernel(watch, |host| Box::new(host), sending)?;
        fitted::note(&mut found.result, self.card.bus.as_ref(), None);
        Ok(Conclusion::new(found.result))
    }

    /// Brings a kernel up that is cabled to what `cable` makes of the host that judges, and has `sending` send what
    /// the flags ask for.
    pub(crate) fn carry_out_in_kernel<R>(
        &self,
        watch: &mut Watch,
        cable: impl FnOnce(JudgingHost) -> Box<dyn Wire>,
        sending: impl FnOnce(&mut Session, &Judge, &guest::Options, &mut Watch) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // What cannot be is refused before a kernel is started for it.
        let options = self.in_kernel()?;
        let costs = self.time.kernel_costs(&self.kernel_costs)?;
        let mut prepared = self.target.prepare_for(Usual::Packets, costs, self.messages.seed())?;
        prepared.defer_nothing();
        prepared.let_sleep();
        prepared.attach_by(self.card.bus, self.card.line_rate_bps());
        let (host, judge) = guest::Judge::with_host();
        let mut session = watch.start_on(&prepared, cable(host))?;
        let made = sending(&mut session, &judge, &options, watch)?;
        session.stop()?;
        Ok(made)
    }

    /// What to compare in drivers of ours: the same over each card.
    fn in_process(&self) -> Result<Vec<Options>, Error> {
        let cards = self.target.senders(&self.card.cards)?;
        let several = cards.len() > 1;
        cards.into_iter().map(|(name, nic)| self.over(name, nic, several)).collect()
    }

    fn over(&self, name: &str, nic: NicOptions, several: bool) -> Result<Options, Error> {
        let (driver, compared) = (driver(name)?, &self.compared);
        let transports = self.sender.transports()?;
        let usual_buffers = match transports.iter().any(|transport| transport.is_tcp()) {
            true => vec![BufferKind::Contiguous],
            false => Options::default().buffers,
        };
        let options = Options {
            transports: transports.clone(),
            traffic: self.messages.traffic(),
            buffers: given_or(&compared.systems, usual_buffers),
            checksum: self.messages.checksum(),
            completions: compared.completions.0.clone(),
            bounces: compared.bounces.clone(),
            alignment_bytes: self.card.alignment_bytes(),
            all_pairs: compared.all_pairs,
            separate: compared.separate,
            amount: self.time.amount(),
            pace: self.messages.pace(),
            send_buffer_bytes: self.messages.send_buffer,
            repeats: self.time.repeat,
            seed: Seed(self.messages.seed()),
            nic: self.card.attach(nic),
            driver: driver.name.to_owned(),
            is_one_of_several: several,
        };
        options.validate(driver)?;
        Ok(options)
    }

    /// What to compare in a kernel.
    pub(crate) fn in_kernel(&self) -> Result<guest::Options, Error> {
        let (usual, count) = (self.kernel.options(&self.sender), self.time.count);
        let options = guest::Options {
            sizes_bytes: given_or(&self.messages.sizes, usual.sizes_bytes),
            count: count.unwrap_or(usual.count),
            most_bytes: count.map_or(usual.most_bytes, |count| count.saturating_mul(1 << 16)),
            interval_us: self.messages.interval.map_or(0, |span| span.as_ps().div_ceil(1_000_000)),
            repeat: self.time.repeat as usize,
            ..usual
        };
        options.check()?;
        Ok(options)
    }
}
