//! Tests of the parts of the benchmarks: the benchmarks measure the intended work. No test measures
//! time.

mod create_baseline;
mod data_set;
mod load;
