//! Processes that an application of the user's has started: what computes on what it receives.

use std::io;

use procfs::process::all_processes;
use warikomi_session::Session;

use crate::Error;

/// What the parts of a target have started: each leads a group. What is in a group of its own is not found.
pub(super) fn of(session: &Session) -> Result<Vec<u32>, Error> {
    let parts = session.target.process_ids();
    let cannot = |error| Error::CpuTime(io::Error::other(error));
    let all = all_processes().map_err(cannot)?;
    // One that ends meanwhile is none.
    let stats = all.filter_map(|process| process.ok()?.stat().ok());
    let found: Vec<u32> = stats
        .filter(|stat| parts.contains(&stat.pgrp.cast_unsigned()) && stat.state != 'Z')
        .map(|stat| stat.pid.cast_unsigned())
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
