//! A bug of Linux that was put right between the versions of the distribution's packages: an old version has it, which
//! `scripts/test-long` builds and shows; the others have not.

use warikomi_kernel::{Cache, Image, Wanted};
use warikomi_lab::at::At;
use warikomi_lab::{Experiment, Watch};

use crate::release::release;
use crate::{image, on, version};

/// A kernel of the version that is named, where one was made, or that of the other tests.
fn named() -> Image {
    let version = version();
    let wanted = Wanted { version: Some(&version), virtual_time: true, ..Wanted::default() };
    let found = Cache::of_this_user().and_then(|cache| cache.find(&wanted));
    found.unwrap_or_else(|_| image().clone())
}

/// A queue that is stopped when the carrier comes back has waited since then. It was said to have waited since 0 of the
/// kernel's ticks ("net: fix spurious TX timeout after dev_activate()", Linux 6.1.190-1 and 6.12.111-1 of Debian), which come to 0 when
/// the kernel has run for 5 minutes: from then on it is taken for hung at once, and before, as here, never.
#[test]
fn a_queue_that_is_stopped_while_the_cable_comes_back_is_reset_after_the_watchdogs_time() {
    let image = named();
    // The partner pauses the card for 8 s. When the ring is nearly full, the cable is out for 2 ms.
    let flags = ["rtl8169_start_xmit", "--nth", "200", "--operation", "tx timeout"];
    let flags = [&flags[..], &["--deliver", "fault:link-flap"]].concat();
    let struck = on::<At>(&image, &flags).run(&mut Watch::unobserved()).unwrap();
    let printed = struck.result.figures["printed"].as_array().unwrap();
    let said = |what: &str| {
        let mut lines = printed.iter().filter_map(|line| line["line"].as_str());
        lines.find_map(|line| Some(line.split_once(what)?.1.to_owned()))
    };
    assert!(said("Link is Down").is_some() && said("Link is Up").is_some(), "{printed:#?}");
    let timed_out = said("transmit queue 0 timed out ");
    match release(&image) {
        [6, 1, ..190] | [6, 12, ..111] => assert_eq!(timed_out, None, "{printed:#?}"),
        _ => {
            let waited = timed_out.unwrap_or_else(|| panic!("{printed:#?}"));
            let waited_ms: u32 = waited.split(' ').next().unwrap().parse().unwrap();
            assert!((5_000..=6_000).contains(&waited_ms), "{waited}");
        }
    }
}
