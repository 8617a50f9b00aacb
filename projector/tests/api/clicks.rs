//! Counting of clicks: figures equal a naive count, whatever the topic delivers.

mod click_stage;
mod completeness;
mod exactness;
mod faults;
mod figures;
mod housekeeping;
mod operation;
mod other_topic;
mod plans;
mod recount;
