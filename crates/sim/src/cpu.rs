//! The target's one core, and who runs on it when.

use warikomi_clock::{Span, Time};

use super::SchedulerModel;

/// A process on the core: its place in the order in which they were added.
pub(super) type TaskId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It wants the core, or has it.
    Runnable,
    /// The task waits to be woken.
    Sleeping,
    /// There is no such process at present, or it is held.
    Away,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    state: State,
    /// What it has used, as the scheduler counts.
    used: Span,
    /// What it has had of the core, switches to it apart.
    busy: Span,
    /// What is left of the step that it is in; `None` of one that never ends.
    left: Option<Span>,
    /// It has real-time priority: it comes before all that have not, and before what takes the core away.
    real_time: bool,
}

/// The core.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    tasks: Vec<Task>,
    running: Option<TaskId>,
    /// Who ran last: to go on with it takes no switch.
    last: Option<TaskId>,
    /// When the running task's step began to take time, behind the switch.
    since: Time,
    slice_end: Time,
    slice: Span,
    granularity: Span,
    credit: Span,
    /// The least that any task which wanted the core had used; it never falls. A task that comes has used as much,
    /// but for the sleeper's credit: else one that was just started would keep the core from all others for as long
    /// as they have had it before.
    floor: Span,
    switch: Span,
    switches: u64,
    /// How many at present take the core away from all tasks without real-time priority.
    takers: u32,
    /// When the first of them came, and how long there have been any before that.
    taken_since: Time,
    taken: Span,
}

/// What the core comes to next by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nobody runs.
    Idle,
    /// The running task's step is over.
    StepEnd(Time, TaskId),
    /// The running task's time slice is over.
    SliceEnd(Time),
}

impl Due {
    pub(super) fn at(self) -> Time {
        match self {
            Due::Idle => Time::NEVER,
            Due::StepEnd(at, _) | Due::SliceEnd(at) => at,
        }
    }
}

impl Cpu {
    pub(super) fn new(model: &SchedulerModel, switch_ns: u64) -> Cpu {
        Cpu {
            tasks: Vec::new(),
            running: None,
            last: None,
            since: Time::ZERO,
            slice_end: Time::NEVER,
            // A slice of nothing would never end.
            slice: Span::from_us(model.time_slice_us.max(1)),
            granularity: Span::from_us(model.wake_up_granularity_us),
            credit: Span::from_us(model.sleeper_credit_us),
            floor: Span::ZERO,
            switch: Span::from_ns(switch_ns),
            switches: 0,
            takers: 0,
            taken_since: Time::ZERO,
            taken: Span::ZERO,
        }
    }

    /// Adds a process that sleeps.
    pub(super) fn add(&mut self, real_time: bool) -> TaskId {
        let (state, idle) = (State::Sleeping, Span::ZERO);
        self.tasks.push(Task { state, used: idle, busy: idle, left: Some(idle), real_time });
        self.tasks.len() - 1
    }

    /// Something takes the core away, from all but tasks of real-time priority.
    pub(super) fn take_away(&mut self, now: Time) {
        self.account(now);
        if self.takers == 0 {
            self.taken_since = now;
        }
        self.takers += 1;
        if self.running.is_some_and(|task| !self.tasks[task].real_time) {
            // To go on takes a switch: another one has run.
            (self.running, self.last) = (None, None);
        }
    }

    /// It gives the core back.
    pub(super) fn give_back(&mut self, now: Time) {
        self.taken = self.taken_by(now);
        self.taken_since = now;
        self.takers -= 1;
        if self.running.is_none() {
            self.dispatch(now);
        }
    }

    /// How long the core has been taken away by `now`.
    pub(super) fn taken_by(&self, now: Time) -> Span {
        let last = if self.takers > 0 { now.since(self.taken_since) } else { Span::ZERO };
        self.taken + last
    }

    /// What comes next if nothing else does.
    #[inline]
    pub(super) fn due(&self) -> Due {
        let Some(task) = self.running else { return Due::Idle };
        let end = self.tasks[task].left.map_or(Time::NEVER, |left| self.since + left);
        if end <= self.slice_end { Due::StepEnd(end, task) } else { Due::SliceEnd(self.slice_end) }
    }

    /// The running task's next step takes so long from now on; `None` for ever.
    #[inline]
    pub(super) fn begin(&mut self, now: Time, takes: Option<Span>) {
        self.account(now);
        if let Some(task) = self.running {
            self.tasks[task].left = takes;
        }
    }

    /// The running task goes to sleep.
    pub(super) fn sleep(&mut self, now: Time) {
        self.leave(now, State::Sleeping);
    }

