//! `warikomi transmit`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::{Args, ValueHint};
use warikomi_clock::{Seed, Span};
use warikomi_driver::transmit::{Bounce, Completion, ParseCompletionError};
use warikomi_inject::{FrameBytes, LineRate};
use warikomi_lab::transmit::{
    Amount, Mixture, Options, Pace, Progress, Traffic, Transmitted, real, simulated,
};
use warikomi_nic::NicOptions;
use warikomi_nic::bus::Bus;
use warikomi_session::OwnParts;
use warikomi_sim::CostsFile;
use warikomi_sim::transmit::SendCosts;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::{LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES};
use warikomi_target::Interrupted;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use crate::transmit_kernel::{Common, KernelSending};
use warikomi_lab::buffer_bytes as buffer;
use warikomi_session::TargetArguments;
use warikomi_session::flags::{given as flags, refuse};

/// Compares ways to send: how completed transfers are noticed, which buffers messages are copied into, and
/// what goes through a bounce buffer, by message size, on one card.
///
/// A process sends UDP datagrams as fast as it can (or at a pace) through socket, UDP/IP, buffers and a driver
/// of ours, all in one thread as in one kernel. Buffers are BSD's chains of mbufs with clusters of 2 or 4 KB, or
/// one contiguous buffer for each packet, as Linux has them. Completion: interrupt (each packet interrupts),
/// interrupt-free (each transmit first asks what was sent; dead-locks if the send buffer is full before the
/// device is), adaptive (free of interrupts until the send buffer runs short). Bounce buffer: the header and
/// the first so many clusters are copied together, so that one DMA transfer replaces several; auto chooses
/// for each kind of packet by what copies and transfers cost.
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
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    nic: NicArguments,
    #[command(flatten)]
    messages: MessageArguments,
    #[command(flatten)]
    compared: ComparedArguments,
    #[command(flatten)]
    time: TimeArguments,
    #[command(flatten)]
    sending: KernelSending,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warikomi transmit
      Everything that was published, on the card that was published, in about two minutes.
  warikomi transmit --sizes 64,1472,65507 --systems mbuf-2k --bounces none,auto
      Three sizes, one system; 65,507 bytes (\"64 KB\") is the longest payload of a UDP datagram.
  warikomi transmit --virtual --costs bsd-2004 --separate
      The same machine as published, in virtual time; and where the mbufs' throughput goes.
  warikomi transmit --model rtl8168 --bus pcie1-x1 --line-rate 1G
      Another card, on another bus, on a line of 1 Gbit/s.
  warikomi transmit --mixture 64x10,1472x5 --mixture random --completions interrupt,adaptive
      Mixtures: sizes in turn, and any size each time.
  warikomi transmit --both --sizes 64,4096
      Real and virtual time side by side, with their difference.
  warikomi transmit --target kernel --senders pktgen,udp --sizes 64,1472
      A real kernel: what xmit_more and coalesced interrupts save.
  warikomi transmit --target kernel --senders tcp --bus pcie1-x1 --line-rate 1G
      What segmentation offload saves on a line of 1 Gbit/s.";

#[derive(Args)]
#[command(next_help_heading = "Card")]
struct NicArguments {
    /// The bus: a name (pci-64-66, pcix-133, pcie1-x1 to pcie5-x16), then what differs from it, as in
    /// pci-64-66,arbitration=800ns,wait=60ns,burst=512,fetch=600ns,mapping=200ns,rate=400MB
    /// [default: of oc48 pci-64-66; of rtl8168 one that takes no time]
    #[arg(long, value_name = "BUS")]
    bus: Option<Bus>,
    /// The line that frames leave on, such as 10G [default: of oc48 2.4G; of rtl8168 one that takes no time]
    #[arg(long, value_name = "RATE")]
    line_rate: Option<LineRate>,
}

#[derive(Args)]
#[command(next_help_heading = "Messages")]
struct MessageArguments {
    /// Lengths of messages in bytes (16 to 65507), with commas: each has rows of its own [default: 14 of them,
    /// from 16 bytes to what the card takes; with --mixture none]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u32>,
    /// Messages of several lengths: SIZExCOUNT,... in turn, random:SIZE,... or random; may be repeated
    #[arg(long = "mixture", value_name = "MIXTURE")]
    mixtures: Vec<MixtureArgument>,
    /// Time between two messages [default: none, as fast as it goes]. A message for which the socket has no
    /// room is dropped then
    #[arg(long, value_name = "TIME", conflicts_with = "rate", value_parser = interval)]
    interval: Option<Span>,
    /// The same as bits of messages in a second, such as 100M
    #[arg(long, value_name = "RATE")]
    rate: Option<LineRate>,
    /// Bytes that the socket lets be on their way, up to 1 GiB
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = send_buffer)]
    send_buffer: u64,
    /// Where the randomness starts from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
