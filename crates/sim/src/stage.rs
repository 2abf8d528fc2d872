//! What is behind the driver: the protocols and the application, in processes of their own or in the
//! driver's.

use std::collections::VecDeque;

use warikomi_clock::Span;

use super::cpu::{Cpu, TaskId};
use super::pool::Packet;
use super::trace::Part;
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
    pub(super) own_process: bool,
    pub(super) queue: VecDeque<Packet>,
    pub(super) working: Option<Packet>,
    /// It has said that it sleeps: whoever gives it a packet rings.
    pub(super) says_sleeping: bool,
    pub(super) sleep: SleepState,
}

/// How far a stage's own process is on its way to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SleepState {
    Awake,
    GoingToSleep,
    Asleep,
}

/// No task has this number.
const NOBODY: TaskId = TaskId::MAX;

impl Stage {
    /// The stages of a topology, from the driver on.
    pub(super) fn chain(topology: Topology, real_time: bool, cpu: &mut Cpu) -> Vec<Stage> {
        let mut own = |work, part| Stage::new(cpu.add(real_time), part, work, true);
        match topology {
            // The task is that of the driver, which is started later.
            Topology::Direct => vec![Stage::new(NOBODY, Part::Driver, Work::Both, false)],
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
            sleep: SleepState::Awake,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.working.is_none()
    }

    /// Takes the next packet to work on; how long that takes. `None`: there is none.
    pub(super) fn begin_work(&mut self, costs: &CostModel) -> Option<Span> {
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

    /// The packets that it had; one that is dead forgets everything else, too.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Packet> {
        if self.dead {
            (self.says_sleeping, self.sleep) = (false, SleepState::Awake);
        }
        self.working.take().into_iter().chain(std::mem::take(&mut self.queue))
    }
}
