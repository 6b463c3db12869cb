//! Connections by index, with a generation, so that an event for a closed one never reaches its successor.
//!
//! Indices are reused at once. A token is 64 bits: generation above, index below; what epoll carries.
//! Cost: one slot a connection, never given back to the system while the worker lives.

/// Names one connection of one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    /// As epoll carries it.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// What epoll carried.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    fn new(generation: u32, index: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn index(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The connections of a worker.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Token {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Token::new(slot.generation, index);
        }
        // More than 2^32 connections do not fit a process (nor its descriptor numbers, i32).
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Token::new(0, index)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.slots.get_mut(token.index())?;
        if slot.generation == token.generation() { slot.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.index())?;
        if slot.generation != token.generation() {
            return None;
        }
        let value = slot.value.take()?;
        // The top two bits stay clear: they say what else the reactor waits for.
        slot.generation = slot.generation.wrapping_add(1) & (u32::MAX >> 2);
        self.free.push(token.index() as u32);
        Some(value)
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        let live = self.slots.iter().zip(0_u32..).filter(|(slot, _)| slot.value.is_some());
        live.map(|(slot, index)| Token::new(slot.generation, index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_token_does_not_reach_the_successor() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index(), first.index(), "the index is reused");
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "second"));
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.tokens(), [second]);
    }
}
