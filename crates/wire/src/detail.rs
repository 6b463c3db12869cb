//! The table of a protocol's named details: numbers that say more about a failure than its kind, and their words.

/// Declares a protocol's `Detail`, the table `NAMED` and `named`, which finds a number's words. Numbers are stored in
/// recordings: never change one, add new ones.
macro_rules! details {
    ($( $(#[$doc:meta])* $name:ident = $number:literal, $words:literal; )+) => {
        /// A named detail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Detail { $( $(#[$doc])* $name = $number ),+ }

        /// The named details and their words.
        const NAMED: &[(u32, &str)] = &[ $( ($number, $words) ),+ ];

        fn named(detail: u32) -> Option<&'static str> {
            NAMED.iter().find(|(number, _)| *number == detail).map(|(_, words)| *words)
        }
    };
}
pub(crate) use details;
