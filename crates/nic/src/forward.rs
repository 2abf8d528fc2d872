//! What a NIC around a NIC passes on.

/// Has a NIC with another in its field `nic` answer these methods of [`Nic`](crate::Nic) as that one does.
#[macro_export]
macro_rules! forward_nic {
    ($($method:ident),+ $(,)?) => { $($crate::forward_nic!(@$method);)+ };
    (@info) => { $crate::forward_nic!(@ask info -> &'static $crate::ModelInfo); };
    (@offered_link) => { $crate::forward_nic!(@ask offered_link -> $crate::Link); };
    (@has_link) => { $crate::forward_nic!(@ask has_link -> bool); };
    (@receiving) => { $crate::forward_nic!(@ask receiving -> bool); };
    (@mac_address) => { $crate::forward_nic!(@ask mac_address -> [u8; 6]); };
    (@counters) => { $crate::forward_nic!(@ask counters -> $crate::FunctionCounters); };
    (@next_due) => { $crate::forward_nic!(@ask next_due -> ::warikomi_clock::Time); };
    (@probe) => { $crate::forward_nic!(@have probe() -> &mut $crate::Probe); };
    (@strict) => { $crate::forward_nic!(@have strict() -> Option<&mut $crate::strict::Strict>); };
    (@wire) => { $crate::forward_nic!(@have wire() -> &mut dyn ::warikomi_wire::Wire); };
    (@look_ahead) => {
        $crate::forward_nic!(@do look_ahead(frames: usize, bytes: usize) -> usize);
    };
    (@power_on) => { $crate::forward_nic!(@do power_on() -> ()); };
    (@set_link) => { $crate::forward_nic!(@do set_link(link: $crate::Link) -> ()); };
    (@register) => { $crate::forward_nic!(@do register(bar: u8, offset: u64) -> Option<u64>); };
    (@receive) => {
        $crate::forward_nic!(@do receive(frame: $crate::Frame<'_>) -> $crate::Reception);
    };
    (@receive_faulty) => {
        $crate::forward_nic!(@do receive_faulty(frame: $crate::Frame<'_>, fault: $crate::RxFault) -> $crate::Reception);
    };
    (@rx_queue_progress) => {
        $crate::forward_nic!(@do rx_queue_progress(queue: u16, limit: usize) -> $crate::RxCounters);
    };
    (@rx_queue_free) => {
        $crate::forward_nic!(@do rx_queue_free(queue: u16, limit: usize) -> usize);
    };
    (@ask $method:ident -> $answer:ty) => {
        fn $method(&self) -> $answer {
            self.nic.$method()
        }
    };
    (@have $method:ident() -> $answer:ty) => {
        fn $method(&mut self) -> $answer {
            self.nic.$method()
        }
    };
    (@do $method:ident($($argument:ident: $kind:ty),*) -> $answer:ty) => {
        fn $method(&mut self, host: &mut ::warikomi_pci::Host<'_>, $($argument: $kind),*) -> $answer {
            self.nic.$method(host, $($argument),*)
        }
    };
}
