//! Who asks: a user with a number, a row of data, values taken from replies, and a place in the sequence of requests.
//!
//! A user is a connection's, and stays when the connection is made anew. Where requests are sent in sequence, a round of
//! them has one row of each file and keeps what it took; a request without a good reply ends the round, and the next
//! begins with the first request, so that no request is ever sent without a value that it needs.
//! Workers share nothing: each has its own residue of the numbers and of the rows.
//! Cost: 150 bytes a user, 8 a file of data, and what is taken.

use super::template::{self, VALUE_BYTES_MAX};
use crate::WireError;
use crate::random::mix;
use model::data::{DataFile, Order, RowBuffer, Rows};
use model::plan::Http1;
use model::template::KEY;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    Seq,
    User,
    Uuid,
    Random(u64, u64),
    /// A file, and a column of it.
    Column(u16, u16),
    /// A value taken from a reply, by its place among all.
    Taken(u16),
    /// The number of the key.
    Key,
}

/// What names there are.
#[derive(Debug, Default)]
pub struct Scope {
    files: Vec<DataFile>,
    taken: Vec<String>,
    has_keys: bool,
}

impl Scope {
    /// Those of a plan.
    pub fn of(plan: &Http1) -> Scope {
        let mut taken: Vec<String> = Vec::new();
        for take in plan.requests.iter().flat_map(|request| &request.take) {
            if !taken.contains(&take.name) {
                taken.push(take.name.clone());
            }
        }
        Scope { files: plan.data.clone(), taken, has_keys: plan.keys.is_some() }
    }

    /// What a name stands for: a value that is taken, a column, or the key.
    pub fn named(&self, name: &str) -> Option<Known> {
        if let Some(taken) = self.taken(name) {
            return Some(Known::Taken(taken));
        }
        let column = |(file, data): (usize, &DataFile)| Some(Known::Column(file as u16, data.column(name)? as u16));
        let key = (self.has_keys && name == KEY).then_some(Known::Key);
        self.files.iter().enumerate().find_map(column).or(key)
    }

    /// The place of a value that is taken.
    pub fn taken(&self, name: &str) -> Option<u16> {
        self.taken.iter().position(|known| known == name).map(|place| place as u16)
    }

    /// Bytes of the longest value of a name.
    pub fn longest(&self, known: Known) -> usize {
        match known {
            Known::Column(file, column) => {
                let column = self.files.get(usize::from(file)).and_then(|file| file.columns.get(usize::from(column)));
                column.map_or(0, |column| column.longest as usize)
            }
            Known::Taken(_) => VALUE_BYTES_MAX,
            other => other.longest_built_in(),
        }
    }
}

/// The state of one user.
#[derive(Debug)]
pub struct User {
    /// Its number, from 1 on.
    number: u64,
    /// The number of the request that is sent.
    seq: u64,
    /// Random bits of that request.
    random: u64,
    /// The key of that request, from 0 on; in a sequence, of the round.
    pub key: u32,
    /// The row of each file.
    rows: Box<[u64]>,
    /// What was taken in this round; empty: nothing.
    pub taken: Box<[Vec<u8>]>,
    /// Which request of the sequence is next.
    step: u32,
    /// Whether the last one had a good reply.
    pub is_well: bool,
    /// Why the head of the reply that is coming does not pass.
    pub fault: Option<crate::Failure>,
}

/// A file of data, as one worker takes rows of it.
#[derive(Debug)]
struct Rounds {
    rows: Arc<dyn Rows>,
    order: Order,
    /// How many there are.
    count: u64,
    /// The next one of this worker.
    next: u64,
    /// The row that was read last, and its number.
    buffer: RefCell<(Option<u64>, RowBuffer)>,
}

/// What a worker knows of all its users.
#[derive(Debug)]
pub struct Users {
    files: Vec<Rounds>,
    taken: usize,
    workers: u64,
    /// The number of the next user, and of the next request.
    next_user: Cell<u64>,
    next_seq: u64,
    sequence: u32,
    is_used_up: bool,
    body: RefCell<Vec<u8>>,
}

