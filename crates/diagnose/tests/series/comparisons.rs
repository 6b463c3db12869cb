//! What verdicts of a comparison are worth: a simulation study of 1,000 seeds a line, and its table in docs/comparing.md.
//!
//! Each seed is a comparison: repeats of A, A again and B in random order, whose figures are a common level, the moment's noise
//! and drift. What is claimed is held here: with a method that claims too much, a line fails.

use diagnose::comparison::{
    Bounds, Comparison, Figures, Judgement, Pairing, QUANTITIES, Quantity, Repeat, SCHEMA, Side, Slice, State,
    judge_pairs, judge_samples,
};
use model::plan::{Pace, Think};
use model::recording::End;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

const SEEDS: u64 = 1000;
const TOLERANCE: f64 = 0.03;
const CONFIDENCE: f64 = 0.98;
/// Of B / A, each one slice.
const PAIRED_SD: f64 = 0.023;

/// What makes a slice's figure differ from the next one's.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// Normal.
    Normal,
    /// Student's t with three degrees of freedom: one slice in fifty is far off.
    HeavyTails,
    /// Normal, each slice correlated by a half with the one before.
    Correlated,
    /// Normal, and a drift of 20 % from the first slice to the last.
    Drift,
    /// Normal, of B twice as wide.
    WiderB,
}

const NOISES: [(Noise, &str); 5] = [
    (Noise::Normal, "normal"),
    (Noise::HeavyTails, "heavy tails (t, 3 degrees of freedom)"),
    (Noise::Correlated, "neighbours correlated by 0.5"),
    (Noise::Drift, "drift of 20 % over the comparison"),
    (Noise::WiderB, "B twice as noisy as A"),
];

