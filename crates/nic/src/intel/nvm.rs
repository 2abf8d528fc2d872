//! The EEPROM, as EERD and EEWR reach it (82574, 10.2.2.5 and 10.2.2.21; 82576, 8.4.2; their words: chapter 6).

/// The number of a word, and what it says.
pub(crate) type Word = (usize, u16);

/// Words of it, as EECD says.
const WORDS: usize = 256;
/// The word that makes up the sum of the first 64 (6.2.9).
const CHECKSUM: usize = 0x3f;
const SUM: u16 = 0xbaba;

// EERD and EEWR.
const START: u32 = 1 << 0;
const DONE: u32 = 1 << 1;
const ADDRESS_SHIFT: u32 = 2;
const ADDRESS: u32 = 0x3fff;
const DATA_SHIFT: u32 = 16;

/// The station's address, first byte lowest.
pub(crate) const STATION: [u16; 3] = [0x5702, 0x004b, 0x0100];

/// Words that all images have: no manageability, the checksum is valid, LEDs as usual.
const COMMON: [Word; 7] = [
    (0x00, STATION[0]),
    (0x01, STATION[1]),
    (0x02, STATION[2]),
    (0x03, 0x0001),
    (0x04, 0x0000),
    (0x0a, 0x0000),
    (0x0f, 0x0000),
];

#[derive(Debug)]
pub(crate) struct Nvm {
    words: Box<[u16; WORDS]>,
}

impl Nvm {
    /// As it was delivered: these words besides those that all have, and 0xffff elsewhere.
    pub(crate) fn new(own: &[Word]) -> Self {
        let mut words = Box::new([0xffff; WORDS]);
        for &(at, word) in COMMON.iter().chain(own) {
            words[at] = word;
        }
        let sum = words[..CHECKSUM].iter().fold(0_u16, |sum, word| sum.wrapping_add(*word));
        words[CHECKSUM] = SUM.wrapping_sub(sum);
        Nvm { words }
    }

    /// What EERD reads as when this was written to it.
    pub(crate) fn read(&self, command: u32) -> u32 {
        if command & START == 0 {
            return command & !DONE;
        }
        let word = self.words.get(address(command)).copied().unwrap_or(0xffff);
        command & !(START | 0xffff << DATA_SHIFT) | u32::from(word) << DATA_SHIFT | DONE
    }

    /// The same of EEWR, which changes a word.
    pub(crate) fn write(&mut self, command: u32) -> u32 {
        if command & START == 0 {
            return command & !DONE;
        }
        if let Some(word) = self.words.get_mut(address(command)) {
            *word = (command >> DATA_SHIFT) as u16;
        }
        command & !START | DONE
    }

    /// The station's address, as RAL and RAH take it over.
    pub(crate) fn station(&self) -> u64 {
        let [a, b, c] = [0, 1, 2].map(|at| u64::from(self.words[at]));
        a | b << 16 | c << 32
    }
}

fn address(command: u32) -> usize {
    (command >> ADDRESS_SHIFT & ADDRESS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(nvm: &Nvm, at: u32) -> u16 {
        let answer = nvm.read(START | at << ADDRESS_SHIFT);
        assert_eq!(answer & 3, DONE);
        (answer >> DATA_SHIFT) as u16
    }

    #[test]
    fn its_first_64_words_add_up_as_drivers_want_it() {
        let nvm = Nvm::new(&[(0x0d, 0x10d3)]);
        let sum = (0..64).fold(0_u16, |sum, at| sum.wrapping_add(word(&nvm, at)));
        assert_eq!(sum, 0xbaba);
        assert_eq!(word(&nvm, 0x0d), 0x10d3);
        assert_eq!(word(&nvm, 0x3fff), 0xffff, "behind its end");
    }

    #[test]
    fn a_word_that_is_written_is_read() {
        let mut nvm = Nvm::new(&[(0x0d, 0x10d3)]);
        assert_eq!(nvm.write(0xabcd_0001 | 2 << ADDRESS_SHIFT) & 3, DONE);
        assert_eq!(word(&nvm, 2), 0xabcd);
        assert_eq!(nvm.station() >> 32, 0xabcd);
        nvm.write(0xabcd_0001 | 0x3fff << ADDRESS_SHIFT);
    }
}
