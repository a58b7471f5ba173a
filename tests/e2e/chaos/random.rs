//! Random numbers; `NARROWS_SEED` repeats them.

pub struct Random(u64);

impl Random {
    pub fn new(whose: &str) -> Random {
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_nanos() as u64);
        let given = std::env::var("NARROWS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(now);
        println!("{whose}: NARROWS_SEED={seed}");
        Random(seed | 1)
    }

    /// A number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        // xorshift64 (Marsaglia)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    /// Shuffles.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
