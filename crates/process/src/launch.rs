//! Starting a process without waiting for it.

use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use warikomi_target::TargetError;
use warikomi_target::cores::Pinned;

use crate::{creation, priority};

/// A process that a thread of ours is starting, so that nobody has to wait for it.
pub(super) struct Launch(Option<JoinHandle<std::io::Result<Child>>>);

impl Launch {
    /// Begins to start a process on a core, with this claim on it if that is said, once this number of blocks of its
    /// program have been read.
    pub(super) fn begin(
        mut command: Command,
        core: Option<usize>,
        nice: Option<i32>,
        reads: u32,
    ) -> Result<Launch, TargetError> {
        let thread = std::thread::Builder::new().name("launch".to_owned());
        // The command goes with the thread: it holds the process's end of a socket.
        let launch = thread
            .spawn(move || {
                if let Some(nice) = nice {
                    priority::claim_for_this_thread(nice);
                }
                // Children inherit the affinity of the thread that starts them.
                let _pinned = core.map(Pinned::to).transpose()?;
                creation::read(Path::new(command.get_program()), reads)?;
                command.spawn()
            })
            .map_err(TargetError::system("cannot start a thread to start a process"))?;
        Ok(Launch(Some(launch)))
    }

    /// The process, once.
    pub(super) fn outcome(&mut self) -> Option<std::io::Result<Child>> {
        self.0.take_if(|thread| thread.is_finished()).map(join)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        // Nobody has it in a group yet who would end it.
        if let Some(Ok(mut child)) = self.0.take().map(join) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn join(thread: JoinHandle<std::io::Result<Child>>) -> std::io::Result<Child> {
    thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it failed")))
}
