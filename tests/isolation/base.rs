//! The state in which a connection was opened, to which it is brought back.
