//! Which programs a build needs, and which Debian package has each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{KernelError, MissingTools, Result};

/// Program, Debian package.
const TOOLS: [(&str, &str); 13] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("strip", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("find", "findutils"),
    ("cmp", "diffutils"),
    ("depmod", "kmod"),
];

/// Where `depmod` lives for users whose PATH is short.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A C header that UML's host side includes; its package is easily forgotten where gcc is there.
const LIBC_HEADER: (&str, &str) = ("/usr/include/stdio.h", "libc6-dev");

/// An error that names everything missing at once, with one line that installs it.
pub fn check_tools() -> Result<()> {
    check(&|name| find(name).is_some(), Path::new(LIBC_HEADER.0).exists())
}

fn check(is_there: &dyn Fn(&str) -> bool, libc_header: bool) -> Result<()> {
    let mut missing = MissingTools { programs: Vec::new(), packages: BTreeSet::new() };
    for (program, package) in TOOLS {
        if !is_there(program) {
            missing.programs.push(program);
            missing.packages.insert(package);
        }
    }
    if !libc_header {
        missing.programs.push("the C library's headers");
        missing.packages.insert(LIBC_HEADER.1);
    }
    if missing.programs.is_empty() { Ok(()) } else { Err(KernelError::MissingTools(missing)) }
}

/// A program in PATH, or where administrators' programs are.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMINISTRATORS.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_missing_is_named_in_one_line() {
        let error = check(&|name| !["flex", "depmod", "ld", "strip"].contains(&name), false);
        let text = error.unwrap_err().to_string();
        assert!(!text.contains('\n'));
        assert!(text.contains("flex") && text.contains("depmod"));
        assert!(text.ends_with("apt-get install binutils flex kmod libc6-dev"), "{text}");
        assert!(check(&|_| true, true).is_ok());
    }
}
