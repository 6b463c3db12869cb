//! What no peer can bring about: a kernel that takes nothing.

use super::*;
use crate::driver::Idle;
use model::plan::Address;

/// A driver on another thread than its own, which a ring of a single issuer refuses.
struct Moved(Uring);

// SAFETY: the driver is moved, not shared; that the kernel refuses its ring there is what the test is about.
unsafe impl Send for Moved {}

#[test]
fn a_kernel_that_takes_nothing_ends_the_wait_with_an_error() {
    if let Err(why) = available() {
        return testkit::skip(&format!("no io_uring: {why}"));
    }
    let setup = Setup {
        slots: 2000,
        addresses: vec![Address::Tcp(([127, 0, 0, 1], 9).into())],
        blobs: vec![],
        pipeline: 1,
        receive_stamps: false,
        sources: vec![],
        is_burst: false,
        idle: Idle::Watched,
    };
    let moved = Moved(Uring::new(&setup).unwrap());
    let outcome = std::thread::spawn(move || {
        let Moved(mut driver) = { moved };
        for slot in 0..setup.slots {
            driver.connect(slot, 0);
        }
        let outcome = driver.wait(0, Wake::First);
        outcome.map_err(|error| error.to_string())
    });
    let said = outcome.join().unwrap().unwrap_err();
    assert!(!said.is_empty());
}
