//! What comes beyond the line: which cause gives first ([`gives`]) and what would be carried without it ([`without`]); where none is known,
//! what connections say of it, the load's own or the requests that wait for each other in the server ([`places`]).

pub mod gives;
pub mod places;
pub mod without;
