//! The policy model and its matchers; no I/O.
