//! Values that several things have each for itself, set to one and put back to each its own: threads of a process, files of the kernel.

pub mod attributes;
mod numbered;
pub mod per_thread;
