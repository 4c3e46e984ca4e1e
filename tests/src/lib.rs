//! Support for scenarios, hostile programs and benchmarks.
