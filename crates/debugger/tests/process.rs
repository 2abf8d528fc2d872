//! A process of ours, stopped at places in its code. The process is this program, run as one of its tests.

use std::collections::HashSet;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use warikomi_debugger::{Code, Function, Place, Program, Registers, Stop, Tracee, call_stack};

/// What the process executes over and over again.
#[inline(never)]
fn place_to_stop_at(count: u64) -> u64 {
    black_box(count).wrapping_mul(3)
}

/// A process that comes by all the time, one that does so now and then, and one that asks the C library for memory.
const BUSY: &str = "busy";
const USUAL: &str = "usual";
const ALLOCATES: &str = "allocates";

/// Runs until it is killed; does nothing when it is run as a test.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn process() {
    let Some(kind) = std::env::var_os("WARIKOMI_DEBUGGED") else { return };
    let mut count = 0;
    loop {
        count = place_to_stop_at(count) + 1;
        if kind == ALLOCATES {
            black_box((0..count % 40).map(|n| vec![0_u8; 8 << (n % 12)]).collect::<Vec<_>>());
        } else if kind != BUSY {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

struct Debugged {
    child: Child,
    /// The thread that runs the test.
    thread: u32,
    /// By how much the program was moved when it was loaded.
    moved: u64,
    program: Program,
}

impl Debugged {
    fn start() -> Debugged {
        Debugged::start_as(USUAL)
    }

    fn start_as(kind: &str) -> Debugged {
        let path = std::env::current_exe().unwrap();
        let child = Command::new(&path)
            .args(["--exact", "process", "--ignored", "--nocapture"])
            .env("WARIKOMI_DEBUGGED", kind)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let code = Code::of_program("tests", &path).unwrap();
        let maps = format!("/proc/{}/maps", child.id());
        let begun = Instant::now();
        let (thread, moved) = loop {
            assert!(begun.elapsed() < Duration::from_secs(20), "it has not started its test");
            let text = std::fs::read_to_string(&maps).unwrap();
            let first = text.lines().find(|line| line.ends_with(path.to_str().unwrap()));
            let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
            let threads: Vec<u32> = threads
                .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
                .collect();
            if let (Some(line), Some(&thread)) =
                (first, threads.iter().find(|id| **id != child.id()))
            {
                let begin = line.split('-').next().unwrap();
                break (thread, u64::from_str_radix(begin, 16).unwrap());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        Debugged { child, thread, moved, program: Program { parts: vec![code.into()] } }
    }

    fn function(&self) -> Function {
        let mut functions = self.program.parts[0].functions().iter();
        functions.find(|function| function.name.contains("place_to_stop_at")).unwrap().clone()
    }
}

impl Drop for Debugged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // A thread that has ended while this one traced it is collected when this one ends, and not before.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn wait_for(tracee: &mut Tracee, wanted: Stop) -> Registers {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {wanted:?}");
        match tracee.poll().unwrap() {
            Some(stop) if stop == wanted => return tracee.registers().unwrap(),
            Some(_) => tracee.resume().unwrap(),
            None => {}
        }
    }
}

#[test]
fn it_stops_at_a_breakpoint_as_often_as_it_comes_by_and_goes_on_when_let_go() {
    let debugged = Debugged::start();
    let address = debugged.function().address + debugged.moved;
    let mut tracee = Tracee::seize(debugged.thread).unwrap();
    assert!(Tracee::seize(debugged.thread).is_err(), "one debugger at a time");
    let mut before = [0];
    tracee.read(address, &mut before).unwrap();
    tracee.set_breakpoint(address).unwrap();
    for _ in 0..3 {
        let registers = wait_for(&mut tracee, Stop::Breakpoint(address));
        assert_eq!(registers.pc, address);
        assert!(tracee.is_stopped());
        let stack = call_stack(&tracee, registers);
        assert_eq!((stack[0].pc, stack[0].interrupted), (address, true));
        tracee.resume().unwrap();
    }
    tracee.clear_breakpoints().unwrap();
    let mut after = [0];
    tracee.read(address, &mut after).unwrap();
    assert_eq!(before, after);

    assert_eq!(tracee.interrupt().unwrap(), Stop::Interrupted);
    drop(tracee);
    // The next debugger can take hold of it.
    let mut again = Tracee::seize(debugged.thread).unwrap();
    again.set_breakpoint(address).unwrap();
    wait_for(&mut again, Stop::Breakpoint(address));
}

/// The C library keeps no frame pointers, and uses their register for something else.
#[test]
fn who_called_the_c_library_is_found_wherever_that_stands() {
    let debugged = Debugged::start_as(ALLOCATES);
    let address = debugged.function().address + debugged.moved;
    let mut tracee = Tracee::seize(debugged.thread).unwrap();
    tracee.set_breakpoint(address).unwrap();
    wait_for(&mut tracee, Stop::Breakpoint(address));
    tracee.clear_breakpoints().unwrap();
    tracee.resume().unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", debugged.child.id())).unwrap();
    let code_of = |name: &str| {
        let line = maps.lines().find(|line| line.contains(" r-xp ") && line.contains(name));
        let (from, to) = line.unwrap().split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        number(from)..number(to)
    };
    let library = code_of("/libc.so");
    let program = code_of(std::env::current_exe().unwrap().to_str().unwrap());
    let mut places = HashSet::new();
    for _ in 0..500 {
        assert_eq!(tracee.interrupt().unwrap(), Stop::Interrupted);
        let registers = tracee.registers().unwrap();
        if library.contains(&registers.pc) {
            let stack = call_stack(&tracee, registers);
            let caller = stack.iter().find(|frame| !library.contains(&frame.pc));
            let found = caller.is_some_and(|caller| program.contains(&caller.pc));
            assert!(found, "{registers:x?} {stack:x?}\n{maps}");
            places.insert(registers.pc);
        }
        tracee.resume().unwrap();
        std::thread::sleep(Duration::from_micros(50));
    }
    assert!(places.len() > 10, "it was hardly ever seen in the C library: {}", places.len());
}

/// A signal that comes at the same time takes the place of the stop that was asked for.
#[test]
fn it_stops_when_it_is_told_to_whatever_signals_come_meanwhile() {
    let debugged = Debugged::start();
    // Signals to a process go to its first thread.
    let mut tracee = Tracee::seize(debugged.child.id()).unwrap();
    let process = debugged.child.id().to_string();
    let mut signals = Command::new("/bin/sh")
        .args(["-c", "while kill -WINCH \"$1\"; do :; done", "signals", &process])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..2_000 {
        tracee.interrupt().unwrap();
        assert!(tracee.is_stopped());
        tracee.resume().unwrap();
    }
    signals.kill().unwrap();
    signals.wait().unwrap();
}

/// Else the signal of a breakpoint that has been taken away since would end it.
#[test]
fn a_breakpoint_that_is_met_as_it_is_told_to_stop_is_a_breakpoint() {
    let debugged = Debugged::start_as(BUSY);
    let address = debugged.function().address + debugged.moved;
    let mut tracee = Tracee::seize(debugged.thread).unwrap();
    let mut met = 0;
    for round in 0..5_000 {
        tracee.interrupt().unwrap();
        tracee.set_breakpoint(address).unwrap();
        tracee.resume().unwrap();
        let (begun, for_long) = (Instant::now(), Duration::from_nanos(round % 100 * 200));
        while begun.elapsed() < for_long {
            std::hint::spin_loop();
        }
        let stop = tracee.interrupt().unwrap();
        met += u32::from(stop == Stop::Breakpoint(address));
        assert!(
            matches!(stop, Stop::Breakpoint(_) | Stop::Interrupted),
            "{stop:?} in round {round}"
        );
        tracee.clear_breakpoint(address).unwrap();
        tracee.resume().unwrap();
    }
    assert!(met > 0, "it has never come by");
    assert_eq!(tracee.poll().unwrap(), None);
}

#[test]
fn the_end_of_a_process_is_told_and_left_for_others_to_see() {
    let mut debugged = Debugged::start();
    let mut tracee = Tracee::seize(debugged.child.id()).unwrap();
    debugged.child.kill().unwrap();
    let begun = Instant::now();
    while tracee.poll().unwrap() != Some(Stop::Ended) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it has not ended");
    }
    drop(tracee);
    assert!(!debugged.child.wait().unwrap().success());
}

#[test]
fn code_is_known_by_function_instruction_and_line() {
    let debugged = Debugged::start();
    let (program, function) = (&debugged.program, debugged.function());
    let instructions = program.parts[0].instructions(&function);
    assert_eq!(instructions[0], function.address);
    assert!(instructions.len() > 1);
    let location = program.locate(function.address);
    assert_eq!(location.function, Some((function.name.clone(), 0)));
    // Of the others some are of what is inlined.
    let own = instructions.iter().filter_map(|&at| Some((at, program.locate(at).line?)));
    let mut own = own.filter(|(_, (file, _))| file.ends_with("debugger/tests/process.rs"));
    let (address, (_, line)) = own.next().unwrap();

    let second = instructions[1] - function.address;
    let place = |text: String| program.resolve(&text.parse::<Place>().unwrap());
    assert_eq!(place(format!("{}+{second}", function.name)).unwrap(), [instructions[1]]);
    assert!(place(format!("debugger/tests/process.rs:{line}")).unwrap().contains(&address));
    let says = |text: String, wanted: &str| {
        let error = place(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    says("place_to_stop_a".to_owned(), "there is no function");
    says(format!("{}+0x100000", function.name), "its last instruction is");
    says("debugger/tests/process.rs:2".to_owned(), "the nearest: debugger/tests/process.rs:");
    says("nowhere.rs:1".to_owned(), "no code was made from a file");
}
