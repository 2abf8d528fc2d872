//! A part of a page that a test writes and holds.

use std::fs;
use std::path::{Path, PathBuf};

/// What stands between two marks, each a line of its own, of a page in `docs`.
pub struct MarkedPart {
    page: &'static str,
    marks: [&'static str; 2],
}

impl MarkedPart {
    /// The part of this page between these lines.
    pub const fn new(page: &'static str, marks: [&'static str; 2]) -> MarkedPart {
        MarkedPart { page, marks }
    }

    /// The page before the part, the part, and the page behind it.
    fn cut(&self) -> [String; 3] {
        let text = fs::read_to_string(self.path()).expect("a page");
        let [begin, end] = self.marks;
        let (before, rest) = text.split_once(begin).expect("where the part begins");
        let (part, after) = rest.split_once(end).expect("where it ends");
        [before, part, after].map(str::to_owned)
    }

    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(self.page)
    }

    /// Reads it.
    pub fn text(&self) -> String {
        let [_, part, _] = self.cut();
        part
    }

    /// Writes it anew.
    pub fn replace(&self, part: &str) {
        let ([before, _, after], [begin, end]) = (self.cut(), self.marks);
        fs::write(self.path(), format!("{before}{begin}{part}{end}{after}")).expect("a page");
    }
}
