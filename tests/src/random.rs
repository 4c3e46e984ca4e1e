//! Chance that can be repeated: every seed is printed, and `PICKTWO_SEED` sets it.

use std::{
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A sequence of numbers (SplitMix64, Steele, Lea and Flood 2014); not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence from `PICKTWO_SEED`, or else from the clock, and prints the seed past the test harness's capture.
    ///
    /// # Panics
    /// If `PICKTWO_SEED` is not a number.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let seed = match std::env::var("PICKTWO_SEED") {
            Ok(text) => text.parse().unwrap_or_else(|e| panic!("PICKTWO_SEED={text}: {e}")),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |d| u64::from(d.subsec_nanos()) | 1),
        };
        let _ = std::io::stderr().write_all(format!("{name}: PICKTWO_SEED={seed}\n").as_bytes());
        Self::from(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "an iterator ends, this does not")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    /// One of them.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A time below `bound`.
    pub fn time(&mut self, bound: Duration) -> Duration {
        bound.mul_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

impl From<u64> for Random {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_bounds() {
        let draw = |seed: u64| {
            let mut random = Random::from(seed);
            (0..100).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((0..10).all(|n| draw(7).contains(&n)), "{:?}", draw(7));
        assert!(Random::from(1).time(Duration::from_secs(1)) < Duration::from_secs(1));
    }
}