fn normal(random: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Of standard deviation 1.
fn student_3(random: &mut StdRng) -> f64 {
    let chi = (0..3).map(|_| normal(random).powi(2)).sum::<f64>();
    normal(random) / (chi / 3.0).sqrt() / 3f64.sqrt()
}

/// Repeats in which B is `change` (as a logarithm) of A in every quantity that is not failures.
fn simulated(seed: u64, repeats: u32, noise: Noise, paired_sd: f64, change: f64) -> Vec<Repeat> {
    let random = &mut StdRng::seed_from_u64(seed);
    let sd = paired_sd / 2f64.sqrt();
    let slices = f64::from(3 * repeats - 1);
    let mut before = [0.0; 5];
    let mut at = 0.0;
    let mut slice = |side: Side, random: &mut StdRng| {
        let mut figures = Figures::default();
        for (entry, before) in QUANTITIES.iter().zip(&mut before) {
            if entry.quantity == Quantity::Failures {
                figures.0.insert(entry.quantity, 0.0);
                continue;
            }
            let noise = match noise {
                Noise::Normal => sd * normal(random),
                Noise::HeavyTails => sd * student_3(random),
                Noise::Correlated => {
                    *before = 0.5 * *before + 0.75f64.sqrt() * normal(random);
                    sd * *before
                }
                Noise::Drift => sd * normal(random) + 0.2 * at / slices,
                Noise::WiderB => sd * normal(random) * if side == Side::B { 2.0 } else { 1.0 },
            };
            let change = if side == Side::B { change } else { 0.0 };
            figures.0.insert(entry.quantity, 1000.0 * (noise + change).exp());
        }
        at += 1.0;
        figures
    };
    (0..repeats)
        .map(|_| {
            let mut order = [Side::A, Side::AgainA, Side::B];
            order.shuffle(random);
            let mut repeat = Repeat { a: Figures::default(), a_again: None, b: Figures::default() };
            for side in order {
                let figures = slice(side, random);
                match side {
                    Side::A => repeat.a = figures,
                    Side::AgainA => repeat.a_again = Some(figures),
                    Side::B => repeat.b = figures,
                }
            }
            repeat
        })
        .collect()
}

fn bounds(declared: &[Quantity]) -> Bounds {
    Bounds { tolerance: TOLERANCE, confidence: CONFIDENCE, declared: declared.to_vec() }
}

/// Those of a closed pace.
fn by_default() -> Vec<Quantity> {
    Quantity::declared_by_default(&Pace::Closed { think: Think::None })
}

/// In how many of the seeds it holds of the judgements.
fn count(of: impl Fn(u64) -> Vec<Judgement>, holds: impl Fn(&[Judgement]) -> bool) -> u32 {
    (0..SEEDS).map(|seed| u32::from(holds(&of(seed)))).sum()
}

fn any(state: State) -> impl Fn(&[Judgement]) -> bool {
    move |judgements| judgements.iter().any(|judgement| judgement.state == state)
}

fn is(quantity: Quantity, state: State) -> impl Fn(&[Judgement]) -> bool {
    move |judgements| judgements.iter().any(|j| j.quantity == quantity && j.state == state)
}

fn covers(quantity: Quantity, change: f64) -> impl Fn(&[Judgement]) -> bool {
    move |judgements| {
        let change_of = judgements.iter().find(|j| j.quantity == quantity).and_then(|j| j.change).unwrap();
        change_of.low.unwrap() <= change.exp_m1() && change.exp_m1() <= change_of.high.unwrap()
    }
}

#[test]
fn the_study_holds_what_the_page_says() {
    let three = 0.03f64.ln_1p();
    let percent = |count: u32| f64::from(count) * 100.0 / SEEDS as f64;
    let mut table = String::from(
        "| noise | A/A called different | 98 % interval of `cpu` covers | of `p99` | +3 % `cpu` found, declared alone | with all four declared |\n|---|---|---|---|---|---|\n",
    );
    for (noise, name) in NOISES {
        // Three pairs' worth of seeds that no line shares.
        let of = |change: f64, declared: &[Quantity], repeats: u32| {
            let bounds = bounds(declared);
            move |seed: u64| judge_pairs(&simulated(seed, repeats, noise, PAIRED_SD, change), &bounds)
        };
        let wrong = percent(count(of(0.0, &by_default(), 10), any(State::Different)));
        let cpu_covers = percent(count(of(three, &[Quantity::Cpu], 10), covers(Quantity::Cpu, three)));
        let p99_covers = percent(count(of(three, &[Quantity::P99], 10), covers(Quantity::P99, three)));
        let found = percent(count(of(three, &[Quantity::Cpu], 10), is(Quantity::Cpu, State::Different)));
        let found_of_four = {
            // Of four that are declared only one changed: the others do not help it.
            let bounds = bounds(&by_default());
            let only_cpu = move |seed: u64| {
                let mut repeats = simulated(seed, 10, noise, PAIRED_SD, 0.0);
                for repeat in &mut repeats {
                    repeat.b.0.entry(Quantity::Cpu).and_modify(|cpu| *cpu *= 1.03);
                }
                judge_pairs(&repeats, &bounds)
            };
            percent(count(only_cpu, is(Quantity::Cpu, State::Different)))
        };
        table.push_str(&format!(
            "| {name} | {wrong:.1} % | {cpu_covers:.1} % | {p99_covers:.1} % | {found:.1} % | {found_of_four:.1} % |\n"
        ));
        assert!(wrong <= 2.0, "{noise:?}: {wrong} % of A/A are called different");
        // 98 % within what a thousand seeds can tell.
        assert!(cpu_covers >= 96.5 && p99_covers >= 96.5, "{noise:?}: {cpu_covers} {p99_covers}");
        if matches!(noise, Noise::Normal) {
            assert!(found >= 90.0, "{found} % of 3 % more CPU are found");
        }
    }
    table.push_str("\n| repeats | +3 % `cpu` found, declared alone | with all four declared |\n|---|---|---|\n");
    for repeats in [6, 8, 10, 12, 14, 20] {
        let found = |declared: &[Quantity]| {
            let bounds = bounds(declared);
            let one = |seed: u64| {
                let mut all = simulated(seed, repeats, Noise::Normal, PAIRED_SD, 0.0);
                all.iter_mut().for_each(|repeat| {
                    repeat.b.0.entry(Quantity::Cpu).and_modify(|cpu| *cpu *= 1.03);
                });
                judge_pairs(&all, &bounds)
            };
            percent(count(one, is(Quantity::Cpu, State::Different)))
        };
        table.push_str(&format!("| {repeats} | {:.1} % | {:.1} % |\n", found(&[Quantity::Cpu]), found(&by_default())));
    }
    fresh(&table);
}

/// Writes the table into the page, or holds it against the one that is there.
fn fresh(table: &str) {
    const BEGIN: &str = "<!-- the study: made by crates/diagnose/tests/series/comparisons.rs -->\n";
    const END: &str = "<!-- end of the study -->";
    let path = testkit::workspace().join("docs/comparing.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the study");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let whole = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &whole).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == whole, "docs/comparing.md is stale: run this once with UPDATE_DOCS=1\n{table}");
}

