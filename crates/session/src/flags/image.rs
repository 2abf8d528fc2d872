//! Which kernel; shared by every experiment that has one.

use std::path::PathBuf;

use clap::Args;

/// Which kernel.
#[derive(Args, Clone, Debug, Default)]
pub struct ImageArguments {
    /// A kernel binary, built with ARCH=um [default: the newest of the kind that is wanted that `warikomi kernel build`
    /// made]
    #[arg(long, value_name = "PATH", conflicts_with = "kernel_version")]
    pub kernel: Option<PathBuf>,
    /// The kernel that `warikomi kernel build` made from this version, such as 6.1
    #[arg(long, value_name = "VERSION")]
    pub kernel_version: Option<String>,
}

impl ImageArguments {
    /// As words of a command line.
    pub fn words(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref().map(|path| path.display().to_string());
        let flags = [("--kernel", kernel), ("--kernel-version", self.kernel_version.clone())];
        let given = flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.flat_map(|(name, value)| [name, value]).collect()
    }
}
