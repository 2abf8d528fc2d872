//! The EEPROM behind Cfg9346, a 93C46 of 64 words, as the driver reaches it bit by bit.
//!
//! Selected (CS), it takes a bit (DI) at each rising edge of the clock (SK): a start bit, two of a command, six of an
//! address, and for a write 16 of data. What it gives (DO) changes at the same edges; behind the address of a read
//! come the bits of the words from there on, the highest first. What it holds, and where, is in RTL8139C Rev. 1.4,
//! section 7.1; its protocol in the data sheet of the 93C46 (Atmel 0172Z, table 5).

use super::regs;

/// Bits of Cfg9346 (RTL8139C Rev. 1.4, section 5.9).
const SELECT: u8 = 0x08;
const CLOCK: u8 = 0x04;
const DATA_IN: u8 = 0x02;

const WORDS: usize = 64;
const ADDRESS_BITS: u32 = 6;
/// Where the address of the station stands, in three words (8139too.c, rtl8139_init_one).
const STATION: usize = 7;

/// What is being shifted in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until a start bit comes.
    Waiting,
    /// Command and address, of which `bits` bits are there.
    Command { bits: u32, value: u16 },
    /// A read goes on at this bit, counted from the first of word 0.
    Reading { bit: usize },
    /// The data of a write, for one word or for all, of which `bits` bits are there.
    Writing { to: Option<usize>, bits: u32, value: u16 },
    /// Until it is no longer selected.
    Done,
}

#[derive(Debug)]
pub(super) struct Eeprom {
    words: [u16; WORDS],
    lines: u8,
    state: State,
    out: bool,
    writable: bool,
}

impl Eeprom {
    /// As it is delivered with this station's address.
    pub(super) fn new(station: [u8; 6]) -> Eeprom {
        let mut words = [0; WORDS];
        // Signature, ids of the function and of the board.
        words[..5].copy_from_slice(&[0x8129, 0x10ec, 0x8139, 0x10ec, 0x8139]);
        for (word, two) in words[STATION..].iter_mut().zip(station.as_chunks::<2>().0) {
            *word = u16::from_le_bytes(*two);
        }
        Eeprom { words, lines: 0, state: State::Waiting, out: true, writable: false }
    }

    /// The station's address that it holds.
    pub(super) fn station(&self) -> [u8; 6] {
        let mut bytes = [0; 6];
        for (two, word) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(&self.words[STATION..]) {
            *two = word.to_le_bytes();
        }
        bytes
    }

    /// What Cfg9346 reads of the data line.
    pub(super) fn data_out(&self) -> u8 {
        if self.out { regs::CFG9346_DATA_OUT } else { 0 }
    }

    /// The driver moves the lines, which are bits of Cfg9346.
    pub(super) fn drive(&mut self, lines: u8) {
        let before = std::mem::replace(&mut self.lines, lines);
        if lines & SELECT == 0 {
            (self.state, self.out) = (State::Waiting, true);
        } else if before & SELECT != 0 && lines & CLOCK & !before != 0 {
            self.clock(lines & DATA_IN != 0);
        }
    }

    fn clock(&mut self, bit: bool) {
        self.state = match self.state {
            State::Waiting if bit => State::Command { bits: 0, value: 0 },
            State::Command { bits, value } => {
                let value = value << 1 | u16::from(bit);
                if bits + 1 < 2 + ADDRESS_BITS {
                    State::Command { bits: bits + 1, value }
                } else {
                    self.command(value)
                }
            }
            State::Reading { bit } => {
                let word = self.words[bit / 16 % WORDS];
                self.out = word << (bit % 16) & 0x8000 != 0;
                State::Reading { bit: (bit + 1) % (16 * WORDS) }
            }
            State::Writing { to, bits, value } => {
                let value = value << 1 | u16::from(bit);
                if bits + 1 < 16 {
                    State::Writing { to, bits: bits + 1, value }
                } else {
                    self.write(to, value)
                }
            }
            other => other,
        };
    }

