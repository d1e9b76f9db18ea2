//! [`TestRng`]: a reproducible random number generator.

use std::time::SystemTime;

/// A random number generator. Its debug output names the seed; include it in every failure message.
#[derive(Debug)]
pub struct TestRng {
    seed: u64,
    rolled: u64,
}

impl TestRng {
    /// Seeds the generator with the current time.
    #[expect(clippy::new_without_default, reason = "two of them differ")]
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::seeded(u64::from(now.subsec_nanos()) ^ now.as_secs())
    }

    /// Creates a generator with a given seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, rolled: 0 }
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.rolled += 1;
        let mut word = self.seed.wrapping_add(self.rolled.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound.max(1)
    }
}
