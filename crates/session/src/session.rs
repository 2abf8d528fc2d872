//! A target with its driver bound and its link up.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use warikomi_clock::{Clock, Time, TscClock, VirtualClock};
use warikomi_measure::{CpuTimes, Machine, TargetInfo, core_wait_ns, governor_of};
use warikomi_nic::Nic;
use warikomi_pci::Width;
use warikomi_process::{ProcessOptions, ProcessTarget};
use warikomi_protocol::answers::{Configured, DriverOrigin, Settings};
use warikomi_protocol::commands::{Configure, LoadDriver};
use warikomi_target::cores::{Cores, Pinned};
use warikomi_target::kernel::{Attachment, KernelTarget, LaunchOptions};
use warikomi_target::realtime::{PRIORITY, Realtime};
use warikomi_target::sandbox::Confinement;
use warikomi_target::vm::{VmTarget, qemu_arguments};
use warikomi_target::{CardId, Interrupted, Target, TargetError, wait};
use warikomi_wire::Wire;

use crate::error::SessionError;
use crate::interface::{
    BIND_TIMEOUT, checked_driver, interface_of, link_up, not_bound, wait_interface, wait_link,
};
use crate::options::{
    GuestSettings, LiveOptions, ProcessSessionOptions, SessionOptions, VmSessionOptions,
};
use crate::second::Exit;

/// Where a card's command register is, and its bit that lets it answer for its registers (PCI 3.0, 6.2.2).
const COMMAND: u16 = 4;
const MEMORY_SPACE: u64 = 2;

/// The setting of a result that says how far the target's processes were confined.
const CONFINED: &str = "confined";

/// The setting of a result that says whether the driver is a module.
const DRIVER_IS: &str = "driver_is";

/// The setting of a result that says what of the target is not known.
const NOT_KNOWN: &str = "not_known";

/// What is not known of a virtual machine, because nothing in it answers requests.
const UNKNOWN_IN_A_VM: [&str; 5] = [
    "the driver and its settings, but for the name that was given",
    "what the driver counts",
    "what an application received",
    "what the guest printed",
    "whether the guest was running",
];

/// A target with its driver bound and its link up.
pub struct Session<T: Target + ?Sized = dyn Target> {
    /// The target.
    pub target: Box<T>,
    /// What it is, for the result; the settings are those in force.
    pub info: TargetInfo,
    /// The machine that it runs on.
    pub machine: Machine,
    /// The second card in the guest, if there is one.
    pub exit: Option<Exit>,
    cores: Cores,
    _pinned: Pinned,
    _realtime: Option<Realtime>,
}

impl Session {
    /// Brings a target up. `status` is told what is being waited for.
    pub fn start(
        options: &SessionOptions,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        let (mut nics, mut departures) = (vec![(options.make_nic)(&options.nic, wire)?], None);
        if let Some(second) = &options.second {
            let (nic, judged) = second.make(options.make_nic)?;
            nics.push(nic);
            departures = Some((second, judged));
        }
        let mut booted = Booted::with_cards(options, nics, interrupted, status)?;
        status("bringing the driver up");
        let mut settings = bring_up(&mut booted.target, options)?;
        let exit = departures.map(|(second, departures)| {
            settings.extend(second.settings());
            second.bring_up(&mut booted.target, options, departures)
        });
        let exit = exit.transpose()?;
        Ok(Session { exit, ..booted.session(options, settings) })
    }

    /// Brings a kernel up with a card on each of these wires, all of one model. Their driver is bound, and nothing is
    /// done to their interfaces.
    pub fn start_cards(
        options: &SessionOptions,
        wires: Vec<Box<dyn Wire>>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        let nics = wires.into_iter().map(|wire| (options.make_nic)(&options.nic, wire));
        let nics = nics.collect::<Result<Vec<_>, _>>()?;
        let cards = (0..).map(CardId).take(nics.len());
        let mut booted = Booted::with_cards(options, nics, interrupted, status)?;
        status("binding the driver");
        let origin = load(&mut booted.target, options)?;
        for card in cards {
            interface_of(&mut booted.target, &options.driver, card)?;
        }
        let mut settings = Map::new();
        settings.insert(DRIVER_IS.into(), serde_json::to_value(origin).unwrap_or_default());
        Ok(booted.session(options, settings))
    }

    /// Brings a driver process up. `status` is told what is being waited for.
    pub fn start_process(
        options: &ProcessSessionOptions,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        let session = Session::start_driver(options, None, wire, interrupted, status)?;
        Ok(session.with::<dyn Target>(|target| target))
    }

