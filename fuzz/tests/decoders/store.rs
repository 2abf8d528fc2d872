//! Messages between drivers and the data store.

use arbitrary::Unstructured;
use warikomi_driver::run::store::{MOST_WORDS, Message, Snapshot};

use crate::harness::{Seeds, bounded};

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let snapshot = Snapshot::new(3, (0..40).collect());
    [
        ("put", Message::Put { key: 7, snapshot: snapshot.clone(), urgent: true }),
        ("get", Message::Get { key: 7, urgent: false }),
        ("stored", Message::Stored { key: 7, generation: 3 }),
        ("found", Message::Found { key: 7, snapshot }),
        ("missing", Message::Missing { key: 7 }),
    ]
    .map(|(name, message)| (name, message.to_bytes()))
    .into()
}

#[test]
fn store() {
    let seeds = Seeds::of("store", &made(), &[]);
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let bytes = seeds.input(&mut Unstructured::new(input));
        bounded(|| {
            let Ok(message) = Message::from_bytes(&bytes) else { return };
            assert_eq!(Message::from_bytes(&message.to_bytes()).ok().as_ref(), Some(&message));
            let (Message::Put { snapshot, .. } | Message::Found { snapshot, .. }) = message else {
                return;
            };
            assert!(snapshot.words.len() <= MOST_WORDS);
            let again = Snapshot::new(snapshot.generation, snapshot.words.clone());
            assert_eq!(snapshot.is_whole(), snapshot == again);
        });
    });
}
