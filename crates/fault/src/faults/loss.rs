//! Packets that are lost on their way to a TCP port, drawn for each.
//!
//! At the receiving side ([`crate::network::firewall`]): what is lost on a sender's way out looks to its TCP like a full queue at
//! home. On the loopback interface also those that go back, as a path loses both ways.

use super::Kind;
use super::port::{NEEDS, Rules, UNDONE, port};
use crate::network::firewall::{LOSS_MAX_PPM, Packets};
use std::sync::Arc;

/// What a share is.
pub(super) const SHARE: &str = "a share from 0.0001% to 90%";

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "loss",
    takes: "PORT SHARE [any-interface]",
    example: "8080 2%",
    does: "loses a share of the packets that come to a port (on loopback, of those that go back, too)",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let port = port(words)?;
        let ppm = words.parsed(SHARE, share)?;
        Ok(Arc::new(Rules { port, is_any_interface: words.take("any-interface"), packets: Packets::Lost { ppm } }))
    },
};

/// A share in percent, as parts of a million.
pub(super) fn share(word: &str) -> Option<u32> {
    let percent: f64 = word.strip_suffix('%')?.trim_end().parse().ok()?;
    let ppm = (percent * 1e4).round();
    (1.0..=f64::from(LOSS_MAX_PPM)).contains(&ppm).then_some(ppm as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_percent() {
        assert_eq!((share("2%"), share("0.5 %"), share("90%")), (Some(20_000), Some(5_000), Some(900_000)));
        for wrong in ["2", "0%", "91%", "-1%", "NaN%", "%", "two%", "1e400%"] {
            assert_eq!(share(wrong), None, "{wrong}");
        }
    }
}
