//! Several runs at once, in the order in which they were asked for.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Does `work` for each of `jobs`, on as many threads as this process may use processors, and gives the
/// results in the order of the jobs. Each job is a run of its own, so that what a result is does not depend
/// on who computes it.
pub(crate) fn in_parallel<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, Into::into).min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    let result = work(job);
                    // A push leaves the list whole, so a panic elsewhere spoils nothing.
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = jobs.iter().map(|job| job * job).collect();
        assert_eq!(in_parallel(&jobs, |job| job * job), squares);
        assert_eq!(in_parallel(&[], |job: &u64| *job), [0; 0]);
    }
}
