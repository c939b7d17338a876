//! The arithmetic over rounds.

/// The middle of some values; of an even number the mean of the two in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "there is at least one round");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// The median of the ratios of neighbours: what ran in the same round met the same machine.
pub(crate) fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "both ran in every round");
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([7.0]), 7.0);
        assert_eq!(median([1.0, f64::INFINITY, 2.0]), 2.0);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine was half as fast in the second round; the ratio of the medians would be 20 /
        // 15.
        let (ours, theirs) = ([40.0, 20.0, 20.0], [20.0, 10.0, 15.0]);
        assert_eq!(median_ratio(&ours, &theirs), 2.0);
    }

    #[test]
    #[should_panic(expected = "both ran in every round")]
    fn a_missing_round_is_a_bug() {
        median_ratio(&[1.0], &[]);
    }
}
