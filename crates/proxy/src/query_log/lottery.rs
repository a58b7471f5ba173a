//! Chooses statements at random.

use std::cell::Cell;

/// Random numbers that are good enough for samples, and cost as little as an addition: Marsaglia's xorshift.
#[derive(Debug)]
pub(crate) struct Lottery(Cell<u64>);

impl Lottery {
    /// A lottery of its own for each `seed`.
    pub(crate) fn new(seed: u64) -> Lottery {
        Lottery(Cell::new(seed | 1))
    }

    /// Whether a statement is one of those that are chosen, one in `one_in`; 0: none is.
    pub(crate) fn chooses(&self, one_in: u32) -> bool {
        if one_in <= 1 {
            return one_in == 1;
        }
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        // The upper half is the better one.
        (state >> 32) * u64::from(one_in) < 1 << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_chosen() {
        for seed in [0, 1, u64::MAX, 0x1234_5678_9ABC_DEF0] {
            let lottery = Lottery::new(seed);
            let chosen = |one_in: u32| (0..100_000).filter(|_| lottery.chooses(one_in)).count();
            assert_eq!((chosen(0), chosen(1)), (0, 100_000));
            assert!((49_000..51_000).contains(&chosen(2)), "{seed}");
            assert!((800..1_200).contains(&chosen(100)), "{seed}");
            assert!(chosen(1_000_000_000) <= 1, "{seed}");
        }
    }
}
