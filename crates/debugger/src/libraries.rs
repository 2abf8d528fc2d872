//! How code of shared libraries is left, which keeps no frame pointers: by what their files say of it (`.eh_frame`;
//! System V ABI, AMD64 supplement 1.0, section 3.7, and DWARF 5, section 6.4).

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, Encoding, EndianRcSlice, EvaluationResult, Format,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
    X86_64,
};
use object::{Object, ObjectSection, ObjectSegment};
use procfs::process::{MMapPath, MemoryMap, Process};

use crate::Registers;
use crate::elf::Reader;

/// A library that is longer is not read: which files a process maps is its own affair.
const MOST_BYTES: u64 = 64 << 20;

/// The libraries of a process.
#[derive(Default)]
pub(crate) struct Libraries {
    mappings: Vec<Mapping>,
    /// Those that were asked for; none if a file has nothing to say.
    read: HashMap<PathBuf, Option<Library>>,
}

/// A part of a file in a process's memory.
struct Mapping {
    addresses: Range<u64>,
    /// Where in the file it begins.
    offset: u64,
    path: PathBuf,
}

/// An instruction of a library.
pub(crate) struct LibraryCode<'a> {
    library: &'a Library,
    /// As its file has it.
    address: u64,
}

/// What a library says of its code.
struct Library {
    frames: EhFrame<Reader>,
    bases: BaseAddresses,
    /// Which bytes of the file are at which addresses.
    segments: Vec<(Range<u64>, u64)>,
}

impl Libraries {
    /// Those of a process; none if it cannot be looked at.
    pub(crate) fn of_process(pid: u32) -> Libraries {
        let mappings = || {
            let process = Process::new(pid.cast_signed()).ok()?;
            let program = process.exe().ok()?;
            let all = process.maps().ok()?.into_iter().filter_map(Mapping::of);
            Some(all.filter(|mapping| mapping.path != program).collect())
        };
        Libraries { mappings: mappings().unwrap_or_default(), read: HashMap::new() }
    }

    /// The one whose code an instruction is, if it is a library's that says how it is left.
    pub(crate) fn at(&mut self, instruction: u64) -> Option<LibraryCode<'_>> {
        let mapping =
            self.mappings.iter().find(|mapping| mapping.addresses.contains(&instruction))?;
        let offset = instruction - mapping.addresses.start + mapping.offset;
        let library = self.read.entry(mapping.path.clone());
        let library = library.or_insert_with(|| Library::read(&mapping.path)).as_ref()?;
        Some(LibraryCode { library, address: library.address(offset)? })
    }
}

impl Mapping {
    /// If it is one of a file.
    fn of(map: MemoryMap) -> Option<Mapping> {
        let MMapPath::Path(path) = map.pathname else { return None };
        Some(Mapping { addresses: map.address.0..map.address.1, offset: map.offset, path })
    }
}

impl LibraryCode<'_> {
    /// Where it goes back to, unless it is the first of its thread; `word` reads the process's memory.
    pub(crate) fn caller(
        &self,
        at: Registers,
        word: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<Registers> {
        let Library { frames, bases, .. } = self.library;
        let (mut context, parse) = (UnwindContext::new(), EhFrame::cie_from_offset);
        let row = frames.unwind_info_for_address(bases, &mut context, self.address, parse).ok()?;
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                value(*register, at)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.library.evaluate(expression, at)?,
        };
        let kept = |offset: i64| word(frame.wrapping_add_signed(offset));
        let Some(RegisterRule::Offset(place)) = row.register(X86_64::RA) else { return None };
        let pc = kept(place).filter(|&pc| pc != 0)?;
        let fp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => at.fp,
            Some(RegisterRule::Offset(offset)) => kept(offset)?,
            Some(_) => return None,
        };
        Some(Registers { pc, sp: frame, fp })
    }
}

impl Library {
    fn read(path: &Path) -> Option<Library> {
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MOST_BYTES {
            return None;
        }
        let file = object::File::parse(&*bytes).ok()?;
        let section = file.section_by_name(".eh_frame")?;
        let data = section.data().ok()?;
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = file.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        let segments = file.segments().filter_map(|segment| {
            let (from, bytes) = segment.file_range();
            Some((from..from.checked_add(bytes)?, segment.address()))
        });
        let frames = EhFrame::from(EndianRcSlice::new(data.into(), LittleEndian));
        Some(Library { frames, bases, segments: segments.collect() })
    }

    /// Of a byte of the file.
    fn address(&self, offset: u64) -> Option<u64> {
        let (bytes, address) = self.segments.iter().find(|(bytes, _)| bytes.contains(&offset))?;
        address.checked_add(offset - bytes.start)
    }

    /// Of registers alone.
    fn evaluate(&self, expression: &UnwindExpression<usize>, at: Registers) -> Option<u64> {
        let mut evaluation = expression.get(&self.frames).ok()?.evaluation(ENCODING);
        evaluation.set_max_iterations(MOST_STEPS);
        let mut result = evaluation.evaluate().ok()?;
        while let EvaluationResult::RequiresRegister { register, .. } = result {
            let value = Value::Generic(value(register, at)?);
            result = evaluation.resume_with_register(value).ok()?;
        }
        match result {
            EvaluationResult::Complete => evaluation.value_result()?.to_u64(u64::MAX).ok(),
            _ => None,
        }
    }
}

/// How expressions are written here.
const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
/// Steps of one, at most: that of a table of jumps, the only code that has any, takes ten.
const MOST_STEPS: u32 = 100;

/// What a register holds, if that is known.
fn value(register: Register, at: Registers) -> Option<u64> {
    match register {
        X86_64::RSP => Some(at.sp),
        X86_64::RBP => Some(at.fp),
        X86_64::RA => Some(at.pc),
        _ => None,
    }
}