    fn command(&mut self, value: u16) -> State {
        let address = usize::from(value) % WORDS;
        match value >> ADDRESS_BITS {
            0b10 => {
                // A 0 comes before the first bit.
                self.out = false;
                State::Reading { bit: 16 * address }
            }
            0b01 => State::Writing { to: Some(address), bits: 0, value: 0 },
            0b11 => self.write(Some(address), 0xffff),
            _ => match address >> (ADDRESS_BITS - 2) {
                0b00 => self.set_writable(false),
                0b01 => State::Writing { to: None, bits: 0, value: 0 },
                0b10 => self.write(None, 0xffff),
                _ => self.set_writable(true),
            },
        }
    }

    fn set_writable(&mut self, writable: bool) -> State {
        self.writable = writable;
        State::Done
    }

    fn write(&mut self, to: Option<usize>, value: u16) -> State {
        match to {
            _ if !self.writable => {}
            Some(address) => self.words[address] = value,
            None => self.words.fill(value),
        }
        State::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION_ADDRESS: [u8; 6] = [2, 0x57, 0x4b, 0, 0, 1];

    /// A bit goes in, and what stands on the other line then.
    fn shift(eeprom: &mut Eeprom, bit: bool) -> bool {
        let data = if bit { DATA_IN } else { 0 };
        eeprom.drive(SELECT | data);
        eeprom.drive(SELECT | data | CLOCK);
        eeprom.data_out() != 0
    }

    fn shift_all(eeprom: &mut Eeprom, value: u32, bits: u32) {
        (0..bits).rev().for_each(|bit| _ = shift(eeprom, value >> bit & 1 != 0));
    }

    fn select(eeprom: &mut Eeprom) {
        eeprom.drive(0);
        eeprom.drive(SELECT);
    }

    /// read_eeprom of 8139too.c: two bits more than the command has, then 16 of data.
    fn read(eeprom: &mut Eeprom, location: u32, address_bits: u32) -> u16 {
        select(eeprom);
        shift_all(eeprom, location | 6 << address_bits, 5 + address_bits);
        (0..16).fold(0, |value, _| value << 1 | u16::from(shift(eeprom, false)))
    }

    #[test]
    fn the_drivers_find_signature_and_address() {
        let mut eeprom = Eeprom::new(STATION_ADDRESS);
        assert_ne!(read(&mut eeprom, 0, 8), 0x8129, "there are six bits of address");
        assert_eq!(read(&mut eeprom, 0, 6), 0x8129);
        let station = [7, 8, 9].map(|at| read(&mut eeprom, at, 6));
        assert_eq!(station, [0x5702, 0x004b, 0x0100]);
        assert_eq!(eeprom.station(), STATION_ADDRESS);
    }

    #[test]
    fn a_read_goes_on_with_the_next_word() {
        let mut eeprom = Eeprom::new(STATION_ADDRESS);
        assert_eq!(read(&mut eeprom, 0, 6), 0x8129);
        let next = (0..16).fold(0, |value, _| value << 1 | u16::from(shift(&mut eeprom, false)));
        assert_eq!(next, 0x10ec);
    }

    /// write_eeprom of 8139cp.c.
    #[test]
    fn it_is_written_only_when_that_is_enabled() {
        let mut eeprom = Eeprom::new(STATION_ADDRESS);
        let write = |eeprom: &mut Eeprom, location: u32, value: u32| {
            select(eeprom);
            shift_all(eeprom, 5 << 6 | location, 9);
            shift_all(eeprom, value, 16);
            select(eeprom);
            assert_ne!(eeprom.data_out(), 0, "it is ready");
        };
        let enable = |eeprom: &mut Eeprom, how: u32| {
            select(eeprom);
            shift_all(eeprom, 4 << 6 | how << 4, 9);
        };
        write(&mut eeprom, 20, 0x1234);
        assert_eq!(read(&mut eeprom, 20, 6), 0);
        enable(&mut eeprom, 3);
        write(&mut eeprom, 20, 0x1234);
        write(&mut eeprom, 63, 0xabcd);
        enable(&mut eeprom, 0);
        write(&mut eeprom, 20, 0xffff);
        assert_eq!((read(&mut eeprom, 20, 6), read(&mut eeprom, 63, 6)), (0x1234, 0xabcd));
    }
}
