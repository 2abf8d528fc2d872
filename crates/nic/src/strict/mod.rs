//! A strict device: it names the steps that a driver must not take.
//!
//! A real card forgives much, and fails on the rest without a word. A strict one serves the driver in the
//! same way and notes what it saw: [`Finding`]s, one for each kind and place. It changes nothing else, so a run
//! has the same packets and interrupts with it.
//!
//! What every card shares is checked here: accesses against the table of registers (`access`), ownership of
//! descriptors and buffers (`descriptors`), status and mask of each vector (`interrupts`). A model adds what only
//! it knows: reserved bits in its table, and what its descriptors must not ask for
//! ([`RxFormat::misuse`](crate::queue::RxFormat::misuse), [`TxFormat::misuse`](crate::queue::TxFormat::misuse)).
//!
//! Without it nothing is looked at: [`NicFunction`](crate::NicFunction) and the shared registers ask once for
//! each access whether there is one, and [`NicContext`](crate::NicContext) once for each transfer. With it each
//! write and each frame comes after a look at the descriptors that are the card's.
//!
//! It sees what a card sees: accesses, and memory at the moments of accesses and frames. What a driver changes
//! and changes back between two of them it does not see. What memory a driver may let it transfer to, and where the
//! driver is, says a [`Witness`], where there is one.

mod access;
mod descriptors;
mod finding;
mod interrupts;
mod witness;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warikomi_clock::Time;
use warikomi_pci::Vector;

pub use self::descriptors::Look;
pub use self::finding::{Finding, FindingKind, Findings, Misuse, Place};
pub use self::witness::{Transfer, Witness};

pub(crate) use self::access::{check_read, check_write, nothing_there};
pub(crate) use self::descriptors::{Queue, Watch};
use self::interrupts::VectorWatch;
use crate::register::{Register, Role};

/// Findings of a card that are still there when the card is gone. Only what is found locks them.
#[derive(Clone, Debug, Default)]
pub struct KeptFindings(Arc<Mutex<Findings>>);

impl KeptFindings {
    /// What was found and not taken so far.
    pub fn get(&self) -> Findings {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Findings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a strict device knows of the driver's steps so far.
#[derive(Debug)]
pub struct Strict {
    registers: &'static [Register],
    findings: KeptFindings,
    vectors: Vec<VectorWatch>,
    witness: Option<Box<dyn Witness>>,
}

impl Strict {
    /// Nothing so far, of a card with these registers.
    pub(crate) fn new(registers: &'static [Register]) -> Strict {
        Strict { registers, findings: KeptFindings::default(), vectors: Vec::new(), witness: None }
    }

    /// What was found so far.
    pub fn findings(&self) -> Findings {
        self.findings.get()
    }

    /// What was found since this was last asked.
    pub fn take_findings(&mut self) -> Findings {
        let mut findings = self.findings.lock();
        let anew = findings.anew();
        std::mem::replace(&mut findings, anew)
    }

    /// The same findings, for one who outlives the card.
    pub fn keep_findings(&self) -> KeptFindings {
        self.findings.clone()
    }

    /// Asks this one from now on about what a card does not see.
    pub fn call(&mut self, witness: Box<dyn Witness>) {
        self.findings.lock().set_unseen(witness.unseen());
        self.witness = Some(witness);
    }

    /// The card is about to transfer.
    pub(crate) fn transfers(&mut self, now: Time, transfer: Transfer) {
        let Some(witness) = &mut self.witness else { return };
        if let Some(objection) = witness.objection(transfer) {
            let Misuse { kind, what, source } = objection;
            self.note(now, (kind, Place::Memory), source, || format!("{transfer}: {what}"));
        }
    }

    /// Notes a step.
    #[cold]
    pub(crate) fn note(
        &mut self,
        now: Time,
        which: (FindingKind, Place),
        source: &'static str,
        what: impl FnOnce() -> String,
    ) {
        let witness = &mut self.witness;
        let mut stack = || witness.as_mut().map(|witness| witness.stack()).unwrap_or_default();
        self.findings.lock().note(now, which, source, || (what(), stack()));
    }

    fn vector(&mut self, vector: Vector) -> &mut VectorWatch {
        let index = usize::from(vector.0);
        if self.vectors.len() <= index {
            self.vectors.resize(index + 1, VectorWatch::default());
        }
        &mut self.vectors[index]
    }

    /// The status or the mask of a vector changes.
    fn watch(
        &mut self,
        now: Time,
        vector: Vector,
        step: impl FnOnce(&mut VectorWatch) -> Option<(FindingKind, String)>,
    ) {
        if let Some((kind, what)) = step(self.vector(vector)) {
            let status = self.registers.iter().find(|row| row.role == Role::Status(vector));
            let source = status.map_or("the model's table of registers", |row| row.source);
            self.note(now, (kind, Place::Vector(vector.0)), source, || what);
        }
    }

    /// The driver has read these causes as set.
    pub(crate) fn status_read(&mut self, vector: Vector, causes: u32) {
        self.vector(vector).status_read(causes);
    }

    /// It clears causes; `status` stood before, and the vector has the causes `all`.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        vector: Vector,
        bits: u32,
        (status, all): (u32, u32),
    ) {
        self.watch(now, vector, |watch| watch.acknowledged(now, bits & all, status));
    }

    /// It writes the mask, which was `before`, while `status` stands.
    pub(crate) fn masked(
        &mut self,
        now: Time,
        vector: Vector,
        (before, after): (u32, u32),
        status: u32,
    ) {
        self.watch(now, vector, |watch| watch.masked(now, before, after, status));
    }

    /// The vector's level has risen.
    pub(crate) fn raised(&mut self, now: Time, vector: Vector) {
        self.vector(vector).raised(now);
    }

    /// Everything about this vector begins anew.
    pub(crate) fn forget_vector(&mut self, vector: Vector) {
        *self.vector(vector) = VectorWatch::default();
    }

    /// Time passes; `is_high` says whether the level of a vector is high at present.
    pub(crate) fn pass(&mut self, now: Time, is_high: impl Fn(Vector) -> bool) {
        for vector in (0..self.vectors.len() as u16).map(Vector) {
            self.watch(now, vector, |watch| watch.pass(now, is_high(vector)));
        }
    }
}
