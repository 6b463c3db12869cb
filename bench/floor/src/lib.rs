//! Bare loops: the least a program can do to put HTTP/1.1 load on a socket, or to answer it.
//! They exist so that `plimsoll` is set beside what the kernel allows, and not only beside other
//! tools. No framework, no statistics beyond counters, no parsing after the first reply.
//! They are no load generators: they check nothing but the number of bytes that came back.
//! [`process`] is shared with the bench runner, which may not call the kernel by itself.

pub mod args;
pub mod loops;
pub mod outcome;
pub mod process;
pub mod reply;
pub mod ring;
pub mod schedule;
pub mod sys;
