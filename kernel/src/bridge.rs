//! The guest's PCI bridge, and a driver by which tests see its interrupts: sources of kernel modules,
//! compiled with each kernel.

use std::fs;
use std::path::Path;

use crate::error::{FileContext, Result};
use crate::hash::fnv1a;

/// The compiled bridge.
const MODULE: &str = "warikomi_bridge.ko";

/// Where the agent finds it, among a kernel's modules.
pub(crate) const PLACE: &str = "extra";

const SOURCES: [(&str, &str); 7] = [
    ("Kbuild", include_str!("../bridge/Kbuild")),
    ("access.c", include_str!("../bridge/access.c")),
    ("bridge.h", include_str!("../bridge/bridge.h")),
    ("interrupts.c", include_str!("../bridge/interrupts.c")),
    ("main.c", include_str!("../bridge/main.c")),
    ("warikomi_bridge.h", include_str!("../bridge/warikomi_bridge.h")),
    ("warikomi_vectors.c", include_str!("../bridge/warikomi_vectors.c")),
];

/// All of the sources: an image depends on them.
pub(crate) fn sources() -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().map(|(_, text)| text)
}

/// Stands for the sources.
pub(crate) fn hash() -> String {
    format!("{:016x}", fnv1a(sources().collect::<String>().as_bytes()))
}

/// Writes the sources into a new directory.
pub(crate) fn write_sources(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).at("make the directory", directory)?;
    for (name, text) in SOURCES {
        let path = directory.join(name);
        fs::write(&path, text).at("write", &path)?;
    }
    Ok(())
}

/// Whether these modules of a kernel have the bridge.
pub(crate) fn is_among(modules: &Path) -> bool {
    modules.join(PLACE).join(MODULE).is_file()
}
