//! The control plane: configuration in, snapshots for the data plane out.
