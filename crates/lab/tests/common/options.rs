//! What a session on a kernel's image is started with, for tests.

use warikomi_kernel::Image;
use warikomi_nic::NicOptions;
use warikomi_session::{GuestSettings, SessionOptions};

/// r8169 and its card, by the image's bridge if it has one. NAPI defers no interrupts.
pub(crate) fn options_of(image: &Image) -> SessionOptions {
    SessionOptions {
        kernel: image.kernel(),
        initramfs: image.initramfs(),
        modules: Some(image.modules()),
        driver: "r8169".into(),
        is_own_driver: false,
        driver_parameters: vec![],
        nic: NicOptions::of("rtl8168"),
        make_nic: warikomi_nic::build,
        second: None,
        memory_mb: 256,
        socket: None,
        kernel_arguments: vec![],
        bridge: image.info().bridge,
        interrupts: None,
        settings: GuestSettings {
            napi_defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            ..GuestSettings::default()
        },
        realtime: true,
        virtual_time: None,
        reads: vec![],
        confined: true,
    }
}
