//! One lexer over SQL text: digests, statement kinds, `SET` and comment annotations. Pure functions over bytes.
