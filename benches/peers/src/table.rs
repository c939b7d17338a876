//! The table: one row for each comparison, losing ones like the others.

use crate::cases::{Aim, Aims, Bound, Case, Measure};
use crate::rounds::{Outcome, Rounds};
use crate::statistics::{median, median_ratio};

pub(crate) const HEAD: &str = "\
| case | measure | ringmain | peer | peer's | ratio | aim | met | CPU s/GB, ours | CPU s/GB, peer's | broker busy, ours / peer's |
|---|---|---:|---|---:|---:|---|---|---:|---:|---:|";

/// The rows of one case.
pub(crate) fn rows(case: &Case, rounds: &Rounds) -> Vec<String> {
    match &case.aims {
        Aims::Versus(aims) => aims
            .iter()
            .flat_map(|aim| versus(case, rounds, *aim))
            .collect(),
        Aims::Even(aim) => even(case, rounds, *aim),
        Aims::Memory {
            cap_bytes,
            over_bytes_max,
        } => memory(case, rounds, *cap_bytes, *over_bytes_max),
    }
}

/// One row for each peer. The aim stands in the row of the strongest.
fn versus(case: &Case, rounds: &Rounds, aim: Aim) -> Vec<String> {
    let ours = &rounds[0];
    let ratios: Vec<_> = rounds[1..]
        .iter()
        .map(|theirs| median_ratio(&values(ours, aim.measure), &values(theirs, aim.measure)))
        .collect();
    let strongest = strongest(&ratios, aim.bound);
    ratios
        .iter()
        .enumerate()
        .map(|(index, ratio)| {
            let peer = &case.contenders[index + 1].label;
            let aim_here = (index == strongest).then_some(aim.bound);
            row(
                case.name,
                aim.measure,
                ours,
                peer,
                &rounds[index + 1],
                *ratio,
                aim_here,
            )
        })
        .collect()
}

/// The peer against which the aim is hardest to reach.
fn strongest(ratios: &[f64], bound: Bound) -> usize {
    let order = |a: &&f64, b: &&f64| a.total_cmp(b);
    let hardest = match bound {
        Bound::AtLeast(_) => ratios.iter().min_by(order),
        Bound::AtMost(_) => ratios.iter().max_by(order),
    };
    let hardest = hardest.expect("there is a peer");
    ratios
        .iter()
        .position(|ratio| ratio.total_cmp(hardest).is_eq())
        .expect("it is one of them")
}

/// One row for each contender, compared with the one whose median is the best.
fn even(case: &Case, rounds: &Rounds, aim: Aim) -> Vec<String> {
    let medians: Vec<_> = rounds
        .iter()
        .map(|outcomes| median(values(outcomes, aim.measure)))
        .collect();
    let best = (0..medians.len())
        .max_by(|a, b| medians[*a].total_cmp(&medians[*b]))
        .expect("there are contenders");
    case.contenders
        .iter()
        .zip(rounds)
        .map(|(contender, ours)| {
            let ratio = median_ratio(
                &values(ours, aim.measure),
                &values(&rounds[best], aim.measure),
            );
            let peer = format!("the best, {}", case.contenders[best].label);
            row(
                &contender.label,
                aim.measure,
                ours,
                &peer,
                &rounds[best],
                ratio,
                Some(aim.bound),
            )
        })
        .collect()
}

/// One row for each contender: the worst peak of all rounds.
fn memory(case: &Case, rounds: &Rounds, cap_bytes: u64, over_bytes_max: u64) -> Vec<String> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    case.contenders
        .iter()
        .zip(rounds)
        .map(|(contender, outcomes)| {
            let peak = outcomes.iter().map(|outcome| outcome.report.rss_peak_bytes).max();
            let peak = peak.expect("there is a round");
            let idle = outcomes.iter().map(|outcome| outcome.report.rss_idle_bytes).max();
            let over = mib(peak) - mib(cap_bytes);
            let is_met = peak <= cap_bytes + over_bytes_max;
            format!(
                "| {}, {} | peak over the cap | {over:+.1} MiB | {:.0} MiB cap, {:.1} MiB idle | – | – | <= {:.0} MiB | {} | {:.3} | – | {:.0} % / – |",
                case.name,
                contender.label,
                mib(cap_bytes),
                mib(idle.expect("there is a round")),
                mib(over_bytes_max),
                yes_or_no(is_met),
                median(values(outcomes, Measure::CpuPerGb)),
                median(outcomes.iter().map(Outcome::broker_busy)) * 100.0,
            )
        })
        .collect()
}

fn row(
    name: &str,
    measure: Measure,
    ours: &[Outcome],
    peer: &str,
    theirs: &[Outcome],
    ratio: f64,
    aim: Option<Bound>,
) -> String {
    let shown = |outcomes| show(measure, median(values(outcomes, measure)));
    let cpu = |outcomes| median(values(outcomes, Measure::CpuPerGb));
    let busy = |outcomes: &[Outcome]| median(outcomes.iter().map(Outcome::broker_busy)) * 100.0;
    let (aim, met) = aim.map_or(("–".to_owned(), "–"), |bound| {
        (show_bound(bound), yes_or_no(bound.holds(ratio)))
    });
    format!(
        "| {name} | {} | {} | {peer} | {} | {ratio:.2} | {aim} | {met} | {:.3} | {:.3} | {:.0} % / {:.0} % |",
        name_of(measure),
        shown(ours),
        shown(theirs),
        cpu(ours),
        cpu(theirs),
        busy(ours),
        busy(theirs),
    )
}

fn values(outcomes: &[Outcome], measure: Measure) -> Vec<f64> {
    outcomes
        .iter()
        .map(|outcome| outcome.value(measure))
        .collect()
}

fn name_of(measure: Measure) -> &'static str {
    match measure {
        Measure::RecordsPerSecond => "records/s",
        Measure::BytesPerSecond => "MB/s",
        Measure::CpuPerGb => "client CPU s/GB",
        Measure::P50 => "p50",
        Measure::P99 => "p99",
    }
}

fn show(measure: Measure, value: f64) -> String {
    match measure {
        Measure::RecordsPerSecond => grouped(value.round() as u64),
        Measure::BytesPerSecond => format!("{:.0}", value / 1e6),
        Measure::CpuPerGb => format!("{value:.3}"),
        Measure::P50 | Measure::P99 => format!("{:.1} us", value / 1e3),
    }
}

fn show_bound(bound: Bound) -> String {
    match bound {
        Bound::AtLeast(ratio) => format!(">= {ratio}"),
        Bound::AtMost(ratio) => format!("<= {ratio}"),
    }
}

fn yes_or_no(is_met: bool) -> &'static str {
    if is_met { "yes" } else { "**no**" }
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aim_is_held_against_the_strongest_peer() {
        assert_eq!(strongest(&[3.0, 1.5, 2.0], Bound::AtLeast(2.0)), 1);
        assert_eq!(strongest(&[0.3, 0.5, 0.9], Bound::AtMost(0.8)), 2);
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
