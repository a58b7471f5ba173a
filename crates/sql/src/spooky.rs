//! SpookyHash V2, 64 bits: with seeds of 0 it gives the digest of a digest text, with others a checksum.
//!
//! The algorithm is by Bob Jenkins and in the public domain. ProxySQL prints its result as the digest, so rules,
//! whitelists and exported statistics identify statements by it.

/// The digest of a digest text.
#[must_use]
pub fn digest_hash(text: &[u8]) -> u64 {
    seeded_hash(text, [0, 0])
}

/// The hash of `text` with seeds.
#[must_use]
pub fn seeded_hash(text: &[u8], seeds: [u64; 2]) -> u64 {
    if text.len() < LONG_FROM { hash_short(text, seeds) } else { hash_long(text, seeds) }
}

/// Texts from this length on are mixed in blocks of twelve words.
const LONG_FROM: usize = 192;
const BLOCK: usize = 96;
/// Odd, not a regular bit pattern, and a mixture of ones and zeros.
const FILL: u64 = 0xdead_beef_dead_beef;

fn hash_short(text: &[u8], [one, two]: [u64; 2]) -> u64 {
    let mut state = [one, two, FILL, FILL];
    let (pairs, mut rest) = text.as_chunks::<32>();
    for chunk in pairs {
        let [first, second, third, fourth] = words(chunk);
        state[2] = state[2].wrapping_add(first);
        state[3] = state[3].wrapping_add(second);
        mix_short(&mut state);
        state[0] = state[0].wrapping_add(third);
        state[1] = state[1].wrapping_add(fourth);
    }
    if let Some((chunk, tail)) = rest.split_first_chunk::<16>() {
        let [first, second] = words(chunk);
        state[2] = state[2].wrapping_add(first);
        state[3] = state[3].wrapping_add(second);
        mix_short(&mut state);
        rest = tail;
    }
    let (low, high) = if rest.is_empty() { (FILL, FILL) } else { last_words(rest) };
    state[2] = state[2].wrapping_add(low);
    state[3] = state[3].wrapping_add((text.len() as u64) << 56).wrapping_add(high);
    end_short(&mut state);
    state[0]
}

/// Up to 15 bytes, zero-padded, as two words.
fn last_words(rest: &[u8]) -> (u64, u64) {
    let mut padded = [0u8; 16];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    let [low, high] = words(&padded);
    (low, high)
}

fn mix_short(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for [first, second, third, fourth] in [[50, 52, 30, 41], [54, 48, 38, 37], [62, 34, 5, 36]] {
        c = c.rotate_left(first).wrapping_add(d);
        a ^= c;
        d = d.rotate_left(second).wrapping_add(a);
        b ^= d;
        a = a.rotate_left(third).wrapping_add(b);
        c ^= a;
        b = b.rotate_left(fourth).wrapping_add(c);
        d ^= b;
    }
    *state = [a, b, c, d];
}

fn end_short(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for [first, second, third, fourth] in [[15, 52, 26, 51], [28, 9, 47, 54]] {
        d ^= c;
        c = c.rotate_left(first);
        d = d.wrapping_add(c);
        a ^= d;
        d = d.rotate_left(second);
        a = a.wrapping_add(d);
        b ^= a;
        a = a.rotate_left(third);
        b = b.wrapping_add(a);
        c ^= b;
        b = b.rotate_left(fourth);
        c = c.wrapping_add(b);
    }
    d ^= c;
    c = c.rotate_left(32);
    d = d.wrapping_add(c);
    a ^= d;
    d = d.rotate_left(25);
    a = a.wrapping_add(d);
    b ^= a;
    a = a.rotate_left(63);
    b = b.wrapping_add(a);
    *state = [a, b, c, d];
}

fn hash_long(text: &[u8], [one, two]: [u64; 2]) -> u64 {
    let mut state = [one, two, FILL, one, two, FILL, one, two, FILL, one, two, FILL];
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    for block in blocks {
        mix_long(&mut state, &words(block));
    }
    let mut last = [0u8; BLOCK];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    // The remainder is shorter than a block, so it fits a byte.
    last[BLOCK - 1] = rest.len() as u8;
    for (word, data) in state.iter_mut().zip(words::<BLOCK, 12>(&last)) {
        *word = word.wrapping_add(data);
    }
    for _ in 0..3 {
        end_long(&mut state);
    }
    state[0]
}

/// One step per word of the block, unrolled by the compiler: every index is below twelve.
#[allow(clippy::indexing_slicing)]
fn mix_long(state: &mut [u64; 12], data: &[u64; 12]) {
    const ROTATIONS: [u32; 12] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for (step, rotation) in ROTATIONS.into_iter().enumerate() {
        let (before, after) = ((step + 11) % 12, (step + 1) % 12);
        state[step] = state[step].wrapping_add(data[step]);
        state[(step + 2) % 12] ^= state[(step + 10) % 12];
        state[before] ^= state[step];
        state[step] = state[step].rotate_left(rotation);
        state[before] = state[before].wrapping_add(state[after]);
    }
}

#[allow(clippy::indexing_slicing)]
fn end_long(state: &mut [u64; 12]) {
    const ROTATIONS: [u32; 12] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for (step, rotation) in ROTATIONS.into_iter().enumerate() {
        let (before, here, after) = ((step + 11) % 12, (step + 1) % 12, (step + 2) % 12);
        state[before] = state[before].wrapping_add(state[here]);
        state[after] ^= state[before];
        state[here] = state[here].rotate_left(rotation);
    }
}

/// The little-endian words of `N * 8` bytes.
fn words<const BYTES: usize, const N: usize>(bytes: &[u8; BYTES]) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_recorded_digests() {
        assert_eq!(digest_hash(b"SELECT ?"), 0x1C46_AE52_9DD5_A40E);
        assert_eq!(digest_hash(b"SELECT a,b,c FROM t WHERE id = ?"), 0x183D_34C7_9620_214A);
        let long = b"SELECT COUNT(*),SUM(a),AVG(b) FROM t GROUP BY c HAVING COUNT(*) > ?";
        assert_eq!(digest_hash(long), 0xFC5D_FA11_7131_18C8);
    }
}