    /// A task that sleeps wants the core; nothing if it does not sleep.
    pub(super) fn wake(&mut self, now: Time, task: TaskId) {
        if self.tasks[task].state != State::Sleeping {
            return;
        }
        self.account(now);
        let floor = minus(self.floor, self.credit);
        let woken = &mut self.tasks[task];
        woken.used = woken.used.max(floor);
        woken.state = State::Runnable;
        let used = woken.used;
        match self.running {
            None => self.dispatch(now),
            Some(running) if self.preempts(task, used, running) => {
                self.running = None;
                self.run(now, task);
            }
            Some(_) => {}
        }
    }

    /// The task is taken away: killed, or held. What it was doing is not finished.
    pub(super) fn remove(&mut self, now: Time, task: TaskId) {
        self.account(now);
        self.tasks[task].state = State::Away;
        if self.running == Some(task) {
            self.running = None;
            self.dispatch(now);
        }
    }

    /// The task is there again and sleeps; with `fresh`, without anything that it was doing.
    pub(super) fn put_back(&mut self, task: TaskId, fresh: bool) {
        let task = &mut self.tasks[task];
        task.state = State::Sleeping;
        if fresh {
            task.left = Some(Span::ZERO);
        }
    }

    /// The running task's time slice is over.
    pub(super) fn slice_over(&mut self, now: Time) {
        self.account(now);
        self.running = None;
        self.dispatch(now);
    }

    /// What the task has had of the core by `now`.
    pub(super) fn busy(&self, now: Time, task: TaskId) -> Span {
        let running = if self.running == Some(task) { now.since(self.since) } else { Span::ZERO };
        self.tasks[task].busy + running
    }

    /// When the running task's time slice ends.
    pub(super) fn slice_end(&self) -> Time {
        self.slice_end
    }

    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    /// The task that runs.
    #[cfg(test)]
    pub(super) fn running(&self) -> Option<TaskId> {
        self.running
    }

    fn leave(&mut self, now: Time, state: State) {
        self.account(now);
        if let Some(task) = self.running.take() {
            self.tasks[task].state = state;
            self.tasks[task].left = Some(Span::ZERO);
        }
        self.dispatch(now);
    }

    /// Counts what the running task has had since it was last counted.
    #[inline]
    fn account(&mut self, now: Time) {
        let Some(task) = self.running else { return };
        let had = now.since(self.since);
        let task = &mut self.tasks[task];
        task.busy += had;
        task.used += had;
        task.left = task.left.map(|left| minus(left, had));
        self.since = self.since.max(now);
        let least = self.runnable().map(|task| self.tasks[task].used).min();
        self.floor = self.floor.max(least.unwrap_or(Span::ZERO));
    }

    fn runnable(&self) -> impl Iterator<Item = TaskId> + '_ {
        (0..self.tasks.len()).filter(|&task| self.tasks[task].state == State::Runnable)
    }

    /// Whether a task that wakes up and has used so much takes the core from the one that runs.
    fn preempts(&self, task: TaskId, used: Span, running: TaskId) -> bool {
        match (self.tasks[task].real_time, self.tasks[running].real_time) {
            (true, false) => true,
            (false, true) => false,
            _ => used + self.granularity < self.tasks[running].used,
        }
    }

    /// Gives the core to the task that has used the least, of those of real-time priority if there are any; of
    /// equals, to the first.
    fn dispatch(&mut self, now: Time) {
        let may_run = |task: &TaskId| self.takers == 0 || self.tasks[*task].real_time;
        let order = |&task: &TaskId| (!self.tasks[task].real_time, self.tasks[task].used);
        if let Some(task) = self.runnable().filter(may_run).min_by_key(order) {
            self.run(now, task);
        }
    }

    fn run(&mut self, now: Time, task: TaskId) {
        let switch = if self.last == Some(task) { Span::ZERO } else { self.switch };
        if self.last != Some(task) {
            self.switches += 1;
            self.tasks[task].used += switch;
        }
        (self.running, self.last) = (Some(task), Some(task));
        self.since = now + switch;
        self.slice_end = self.since + self.slice;
    }
}

