//! The 64 bits that travel with an operation and come back with its completion.
//!
//! ```text
//! 63      56 55        48 47            32 31                               0
//! | op (8)  | write (8) | index (16)      | generation (32)                 |
//! ```
//!
//! `index` is a connection and `write` one of its writes. The generation tells one life of an index
//! from the next, so that a completion of a life that is over is recognised and counted instead of
//! being taken for the present one.

/// Bits of each field. Their sum fills the word.
const OP_BITS: u32 = u8::BITS;
const WRITE_BITS: u32 = u8::BITS;
const INDEX_BITS: u32 = u16::BITS;
const GENERATION_BITS: u32 = u32::BITS;

const _: () = assert!(
    OP_BITS + WRITE_BITS + INDEX_BITS + GENERATION_BITS == u64::BITS,
    "user data fills 64 bits"
);

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    /// Read of the eventfd that wakes the shard; index 0.
    Wake = 1,
    /// Connect of a connection.
    Connect = 2,
    /// Receive, single or multishot, of a connection.
    Recv = 3,
    /// Write of a connection, and its zero-copy notification.
    Write = 4,
    /// Cancellation of one of the above.
    Cancel = 5,
}

impl Op {
    const ALL: [Self; 5] = [
        Self::Wake,
        Self::Connect,
        Self::Recv,
        Self::Write,
        Self::Cancel,
    ];
}

/// Operation, write, connection and generation. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserData {
    pub(crate) op: Op,
    pub(crate) write: u8,
    pub(crate) index: u16,
    pub(crate) generation: u32,
}

impl UserData {
    /// The word for the kernel.
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.op as u8) << (WRITE_BITS + INDEX_BITS + GENERATION_BITS)
            | u64::from(self.write) << (INDEX_BITS + GENERATION_BITS)
            | u64::from(self.index) << GENERATION_BITS
            | u64::from(self.generation)
    }

    /// The fields of a word from the kernel; `None` when it names no operation of ours.
    pub(crate) fn decode(word: u64) -> Option<Self> {
        let code = (word >> (WRITE_BITS + INDEX_BITS + GENERATION_BITS)) as u8;
        Some(Self {
            op: Op::ALL.into_iter().find(|op| *op as u8 == code)?,
            write: (word >> (INDEX_BITS + GENERATION_BITS)) as u8,
            index: (word >> GENERATION_BITS) as u16,
            generation: word as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_decodes_to_what_was_encoded(op in 0usize..Op::ALL.len(), write: u8, index: u16, generation: u32) {
            let user_data = UserData { op: Op::ALL[op], write, index, generation };
            prop_assert_eq!(UserData::decode(user_data.encode()), Some(user_data));
        }

        #[test]
        fn a_foreign_word_is_none_or_encodes_back(word: u64) {
            match UserData::decode(word) {
                Some(user_data) => prop_assert_eq!(user_data.encode(), word),
                None => prop_assert!(!(1..=5).contains(&(word >> 56))),
            }
        }
    }
}