#[test]
fn what_differs_by_the_tolerance_is_hardly_ever_called_alike() {
    let of = |change: f64| {
        let bounds = bounds(&by_default());
        move |seed: u64| judge_pairs(&simulated(seed, 10, Noise::Normal, 0.01, change), &bounds)
    };
    let at_tolerance = count(of(0.03f64.ln_1p()), any_of_ratios_alike);
    assert!(at_tolerance <= 40, "{at_tolerance} of 1,000 are called alike at the tolerance");
    let alike = count(of(0.0), |all| {
        let declared = all.iter().filter(|j| j.state != State::NotDeclared);
        declared.clone().count() == 4 && declared.clone().all(|j| j.state == State::Equivalent)
    });
    assert!(alike >= 900, "{alike} of 1,000 that are the same are said to be");
}

/// Failures are none on both sides: alike, and rightly.
fn any_of_ratios_alike(judgements: &[Judgement]) -> bool {
    judgements.iter().any(|j| j.quantity != Quantity::Failures && j.state == State::Equivalent)
}

#[test]
fn so_many_more_repeats_do_decide() {
    let (mut asked, mut decided) = (0, 0);
    for seed in 0..400 {
        let of = |repeats: u32| {
            judge_pairs(&simulated(seed, repeats, Noise::Normal, 0.04, 0.03), &bounds(&[Quantity::Cpu]))
                .into_iter()
                .find(|j| j.quantity == Quantity::Cpu)
                .unwrap()
        };
        let first = of(6);
        let Some(more) = first.more_repeats else { continue };
        assert_eq!(first.state, State::Undecided);
        if more < 100 {
            asked += 1;
            decided += u32::from(of(6 + more).state != State::Undecided);
        }
    }
    // It is a guess from six repeats: right more often than not.
    assert!(asked > 100 && decided * 2 > asked, "{decided} of {asked}");
}

fn figures(cpu: f64) -> Figures {
    Figures([(Quantity::Cpu, cpu), (Quantity::Failures, 0.0)].into())
}

fn repeat(a: f64, again: f64, b: f64) -> Repeat {
    Repeat { a: figures(a), a_again: Some(figures(again)), b: figures(b) }
}

fn of(judgements: &[Judgement], quantity: Quantity) -> &Judgement {
    judgements.iter().find(|judgement| judgement.quantity == quantity).unwrap()
}

#[test]
fn where_a_differs_from_itself_nothing_is_decided() {
    let repeats: Vec<Repeat> =
        (0..10).map(|n| f64::from(n) * 0.1).map(|n| repeat(100.0 + n, 120.0 - n, 150.0 + n)).collect();
    let judged = judge_pairs(&repeats, &bounds(&[Quantity::Cpu]));
    let cpu = of(&judged, Quantity::Cpu);
    assert_eq!((cpu.state, cpu.is_unsteady, cpu.is_beyond_tolerance), (State::Undecided, true, false));
    assert_eq!(of(&judged, Quantity::Failures).state, State::NotDeclared);
    assert_eq!(of(&judged, Quantity::P99).change, None, "nobody measured it");
}

#[test]
fn only_a_near_end_beyond_the_tolerance_fails_and_only_for_the_worse() {
    let near = |b: f64| {
        let repeats: Vec<Repeat> =
            (0..10).map(|n| f64::from(n % 3)).map(|n| repeat(100.0 + n, 101.0 - n, b + n * 0.5)).collect();
        let judged = judge_pairs(&repeats, &bounds(&[Quantity::Cpu]));
        let cpu = of(&judged, Quantity::Cpu);
        (cpu.state, cpu.is_worse, cpu.is_beyond_tolerance)
    };
    assert_eq!(near(110.0), (State::Different, true, true));
    assert_eq!(near(90.0), (State::Different, false, false), "better");
    assert_eq!(near(100.3), (State::Equivalent, false, false));
    // Different for certain, by more than the tolerance perhaps.
    assert_eq!(near(103.2), (State::Different, true, false));
}

