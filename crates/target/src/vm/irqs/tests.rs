use super::*;
use crate::vm::testing::{event, events};
use warikomi_pci::Interrupt;

fn order(action: Action, index: u32, data: IrqData<'_>) -> SetIrqs<'_> {
    SetIrqs { action, data, index, start: 0, count: 1 }
}

fn with(index: u32, file: &File) -> Irqs {
    let mut irqs = Irqs::new(Vectors { msi: 1, msix: 2 }, false);
    let files = vec![file.try_clone().unwrap()];
    let set = irqs.set(&order(Action::Trigger, index, IrqData::Eventfd), files).unwrap();
    let messages = index == irq::MSI || index == irq::MSIX;
    let expected = if messages { Consequence::TurnOn(index) } else { Consequence::None };
    assert_eq!(set, expected);
    irqs
}

#[test]
fn a_full_counter_does_not_stop_us_also_if_its_owner_lets_it() {
    let file = event();
    let mut irqs = with(irq::MSI, &file);
    rustix::io::write(&file, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    // O_NONBLOCK is of both ends.
    fcntl_setfl(&file, OFlags::empty()).unwrap();
    irqs.tell(irq::MSI, 0);
    fcntl_setfl(&file, OFlags::NONBLOCK).unwrap();
    assert_eq!(events(&file), u64::MAX - 1);
}

#[test]
fn what_comes_before_there_is_a_descriptor_is_told_when_there_is_one() {
    let mut irqs = Irqs::new(Vectors { msi: 1, msix: 0 }, false);
    irqs.tell(irq::MSI, 0);
    irqs.signal(Interrupt::Intx(true));
    let files = [event(), event()];
    for (index, file) in [(irq::INTX, &files[0]), (irq::MSI, &files[1])] {
        let set = order(Action::Trigger, index, IrqData::Eventfd);
        irqs.set(&set, vec![file.try_clone().unwrap()]).unwrap();
        assert_eq!(events(file), 1);
    }
}

#[test]
fn a_descriptor_that_is_taken_back_hears_nothing_more() {
    let file = event();
    let mut irqs = with(irq::MSIX, &file);
    assert!(irqs.is_open(0) && !irqs.is_open(1) && !irqs.is_open(2));
    irqs.set(&order(Action::Trigger, irq::MSIX, IrqData::Eventfd), Vec::new()).unwrap();
    assert!(!irqs.is_open(0));
    irqs.tell(irq::MSIX, 0);
    irqs.tell(irq::MSIX, 99);
    assert_eq!((events(&file), irqs.counts()), (0, (0, 1)));
    let none = SetIrqs { count: 0, ..order(Action::Trigger, irq::MSIX, IrqData::None) };
    assert_eq!(irqs.set(&none, Vec::new()), Ok(Consequence::TurnOff(irq::MSIX)));
}

#[test]
fn a_card_that_interrupts_without_end_costs_bounded_memory() {
    let mut irqs = Irqs::new(Vectors { msi: 1, msix: 0 }, false);
    let message = MsiMessage { address: 0, data: 1 };
    (0..2 * MOST_QUEUED).for_each(|_| irqs.signal(Interrupt::Msi(message)));
    assert_eq!(irqs.take_queued().len(), MOST_QUEUED);
    assert_eq!(irqs.counts(), (0, MOST_QUEUED as u64));
}

#[test]
fn the_client_hears_that_the_server_would_like_to_go() {
    let file = event();
    let mut irqs = with(irq::REQUEST, &file);
    irqs.request_release();
    assert_eq!(events(&file), 1);
}
