//! How sure a share is.

/// Standard deviations of a 95 % interval.
const Z: f64 = 1.959_964;

/// The Wilson interval of the share that `hits` of `total` is, at 95 %: from 0 to 1 when nothing was seen.
#[must_use]
pub fn wilson(hits: u64, total: u64) -> (f64, f64) {
    if total == 0 {
        return (0.0, 1.0);
    }
    let (total, share) = (total as f64, hits.min(total) as f64 / total as f64);
    let weight = 1.0 + Z * Z / total;
    let middle = (share + Z * Z / (2.0 * total)) / weight;
    let half = Z * (share * (1.0 - share) / total + Z * Z / (4.0 * total * total)).sqrt() / weight;
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_textbook_interval() {
        let (low, high) = wilson(98, 100);
        assert!((low - 0.930).abs() < 0.001 && (high - 0.9945).abs() < 0.001, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        let (low, high) = wilson(300, 300);
        assert!(low > 0.98 && high == 1.0, "{low} {high}");
        assert_eq!(wilson(9, 3), wilson(3, 3), "more hits than there were");
    }
}
