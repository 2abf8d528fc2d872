//! A supervisor on the target's core, where it has to wait for its turn as every other part.
//!
//! It runs in a thread of its own there. What it does to drivers the support side does for it, between two
//! passes: each is a message, and the answer is waited for. A request for a replacement is a message to that
//! thread, which has to get the core to take it, and its result is there when the thread has seen it.
//!
//! It does not look again and again, because each look would take the core from somebody: the support side, which
//! spins, looks at the drivers and tells it when something is another than before ([`Seen`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warikomi_clock::{Clock, Span, Time};
use warikomi_pci::attach::layout::times;
use warikomi_process::{Baton, How, ProcessTarget, Program, Seat, Wanted, claim_for_this_thread};
use warikomi_target::cores::Pinned;
use warikomi_target::{Target, TargetError};

use crate::{Drivers, Event, Policy, Supervisor};

/// Between two steps while no driver is being replaced.
const STEP_EVERY: Duration = Duration::from_millis(1);
/// Between two looks of the support side at drivers that follow one another: each takes some system calls.
const LOOK_EVERY: Span = Span::from_us(20);
/// The support side answers within some passes: until then the core is not given away.
const ANSWERED_WITHIN: Duration = Duration::from_micros(50);

/// What the support side is asked to do.
type Call = Box<dyn FnOnce(&mut ProcessTarget) + Send>;

/// The support side's end of such a supervisor.
#[derive(Debug)]
pub struct Beside {
    requests: Option<Sender<Message>>,
    calls: Option<Calls>,
    told: Receiver<Result<Event, TargetError>>,
    is_ready: Arc<AtomicBool>,
    awaits: Arc<AtomicU8>,
    seen: Seen,
    next_look: Time,
    thread: Option<JoinHandle<()>>,
}

/// What the supervisor's thread is told.
#[derive(Debug)]
enum Message {
    /// Somebody asks for a replacement by this program.
    Replace(Program),
    /// Something has changed of the drivers.
    Changed,
}

/// What the supervisor waits for.
mod awaits {
    /// Nothing: no driver is being replaced.
    pub(super) const NOTHING: u8 = 0;
    /// The next step of one that is.
    pub(super) const PROGRESS: u8 = 1;
    /// The same, and the driver that serves the device is to be awake.
    pub(super) const WAKING: u8 = 2;
}

/// What of the drivers a supervisor acts on, as it was at a look.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    baton: Option<Baton>,
    seats: Vec<Seat>,
}

impl Seen {
    fn of(target: &mut ProcessTarget, with_sleep: bool) -> Seen {
        let seats = target.seats().into_iter().filter_map(|generation| {
            let seat = target.seat(generation)?;
            let mut times = [Time::NEVER; times::COUNT];
            times[times::SERVED] = seat.times[times::SERVED];
            // A driver that serves goes round, and sleeps and wakes up, all the time.
            let sleeps = with_sleep && seat.sleeps;
            Some(Seat { process_id: None, heartbeat: 0, packets: 0, sleeps, times, ..seat })
        });
        Seen { seats: seats.collect(), baton: Some(target.baton()) }
    }
}

struct Calls(Receiver<Call>);

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

impl Beside {
    /// Takes over a target that runs the driver `program`, from this core, with this nice value.
    pub fn start(
        policy: Policy,
        program: Program,
        target: &mut ProcessTarget,
        (core, nice): (usize, i32),
    ) -> Result<Beside, TargetError> {
        let (requests, requested) = channel();
        let (call, calls) = channel();
        let (tell, told) = channel();
        let is_ready = Arc::new(AtomicBool::new(false));
        let awaits = Arc::new(AtomicU8::new(awaits::NOTHING));
        let mut at = Post {
            supervisor: Supervisor::new(policy, program, target),
            drivers: Remote { call, clock: target.clock(), is_gone: false },
            requested,
            tell,
            is_ready: Arc::clone(&is_ready),
            awaits: Arc::clone(&awaits),
        };
        let thread = std::thread::Builder::new().name("supervisor".to_owned());
        let thread = thread
            .spawn(move || {
                let pinned = Pinned::to(core);
                claim_for_this_thread(nice);
                match pinned {
                    Ok(_pinned) => at.run(),
                    Err(error) => at.fail(TargetError::system("cannot take the core")(error)),
                }
            })
            .map_err(TargetError::system("cannot start the supervisor's thread"))?;
        let (requests, calls) = (Some(requests), Some(Calls(calls)));
        let (seen, next_look) = (Seen::default(), Time::ZERO);
        Ok(Beside {
            requests,
            calls,
            told,
            is_ready,
            awaits,
            seen,
            next_look,
            thread: Some(thread),
        })
    }

    /// Does what the supervisor asks for, and says what it tells; to be called beside each poll of the target.
    #[inline]
    pub fn step(&mut self, target: &mut ProcessTarget) -> Result<Option<Event>, TargetError> {
        // It waits for each answer, so there is one at most.
        if let Some(Ok(call)) = self.calls.as_ref().map(|calls| calls.0.try_recv()) {
            call(target);
        }
        let awaits = self.awaits.load(Acquire);
        if awaits != awaits::NOTHING {
            self.look(target, awaits);
        }
        match self.told.try_recv() {
            Ok(told) => told.map(Some),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Tells the supervisor's thread if something has changed since the last look. The baton is looked at each time:
    /// from its change on no driver serves the device.
    fn look(&mut self, target: &mut ProcessTarget, awaits: u8) {
        let now = Target::clock(target).now();
        let is_same = self.seen.baton == Some(target.baton());
        if is_same && now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        let seen = Seen::of(target, awaits == awaits::WAKING);
        if seen != self.seen {
            self.seen = seen;
            self.tell(Message::Changed);
        }
    }

    /// One that has ended has said why.
    fn tell(&self, message: Message) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(message);
        }
    }

