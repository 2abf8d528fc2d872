use std::sync::atomic::Ordering::{Relaxed, Release};

use warikomi_shared::{Entry, SharedWords};

use crate::{Host, PciFunction, Width};

/// The address space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Configuration space.
    Config,
    /// Memory or I/O behind the BAR with this number.
    Bar(u8),
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads; the answer carries this number.
    Read(u64),
    /// Writes this value.
    Write(u64),
}

/// One access, as the register ring carries it.
///
/// First word: bits 0 to 7 are 1 for a read, 2 for a write; bits 8 to 15 the BAR, or 0xff for
/// configuration space; bits 16 to 23 the width in bytes; bits 24 to 31 are 0; bits 32 to 63 the
/// offset. Second word: the number of a read, the value of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address space of the access.
    pub space: Space,
    /// Offset in bytes.
    pub offset: u32,
    /// Width of the access.
    pub width: Width,
    /// Read, or write with its value.
    pub operation: Operation,
}

/// An entry that is no access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the register ring holds {0:#018x}, which is no access")]
pub struct BadAccess(pub u64);

/// Bits 0 to 7 of a read.
pub(crate) const READ: u64 = 1;
/// Bits 0 to 7 of a write.
pub(crate) const WRITE: u64 = 2;
/// Bits 8 to 15 of an access to configuration space.
pub(crate) const CONFIG: u64 = 0xff;
/// How many BARs there are, from 0.
pub(crate) const BARS: u64 = 6;

impl Access {
    /// The entry for the ring.
    #[inline]
    pub fn to_entry(self) -> Entry {
        let (kind, value) = match self.operation {
            Operation::Read(number) => (READ, number),
            Operation::Write(value) => (WRITE, value),
        };
        let space = match self.space {
            Space::Config => CONFIG,
            Space::Bar(bar) => u64::from(bar),
        };
        let width = self.width.bytes() as u64;
        [kind | space << 8 | width << 16 | u64::from(self.offset) << 32, value]
    }

    /// Does it; of a read, its number and the value. Configuration space is reached by the low 16 bits of
    /// the offset.
    #[inline]
    pub fn carry_out<F: PciFunction + ?Sized>(
        self,
        function: &mut F,
        host: &mut Host<'_>,
    ) -> Option<(u64, u64)> {
        let Access { space, offset, width, operation } = self;
        match (operation, space) {
            (Operation::Write(value), Space::Config) => {
                function.config_write(host, offset as u16, width, value);
                None
            }
            (Operation::Write(value), Space::Bar(bar)) => {
                function.bar_write(host, bar, offset.into(), width, value);
                None
            }
            (Operation::Read(number), Space::Config) => {
                Some((number, function.config_read(offset as u16, width)))
            }
            (Operation::Read(number), Space::Bar(bar)) => {
                Some((number, function.bar_read(host, bar, offset.into(), width)))
            }
        }
    }

    /// Reads an entry; refuses one that is malformed.
    #[inline]
    pub fn from_entry(entry: Entry) -> Result<Access, BadAccess> {
        let [word, value] = entry;
        let bad = BadAccess(word);
        let byte = |shift: u32| word >> shift & 0xff;
        let operation = match byte(0) {
            READ => Operation::Read(value),
            WRITE => Operation::Write(value),
            _ => return Err(bad),
        };
        let space = match byte(8) {
            CONFIG => Space::Config,
            bar if bar < BARS => Space::Bar(bar as u8),
            _ => return Err(bad),
        };
        let width = Width::from_bytes(byte(16) as usize).ok_or(bad)?;
        if byte(24) != 0 {
            return Err(bad);
        }
        Ok(Access { space, offset: (word >> 32) as u32, width, operation })
    }
}

/// The words of a window in which reads are answered.
#[derive(Clone, Copy, Debug)]
pub struct AnswerPlace {
    /// The number of the read that was answered last.
    pub number: usize,
    /// Its value, written first.
    pub value: usize,
}

