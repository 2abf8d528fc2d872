//! A supervisor on the target's core, where it has to wait for its turn as every other part.
//!
//! It runs in a thread of its own there. What it does to drivers the support side does for it, between two
//! passes: each is a message, and the answer is waited for. A request for a replacement is a message to that
//! thread, which has to get the core to take it, and its result is there when the thread has seen it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warikomi_clock::{Clock, Time};
use warikomi_process::{Baton, How, ProcessTarget, Program, Seat, claim_for_this_thread};
use warikomi_target::cores::Pinned;
use warikomi_target::{Target, TargetError};

use crate::{Drivers, Event, Policy, Supervisor};

/// Between two steps while a driver is being replaced, and while none is.
const STEP_OFTEN: Duration = Duration::from_micros(20);
/// See [`STEP_OFTEN`].
const STEP_EVERY: Duration = Duration::from_millis(1);
/// The support side answers within some passes: until then the core is not given away.
const ANSWERED_WITHIN: Duration = Duration::from_micros(50);

/// What the support side is asked to do.
type Call = Box<dyn FnOnce(&mut ProcessTarget) + Send>;

/// The support side's end of such a supervisor.
#[derive(Debug)]
pub struct Beside {
    requests: Option<Sender<Program>>,
    calls: Option<Calls>,
    told: Receiver<Result<Event, TargetError>>,
    is_ready: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
        let mut at = Post {
            supervisor: Supervisor::new(policy, program, target),
            drivers: Remote { call, clock: target.clock(), is_gone: false },
            requested,
            tell,
            is_ready: Arc::clone(&is_ready),
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
        Ok(Beside { requests, calls, told, is_ready, thread: Some(thread) })
    }

    /// Does what the supervisor asks for, and says what it tells; to be called beside each poll of the target.
    #[inline]
    pub fn step(&mut self, target: &mut ProcessTarget) -> Result<Option<Event>, TargetError> {
        // It waits for each answer, so there is one at most.
        if let Some(Ok(call)) = self.calls.as_ref().map(|calls| calls.0.try_recv()) {
            call(target);
        }
        match self.told.try_recv() {
            Ok(told) => told.map(Some),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Whether the next request would find a warm driver, as far as the supervisor has said.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Acquire)
    }

    /// Asks for a replacement by `program`. One that is refused is told as rolled back.
    pub fn replace(&self, program: &Program) {
        self.is_ready.store(false, Release);
        if let Some(requests) = &self.requests {
            // One that has ended has said why.
            let _ = requests.send(program.clone());
        }
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
    requested: Receiver<Program>,
    tell: Sender<Result<Event, TargetError>>,
    is_ready: Arc<AtomicBool>,
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
            let wait = if rests { STEP_EVERY } else { STEP_OFTEN };
            match self.requested.recv_timeout(wait) {
                Ok(program) => self.begin(&program),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.drivers.is_gone {
                return;
            }
        }
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
    fn prepare(&mut self, driver: &Program) -> Result<u32, TargetError> {
        let driver = driver.clone();
        self.ask(move |target| target.prepare(&driver)).unwrap_or(Ok(0))
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
