//! Processes that an application of the user's has started: what computes on what it receives.

use std::io;

use procfs::process::all_processes;
use warikomi_session::Session;

use crate::Error;

/// The processes of a target's group that are no parts of it. What they started in a group of their own is not found.
pub(super) fn of(session: &Session) -> Result<Vec<u32>, Error> {
    let parts = session.target.process_ids();
    let group = session.target.process_id() as i32;
    let cannot = |error| Error::CpuTime(io::Error::other(error));
    let all = all_processes().map_err(cannot)?;
    // One that ends meanwhile is none.
    let stats = all.filter_map(|process| process.ok()?.stat().ok());
    let found: Vec<u32> = stats
        .filter(|stat| stat.pgrp == group && stat.state != 'Z')
        .map(|stat| stat.pid as u32)
        .filter(|id| !parts.contains(id))
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::impossible(
            "--own-compute is for an application that has started a process to compute on what it receives, and this one \
             has started none; fork() it before the first buffer is posted, or leave --own-compute out",
        )),
    }
}