impl Users {
    /// Those of a worker, of so many; `longest`: the longest request, bytes.
    ///
    /// # Errors
    /// A plan that was read back from a recording has no data.
    pub fn new(plan: &Http1, scope: &Scope, worker: u16, workers: u16, longest: usize) -> Result<Users, WireError> {
        let rounds = |file: &DataFile| {
            let rows = file.source.0.clone();
            let rows = rows.ok_or_else(|| WireError::DataMissing { path: file.path.display().to_string() })?;
            let mut buffer = RowBuffer::default();
            buffer.bytes.reserve(file.columns.iter().map(|column| column.longest as usize).sum());
            buffer.ends.reserve(file.columns.len());
            let buffer = RefCell::new((None, buffer));
            Ok(Rounds { rows, order: file.order, count: file.rows.max(1), next: u64::from(worker), buffer })
        };
        let files = plan.data.iter().map(rounds).collect::<Result<Vec<_>, WireError>>()?;
        let mut users = Users {
            files,
            taken: scope.taken.len(),
            workers: u64::from(workers.max(1)),
            next_user: Cell::new(u64::from(worker) + 1),
            next_seq: u64::from(worker) + 1,
            sequence: if plan.sequence { plan.requests.len() as u32 } else { 0 },
            is_used_up: false,
            body: RefCell::new(Vec::with_capacity(longest)),
        };
        users.look_whether_used_up();
        Ok(users)
    }

    /// Another user.
    pub fn user(&self) -> Box<User> {
        let number = self.next_user.get();
        self.next_user.set(number + self.workers);
        Box::new(User {
            number,
            seq: 0,
            random: 0,
            key: 0,
            rows: vec![0; self.files.len()].into(),
            taken: (0..self.taken).map(|_| Vec::with_capacity(64)).collect(),
            step: 0,
            is_well: false,
            fault: None,
        })
    }

    /// Whether rows that are taken once each are used up: no further request may be sent.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    /// A user's next request: which one, where they are sent in sequence.
    #[inline]
    pub fn begin(&mut self, user: &mut User, random: u64) -> Option<u32> {
        user.seq = self.next_seq;
        self.next_seq += self.workers;
        user.random = mix(random);
        user.fault = None;
        let mut step = None;
        if self.sequence > 0 {
            if !user.is_well || user.step >= self.sequence {
                user.step = 0;
                user.taken.iter_mut().for_each(Vec::clear);
            }
            step = Some(user.step);
            user.step += 1;
            user.is_well = false;
        }
        if step.unwrap_or(0) == 0 && !self.files.is_empty() {
            self.draw_rows(user);
        }
        step
    }

    fn draw_rows(&mut self, user: &mut User) {
        let mut random = user.random;
        for (file, row) in self.files.iter_mut().zip(&mut user.rows) {
            *row = match file.order {
                Order::Random => {
                    random = mix(random);
                    ((u128::from(random) * u128::from(file.count)) >> 64) as u64
                }
                Order::Sequential | Order::Unique => {
                    let row = file.next;
                    file.next = row.saturating_add(self.workers);
                    if file.order == Order::Sequential { row % file.count } else { row.min(file.count - 1) }
                }
            };
        }
        self.look_whether_used_up();
    }

    fn look_whether_used_up(&mut self) {
        self.is_used_up = self.files.iter().any(|file| file.order == Order::Unique && file.next >= file.count);
    }

    /// Appends a user's request.
    pub fn write(&self, template: &template::Template, user: &User, to: &mut Vec<u8>) {
        let values = |known: Known, put: &mut dyn FnMut(&[u8])| match known {
            Known::Seq => template::number(user.seq, put),
            Known::User => template::number(user.number, put),
            Known::Key => template::number(u64::from(user.key) + 1, put),
            Known::Column(file, column) => {
                let place = usize::from(file);
                let (Some(file), Some(row)) = (self.files.get(place), user.rows.get(place)) else { return };
                file.with_row(*row, |fields| put(fields.field(usize::from(column))));
            }
            Known::Taken(taken) => put(user.taken.get(usize::from(taken)).map_or(&[], Vec::as_slice)),
            // These are drawn where they are written.
            Known::Uuid | Known::Random(..) => {}
        };
        template.write(&values, user.random, &mut self.body.borrow_mut(), to);
    }
}

impl Rounds {
    fn with_row(&self, row: u64, look: impl FnOnce(&RowBuffer)) {
        let (known, buffer) = &mut *self.buffer.borrow_mut();
        if *known != Some(row) {
            *known = self.rows.read(row, buffer).then_some(row);
            if known.is_none() {
                buffer.clear();
            }
        }
        look(buffer);
    }
}