    /// Waits for a virtual machine, whose hypervisor its user starts, until the driver in it receives. `status` is told
    /// with what it is started, and what is being waited for.
    pub fn start_vm(
        options: &VmSessionOptions,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        let VmSessionOptions { driver, nic, make_nic, socket } = options;
        let nic = make_nic(nic, wire)?;
        let model = nic.info().name;
        let place = Place::choose()?;
        let at = (socket.as_path(), place.cores.shared());
        let mut target = VmTarget::listen(at, nic, place.clock.into(), interrupted.clone())?;
        let arguments = qemu_arguments(socket);
        target.wait_for_driver(&mut |what| status(&format!("{what}; QEMU: {arguments}")))?;
        let mut settings = Map::new();
        settings.insert("attachment".into(), "vfio-user".into());
        settings.insert(NOT_KNOWN.into(), UNKNOWN_IN_A_VM.to_vec().into());
        let info = TargetInfo {
            kind: "vm".into(),
            driver: driver.clone().unwrap_or_else(|| "not known".into()),
            model: model.into(),
            kernel: None,
            settings,
        };
        Ok(place.session(Box::new(target), info))
    }
}

impl Session<ProcessTarget> {
    /// Brings a driver process up that can be replaced while it runs.
    pub fn start_live(
        options: &ProcessSessionOptions,
        live: &LiveOptions,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session<ProcessTarget>, SessionError> {
        Session::start_driver(options, Some(live), wire, interrupted, status)
    }

    fn start_driver(
        options: &ProcessSessionOptions,
        live: Option<&LiveOptions>,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session<ProcessTarget>, SessionError> {
        let nic = (options.make_nic)(&options.nic, wire)?;
        let model = nic.info();
        let place = Place::choose()?;
        let launch = ProcessOptions {
            driver: options.program.clone(),
            dma_bytes: options.dma_bytes,
            orders: options.orders,
            above: options.path.above(
                (&options.orders, options.application.as_ref()),
                nic.mac_address(),
                &place.clock,
            )?,
            core: Some(place.cores.target),
            shared_core: place.cores.shared(),
            live: live.map(|live| live.succession(options.path.program)),
            confined: options.confined,
        };
        status("starting the driver");
        let mut target = ProcessTarget::start(launch, nic, place.clock, interrupted.clone())?;
        status("waiting for the link");
        wait_link(&mut target)?;
        let mut settings = options.settings.clone();
        settings.insert(CONFINED.into(), confined(options.confined));
        if live.is_some() {
            settings.insert("drivers_first".into(), target.are_drivers_first().into());
            settings.insert("programs_in_memory".into(), target.holds_programs().into());
        }
        let info = TargetInfo {
            kind: "process".into(),
            driver: options.driver.clone(),
            model: model.name.into(),
            kernel: None,
            settings,
        };
        Ok(place.session(Box::new(target), info))
    }
}

impl<T: Target + ?Sized> Session<T> {
    /// The same, with what `wrap` makes of its target.
    pub fn with<U: Target + ?Sized>(self, wrap: impl FnOnce(Box<T>) -> Box<U>) -> Session<U> {
        let Session { target, info, machine, exit, cores, _pinned, _realtime } = self;
        Session { target: wrap(target), info, machine, exit, cores, _pinned, _realtime }
    }

    /// Whether the driver is a Linux driver in its kernel, which counts what it likes.
    pub fn has_kernel(&self) -> bool {
        self.info.kernel.is_some()
    }

    /// The core that the target runs on.
    pub fn target_core(&self) -> usize {
        self.cores.target
    }

    /// Starts counting the time that others take from the cores.
    pub fn watch_cores(&self) -> CoreWatch {
        CoreWatch {
            at: Instant::now(),
            begun: self.target.clock().now(),
            cpu: CpuTimes::read(&core_numbers(self.cores)),
            support_ns: core_wait_ns(None),
            target_ns: core_wait_ns(Some(self.target.process_id())),
        }
    }

    /// The machine, with what others have taken from the cores since then.
    pub fn machine_since(&self, before: &CoreWatch) -> Machine {
        let now = self.watch_cores();
        let waited =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?) as f64 / 1e3);
        Machine {
            stolen_percent: now
                .cpu
                .zip(before.cpu)
                .and_then(|(now, then)| now.stolen_percent_since(&then)),
            watched_ms: Some(now.at.duration_since(before.at).as_secs_f64() * 1e3),
            support_waited_us: waited(now.support_ns, before.support_ns),
            target_waited_us: waited(now.target_ns, before.target_ns),
            ..self.machine.clone()
        }
    }

    /// Ends the target and waits until all of it is gone.
    pub fn stop(mut self) -> Result<(), TargetError> {
        self.target.stop()
    }
}