#[command(next_help_heading = "What is compared")]
struct ComparedArguments {
    /// Buffers, with commas: mbuf-2k, mbuf-4k, mbuf:BYTES (clusters of a power of two), contiguous
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "mbuf-2k,mbuf-4k,contiguous"
    )]
    systems: Vec<BufferKind>,
    /// Completion strategies, with commas: interrupt, interrupt-free, adaptive, adaptive:LOW%,HIGH%
    /// (interrupts on below LOW of free space, off from HIGH on). Each is tried with the first of --bounces
    #[arg(long, value_name = "NAME,...", default_value = "interrupt,interrupt-free,adaptive")]
    completions: Completions,
    /// Bounce buffers, with commas: none, so many clusters (1 to 64), all, auto. Each is tried with the last
    /// of --completions
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "none,3,4,all,auto")]
    bounces: Vec<Bounce>,
    /// Tries every completion strategy with every bounce buffer
    #[arg(long)]
    all_pairs: bool,
    /// Separates what scattered DMA costs from what chains of mbufs cost, by a driver that sends dummy
    /// contents from one contiguous buffer
    #[arg(long)]
    separate: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Time")]
struct TimeArguments {
    /// About how long each repetition of each row is measured, 1ms to 1min [default: 100ms; 20ms in
    /// virtual time]
    #[arg(long, value_name = "TIME", conflicts_with = "count", value_parser = duration)]
    duration: Option<Span>,
    /// Messages of each repetition of each row, rather than a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,
    /// Times that each row is measured, in turns with all others; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Runs in virtual time: the same code in one thread, with declared costs; one seed is one history
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Runs in real and in virtual time, and shows both
    #[arg(long, conflicts_with = "virtual_time")]
    both: bool,
    /// Costs of virtual time: bsd-2004, or a file as `warikomi calibrate` prints it [default: declared
    /// ones of a machine of today]
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    costs: Option<String>,
}

/// In virtual time a row need not outlast what disturbs a machine.
const VIRTUAL_ROW: Span = Span::from_ms(20);
const LONGEST_ROW: Span = Span::from_ms(60_000);
const LONGEST_INTERVAL: Span = Span::from_ms(1_000);

fn size(text: &str) -> Result<u32, String> {
    let bytes = text.parse::<FrameBytes>().map_err(|error| error.to_string())?.0;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (LEAST_MESSAGE_BYTES..=MOST_MESSAGE_BYTES).contains(bytes))
        .ok_or_else(|| {
            format!(
                "a message of {bytes} bytes is not possible: choose {LEAST_MESSAGE_BYTES} to \
                 {MOST_MESSAGE_BYTES}"
            )
        })
}

fn send_buffer(text: &str) -> Result<u64, String> {
    match text.trim().strip_suffix("MiB") {
        Some(number) => {
            buffer(&format!("{}KiB", number.trim())).map(|bytes| u64::from(bytes) * 1_024)
        }
        None => buffer(text).map(u64::from),
    }
}

fn span(text: &str, least: Span, most: Span) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let possible = (least..=most).contains(&span);
    possible
        .then_some(span)
        .ok_or_else(|| format!("{span} is not possible: choose {least} to {most}"))
}

fn interval(text: &str) -> Result<Span, String> {
    span(text, Span::from_ns(1), LONGEST_INTERVAL)
}

fn duration(text: &str) -> Result<Span, String> {
    span(text, Span::from_ms(1), LONGEST_ROW)
}

/// A mixture; which lengths `random` means depends on the card.
#[derive(Clone, Debug)]
enum MixtureArgument {
    Random,
    Of(Mixture),
}

impl FromStr for MixtureArgument {
    type Err = warikomi_lab::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "random" => Ok(MixtureArgument::Random),
            other => other.parse().map(MixtureArgument::Of),
        }
    }
}

/// Completion strategies with commas between them, of which some have a comma of their own.
#[derive(Clone, Debug)]
struct Completions(Vec<Completion>);

impl FromStr for Completions {
    type Err = ParseCompletionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',') {
            let is_threshold = part.trim().starts_with(|first: char| first.is_ascii_digit());
            match names.last_mut() {
                Some(last) if is_threshold => *last = format!("{last},{part}"),
                _ => names.push(part.to_owned()),
            }
        }
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map(Completions)
    }
}

impl Arguments {
    /// What to compare in a driver of ours.
    fn options(&self) -> Result<Options> {
        let (driver, nic) = self.target.sender()?;
        let driver = warikomi_lab::transmit::driver(driver)?;
        let nic = NicOptions {
            bus: self.nic.bus,
            line_rate_bps: self.nic.line_rate.map(|rate| rate.0),
            ..nic
        };
        let (messages, compared, time) = (&self.messages, &self.compared, &self.time);
        let usual =
            if time.virtual_time { Amount::For(VIRTUAL_ROW) } else { Options::default().amount };
        let amount = time.count.map(Amount::Messages).or(time.duration.map(Amount::For));
        let mut options = Options {
            traffic: messages.sizes.iter().copied().map(Traffic::Size).collect(),
            buffers: compared.systems.clone(),
            completions: compared.completions.0.clone(),
            bounces: compared.bounces.clone(),
            all_pairs: compared.all_pairs,
            separate: compared.separate,
            amount: amount.unwrap_or(usual),
            pace: messages.pace(),
            send_buffer_bytes: messages.send_buffer,
            repeats: time.repeat,
            seed: Seed(messages.seed),
            nic,
            driver: driver.name.to_owned(),
        };
        let longest = options.longest_message_bytes(driver);
        options.traffic.extend(messages.mixtures.iter().map(|mixture| match mixture {
            MixtureArgument::Random => Traffic::Mixture(Mixture::random(longest)),
            MixtureArgument::Of(mixture) => Traffic::Mixture(mixture.clone()),
        }));
        options.validate(driver)?;
        Ok(options)
    }