#[test]
fn a_side_that_fails_is_worse_and_few_failures_are_none() {
    let with = |share: f64| {
        let repeats: Vec<Repeat> = (0..10)
            .map(|n| {
                let mut one = repeat(100.0, 100.5, 100.2);
                one.b.0.insert(Quantity::Failures, share * (1.0 + 0.1 * f64::from(n % 3)));
                one
            })
            .collect();
        of(&judge_pairs(&repeats, &bounds(&[Quantity::Failures])), Quantity::Failures).clone()
    };
    let many = with(0.2);
    assert_eq!((many.state, many.is_worse, many.is_beyond_tolerance), (State::Different, true, true));
    assert!((many.change.unwrap().value - 0.22).abs() < 0.03, "{many:?}");
    assert_eq!(with(0.0005).state, State::Equivalent);
}

/// A comparison that was written is judged again to the same, and disturbed slices are in no verdict.
#[test]
fn a_comparison_is_judged_by_its_sound_slices() {
    let slice = |repeat: u32, side: Side, cpu: f64| Slice {
        repeat,
        side,
        at_s: f64::from(repeat),
        recording: None,
        figures: figures(cpu),
        own_margin: None,
        disturbed: None,
        gives: None,
    };
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        version: "0".to_owned(),
        started_at_unix_ns: 0,
        a: "a".to_owned(),
        b: "b".to_owned(),
        end: End::Complete,
        pairing: Pairing::Paired,
        repeats: 10,
        slice_s: Some(4.0),
        seed: Some(1),
        tolerance: TOLERANCE,
        confidence: CONFIDENCE,
        declared: vec![Quantity::Cpu],
        command: Vec::new(),
        sentence: String::new(),
        judgements: Vec::new(),
        differences: Vec::new(),
        findings: Vec::new(),
        slices: Vec::new(),
    };
    comparison.judge();
    assert_eq!(comparison.sentence, "Undecided: no repeat was measured whole");
    for repeat in 1..=10 {
        let noise = f64::from(repeat % 3) * 0.2;
        comparison.slices.extend([
            slice(repeat, Side::A, 100.0 + noise),
            slice(repeat, Side::AgainA, 100.4 - noise),
            // One that something disturbed, and once more.
            Slice { disturbed: Some("busy".to_owned()), ..slice(repeat, Side::B, 900.0) },
            slice(repeat, Side::B, 110.0 + noise * 0.7),
        ]);
    }
    comparison.judge();
    let cpu = of(&comparison.judgements, Quantity::Cpu);
    assert_eq!((cpu.state, cpu.repeats), (State::Different, 10));
    assert!((cpu.change.unwrap().value - 0.10).abs() < 0.01, "{cpu:?}");
    assert!(comparison.sentence.starts_with("B is worse than A: CPU a request +"), "{}", comparison.sentence);
    let text = serde_json::to_string(&comparison).unwrap();
    let mut again: Comparison = serde_json::from_str(&text).unwrap();
    again.judge();
    assert_eq!(again, comparison);
    // Without any sound slice of B in a repeat, that repeat is none.
    comparison.slices.retain(|slice| slice.side != Side::B || slice.disturbed.is_some() || slice.repeat > 3);
    comparison.judge();
    assert_eq!(of(&comparison.judgements, Quantity::Cpu).repeats, 7);
    // A number that no comparison has is one repeat among others.
    comparison.slices[0].repeat = u32::MAX;
    comparison.judge();
    assert_eq!(of(&comparison.judgements, Quantity::Cpu).repeats, 7);
}

#[test]
fn one_run_each_is_never_a_verdict() {
    let judged = judge_samples(&[figures(100.0)], &[figures(300.0)], &bounds(&[Quantity::Cpu, Quantity::Failures]));
    let cpu = of(&judged, Quantity::Cpu);
    assert_eq!((cpu.state, cpu.is_beyond_tolerance), (State::Undecided, false));
    let change = cpu.change.unwrap();
    assert!((change.value - 2.0).abs() < 1e-9 && change.low.is_none() && change.high.is_none());
    // Several that are apart are.
    let side = |base: f64| (0..6).map(|n| figures(base + f64::from(n))).collect::<Vec<_>>();
    let judged = judge_samples(&side(100.0), &side(130.0), &bounds(&[Quantity::Cpu]));
    assert_eq!(of(&judged, Quantity::Cpu).state, State::Different);
}
