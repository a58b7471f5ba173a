//! Capabilities, compression and commands of the protocol.
