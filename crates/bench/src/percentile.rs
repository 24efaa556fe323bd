//! Percentiles of samples.

/// The 50th and the 99th percentile of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    /// Computes the percentiles of samples in any order. `missing` counts samples without a value, which are larger than
    /// every value; a percentile among them is infinite.
    pub(crate) fn new(mut samples: Vec<f64>, missing: usize) -> Self {
        samples.sort_unstable_by(f64::total_cmp);
        samples.extend(std::iter::repeat_n(f64::INFINITY, missing));
        Self { p50: percentile(&samples, 50), p99: percentile(&samples, 99) }
    }
}

/// Returns a percentile of sorted samples: the smallest sample that is at least as large as `percent` of all. Infinite
/// without samples.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_sample() {
        let samples: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&samples, 50), 100.0);
        assert_eq!(percentile(&samples, 99), 198.0);
        assert_eq!(percentile(&samples, 100), 200.0);
        assert_eq!(percentile(&[7.0], 50), 7.0);
        assert_eq!(percentile(&[7.0], 0), 7.0);
    }

    #[test]
    fn missing_samples_are_infinite() {
        assert_eq!(Percentiles::new(vec![2.0, 1.0], 0), Percentiles { p50: 1.0, p99: 2.0 });
        assert_eq!(Percentiles::new(vec![2.0, 1.0], 1), Percentiles { p50: 2.0, p99: f64::INFINITY });
        assert_eq!(Percentiles::new(vec![], 0).p50, f64::INFINITY);
    }
}