fn minus(span: Span, less: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(less.as_ps()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    fn at(us: u64) -> Time {
        Time::from_ps(us * US)
    }

    fn cpu() -> Cpu {
        let model = SchedulerModel {
            time_slice_us: 100,
            wake_up_granularity_us: 10,
            sleeper_credit_us: 50,
        };
        Cpu::new(&model, 1_000)
    }

    #[test]
    fn two_that_always_want_the_core_have_half_of_it_each() {
        let mut cpu = cpu();
        let tasks = [cpu.add(false), cpu.add(false)];
        for task in tasks {
            cpu.wake(at(0), task);
            cpu.tasks[task].left = None;
        }
        let mut now = at(0);
        while now < at(10_000) {
            let Due::SliceEnd(end) = cpu.due() else { panic!("a step that never ends has ended") };
            now = end;
            cpu.slice_over(now);
        }
        let [a, b] = tasks.map(|task| cpu.busy(now, task).as_us());
        assert!((a - b).abs() <= 100.0 && a + b > 9_800.0, "{a} and {b} us of 10,000");
    }

    #[test]
    fn who_has_slept_long_takes_the_core_at_once_and_who_has_not_waits() {
        let mut cpu = cpu();
        let (job, receiver) = (cpu.add(false), cpu.add(false));
        cpu.wake(at(0), job);
        cpu.begin(at(1), None);
        cpu.wake(at(90), receiver);
        assert_eq!(cpu.running(), Some(receiver), "it has slept for 90 us");
        cpu.begin(at(91), Some(Span::from_us(80)));
        assert_eq!(cpu.due(), Due::StepEnd(at(171), receiver));
        cpu.sleep(at(171));
        assert_eq!(cpu.running(), Some(job));
        cpu.wake(at(173), receiver);
        assert_eq!(cpu.running(), Some(job), "it has had as much as the job");
    }

    #[test]
    fn what_is_interrupted_goes_on_where_it_was() {
        let mut cpu = cpu();
        let (job, receiver) = (cpu.add(false), cpu.add(false));
        cpu.wake(at(0), job);
        cpu.begin(at(1), Some(Span::from_us(95)));
        cpu.wake(at(61), receiver);
        cpu.begin(at(62), Some(Span::from_us(5)));
        cpu.sleep(at(67));
        assert_eq!(cpu.due(), Due::StepEnd(at(68 + 35), job), "60 of 95 us were done");
    }

    #[test]
    fn one_that_is_killed_leaves_the_core_to_the_others() {
        let mut cpu = cpu();
        let (job, receiver) = (cpu.add(false), cpu.add(false));
        cpu.wake(at(0), receiver);
        cpu.wake(at(0), job);
        cpu.remove(at(5), receiver);
        assert_eq!(cpu.running(), Some(job));
        cpu.wake(at(6), receiver);
        assert_eq!(cpu.running(), Some(job), "what is away cannot be woken");
        cpu.put_back(receiver, true);
        cpu.wake(at(80), receiver);
        assert_eq!(cpu.running(), Some(receiver));
    }

    #[test]
    fn one_that_is_added_late_has_no_credit_for_the_time_before() {
        let mut cpu = cpu();
        let (first, above) = (cpu.add(false), cpu.add(false));
        cpu.wake(at(0), above);
        cpu.begin(at(1), Some(Span::from_us(500)));
        cpu.sleep(at(501));
        cpu.wake(at(501), first);
        cpu.begin(at(502), None);
        cpu.remove(at(10_000), first);
        let second = cpu.add(false);
        cpu.wake(at(10_001), second);
        cpu.begin(at(10_002), None);
        cpu.wake(at(10_200), above);
        assert_eq!(cpu.running(), Some(above), "the new one has had more, since it is there");
    }

    #[test]
    fn what_takes_the_core_away_keeps_it_from_all_but_those_of_real_time_priority() {
        let mut cpu = cpu();
        let (job, receiver) = (cpu.add(false), cpu.add(false));
        cpu.wake(at(0), job);
        cpu.begin(at(1), Some(Span::from_us(50)));
        cpu.take_away(at(11));
        cpu.wake(at(20), receiver);
        assert_eq!((cpu.running(), cpu.due()), (None, Due::Idle));
        let urgent = cpu.add(true);
        cpu.wake(at(30), urgent);
        assert_eq!(cpu.running(), Some(urgent), "it comes before what takes the core");
        cpu.begin(at(31), Some(Span::from_us(5)));
        cpu.sleep(at(36));
        assert_eq!(cpu.running(), None);
        cpu.give_back(at(111));
        assert_eq!(cpu.running(), Some(receiver), "the job has used more");
        cpu.begin(at(112), Some(Span::from_us(3)));
        cpu.sleep(at(115));
        assert_eq!(cpu.due(), Due::StepEnd(at(116 + 40), job), "10 of 50 us were done");
        assert_eq!(cpu.taken_by(at(500)), Span::from_us(100));
    }

    #[test]
    fn two_that_take_the_core_at_once_take_it_until_both_are_gone() {
        let mut cpu = cpu();
        let job = cpu.add(false);
        cpu.take_away(at(10));
        cpu.take_away(at(20));
        cpu.wake(at(21), job);
        cpu.give_back(at(30));
        assert_eq!(cpu.running(), None);
        cpu.give_back(at(40));
        assert_eq!((cpu.running(), cpu.taken_by(at(50))), (Some(job), Span::from_us(30)));
    }
}
