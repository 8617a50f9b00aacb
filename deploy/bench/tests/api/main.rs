//! Tests of the benchmarks' own parts: whether they measure what they say. None takes times.

mod create_baseline;
mod data_set;
mod load;
