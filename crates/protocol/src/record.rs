//! What a reception remembers: which sequence numbers came, when, and what else came with them.
//!
//! The agent of a kernel target and the application of a process target keep the same one.
//! Bounded and allocated before the first datagram: nothing here allocates in the receive path.
//! Numbers that follow each other in one batch make one [`Run`]; a bit for each number tells
//! duplicates. The first touch of a page costs a fault, once for 170 runs or 32,768 numbers.

use crate::answers::{ReceiveRuns, ReceiveTotals, Run};
use crate::commands;
use crate::commands::ReceiveStart;
use crate::payload::{HEAD_BYTES, Head};

/// Sequence numbers that the table of those that came covers: 8 MiB of bits.
const CHECKED_NUMBERS: u64 = 1 << 26;

/// Most runs that may be asked for (96 MiB).
pub const MOST_RUNS: u32 = 1 << 22;

/// The record of one reception.
pub struct Record {
    run_id: u32,
    offset: usize,
    runs: Vec<Run>,
    most_runs: usize,
    seen: Vec<u64>,
    totals: ReceiveTotals,
    full_streak: u64,
    /// The run that the next number continues was begun by the current batch.
    run_is_of_this_batch: bool,
}

impl Record {
    /// An empty record for the reception that `command` asks for.
    pub fn new(command: &ReceiveStart) -> Self {
        let most_runs = command.max_runs.min(MOST_RUNS) as usize;
        Self {
            run_id: command.run_id,
            offset: command.sequence_offset_bytes as usize,
            runs: Vec::with_capacity(most_runs),
            most_runs,
            // Zeroed memory is mapped only where it is touched.
            seen: vec![0; (CHECKED_NUMBERS / 64) as usize],
            totals: ReceiveTotals::default(),
            full_streak: 0,
            run_is_of_this_batch: false,
        }
    }

    /// The runs so far.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes of a datagram, from its first on, that [`in_place`](Self::in_place) looks at.
    #[inline]
    pub fn looked_at_bytes(&self) -> usize {
        self.offset + HEAD_BYTES
    }

    /// The totals so far; what is not about datagrams is the receiver's to fill in.
    pub fn totals(&self) -> ReceiveTotals {
        ReceiveTotals { runs: self.runs.len() as u64, ..self.totals }
    }

    /// A part of the runs, as a request wants it.
    pub fn answer(&self, command: &commands::ReceiveRuns) -> ReceiveRuns {
        let from = usize::try_from(command.from).unwrap_or(usize::MAX).min(self.runs.len());
        let most = command.max.min(commands::ReceiveRuns::MOST) as usize;
        let count = most.min(self.runs.len() - from);
        ReceiveRuns { runs: self.runs[from..from + count].to_vec(), total: self.runs.len() as u64 }
    }

    /// A batch has come (at the agent: a system call has returned): `count` datagrams at `tsc`, of
    /// at most `capacity`.
    pub fn begin_batch(&mut self, count: usize, capacity: usize, tsc: u64) {
        self.totals.batches += 1;
        if count == capacity {
            self.totals.full_batches += 1;
            self.full_streak += 1;
            self.totals.longest_full_streak = self.totals.longest_full_streak.max(self.full_streak);
        } else {
            self.full_streak = 0;
        }
        if self.totals.first_tsc == 0 {
            self.totals.first_tsc = tsc;
        }
        self.totals.last_tsc = tsc;
        self.run_is_of_this_batch = false;
    }

    /// One datagram of the batch: what was copied of it, its full length, and the batch's time.
    #[inline]
    pub fn datagram(&mut self, bytes: &[u8], length: usize, tsc: u64) {
        self.totals.truncated += u64::from(length > bytes.len());
        self.in_place(bytes, length, tsc);
    }

    /// One datagram of the batch that stays where it is: what was looked at of it, from its first
    /// byte on and at least its head, its full length, and the batch's time.
    #[inline]
    pub fn in_place(&mut self, bytes: &[u8], length: usize, tsc: u64) {
        let totals = &mut self.totals;
        totals.datagrams += 1;
        totals.bytes += length as u64;
        let Some(payload) = bytes.get(self.offset..) else {
            totals.short += 1;
            return;
        };
        match Head::from_bytes(payload) {
            Some(head) if head.run_id == self.run_id => self.number(head.sequence, tsc),
            Some(_) => totals.foreign += 1,
            None if payload.len() < HEAD_BYTES => totals.short += 1,
            None => totals.foreign += 1,
        }
    }

