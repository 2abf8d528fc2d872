//! Bringing a session up, for tests.

use std::path::Path;
use std::time::Duration;

use warikomi_clock::{Span, TscClock};
use warikomi_inject::Plan;
use warikomi_kernel::{Cache, DriverMode, Image, KernelError, Wanted};
use warikomi_lab::{NewRun, Progress, Watch};
use warikomi_nic::{Nic, NicOptions};
use warikomi_session::{Interrupts, Session, SessionError, SessionOptions};
use warikomi_target::kernel::{Attachment, KernelTarget, LaunchOptions};
use warikomi_target::{Interrupted, Target, TargetError};
use warikomi_testbench::{LOOKS_ONCE, skipped};
use warikomi_wire::{Wire, WireKind};

use crate::options::options_of;

/// The image of the version that is named, drivers as modules: one of `warikomi kernel build`, or that which
/// `tests/virtual_time` makes, if `WARIKOMI_TEST_VIRTUAL` is set. Its time can be virtual, and here is not.
fn find(more_drivers: bool) -> Result<Image, KernelError> {
    let version = std::env::var("WARIKOMI_TEST_KERNEL").ok();
    let virtual_time = std::env::var_os("WARIKOMI_TEST_VIRTUAL").is_some();
    Cache::of_this_user()?.find(&Wanted {
        version: version.as_deref(),
        drivers: Some(DriverMode::Module),
        more_drivers,
        virtual_time,
        own_module: virtual_time.then_some(LOOKS_ONCE),
        ..Wanted::default()
    })
}

/// The kernel to test with.
pub(crate) fn image() -> Image {
    find(false).expect("a kernel to test with; make it with: warikomi kernel build")
}

/// The same with the drivers of further cards, if it was built with them.
pub(crate) fn image_with_more_drivers() -> Option<Image> {
    match find(true) {
        Ok(image) => Some(image),
        Err(error) => {
            skipped(&error.to_string());
            None
        }
    }
}

/// The newest kernel with its drivers built in.
pub(crate) fn image_with_drivers_built_in() -> Image {
    Cache::of_this_user()
        .and_then(|cache| {
            cache.find(&Wanted { drivers: Some(DriverMode::BuiltIn), ..Wanted::default() })
        })
        .expect("a kernel to test with; make it with: warikomi kernel build --builtin")
}

/// Whether the kernel is at least this version.
pub(crate) fn at_least(major: u32, minor: u32) -> bool {
    let release = image().info().release.clone();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (major, minor)
}

/// Of a run that is kept.
pub(crate) fn watch(runs: &Path, show: impl FnMut(Progress<'_>) + 'static) -> Watch {
    let run =
        NewRun { runs: runs.to_owned(), name: "test".into(), now_s: 0, plan: "# plan".into() };
    Watch::of_new_run(Interrupted::default(), Box::new(show), run)
}

/// How cards are attached: by the image's bridge if it has one, unless `WARIKOMI_TEST_ATTACHMENT` says
/// `virt-pci`; with interrupts polled, unless it says `signalled`.
fn attachment() -> String {
    std::env::var("WARIKOMI_TEST_ATTACHMENT").unwrap_or_default()
}

pub(crate) fn options() -> SessionOptions {
    options_with(&image())
}

/// The same with this kernel.
pub(crate) fn options_with(image: &Image) -> SessionOptions {
    let options = options_of(image);
    SessionOptions {
        bridge: options.bridge && attachment() != "virt-pci",
        interrupts: (attachment() == "signalled").then_some(Interrupts::Signalled),
        ..options
    }
}

/// What this says is at the other end.
pub(crate) fn wire(kind: &str) -> Box<dyn Wire> {
    kind.parse::<WireKind>().unwrap().build().unwrap()
}

/// The other end keeps nothing.
pub(crate) fn sink() -> Box<dyn Wire> {
    wire("sink")
}

pub(crate) fn try_session(
    options: &SessionOptions,
    wire: Box<dyn Wire>,
) -> Result<Session, SessionError> {
    Session::start(options, wire, &Interrupted::default(), &mut |_| ())
}

/// A session that is up.
pub(crate) fn started(options: &SessionOptions, wire: Box<dyn Wire>) -> Session {
    try_session(options, wire).unwrap_or_else(|error| panic!("{error}"))
}

/// The same as options are without a choice.
pub(crate) fn session(kind: &str) -> Session {
    session_with(wire(kind))
}

/// The same with a wire that is made already.
pub(crate) fn session_with(wire: Box<dyn Wire>) -> Session {
    started(&options(), wire)
}

/// The same, of a guest that sleeps while it has nothing to do: where its processor is accounted for.
pub(crate) fn sleeping_session_with(wire: Box<dyn Wire>) -> Session {
    started(&SessionOptions { interrupts: Some(Interrupts::Signalled), ..options() }, wire)
}

/// A kernel whose agent has reported, without a driver.
pub(crate) fn bare_kernel() -> Box<dyn Target> {
    let nic = |wire| warikomi_nic::build(&NicOptions::of("rtl8168"), wire).unwrap();
    kernel_with(Attachment::VirtPci, nic)
}

/// The same, with this card.
pub(crate) fn kernel_with(
    attachment: Attachment,
    nic: impl FnOnce(Box<dyn Wire>) -> Box<dyn Nic>,
) -> Box<dyn Target> {
    try_kernel(attachment, vec![nic(sink())]).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, with these cards.
pub(crate) fn try_kernel(
    attachment: Attachment,
    nics: Vec<Box<dyn Nic>>,
) -> Result<Box<dyn Target>, TargetError> {
    try_kernel_with(options(), attachment, nics)
}

/// The same, of the kernel that these options name.
pub(crate) fn try_kernel_with(
    options: SessionOptions,
    attachment: Attachment,
    nics: Vec<Box<dyn Nic>>,
) -> Result<Box<dyn Target>, TargetError> {
    let launch = LaunchOptions {
        kernel: options.kernel,
        initramfs: options.initramfs,
        memory_mb: options.memory_mb,
        core: None,
        socket: None,
        extra_arguments: vec![],
        attachment,
        shared_core: true,
        preload: warikomi_kernel::PRELOAD,
        seed: None,
        reads: vec![],
        confined: true,
    };
    let clock = TscClock::calibrate().unwrap();
    let (target, _) = KernelTarget::start(&launch, nics, clock.into(), Interrupted::default())?;
    Ok(Box::new(target))
}

/// As the bridge attaches cards, for what virt-pci cannot do, whichever is asked for.
pub(crate) fn by_the_bridge() -> Attachment {
    assert!(
        image().info().bridge,
        "the bridge does not compile for this kernel: see its build.log"
    );
    Attachment::Bridge { polling: options().interrupts.is_none() }
}

/// A plan of `count` packets of `size` bytes, one every `interval`.
pub(crate) fn plan(size: usize, interval: Span, count: u64) -> Plan {
    Plan { size_bytes: size, interval, count, ..Plan::default() }
}

/// Serves the driver until `done` holds; panics if it does not within five seconds.
pub(crate) fn wait_until(session: &mut Session, what: &str, done: impl Fn(&mut Session) -> bool) {
    for _ in 0..500 {
        if done(session) {
            return;
        }
        session.target.serve_for(Duration::from_millis(10)).unwrap();
    }
    panic!("waited 5 s in vain until {what}; {}", session.target.console());
}