/// How far the target's processes are confined, for the result.
fn confined(wanted: bool) -> Value {
    Confinement::of_this_system(wanted).to_string().into()
}

/// How cards are attached, for the result; in virtual time with what work costs.
fn described(attachment: Attachment) -> Vec<(String, Value)> {
    let attached = match attachment {
        Attachment::VirtPci => "virt-pci",
        Attachment::Bridge { polling: true } => "bridge, interrupts polled",
        Attachment::Bridge { polling: false } => "bridge, interrupts signalled",
        Attachment::InStep(_) => "bridge, in virtual time",
    };
    let mut settings = vec![("attachment".to_owned(), attached.into())];
    if let Attachment::InStep(costs) = attachment {
        for (name, cost) in [
            ("access_cost_ns", costs.access),
            ("interrupt_cost_ns", costs.interrupt),
            ("frame_cost_ns", costs.frame),
            ("byte_cost_ns", costs.byte),
        ] {
            settings.push((name.to_owned(), cost.as_ns().into()));
        }
    }
    settings
}

/// Where a session runs, and by what clock.
struct Place {
    clock: TscClock,
    machine: Machine,
    cores: Cores,
    pinned: Pinned,
    realtime: Option<Realtime>,
}

impl Place {
    fn choose() -> Result<Place, SessionError> {
        let clock = TscClock::calibrate()?;
        let machine = Machine::read();
        let cores = Cores::choose(&machine.isolated_cores).map_err(SessionError::Cores)?;
        let pinned = Pinned::to(cores.support).map_err(SessionError::Cores)?;
        Ok(Place { clock, machine, cores, pinned, realtime: None })
    }

    /// With real-time priority, if it is wanted and permitted; also for this process of the target's. Not on a
    /// core that both sides share: the one would keep the other from running.
    fn in_real_time(self, wanted: bool, process_id: Option<u32>) -> Place {
        if !wanted || self.cores.shared() {
            return self;
        }
        match Realtime::take(process_id) {
            Ok(realtime) => Place {
                machine: Machine {
                    rt_priority: Some(PRIORITY),
                    target_rt_priority: process_id.map(|_| PRIORITY),
                    memory_locked: realtime.is_memory_locked(),
                    ..self.machine
                },
                realtime: Some(realtime),
                ..self
            },
            Err(why) => {
                let no_realtime = Some(why.to_string());
                Place { machine: Machine { no_realtime, ..self.machine }, ..self }
            }
        }
    }

    fn session<T: Target + ?Sized>(self, target: Box<T>, info: TargetInfo) -> Session<T> {
        let Place { clock, machine, cores, pinned, realtime } = self;
        let machine = Machine {
            support_cores: vec![cores.support as u32],
            target_cores: vec![cores.target as u32],
            governor: governor_of(cores.support as u32),
            tsc_hz: Some(clock.ticks_per_second()),
            ..machine
        };
        let exit = None;
        Session { target, info, machine, exit, cores, _pinned: pinned, _realtime: realtime }
    }
}

/// A kernel whose agent has reported, before anything is done to its driver.
struct Booted {
    target: KernelTarget,
    place: Place,
    attachment: Attachment,
    model: &'static str,
    release: String,
}

