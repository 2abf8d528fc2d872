//! Properties that are functions, not macros, so that a suite can be given its subject.

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

/// `PROPTEST_CASES` cases; a failure is kept in this file, and every later run starts with what is there.
pub fn kept_in(path: &'static str) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(path))),
        ..ProptestConfig::default()
    }
}

/// Tests a property; a failure is shrunk, and panics with the least input that fails.
pub fn check<S: Strategy>(
    config: ProptestConfig,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    if let Err(failure) = TestRunner::new(config).run(strategy, test) {
        panic!("{failure}");
    }
}
