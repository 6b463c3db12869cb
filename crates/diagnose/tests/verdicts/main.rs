//! What is said of a run: causes, validity, expectations, recoveries; where each must appear, and what looks alike.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod besides;
mod blame;
mod causes;
mod causes_network;
mod causes_of_real_servers;
mod causes_of_waits;
mod causes_page;
mod causes_processes;
mod delayed_acks;
mod ends;
mod expectations;
mod first_lines;
mod first_round;
mod held;
mod locks;
mod part_way;
mod protocols;
mod recovery;
mod remote;
mod rules;
mod slow_path;
mod stalls;
mod turns;
mod validity;
mod waits;