impl Booted {
    fn with_cards(
        options: &SessionOptions,
        nics: Vec<Box<dyn Nic>>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Booted, SessionError> {
        let Some(first) = nics.first() else {
            return Err(SessionError::impossible("a session has a card"));
        };
        let model = first.info().name;
        if !options.is_own_driver {
            checked_driver(&**first, &options.driver)?;
        }
        let place = Place::choose()?;
        let attachment = options.attachment(place.cores.shared());
        let launch = launch_options(options, &place, attachment);
        let clock = match options.virtual_time {
            Some(_) => Clock::Virtual(VirtualClock::at_zero()),
            None => place.clock.into(),
        };
        status("starting the kernel");
        let (target, ready) = KernelTarget::start(&launch, nics, clock, interrupted.clone())?;
        Ok(Booted { target, place, attachment, model, release: ready.kernel_release })
    }

    fn session(self, options: &SessionOptions, mut settings: Map<String, Value>) -> Session {
        let Booted { target, place, attachment, model, release } = self;
        settings.extend(described(attachment));
        settings.insert(CONFINED.into(), confined(options.confined));
        let info = TargetInfo {
            kind: "kernel".into(),
            driver: options.driver.clone(),
            model: model.into(),
            kernel: Some(release),
            settings,
        };
        let polls = attachment == Attachment::Bridge { polling: true };
        let place = place.in_real_time(options.realtime, polls.then(|| target.process_id()));
        place.session(Box::new(target), info)
    }
}

fn launch_options(
    options: &SessionOptions,
    place: &Place,
    attachment: Attachment,
) -> LaunchOptions {
    LaunchOptions {
        kernel: options.kernel.clone(),
        initramfs: options.initramfs.clone(),
        memory_mb: options.memory_mb,
        core: Some(place.cores.target),
        socket: options.socket.clone(),
        extra_arguments: options.kernel_arguments.clone(),
        attachment,
        shared_core: place.cores.shared(),
        preload: warikomi_kernel::PRELOAD,
        seed: options.virtual_time.as_ref().map(|time| time.seed),
        reads: options.reads.clone(),
        confined: options.confined,
    }
}

/// What others had taken from the cores at one moment.
#[derive(Clone, Copy, Debug)]
pub struct CoreWatch {
    at: Instant,
    /// The same moment, by the target's clock.
    begun: Time,
    cpu: Option<CpuTimes>,
    support_ns: Option<u64>,
    target_ns: Option<u64>,
}

impl CoreWatch {
    /// When it began, by the clock of the target.
    pub fn begun(&self) -> Time {
        self.begun
    }
}

/// Loads the driver, makes the settings, and brings the link up; returns the settings in force.
pub fn bring_up(
    target: &mut dyn Target,
    options: &SessionOptions,
) -> Result<Map<String, Value>, TargetError> {
    let origin = bind(target, options)?;
    let configured = configure(target, &options.settings)?;
    link_up(target)?;
    let mut settings = settings_map(&configured.after);
    settings.insert(DRIVER_IS.into(), serde_json::to_value(origin).unwrap_or_default());
    Ok(settings)
}

/// Brings the interface of a card up that was plugged in again, as a hotplug daemon would. Settings are those
/// that the driver begins with.
pub fn bring_up_again(target: &mut dyn Target, driver: &str) -> Result<(), TargetError> {
    // The driver begins with enabling it; the interface that there was before is gone then.
    wait::until(target, BIND_TIMEOUT, |target| {
        let (nic, _) = target.card(CardId::FIRST).ok()?;
        (nic.config_read(COMMAND, Width::B2) & MEMORY_SPACE != 0).then_some(())
    })?
    .ok_or_else(|| TargetError::NotBound {
        driver: driver.into(),
        message: format!("it has not enabled the new card within {} s", BIND_TIMEOUT.as_secs()),
        console: target.console(),
    })?;
    wait_interface(target, driver)?;
    link_up(target)
}

fn core_numbers(cores: Cores) -> [u32; 2] {
    [cores.support as u32, cores.target as u32]
}

fn load(target: &mut dyn Target, options: &SessionOptions) -> Result<DriverOrigin, TargetError> {
    let load =
        LoadDriver { name: options.driver.clone(), params: options.driver_parameters.clone() };
    let loaded = target.ask(load, BIND_TIMEOUT);
    Ok(loaded.map_err(|error| not_bound(error, &options.driver))?.origin)
}

fn bind(target: &mut dyn Target, options: &SessionOptions) -> Result<DriverOrigin, TargetError> {
    let origin = load(target, options)?;
    match options.second {
        // Another card may have the same driver.
        Some(_) => interface_of(target, &options.driver, CardId::FIRST).map(|_| ())?,
        None => wait_interface(target, &options.driver)?,
    }
    Ok(origin)
}

fn configure(target: &mut dyn Target, settings: &GuestSettings) -> Result<Configured, TargetError> {
    let wanted = Configure {
        mtu: settings.mtu,
        gro: settings.gro,
        napi_defer_hard_irqs: settings.napi_defer_hard_irqs,
        gro_flush_timeout_ns: settings.gro_flush_timeout_ns,
        coalesce: settings.coalesce,
        channels: settings.channels,
        steer_by_udp_ports: settings.channels.map(|_| true),
        ..Configure::report_only()
    };
    target.ask(wanted, Duration::ZERO)
}

/// The settings that decide about a measurement; the full list of offloads would bury them.
fn settings_map(settings: &Settings) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
    put("mtu_bytes", settings.mtu.into());
    put("gro", settings.gro.into());
    put("napi_defer_hard_irqs", settings.napi_defer_hard_irqs.into());
    put("gro_flush_timeout_ns", settings.gro_flush_timeout_ns.into());
    if let Some(channels) = settings.channels {
        put("channels", channels.into());
    }
    if let Some(coalesce) = &settings.coalesce {
        put("coalesce", serde_json::to_value(coalesce).unwrap_or_default());
    }
    map
}
