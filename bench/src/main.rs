//! Load generators and side-by-side comparisons.
fn main() {}
