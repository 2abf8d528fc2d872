//! What is behind the driver: the protocols and the application, in processes of their own or in the
//! driver's.

use std::collections::VecDeque;

use warikomi_clock::Span;

use super::cpu::{Cpu, TaskId};
use super::device::sequence_at;
use super::pool::Packet;
use super::trace::{Event, Part};
use super::world::{RUN_ID, World};
use super::{CostModel, Topology};

/// What a stage does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Protocol,
    Application,
    Both,
}

/// Packets that wait for somebody, and who works on them.
pub(super) struct Stage {
    /// The task that does it; the driver's if they are one process.
    pub(super) id: TaskId,
    pub(super) part: Part,
    pub(super) dead: bool,
    work: Work,
    own_process: bool,
    queue: VecDeque<Packet>,
    working: Option<Packet>,
    /// It has said that it sleeps: whoever gives it a packet rings.
    says_sleeping: bool,
    sleep: Sleep,
}

/// How far a stage's own process is on its way to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    Falling,
    Asleep,
}

impl Stage {
    /// The stages of a topology, from the driver on.
    pub(super) fn chain(topology: Topology, cpu: &mut Cpu, driver: TaskId) -> Vec<Stage> {
        let mut own = |work, part| Stage::new(cpu.add(), part, work, true);
        match topology {
            Topology::Direct => vec![Stage::new(driver, Part::Driver, Work::Both, false)],
            Topology::Application => vec![own(Work::Both, Part::First)],
            Topology::StackAndApplication => {
                vec![own(Work::Protocol, Part::First), own(Work::Application, Part::Second)]
            }
        }
    }

    fn new(id: TaskId, part: Part, work: Work, own_process: bool) -> Stage {
        Stage {
            id,
            part,
            dead: false,
            work,
            own_process,
            queue: VecDeque::new(),
            working: None,
            says_sleeping: false,
            sleep: Sleep::Awake,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.working.is_none()
    }

    /// Takes the next packet to work on; how long that takes. `None`: there is none.
    fn begin_work(&mut self, costs: &CostModel) -> Option<Span> {
        let packet = self.queue.pop_front()?;
        self.working = Some(packet);
        let channel = if self.own_process { costs.channel_packet_ns } else { 0 };
        let application = costs.application(packet.bytes as usize);
        Some(
            match self.work {
                Work::Protocol => costs.protocol(),
                Work::Application => application,
                Work::Both => costs.protocol() + application,
            } + Span::from_ns(channel),
        )
    }

    /// Forgets everything; the packets that it had.
    fn clear(&mut self) -> impl Iterator<Item = Packet> {
        (self.says_sleeping, self.sleep) = (false, Sleep::Awake);
        self.working.take().into_iter().chain(std::mem::take(&mut self.queue))
    }
}

impl World<'_> {
    /// Gives packets to a stage; what ringing its bell takes.
    pub(super) fn give(&mut self, at: usize, packets: impl IntoIterator<Item = Packet>) -> Span {
        let stage = &mut self.stages[at];
        let before = stage.queue.len();
        stage.queue.extend(packets);
        if stage.queue.len() == before || !std::mem::take(&mut stage.says_sleeping) {
            return Span::ZERO;
        }
        let task = stage.id;
        self.ring(task);
        Span::from_ns(self.options.costs.bell_ns)
    }

    /// The next step of a stage with a process of its own.
    pub(super) fn stage_step(&mut self, task: TaskId) {
        let Some(at) = self.stages.iter().position(|stage| stage.id == task) else { return };
        let now = self.now;
        if self.stages[at].sleep == Sleep::Asleep {
            self.recorder.emit(&Event::Woke(self.stages[at].part));
            self.stages[at].sleep = Sleep::Awake;
        }
        let finished = self.finish_work(at);
        let stage = &mut self.stages[at];
        if let Some(takes) = stage.begin_work(&self.options.costs) {
            (stage.says_sleeping, stage.sleep) = (false, Sleep::Awake);
            return self.cpu.begin(now, Some(finished + takes));
        }
        match stage.sleep {
            // It says that it sleeps, and looks once more when it is about to.
            Sleep::Awake | Sleep::Asleep => {
                (stage.says_sleeping, stage.sleep) = (true, Sleep::Falling);
                let takes = finished + Span::from_ns(self.options.costs.sleep_ns);
                self.cpu.begin(now, Some(takes));
            }
            Sleep::Falling => {
                stage.sleep = Sleep::Asleep;
                self.recorder.emit(&Event::Slept(self.stages[at].part));
                self.cpu.sleep(now);
            }
        }
    }

    /// Begins to work on the next packet of a stage in the driver's own process; `None` if there is
    /// none.
    pub(super) fn work_in_driver(&mut self) -> Option<Span> {
        let stage = self.stages.first_mut().filter(|stage| !stage.own_process)?;
        stage.begin_work(&self.options.costs)
    }

    /// The packet that the stage has worked on goes on; what that takes.
    pub(super) fn finish_work(&mut self, at: usize) -> Span {
        let Some(packet) = self.stages[at].working.take() else { return Span::ZERO };
        if at + 1 < self.stages.len() {
            return self.give(at + 1, [packet]);
        }
        let sequence = sequence_at(&self.memory, packet.buffer.address, packet.bytes, RUN_ID);
        let token = packet.buffer.token;
        self.recorder.emit(&Event::Delivered { token, sequence });
        self.counts.delivered += 1;
        if let Some(sequence) = sequence
            && (sequence + 1).is_multiple_of(self.options.traffic.frames_per_burst())
            && let Some(arrived) = self.arrived.get(sequence as usize)
        {
            self.delays.record(self.now.since(*arrived));
        }
        self.free(token);
        self.tell_starving_driver()
    }

    /// A buffer can be used again.
    pub(super) fn free(&mut self, token: u32) {
        self.recorder.emit(&Event::BufferFreed { token });
        self.pool.release(token);
    }

    /// The packets of a stage are lost with it.
    pub(super) fn lose_packets_of(&mut self, at: usize) {
        let lost: Vec<Packet> = self.stages[at].clear().collect();
        for packet in lost {
            self.counts.lost_by_kill += 1;
            self.free(packet.buffer.token);
        }
    }

    pub(super) fn stage_dies(&mut self, part: Part) {
        let Some(at) = self.stage_of(part) else { return };
        self.cpu.remove(self.now, self.stages[at].id);
        self.stages[at].dead = true;
        self.lose_packets_of(at);
        self.tell_starving_driver();
    }

    pub(super) fn stage_starts(&mut self, part: Part) {
        let Some(at) = self.stage_of(part) else { return };
        let task = self.stages[at].id;
        self.stages[at].dead = false;
        self.cpu.put_back(task, true);
        self.cpu.wake(self.now, task);
    }
}
