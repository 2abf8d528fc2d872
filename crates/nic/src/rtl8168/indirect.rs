//! Registers behind registers: a window for the address, one for the data, and bit 31 to hand
//! shake with. What lies behind them on the real chip (PCI Express PHY, extended configuration
//! space, management engine) is a store here.

use super::regs::FLAG;

/// PCI Express PHY registers, reached through EPHYAR: 32 registers of 16 bits, number in bits
/// 20:16, data in the same word.
#[derive(Debug, Default)]
pub(super) struct Ephy {
    words: [u16; 32],
}

impl Ephy {
    /// What EPHYAR reads as after `command` has been written to it.
    pub(super) fn command(&mut self, command: u32) -> u32 {
        let register = (command >> 16 & 0x1f) as usize;
        if command & FLAG != 0 {
            self.words[register] = command as u16;
            command & !FLAG
        } else {
            FLAG | command & 0x001f_0000 | u32::from(self.words[register])
        }
    }
}

/// Words of 32 bits at multiples of four below 0x1000, reached through an address register (CSIAR,
/// ERIAR) whose bits 15:12 select bytes, and a data register.
#[derive(Debug)]
pub(super) struct Words {
    words: Box<[u32; 1024]>,
}

impl Words {
    pub(super) fn new() -> Self {
        Words { words: Box::new([0; 1024]) }
    }

    /// What the address register and the data register read as after `command` has been written to
    /// the former.
    pub(super) fn command(&mut self, command: u32, data: u32) -> (u32, u32) {
        let word = &mut self.words[(command >> 2 & 0x3ff) as usize];
        if command & FLAG == 0 {
            return (command | FLAG, *word);
        }
        let selected = (0..4).filter(|byte| command >> (12 + byte) & 1 != 0);
        let mask = selected.fold(0, |mask, byte| mask | 0xff_u32 << (8 * byte));
        *word = *word & !mask | data & mask;
        (command & !FLAG, data)
    }
}

/// What a window with nothing behind it reads as after `command`: it shakes hands, and gives 0.
pub(super) fn unconnected_window(command: u32) -> u32 {
    if command & FLAG != 0 { command & !FLAG } else { FLAG | command & 0x7fff_0000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_clears_the_flag_and_a_read_sets_it() {
        let mut ephy = Ephy::default();
        assert_eq!(ephy.command(0x8001_1234), 0x0001_1234);
        assert_eq!(ephy.command(0x0001_0000), 0x8001_1234);
    }

    #[test]
    fn only_selected_bytes_are_written() {
        let mut words = Words::new();
        assert_eq!(words.command(0x8000_f70c, 0x1122_3344).0, 0x0000_f70c);
        words.command(0x8000_870c, 0xff00_0000);
        assert_eq!(words.command(0x0000_f70c, 0), (0x8000_f70c, 0xff22_3344));
    }
}
