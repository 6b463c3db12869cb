//! Flame graphs: folded stacks drawn as SVG, by inferno.
//!
//! The colours of where it ran say whose function it is (perf's marks: the kernel's, inlined); where it waited is blue.
//! Where there is nothing to draw, [`why_none`] says why.

use crate::figures::rfc3339;
use crate::words::{counted, duration};
use inferno::flamegraph::color::{BasicPalette, MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};
use model::Recording;
use model::plain::plain;
use model::profile::{Kind, Stacks};
use model::snapshot::SamplerState;
use std::io::{self, Write};

/// What is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Flame<'a> {
    /// Which stacks these are.
    pub kind: Kind,
    /// The stacks.
    pub stacks: &'a Stacks,
    /// Where only slow windows are drawn: their number and length together, nanoseconds.
    pub slow: Option<(usize, u64)>,
}

impl Flame<'_> {
    /// Writes it as SVG.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_svg(&self, to: &mut impl Write, recording: &Recording) -> io::Result<()> {
        let mut options = Options::default();
        options.title = plain(&self.title(recording)).into_owned();
        options.subtitle = Some(self.subtitle(recording));
        options.count_name = self.kind.unit().to_owned();
        options.colors = match self.kind {
            Kind::OnCpu => Palette::Multi(MultiPalette::Java),
            Kind::OffCpu => Palette::Basic(BasicPalette::Blue),
        };
        // The same stacks give the same picture.
        options.hash = true;
        options.deterministic = true;
        let lines: Vec<String> = self.stacks.folded().iter().map(|line| plain(line).into_owned()).collect();
        from_lines(&mut options, lines.iter().map(String::as_str), to)
    }

    /// Writes them as folded text: a line a stack, for other tools.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_folded(&self, to: &mut impl Write) -> io::Result<()> {
        self.stacks.folded().iter().try_for_each(|line| writeln!(to, "{}", plain(line)))
    }

    fn title(&self, recording: &Recording) -> String {
        let target = recording.plan.origins.first().map_or("", |origin| &origin.name);
        let what = match self.kind {
            Kind::OnCpu => "on-CPU",
            Kind::OffCpu => "off-CPU",
        };
        format!("{what}: {target}, run of {}", rfc3339(recording.capsule.started_at_unix_ns))
    }

    fn subtitle(&self, recording: &Recording) -> String {
        let total = self.stacks.total();
        let counted_in_all = match self.kind {
            Kind::OnCpu => counted(total, "sample"),
            Kind::OffCpu => format!("{} of threads' time", duration(total.saturating_mul(1000))),
        };
        let when = match self.slow {
            Some((windows, ns)) => format!("{}, {} together", counted(windows as u64, "slow window"), duration(ns)),
            None if self.kind == Kind::OffCpu => "all windows of the probe".to_owned(),
            None => "the whole run".to_owned(),
        };
        let lost = match self.stacks.lost {
            0 => String::new(),
            lost => format!(", {lost} {} lost", self.kind.unit()),
        };
        // The kernel's release says which functions these are.
        format!("{counted_in_all}; {when}{lost}; Linux {}", recording.capsule.kernel)
    }
}

/// Why a recording has no stacks of a kind, in a sentence. `slow`: how many slow windows it has, where those were asked
/// for.
pub fn why_none(recording: &Recording, kind: Kind, slow: Option<usize>) -> String {
    let name = match kind {
        Kind::OnCpu => "bpf/oncpu",
        Kind::OffCpu => "bpf/offcpu",
    };
    let expected = format!("expected {} stacks in the recording", kind.name());
    let has_any = recording.profile.of(kind).total() > 0;
    match slow {
        Some(0) => {
            return format!(
                "{expected} of slow windows, but it has no slow window: in no tick was the response p99 above twice the median of the ticks' p99"
            );
        }
        Some(windows) if has_any => {
            return format!(
                "{expected} of slow windows, but nothing was sampled in its {}; leave out --slow for the whole run, or record with --observe full",
                counted(windows as u64, "slow window")
            );
        }
        _ => {}
    }
    let sampler = recording.samplers.iter().find(|sampler| sampler.name == name || sampler.name == "bpf/all");
    match sampler {
        Some(sampler) if sampler.status == SamplerState::Active => format!(
            "{expected}, but the sampler {name} was active and saw none: the run was too short, or the target did nothing"
        ),
        Some(sampler) => {
            let state = if sampler.status == SamplerState::Failed { "failed" } else { "was disabled" };
            format!(
                "{expected}, but the sampler {name} {state}: {}; record with --observe windows or full",
                sampler.reason
            )
        }
        None => format!(
            "{expected}, but it says nothing of the sampler {name}: it is older than profiles, or it was cut off; record with --observe windows or full"
        ),
    }
}