impl AnswerPlace {
    /// Carries an entry out, and answers it if it is a read; `false` if it makes no sense.
    #[inline]
    pub fn execute<F: PciFunction + ?Sized>(
        self,
        entry: Entry,
        function: &mut F,
        host: &mut Host<'_>,
        words: &SharedWords,
    ) -> bool {
        let access = Access::from_entry(entry).ok().filter(|access| {
            // Configuration space ends long before.
            access.space != Space::Config || u16::try_from(access.offset).is_ok()
        });
        let Some(access) = access else { return false };
        if let Some((number, value)) = access.carry_out(function, host) {
            words[self.value].store(value, Relaxed);
            words[self.number].store(number, Release);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bar, Interrupt, IntrLine, MsiMessage, SharedMemory, Vector, Vectors};
    use proptest::prelude::*;
    use warikomi_clock::Time;

    /// Notes what was written, and reads as the offset and 100 times the BAR.
    #[derive(Default)]
    struct Noting(Vec<(Option<u8>, u64, Width, u64)>);

    impl PciFunction for Noting {
        fn bars(&self) -> &[Bar] {
            &[]
        }
        fn vectors(&self) -> Vectors {
            Vectors::default()
        }
        fn message(&self, _: Vector) -> Option<MsiMessage> {
            None
        }
        fn config_read(&mut self, offset: u16, _: Width) -> u64 {
            offset.into()
        }
        fn config_write(&mut self, _: &mut Host<'_>, offset: u16, width: Width, value: u64) {
            self.0.push((None, offset.into(), width, value));
        }
        fn bar_read(&mut self, _: &mut Host<'_>, bar: u8, offset: u64, _: Width) -> u64 {
            offset + 100 * u64::from(bar)
        }
        fn bar_write(&mut self, _: &mut Host<'_>, bar: u8, at: u64, width: Width, value: u64) {
            self.0.push((Some(bar), at, width, value));
        }
        fn poll(&mut self, _: &mut Host<'_>) {}
    }

    struct NoLine;
    impl IntrLine for NoLine {
        fn signal(&mut self, _: Interrupt) {}
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file can be mapped under Miri")]
    fn a_read_is_answered_and_nonsense_is_left_alone() {
        let file = warikomi_shared::create_region("test", 4_096).unwrap();
        let words = SharedWords::map(file, 0, 4_096).unwrap();
        let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
        let (mut function, mut line) = (Noting::default(), NoLine);
        let interrupts = &mut line;
        let mut host = Host { now: Time::ZERO, memory: &memory, interrupts, looks: None };
        let answers = AnswerPlace { number: 5, value: 9 };
        let mut execute = |space, offset, operation| {
            let entry = Access { space, offset, width: Width::B4, operation }.to_entry();
            let makes_sense = answers.execute(entry, &mut function, &mut host, &words);
            (makes_sense, [5, 9].map(|at| words[at].load(Relaxed)))
        };
        let (config, bar) = (Space::Config, Space::Bar(2));
        assert_eq!(execute(bar, 8, Operation::Read(1)), (true, [1, 208]));
        assert_eq!(execute(config, 0xffff, Operation::Read(2)), (true, [2, 0xffff]));
        assert_eq!(execute(config, 0x1_0000, Operation::Read(3)), (false, [2, 0xffff]));
        assert_eq!(execute(Space::Bar(6), 0, Operation::Read(3)), (false, [2, 0xffff]));
        assert_eq!(execute(config, 4, Operation::Write(7)), (true, [2, 0xffff]));
        assert_eq!(execute(bar, 0x1_0004, Operation::Write(8)), (true, [2, 0xffff]));
        assert_eq!(function.0, [(None, 4, Width::B4, 7), (Some(2), 0x1_0004, Width::B4, 8)]);
    }

    proptest! {
        #[test]
        fn any_entry_is_an_access_or_an_error(word: u64, value: u64) {
            match Access::from_entry([word, value]) {
                Ok(access) => prop_assert_eq!(access.to_entry(), [word, value]),
                Err(error) => prop_assert_eq!(error, BadAccess(word)),
            }
        }

        #[test]
        fn an_access_survives_the_ring(offset: u32, value: u64, bar in 0u8..6, config: bool, read: bool, width in 0usize..4) {
            let access = Access {
                space: if config { Space::Config } else { Space::Bar(bar) },
                offset,
                width: Width::from_bytes(1 << width).unwrap(),
                operation: if read { Operation::Read(value) } else { Operation::Write(value) },
            };
            prop_assert_eq!(Access::from_entry(access.to_entry()), Ok(access));
        }
    }
}
