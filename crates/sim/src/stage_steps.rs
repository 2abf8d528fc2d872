//! The steps of what is behind the driver, and the packets that they pass on.

use warikomi_clock::Span;
use warikomi_driver::Buffer;
use warikomi_stack::flags;

use super::cpu::TaskId;
use super::pool::Packet;
use super::stage::SleepState;
use super::trace::{Event, Part};
use super::world::{QueuedEvent, World};

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

    /// What has come through the channel, and buffers that were sent.
    fn collect(&mut self) {
        let Some(session) = &mut self.dma_layout.session else { return };
        // A neighbour that writes nonsense would be the driver's end: what it leaves out is missed below.
        while let Ok(Some(slice)) = session.user.completion() {
            let token = slice.token;
            if slice.has(flags::RETURNED) {
                if self.pool.came_back(token) {
                    self.recorder.emit(&Event::BufferFreed { token });
                }
                session.user.post(token);
                continue;
            }
            session.rising = session.rising.saturating_sub(1);
            let (bytes, address) = (u32::from(slice.length), session.address(token));
            let buffer = Buffer::new(address, self.options.buffer_bytes, token);
            self.stages[0].queue.extend(buffer.map(|buffer| Packet { buffer, bytes }));
        }
        while let Ok(Some(slice)) = session.user.sent() {
            let outgoing = self.dma_layout.outgoing.as_mut();
            let sequence = outgoing.and_then(|outgoing| outgoing.back(slice.token));
            let sent = !slice.has(flags::FAILED);
            self.recorder.emit(&Event::SentBack { sequence, sent });
        }
        session.user.flush();
    }

    /// Posts every buffer: when the channel is new.
    pub(super) fn post_free_buffers(&mut self) {
        let Some(session) = &mut self.dma_layout.session else { return };
        (0..self.options.buffers as u32).for_each(|token| {
            session.user.post(token);
        });
        session.user.flush();
    }

    /// The application sends a frame, if there is a buffer for it.
    pub(super) fn send(&mut self) {
        let Some(outgoing) = &mut self.dma_layout.outgoing else { return };
        let Some((token, sequence, bytes)) = outgoing.begin(&self.dma_layout.memory) else {
            return;
        };
        self.recorder.emit(&Event::Sent { sequence });
        match &mut self.dma_layout.session {
            Some(session) => {
                session.send(token, bytes);
            }
            None => outgoing.waiting.extend(outgoing.transmit(token, bytes)),
        }
    }

    /// Whether the first process behind the driver says that it sleeps, after which it is called.
    fn says_that_it_sleeps(&mut self, at: usize) -> bool {
        if at > 0 {
            return true;
        }
        let Some(session) = &mut self.dma_layout.session else { return true };
        !session.user.prepare_to_sleep().unwrap_or(false)
    }

    /// The next step of a stage with a process of its own.
    pub(super) fn stage_step(&mut self, task: TaskId) {
        let Some(at) = self.stages.iter().position(|stage| stage.id == task) else { return };
        let now = self.now;
        if self.stages[at].sleep == SleepState::Asleep {
            self.recorder.emit(&Event::Woke(self.stages[at].part));
        }
        let finished = self.finish_work(at);
        if at == 0 {
            self.collect();
        }
        let finished = finished + self.pass_rings(finished);
        let called = at == 0 && self.is_called();
        let stage = &mut self.stages[at];
        if let Some(takes) = stage.begin_work(&self.options.costs) {
            (stage.says_sleeping, stage.sleep) = (false, SleepState::Awake);
            self.awake_above(at);
            return self.cpu.begin(now, Some(finished + takes));
        }
        match stage.sleep {
            // It says that it sleeps, and looks once more when it is about to.
            SleepState::Awake | SleepState::Asleep => {
                (stage.says_sleeping, stage.sleep) = (true, SleepState::GoingToSleep);
                if !self.says_that_it_sleeps(at) {
                    self.stages[at].sleep = SleepState::Awake;
                }
                let takes = finished + Span::from_ns(self.options.costs.sleep_ns);
                self.cpu.begin(now, Some(takes));
            }
            SleepState::GoingToSleep if called => {
                stage.sleep = SleepState::Awake;
                self.awake_above(at);
                self.cpu.begin(now, Some(Span::ZERO));
            }
            SleepState::GoingToSleep => {
                stage.sleep = SleepState::Asleep;
                self.recorder.emit(&Event::Slept(self.stages[at].part));
                self.cpu.sleep(now);
            }
        }
    }

    /// Whether the first process behind the driver has been called.
    fn is_called(&self) -> bool {
        self.dma_layout.session.as_ref().is_some_and(|session| session.for_user.is_called())
    }

    /// That process does not sleep, or no more.
    fn awake_above(&mut self, at: usize) {
        if let (0, Some(session)) = (at, &mut self.dma_layout.session) {
            session.for_user.clear();
            session.user.awake();
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
        let (memory, address) = (&self.dma_layout.memory, packet.buffer.address);
        let sequence = self.known_frames.sequence_at(memory, address, packet.bytes);
        let token = packet.buffer.token();
        self.recorder.emit(&Event::Delivered { token, sequence });
        self.counts.delivered += 1;
        if let Some(sequence) = sequence
            && (sequence + 1).is_multiple_of(self.options.traffic.frames_per_burst())
            && let Some(arrived) = self.arrived.get(sequence as usize)
        {
            self.delays.record(self.now.since(*arrived));
        }
        self.free(token);
        if self.dma_layout.outgoing.as_ref().is_some_and(|it| it.is_due(self.counts.delivered)) {
            self.send();
        }
        self.pass_rings(Span::ZERO)
    }

    /// A buffer can be used again.
    pub(super) fn free(&mut self, token: u32) {
        self.recorder.emit(&Event::BufferFreed { token });
        self.pool.release(token);
        if let Some(session) = &mut self.dma_layout.session {
            session.user.post(token);
            session.user.flush();
        }
    }

    /// The packets of a stage are lost with it.
    pub(super) fn lose_packets_of(&mut self, at: usize) {
        let lost: Vec<Packet> = self.stages[at].clear().collect();
        for packet in lost {
            self.counts.lost_by_kill += 1;
            self.free(packet.buffer.token());
        }
    }

    pub(super) fn stage_dies(&mut self, part: Part) {
        let Some(at) = self.stage_of(part) else { return };
        self.cpu.remove(self.now, self.stages[at].id);
        self.stages[at].dead = true;
        if at == 0 {
            // The driver's neighbour is gone, and with it everybody's packets.
            self.collect();
            if let Some(session) = &mut self.dma_layout.session {
                session.gone = true;
            }
            for process in &self.drivers {
                self.queue.schedule(self.now, QueuedEvent::Wake(process.id));
            }
        }
        (0..self.stages.len())
            .filter(|&behind| at == 0 || behind == at)
            .for_each(|at| self.lose_packets_of(at));
        self.pass_rings(Span::ZERO);
    }

    pub(super) fn stage_starts(&mut self, part: Part) {
        let Some(at) = self.stage_of(part) else { return };
        let task = self.stages[at].id;
        self.stages[at].dead = false;
        self.cpu.put_back(task, true);
        self.cpu.wake(self.now, task);
    }
}
