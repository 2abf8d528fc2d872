//! Starting a process without waiting for it.

use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use warikomi_target::TargetError;
use warikomi_target::cores::Pinned;
use warikomi_target::sandbox::Sandbox;

use crate::resident::Resident;
use crate::{creation, priority};

/// A process that a thread of ours is starting, so that nobody has to wait for it.
pub(super) struct Launch(Option<JoinHandle<std::io::Result<Launched>>>);

/// A process that has been started.
pub(super) struct Launched {
    pub(super) child: Child,
    /// How often the application got the processor during the reads that came before it.
    pub(super) read_dispatches: Option<u64>,
}

/// How a process is started.
pub(super) struct How {
    /// On which core.
    pub(super) core: Option<usize>,
    /// With which claim on it.
    pub(super) nice: Option<i32>,
    /// Blocks of its program that are read first.
    pub(super) reads: u32,
    /// The process that is watched meanwhile.
    pub(super) application: Option<u32>,
    /// How it is confined.
    pub(super) sandbox: Option<Sandbox>,
    /// What holds its program in memory.
    pub(super) resident: Resident,
}

impl Launch {
    /// Begins to start a process.
    pub(super) fn begin(mut command: Command, how: How) -> Result<Launch, TargetError> {
        let thread = std::thread::Builder::new().name("launch".to_owned());
        // The command goes with the thread: it holds the process's end of a socket.
        let launch = thread
            .spawn(move || {
                if let Some(nice) = how.nice {
                    priority::claim_for_this_thread(nice);
                }
                // Children inherit the affinity of the thread that starts them.
                let _pinned = how.core.map(Pinned::to).transpose()?;
                let program = Path::new(command.get_program());
                how.resident.hold(program);
                let read_dispatches = creation::read(program, how.reads, how.application)?;
                let child = match how.sandbox {
                    Some(sandbox) => sandbox.spawn_last(&mut command)?,
                    None => command.spawn()?,
                };
                Ok(Launched { child, read_dispatches })
            })
            .map_err(TargetError::system("cannot start a thread to start a process"))?;
        Ok(Launch(Some(launch)))
    }

    /// The process, once.
    pub(super) fn outcome(&mut self) -> Option<std::io::Result<Launched>> {
        self.0.take_if(|thread| thread.is_finished()).map(join)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        // Nobody has it in a group yet who would end it.
        if let Some(Ok(mut launched)) = self.0.take().map(join) {
            let _ = launched.child.kill();
            let _ = launched.child.wait();
        }
    }
}

fn join(thread: JoinHandle<std::io::Result<Launched>>) -> std::io::Result<Launched> {
    thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it failed")))
}