    #[inline]
    fn number(&mut self, sequence: u64, tsc: u64) {
        if sequence < CHECKED_NUMBERS {
            let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
            if self.seen[word] & bit != 0 {
                self.totals.duplicates += 1;
                return;
            }
            self.seen[word] |= bit;
        } else {
            self.totals.unchecked += 1;
        }
        self.totals.delivered += 1;
        match self.totals.highest_sequence {
            Some(highest) if sequence < highest => self.totals.out_of_order += 1,
            _ => self.totals.highest_sequence = Some(sequence),
        }
        self.note(sequence, tsc);
    }

    #[inline]
    fn note(&mut self, sequence: u64, tsc: u64) {
        let full = self.runs.len() >= self.most_runs;
        if let Some(Run(first, count, _)) = self.runs.last_mut()
            && first.checked_add(*count) == Some(sequence)
            && (self.run_is_of_this_batch || full)
        {
            *count += 1;
            self.totals.coarse += u64::from(!self.run_is_of_this_batch);
        } else if full {
            self.totals.unrecorded += 1;
        } else {
            self.runs.push(Run(sequence, 1, tsc));
            self.run_is_of_this_batch = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(max_runs: u32) -> Record {
        Record::new(&ReceiveStart { max_runs, ..ReceiveStart::on_port(1, 7) })
    }

    fn batch(record: &mut Record, tsc: u64, numbers: &[u64]) {
        record.begin_batch(numbers.len(), 4, tsc);
        for &sequence in numbers {
            let bytes = Head { run_id: 7, sequence }.to_bytes();
            record.datagram(&bytes, bytes.len(), tsc);
        }
    }

    #[test]
    fn numbers_in_a_row_make_one_run_a_batch() {
        let mut record = record(100);
        batch(&mut record, 10, &[0, 1, 2, 3]);
        batch(&mut record, 20, &[4, 5, 7]);
        assert_eq!(record.runs(), [Run(0, 4, 10), Run(4, 2, 20), Run(7, 1, 20)]);
        let totals = record.totals();
        assert_eq!((totals.delivered, totals.runs, totals.batches), (7, 3, 2));
        assert_eq!((totals.full_batches, totals.longest_full_streak), (1, 1));
        assert_eq!((totals.first_tsc, totals.last_tsc), (10, 20));
        assert_eq!(totals.highest_sequence, Some(7));
    }

    #[test]
    fn duplicates_and_late_ones_are_told_apart() {
        let mut record = record(100);
        batch(&mut record, 1, &[0, 2, 1, 2]);
        batch(&mut record, 2, &[0, u64::MAX, u64::MAX]);
        let totals = record.totals();
        assert_eq!(totals.delivered, 5);
        assert_eq!(totals.duplicates, 2);
        assert_eq!(totals.out_of_order, 1);
        assert_eq!(totals.unchecked, 2);
    }

    #[test]
    fn when_memory_is_used_up_the_rest_is_counted() {
        let mut record = record(2);
        batch(&mut record, 1, &[0, 5]);
        batch(&mut record, 2, &[6, 7, 9]);
        assert_eq!(record.runs(), [Run(0, 1, 1), Run(5, 3, 1)]);
        let totals = record.totals();
        assert_eq!((totals.delivered, totals.coarse, totals.unrecorded), (5, 2, 1));
    }

    #[test]
    fn what_is_not_ours_is_counted_apart() {
        let mut record = record(2);
        record.begin_batch(4, 8, 1);
        record.datagram(&Head { run_id: 8, sequence: 0 }.to_bytes(), 16, 1);
        record.datagram(&[0; 64], 64, 1);
        record.datagram(&[0; 15], 15, 1);
        record.datagram(&Head { run_id: 7, sequence: 0 }.to_bytes(), 1472, 1);
        let totals = record.totals();
        assert_eq!((totals.foreign, totals.short, totals.delivered), (2, 1, 1));
        assert_eq!((totals.truncated, totals.datagrams), (1, 4));
        assert_eq!(totals.bytes, 16 + 64 + 15 + 1472);
    }

    #[test]
    fn an_offset_beyond_the_payload_is_short() {
        let command = ReceiveStart { sequence_offset_bytes: 100, ..ReceiveStart::on_port(1, 7) };
        let mut record = Record::new(&command);
        record.begin_batch(1, 8, 1);
        record.datagram(&[0; 64], 64, 1);
        assert_eq!(record.totals().short, 1);
    }
}