    /// Whether the next request would find a warm driver, as far as the supervisor has said.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Acquire)
    }

    /// Asks for a replacement by `program`. One that is refused is told as rolled back.
    pub fn replace(&self, program: &Program) {
        self.is_ready.store(false, Release);
        self.tell(Message::Replace(program.clone()));
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Without them it waits for nothing, and ends.
        self.requests = None;
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The supervisor's thread.
struct Post {
    supervisor: Supervisor,
    drivers: Remote,
    requested: Receiver<Message>,
    tell: Sender<Result<Event, TargetError>>,
    is_ready: Arc<AtomicBool>,
    awaits: Arc<AtomicU8>,
}

impl Post {
    fn run(&mut self) {
        loop {
            match self.supervisor.step(&mut self.drivers) {
                Ok(None) => {}
                Ok(Some(event)) => drop(self.tell.send(Ok(event))),
                Err(error) => return self.fail(error),
            }
            let rests = self.supervisor.is_at_rest();
            if rests && !self.is_ready.load(Acquire) {
                let is_ready = self.supervisor.is_ready(&mut self.drivers);
                self.is_ready.store(is_ready, Release);
            }
            let wait = self.say_what_it_awaits(rests);
            match self.requested.recv_timeout(wait) {
                Ok(Message::Replace(program)) => self.begin(&program),
                Ok(Message::Changed) => self.supervisor.notice(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.drivers.is_gone {
                return;
            }
        }
    }

    /// How long the next step may be put off.
    fn say_what_it_awaits(&self, rests: bool) -> Duration {
        let awaits = match (rests, self.supervisor.awaits_waking()) {
            (true, _) => awaits::NOTHING,
            (false, false) => awaits::PROGRESS,
            (false, true) => awaits::WAKING,
        };
        self.awaits.store(awaits, Release);
        if rests {
            return STEP_EVERY;
        }
        let now = self.drivers.clock.now();
        Duration::from_nanos(self.supervisor.rests_until(now).since(now).as_ps() / 1_000)
    }

    fn begin(&mut self, program: &Program) {
        self.is_ready.store(false, Release);
        match self.supervisor.replace(program, &mut self.drivers) {
            Ok(Ok(_)) => {}
            Ok(Err(refused)) => {
                let (kept, next) = (self.drivers.served(), self.drivers.next_generation());
                let why = refused.to_string();
                let _ = self.tell.send(Ok(Event::RolledBack { kept, refused: next, why }));
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&self, error: TargetError) {
        // Without the support side there is nothing that could be told.
        let _ = self.tell.send(Err(error));
    }
}

/// Drivers by way of the support side.
struct Remote {
    call: Sender<Call>,
    clock: Clock,
    /// The support side has gone.
    is_gone: bool,
}

impl Remote {
    /// Has the support side do something; `None` if it is gone.
    fn ask<R: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut ProcessTarget) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = channel();
        let call: Call = Box::new(move |target| drop(answer.send(what(target))));
        let sent = Instant::now();
        self.is_gone |= self.call.send(call).is_err();
        while sent.elapsed() < ANSWERED_WITHIN {
            if let Ok(answer) = answered.try_recv() {
                return Some(answer);
            }
            std::hint::spin_loop();
        }
        let answer = answered.recv().ok();
        self.is_gone |= answer.is_none();
        answer
    }
}

impl Drivers for Remote {
    fn now(&mut self) -> Time {
        self.clock.now()
    }
    fn prepare(&mut self, driver: &Program, wanted: Wanted) -> Result<u32, TargetError> {
        let driver = driver.clone();
        self.ask(move |target| target.prepare(&driver, wanted)).unwrap_or(Ok(0))
    }
    fn hasten(&mut self, generation: u32, wanted: Wanted) {
        self.ask(move |target| target.hasten(generation, wanted));
    }
    fn seat(&mut self, generation: u32) -> Option<Seat> {
        self.ask(move |target| target.seat(generation))?
    }
    fn next_generation(&mut self) -> u32 {
        self.ask(|target| target.next_generation()).unwrap_or(0)
    }
    fn served(&mut self) -> u32 {
        self.ask(|target| target.served()).unwrap_or(0)
    }
    fn alert(&mut self, generation: u32, to: u32) {
        self.ask(move |target| target.alert(generation, to));
    }
    fn order_hand_over(&mut self, to: u32) {
        self.ask(move |target| target.order_hand_over(to));
    }
    fn order_stop(&mut self, generation: u32) {
        self.ask(move |target| target.order_stop(generation));
    }
    fn baton(&mut self) -> Baton {
        let nothing = Baton { generation: 0, how: How::Start, owner: 0 };
        self.ask(|target| target.baton()).unwrap_or(nothing)
    }
    fn give_baton(&mut self, to: u32, how: How) {
        self.ask(move |target| target.give_baton(to, how));
    }
    fn serve_seat(&mut self, generation: u32) {
        self.ask(move |target| target.serve_seat(generation));
    }
    fn end_seat(&mut self, generation: u32) -> bool {
        self.ask(move |target| target.end_seat(generation)).unwrap_or(true)
    }
    fn fenced_accesses(&mut self) -> u64 {
        self.ask(|target| target.fenced_accesses()).unwrap_or(0)
    }
    fn process_id(&mut self) -> u32 {
        self.ask(|target| target.process_id()).unwrap_or(0)
    }
    fn work_waits(&mut self) -> bool {
        self.ask(|target| target.work_waits()).unwrap_or(false)
    }
}
