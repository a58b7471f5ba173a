//! Reports of servers about the session, whatever clients set `session_track_*` to.
