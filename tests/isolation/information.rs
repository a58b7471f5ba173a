//! What statements leave for the next one to ask: `LAST_INSERT_ID()`, `ROW_COUNT()`, `FOUND_ROWS()`, diagnostics.
