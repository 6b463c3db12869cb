//! Flame graphs of recordings built by hand: what is drawn, and what is said where there is nothing to draw.

use crate::common::*;
use model::Recording;
use model::profile::{Folding, Kind};
use model::snapshot::{SamplerState, SamplerStatus};
use report::flame::{Flame, why_none};

fn recording() -> Recording {
    let mut recording = cases().remove(0).1;
    recording.samplers.clear();
    recording
}

#[test]
fn an_svg_has_every_frame_and_nothing_of_the_target_that_could_run() {
    let mut folding = Folding::new(100);
    folding.add(&["nginx", "main", "Vec<u8>::push & <script>alert(1)</script>"], 7);
    let recording = recording();
    for (kind, unit) in [(Kind::OnCpu, "7 samples"), (Kind::OffCpu, "7 µs")] {
        let flame = Flame { kind, stacks: folding.stacks(), slow: Some((2, 3_000_000_000)) };
        let mut out = Vec::new();
        flame.write_svg(&mut out, &recording).unwrap();
        let svg = String::from_utf8(out).unwrap();
        assert!(svg.contains("<svg") && svg.contains("main") && svg.contains(unit), "{svg}");
        assert!(svg.contains("2 slow windows") && svg.contains(&recording.plan.origins[0].name), "{svg}");
        assert!(!svg.contains("<script>alert"), "{svg}");
    }
    let mut out = Vec::new();
    Flame { kind: Kind::OnCpu, stacks: folding.stacks(), slow: None }.write_folded(&mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "nginx;main;Vec<u8>::push & <script>alert(1)</script> 7\n");
}

#[test]
fn why_there_is_nothing_is_one_sentence_with_what_to_do() {
    let mut recording = recording();
    assert!(why_none(&recording, Kind::OnCpu, None).contains("older than profiles"));
    let status =
        |status, reason: &str| SamplerStatus { name: "bpf/oncpu".to_owned(), status, reason: reason.to_owned() };
    recording.samplers = vec![status(SamplerState::Disabled, "not asked for")];
    let why = why_none(&recording, Kind::OnCpu, None);
    assert!(why.contains("bpf/oncpu was disabled: not asked for") && why.contains("--observe windows"), "{why}");
    recording.samplers = vec![status(SamplerState::Failed, "CPU 0 may not be sampled")];
    assert!(why_none(&recording, Kind::OnCpu, None).contains("bpf/oncpu failed: CPU 0 may not"));
    recording.samplers = vec![status(SamplerState::Active, "")];
    assert!(why_none(&recording, Kind::OnCpu, None).contains("was active and saw none"));
    assert!(why_none(&recording, Kind::OnCpu, Some(0)).contains("no slow window"));
    recording.profile.on_cpu.add(&["p", "f"], 1);
    assert!(why_none(&recording, Kind::OnCpu, Some(3)).contains("in its 3 slow windows"));
}
