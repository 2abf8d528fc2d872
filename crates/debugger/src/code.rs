//! Where in a program or a module something is.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use iced_x86::{Decoder, DecoderOptions};

use crate::elf::{Elf, Mark, Reader, Text, Variable};
use crate::function::{CodeError, Function, source_name};

/// A place in the code, as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The address.
    pub address: u64,
    /// The function whose code it is in, and how many bytes from its beginning.
    pub function: Option<(String, u64)>,
    /// Functions that are inlined there, the innermost first.
    pub inlined: Vec<String>,
    /// The source file and line, where there is debug information.
    pub line: Option<(String, u32)>,
}

impl Location {
    /// The function that the source has there: the innermost that is inlined.
    pub fn source_function(&self) -> Option<&str> {
        let outer = self.function.as_ref().map(|(name, _)| source_name(name));
        self.inlined.first().map(String::as_str).or(outer)
    }

    /// The source file without its directory, and the line.
    pub fn short_line(&self) -> Option<String> {
        let (file, line) = self.line.as_ref()?;
        let name = file.rsplit('/').next().unwrap_or(file);
        Some(format!("{name}:{line}"))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some((name, offset)) => write!(f, "{name}+{offset:#x}")?,
            None => write!(f, "{:#x}", self.address)?,
        }
        if let Some(inner) = self.inlined.first() {
            write!(f, " in {inner} (inlined)")?;
        }
        match self.short_line() {
            Some(line) => write!(f, " at {line}"),
            None => Ok(()),
        }
    }
}

/// The code of one program or module as it lies in memory.
pub struct Code {
    /// What it is called.
    pub name: String,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Where each section of a module was put, by its name.
    pub(crate) sections: Vec<(String, u64)>,
    texts: Vec<Text>,
    functions: Vec<Function>,
    marks: Vec<Mark>,
    variables: BTreeMap<String, Variable>,
    types: gimli::Dwarf<Reader>,
    debug: Option<addr2line::Context<Reader>>,
    /// What was looked up before: stacks have the same callers again and again.
    located: RefCell<HashMap<u64, Location>>,
}

/// Places that are kept once they were looked up. A program that makes its stacks up does not make us keep more.
const MOST_LOCATED: usize = 16_384;

impl Code {
    /// A program whose addresses are those in its file.
    pub fn of_program(name: &str, path: &Path) -> Result<Code, CodeError> {
        Code::read(name, path, &mut |_| None)
    }

    /// A module, each of whose sections was put where `loaded` says.
    pub fn of_module(
        name: &str,
        path: &Path,
        mut loaded: impl FnMut(&str) -> Option<u64>,
    ) -> Result<Code, CodeError> {
        Code::read(name, path, &mut loaded)
    }

    fn read(
        name: &str,
        path: &Path,
        loaded: &mut dyn FnMut(&str) -> Option<u64>,
    ) -> Result<Code, CodeError> {
        let Elf { texts, sections, functions, marks, variables, debug, has_debug } =
            Elf::read(path, loaded)?;
        // The same bytes: a reader shares them.
        let types = debug.borrow(Reader::clone);
        let lines = || addr2line::Context::from_dwarf(debug.borrow(Reader::clone));
        let debug = has_debug.then(lines).transpose()?;
        let (name, path) = (name.to_owned(), path.to_owned());
        let located = RefCell::default();
        Ok(Code { name, path, sections, texts, functions, marks, variables, types, debug, located })
    }

    pub(crate) fn types(&self) -> &gimli::Dwarf<Reader> {
        &self.types
    }

    /// Every place to which its source gives a name, in the order of addresses.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// A variable; `None` if there is none of this name, or more than one.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.get(name).copied()
    }

    /// Whether lines and inlined functions are known.
    pub fn has_debug_information(&self) -> bool {
        self.debug.is_some()
    }

    /// Every function, in the order of addresses.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function whose code this address is in.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let behind = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        function.range().contains(&address).then_some(function)
    }

    /// Whether this address is in its code.
    pub fn contains(&self, address: u64) -> bool {
        self.text_at(address).is_some()
    }

    fn text_at(&self, address: u64) -> Option<&Text> {
        self.texts.iter().find(|text| text.contains(address))
    }

    /// The addresses of a function's instructions, in order.
    pub fn instructions(&self, function: &Function) -> Vec<u64> {
        let Some(text) = self.text_at(function.address) else { return Vec::new() };
        let from = (function.address - text.address) as usize;
        let to = from.saturating_add(function.bytes as usize).min(text.bytes.len());
        let mut decoder =
            Decoder::with_ip(64, &text.bytes[from..to], function.address, DecoderOptions::NONE);
        let mut addresses = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            // Padding behind the end, or data: no place at which anything is executed.
            if instruction.is_invalid() {
                break;
            }
            addresses.push(instruction.ip());
        }
        addresses
    }

    /// What is at an address.
    pub fn locate(&self, address: u64) -> Location {
        let mut located = self.located.borrow_mut();
        if located.len() >= MOST_LOCATED {
            located.clear();
        }
        located.entry(address).or_insert_with(|| self.look_up(address)).clone()
    }

    fn look_up(&self, address: u64) -> Location {
        let function = self.function_at(address);
        let mut location = Location {
            address,
            function: function.map(|f| (f.name.clone(), address - f.address)),
            ..Location::default()
        };
        let Some(debug) = &self.debug else { return location };
        let Ok(mut frames) = debug.find_frames(address).skip_all_loads() else { return location };
        let mut names = Vec::new();
        // Frames come from the innermost to the function itself.
        while let Ok(Some(frame)) = frames.next() {
            if location.line.is_none()
                && let Some(place) = &frame.location
                && let (Some(file), Some(line)) = (place.file, place.line)
            {
                location.line = Some((file.to_owned(), line));
            }
            if let Some(name) = frame.function.as_ref().and_then(|name| name.raw_name().ok()) {
                names.push(name.into_owned());
            }
        }
        names.pop();
        location.inlined = names;
        location
    }
}

impl Code {
    /// The source file and line that an instruction was made from.
    pub fn line_at(&self, address: u64) -> Option<(String, u32)> {
        let place = self.debug.as_ref()?.find_location(address).ok()??;
        Some((place.file?.to_owned(), place.line?))
    }
}

/// All code of a process that is of interest: a kernel and its modules.
pub struct Program {
    /// Its parts. What stands first is looked at first.
    pub parts: Vec<Code>,
}

impl Program {
    /// What is at an address, and in which part; a bare address where that is in none.
    pub fn locate(&self, address: u64) -> Location {
        match self.part_at(address) {
            Some(code) => code.locate(address),
            None => Location { address, ..Location::default() },
        }
    }

    /// The part that this address is in.
    pub fn part_at(&self, address: u64) -> Option<&Code> {
        self.parts.iter().find(|code| code.contains(address))
    }
}
