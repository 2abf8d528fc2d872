//! Whose the device is, when it is handed over and anybody dies: the very baton, between an old driver, a new
//! one, a spare one and the support side. Never do two of them use the device at once, and in the end
//! somebody does.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::{Condvar, Mutex};
use loom::thread;
use warikomi_driver::state::{Baton, How, Turn};
use warikomi_pci::attach::area::{OWNER, record};
use warikomi_shared::Words;

use crate::explore;
use crate::words::ModelWords;

const OLD: u32 = 1;
const NEW: u32 = 2;
const SPARE: u32 = 3;

// Words behind those of the area that matter here.
const STOP: usize = record::GENERATION + 1;
/// The generation that serves the device after the hand-over.
const SERVED: usize = STOP + 1;
/// Behind it, for each generation, whether it is dead.
const DEAD: usize = SERVED + 1;
const WORDS: usize = DEAD + SPARE as usize + 1;

/// What a driver does when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Never,
    /// It has the device, and has written nothing.
    Serving,
    /// Its record is written, the baton is not given.
    Recorded,
    /// The baton is given; the process that sleeps on it was not woken.
    Given,
    /// It has got the baton, and has not accepted it.
    Called,
    /// It has accepted the baton.
    Accepted,
}

#[derive(Clone)]
struct World {
    words: ModelWords,
    baton: Baton<ModelWords>,
    /// Whoever uses the device has it locked; nobody ever waits for it.
    device: Arc<Mutex<()>>,
    /// A futex: who sleeps looks at its word under the lock.
    futex: Arc<(Mutex<()>, Condvar)>,
}

impl World {
    fn new() -> World {
        let words = ModelWords::new(WORDS, None);
        let baton = Baton::new(words.clone());
        baton.accept(OLD);
        baton.give(Turn { generation: OLD, how: How::Start });
        let futex = Arc::new((Mutex::new(()), Condvar::new()));
        World { words, baton, device: Arc::new(Mutex::new(())), futex }
    }

    fn wake(&self) {
        let _asleep = self.futex.0.lock().unwrap();
        self.futex.1.notify_all();
    }

    fn wait_until(&self, done: impl Fn() -> bool) {
        let mut guard = self.futex.0.lock().unwrap();
        while !done() {
            guard = self.futex.1.wait(guard).unwrap();
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.words.load(at, Acquire)
    }

    fn turn(&self) -> Turn {
        self.baton.turn().unwrap()
    }

    fn is_dead(&self, generation: u32) -> bool {
        self.word(DEAD + generation as usize) != 0
    }

    /// From here on this driver does nothing any more, and the support side sees that.
    fn die(&self, generation: u32) {
        self.words.store(DEAD + generation as usize, 1, Release);
        self.wake();
    }

    fn use_device(&self) {
        let _guard = self.device.try_lock().expect("two drivers use one device");
    }

    /// Uses the device for good.
    fn serve(&self, generation: u32) {
        self.use_device();
        self.words.store(SERVED, generation.into(), Release);
        self.wake();
    }
}

/// Waits for the baton; whether it came before the end.
fn called(world: &World, generation: u32) -> bool {
    let ours = || world.turn().generation == generation;
    world.wait_until(|| ours() || world.word(STOP) != 0);
    ours()
}

/// The driver that has the device, and is told to hand it over.
fn old(world: &World, death: Death) {
    world.use_device();
    if death == Death::Serving {
        return world.die(OLD);
    }
    world.words.store(record::GENERATION, OLD.into(), Relaxed);
    if death == Death::Recorded {
        return world.die(OLD);
    }
    world.baton.give(Turn { generation: NEW, how: How::HandedOver });
    if death == Death::Given {
        return world.die(OLD);
    }
    world.wake();
    if called(world, OLD) {
        assert_eq!(world.baton.owner(), OLD, "it comes back only if nobody has accepted it");
        world.serve(OLD);
    }
}

/// A driver that waits for its turn.
fn candidate(world: &World, generation: u32, death: Death) {
    if !called(world, generation) {
        return;
    }
    if world.turn().how == How::HandedOver {
        let by = world.words.load(record::GENERATION, Relaxed);
        assert_eq!(by, u64::from(OLD), "the record is seen before the baton");
    }
    if death == Death::Called {
        return world.die(generation);
    }
    world.baton.accept(generation);
    world.use_device();
    if death == Death::Accepted {
        return world.die(generation);
    }
    world.serve(generation);
}

/// The support side: the owner of the baton and is dead loses it.
fn supervise(world: &World) {
    let stuck = || world.is_dead(world.turn().generation);
    loop {
        world.wait_until(|| stuck() || world.word(SERVED) != 0);
        if world.word(SERVED) != 0 {
            break;
        }
        let (holder, owner) = (world.turn().generation, world.baton.owner());
        let turn = if owner != holder && !world.is_dead(owner) {
            Turn { generation: owner, how: How::HandedOver }
        } else {
            let next = if world.is_dead(NEW) { SPARE } else { NEW };
            Turn { generation: next, how: How::Died }
        };
        world.baton.give(turn);
        world.wake();
    }
    world.words.store(STOP, 1, Release);
    world.wake();
}

fn hand_over(of_old: Death, of_new: Death) {
    let world = World::new();
    let start = |run: Box<dyn FnOnce(&World)>| {
        let world = world.clone();
        thread::spawn(move || run(&world))
    };
    let mut drivers = vec![
        start(Box::new(move |world| old(world, of_old))),
        start(Box::new(move |world| candidate(world, NEW, of_new))),
    ];
    if of_new != Death::Never {
        drivers.push(start(Box::new(|world| candidate(world, SPARE, Death::Never))));
    }
    supervise(&world);
    for driver in drivers {
        driver.join().unwrap();
    }
    let served = world.word(SERVED) as u32;
    let expected = match (of_old, of_new) {
        (_, Death::Never) => NEW,
        (Death::Never, Death::Called) => OLD,
        _ => SPARE,
    };
    assert_eq!((served, world.words.load(OWNER, Relaxed) as u32), (expected, expected));
}

#[test]
fn a_device_has_one_driver_whoever_dies() {
    for of_old in [Death::Never, Death::Serving, Death::Recorded, Death::Given] {
        for of_new in [Death::Never, Death::Called, Death::Accepted] {
            // Four threads have more interleavings with one preemption than three have with two.
            let preemptions = if of_new == Death::Never { 2 } else { 1 };
            explore(preemptions, move || hand_over(of_old, of_new));
        }
    }
}
