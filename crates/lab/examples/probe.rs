use std::time::Duration;
use warikomi_guest::commands::*;
use warikomi_lab::*;
use warikomi_nic::wire::WireKind;
use warikomi_target::{Interrupted, Target};
fn main() {
    let what = std::env::args().nth(1).unwrap();
    let wire = std::env::args().nth(2).unwrap();
    let o = SessionOptions { kernel: "/tmp/kernel-6.1/linux".into(), initramfs: "/tmp/kernel-6.1/initramfs".into(), driver: "r8169".into(), driver_parameters: vec![], model: "rtl8168".into(), memory_mb: 256, socket: None, kernel_arguments: vec!["loglevel=7".into()], settings: GuestSettings { napi_defer_hard_irqs: Some(0), gro_flush_timeout_ns: Some(0), ..Default::default() } };
    let mut s = Session::start(&o, wire.parse::<WireKind>().unwrap().build().unwrap(), &Interrupted::default(), &mut |_| ()).unwrap();
    let d = Duration::from_secs(5);
    match what.as_str() {
        "vlan2" => { let mut t = |c: &str| println!("{c}: {:?}", s.target.ask(ReadFile { path: c.into() }, d).map(|x| x.text).map_err(|e| e.to_string()));
            t("/proc/net/vlan/config"); let t0 = std::time::Instant::now();
            println!("{:?} {:?}", s.target.ask(VlanAdd { interface: None, id: 7, address_cidr: "10.9.7.1/24".into() }, Duration::from_secs(60)).map_err(|e| e.to_string()), t0.elapsed()); }
        "vlan" => println!("{:?}", s.target.ask(VlanAdd { interface: None, id: 7, address_cidr: "10.9.7.1/24".into() }, d).map_err(|e| e.to_string())),
        "ping" => for i in 0..5 { println!("{i} {:?}", s.target.ask(Ping { address: "10.9.0.2".into(), count: 4, interval_ms: 0, payload_bytes: 1000, timeout_ms: 1000 }, d).map_err(|e| e.to_string())) },
        "tx" => for n in [1u64, 10, 100, 200, 300, 1000, 5000] { println!("{n} {:?}", s.target.ask(Transmit { count: n, payload_bytes: 1000, destination: "10.9.0.2:5002".into(), run_id: 1, interval_us: 0, vlan: None, timeout_ms: 2000 }, d).map_err(|e| e.to_string())); },
        _ => {}
    }
    println!("{:?}\n{:?}\n{:?}", s.target.counters(), s.target.nic().0.counters(), s.target.nic().0.wire().counters());
    for l in s.target.console().0 { println!("| {l}"); }
    println!("{:?}", s.target.ask(Counters { interface: None }, d).map(|c| (c.driver, c.interrupts)).map_err(|e| e.to_string()));
}
