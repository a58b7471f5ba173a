//! Statements whose effects on the session are not all known, and settings that hold for one statement.
