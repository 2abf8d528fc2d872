//! Commands that run programs of the host in the guest.

use serde::{Deserialize, Serialize};

command! {
    /// Makes a directory tree for programs of the host, once: a file system in memory, and in it directories of the
    /// host (hostfs), read-only, each at its own path.
    MountRoot {
        /// Directories of the host, absolute.
        directories: Vec<String>,
        /// Symbolic links, each its path and what it points to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<(String, String)>,
        /// Directories of the host that programs may write in, each with where it is to be: what is written stays in
        /// the guest's memory (overlayfs).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overlaid: Vec<(String, String)>,
    }
}

command! {
    /// Starts a program below that tree, as root of the guest. One at a time; its output is both its streams, in the
    /// order in which it came.
    ProgramStart {
        /// Its path, and its arguments.
        words: Vec<String>,
        /// Where it begins.
        directory: String,
        /// All of its environment.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        environment: Vec<(String, String)>,
        /// It is killed after so long, in milliseconds.
        limit_ms: u64,
        /// Bytes of its output that are kept at most.
        output_bytes: u64,
    }
}

command! {
    /// What it has said since the last time.
    ProgramOutput {
        /// Waits at most so long until there is something, in milliseconds.
        wait_ms: u64,
    }
}
