//! Makes the kernel that `warikomi kernel build` makes without a flag, and is no more than this crate: `make demo`
//! starts it at once, and compiles the command meanwhile.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use signal_hook::consts::TERM_SIGNALS;
use warikomi_kernel::{BuildOptions, Cache, Cancel, KernelError, Progress, build};

/// Lines are printed for so many hundredths each: others print beside this.
const EVERY_PERCENT: u32 = 10;
/// What a shell gives a process that Ctrl-C ended.
const EXIT_INTERRUPTED: u8 = 130;

/// How a command ends that was called wrongly.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        eprintln!(
            "make-kernel takes no arguments: a kernel with flags is made by `warikomi kernel build`"
        );
        return ExitCode::from(EXIT_USAGE);
    }
    match make() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make-kernel: {error}");
            let interrupted = matches!(error, KernelError::Cancelled);
            ExitCode::from(if interrupted { EXIT_INTERRUPTED } else { 1 })
        }
    }
}

fn make() -> Result<(), KernelError> {
    // The build runs in a process group of its own, which Ctrl-C does not reach.
    let flag = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(|source| {
            KernelError::Run { program: "a signal handler".to_owned(), source }
        })?;
    }
    let (begun, mut said) = (Instant::now(), 0);
    let mut tell = |progress: Progress<'_>| {
        let percent = 100 * progress.done / progress.total.max(1);
        if percent >= said + EVERY_PERCENT {
            said = percent - percent % EVERY_PERCENT;
            println!("   kernel: {said}% after {} s", begun.elapsed().as_secs());
        }
    };
    let cache = Cache::of_this_user()?;
    let image = build(&cache, &BuildOptions::default(), &Cancel::from(flag), &mut tell)?;
    println!("   kernel: Linux {} is ready: {}", image.info().release, image.kernel().display());
    Ok(())
}
