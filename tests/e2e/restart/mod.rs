//! What clients see of a restart, and the tool that shows it.

mod connect_speed;
