//! A driver with its card, and what every driver must do.

mod hostile;
mod partial;
mod receive;
mod rig;
mod sink;
mod strict;
mod transmit;

pub use hostile::*;
pub use partial::{Partial, PartialDriver};
pub use receive::*;
pub use rig::Rig;
pub use sink::WatchedSink;
pub use strict::*;
pub use transmit::*;

/// Tests the driver of each [`Subject`](crate::Subject), a line for each:
/// `driver_conformance!(rtl8168: Subject::of(warikomi_testbench::RTL8168));`
///
/// What has failed is kept in `tests/drivers.regressions` of the crate that says so.
#[macro_export]
macro_rules! driver_conformance {
    ($($name:ident: $subject:expr),+ $(,)?) => {
        $(mod $name {
            use super::*;
            use $crate::drivers as suite;
            const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drivers.regressions");
            $crate::suite!($subject =>
                every_length_of_frame_arrives_as_it_was_sent,
                more_frames_than_descriptors_come_in_order_and_the_budget_holds,
                with_no_buffer_to_be_had_the_ring_runs_dry_and_fills_again,
                the_devices_verdict_on_checksums_is_passed_on,
                an_armed_device_interrupts_once_for_each_acknowledgement,
                a_cable_that_is_pulled_is_told_and_frames_still_interrupt_afterwards,
                a_frame_beside_a_change_of_the_link_does_not_silence_the_next,
                another_device_is_refused,
                a_transfer_to_nowhere_is_a_system_error_and_everything_comes_back,
                after_quiesce_the_device_is_quiet_and_can_be_opened_again,
                frames_go_out_when_the_bell_is_rung_and_their_names_come_back,
                a_full_ring_takes_no_more_until_frames_have_gone,
                what_is_no_frame_is_refused,
                an_armed_device_tells_a_sleeper_that_its_frame_is_gone,
                while_transmissions_interrupt_neither_handler_nor_disarming_masks_them,
                quiesce_gives_back_what_was_not_sent,
                a_strict_card_has_nothing_against_it,
                what_a_witness_objects_to_is_found_with_its_stack,
            );
            $crate::suite!(@kept KEPT, $subject =>
                any_mixture_of_frames_polls_and_buffers_comes_out_in_order,
                any_cutting_of_a_frame_sends_the_same_frame,
                registers_that_lie_are_an_error_and_never_a_hang,
            );
        })+
    };
}
