//! A loop a file. To add one, copy a neighbour and name it in `main.rs`.

pub mod connect;
pub mod due;
pub mod due_course;
pub mod due_epoll;
pub mod due_uring;
pub mod echo_server;
pub mod epoll;
pub mod responder;
pub mod serving;
pub mod uring;