    /// Flags that were given and mean nothing to a kernel.
    fn of_process(&self) -> Vec<&'static str> {
        let (messages, compared, time) = (&self.messages, &self.compared, &self.time);
        flags([
            ("--mixture", !messages.mixtures.is_empty()),
            ("--rate", messages.rate.is_some()),
            ("--all-pairs", compared.all_pairs),
            ("--separate", compared.separate),
            ("--duration", time.duration.is_some()),
            ("--virtual", time.virtual_time),
            ("--both", time.both),
            ("--costs", time.costs.is_some()),
        ])
    }

    /// What a kernel has a use for as well.
    fn common(&self) -> Common<'_> {
        Common {
            target: &self.target,
            bus: self.nic.bus,
            line_rate_bps: self.nic.line_rate.map(|rate| rate.0),
            sizes_bytes: &self.messages.sizes,
            count: self.time.count,
            repeat: self.time.repeat,
            interval: self.messages.interval,
            runs: &self.runs,
            json: self.json,
        }
    }

    fn costs(&self) -> Result<SendCosts> {
        ensure!(
            self.time.costs.is_none() || self.time.virtual_time || self.time.both,
            "--costs is for virtual time; give --virtual or --both, or leave it out"
        );
        let named = self.time.costs.as_deref().map(CostsFile::send_costs).transpose()?;
        Ok(named.unwrap_or_default())
    }
}

impl MessageArguments {
    fn pace(&self) -> Pace {
        match (self.interval, self.rate) {
            (Some(interval), _) => Pace::Interval(interval),
            (None, Some(rate)) => Pace::Rate(rate.0),
            (None, None) => Pace::Unbounded,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    if arguments.target.asks_for_kernel() {
        refuse(&arguments.of_process(), "process")?;
        return arguments.sending.run(&arguments.common(), invocation);
    }
    refuse(&arguments.sending.given(), "kernel")?;
    let options = arguments.options()?;
    let costs = arguments.costs()?;
    let mut found = compare(arguments, &options, &costs, &invocation.interrupted)?;
    output::describe_and_print(&mut found.result, arguments.json);
    let directory = invocation.new_run(&arguments.runs, "transmit")?;
    directory.write_table("repetitions", &found.repetitions)?;
    directory.write_result(&found.result)?;
    eprintln!("kept in {}", directory.path().display());
    Ok(ExitCode::SUCCESS)
}

fn compare(
    arguments: &Arguments,
    options: &Options,
    costs: &SendCosts,
    interrupted: &Interrupted,
) -> Result<Transmitted> {
    let bar = Cleared::over_rows();
    let mut progress = |progress: Progress<'_>| bar.show(progress.done, progress.all, progress.row);
    let TimeArguments { virtual_time, both, .. } = arguments.time;
    if virtual_time {
        return Ok(simulated::transmit(options, costs, interrupted, &mut progress)?);
    }
    let parts = OwnParts::OURSELVES;
    let mut found = real::transmit(options, parts, interrupted, &mut progress)?;
    if both {
        let simulated = simulated::transmit(options, costs, interrupted, &mut progress)?;
        simulated::beside(&mut found, &simulated);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_within_a_strategy_does_not_end_it() {
        let all: Completions = "interrupt,adaptive:10%,30%,interrupt-free".parse().unwrap();
        let names: Vec<_> = all.0.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["interrupt", "adaptive:10%,30%", "interrupt-free"]);
        for text in ["", "10%", "adaptive:10%", "interrupt,,adaptive", "adaptive:30%,10%"] {
            assert!(text.parse::<Completions>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_times_are_refused_with_their_range() {
        assert_eq!((size("16"), size("64KiB")), (Ok(16), Err(size("65536").unwrap_err())));
        assert!(size("15").unwrap_err().contains("16 to 65507"));
        assert_eq!((send_buffer("1MiB"), send_buffer("64KB")), (Ok(1_048_576), Ok(64_000)));
        assert!(send_buffer("9999999MiB").is_err());
        assert!(
            interval("0s").unwrap_err().contains("1 ns"),
            "{interval:?}",
            interval = interval("0s")
        );
        assert!(duration("2h").is_err() && duration("1us").is_err());
        assert_eq!(duration("1s"), Ok(Span::from_ms(1_000)));
    }
}
