//! Texts of sar, nmon, vmstat and of the kernel's log: whatever comes, nothing may panic, and snapshots go forward.
//!
//! Input: a byte that says which format, and the text. Memory is bounded by run.sh.
#![no_main]

use libfuzzer_sys::fuzz_target;
use observe::import::{FORMATS, Options, read};

fuzz_target!(|input: &[u8]| {
    let Some((which, mut text)) = input.split_first() else { return };
    let format = &FORMATS[usize::from(*which) % FORMATS.len()];
    let options = Options { is_first_interval: which & 0x80 != 0, ..Options::default() };
    let Ok(imported) = read(format, &mut text, &options) else { return };
    let mut last_ns = i64::MIN;
    for snapshot in imported.snapshots {
        assert!(snapshot.at_ns > last_ns);
        last_ns = snapshot.at_ns;
    }
});
