//! The 64 bits that travel with an operation and come back with its completion.
//!
//! ```text
//! 63      56 55                    32 31                                     0
//! | op (8)  | index (24)             | generation (32)                       |
//! ```
//!
//! The generation tells one life of an index from the next, so that a completion of a life that is over is
//! recognised and counted instead of being taken for the present one.

/// Bits of each field. Their sum fills the word.
const OP_BITS: u32 = 8;
const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;

const _: () = assert!(
    OP_BITS + INDEX_BITS + GENERATION_BITS == u64::BITS,
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

/// Operation, index and generation. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserData {
    pub(crate) op: Op,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl UserData {
    /// The word for the kernel. Panics when the index does not fit its 24 bits.
    pub(crate) fn encode(self) -> u64 {
        assert!(self.index < 1 << INDEX_BITS, "an index fits its bits");
        u64::from(self.op as u8) << (INDEX_BITS + GENERATION_BITS)
            | u64::from(self.index) << GENERATION_BITS
            | u64::from(self.generation)
    }

    /// The fields of a word from the kernel; `None` when it names no operation of ours.
    pub(crate) fn decode(word: u64) -> Option<Self> {
        let code = (word >> (INDEX_BITS + GENERATION_BITS)) as u8;
        let op = Op::ALL.into_iter().find(|op| *op as u8 == code)?;
        let index = (word >> GENERATION_BITS) as u32 & ((1 << INDEX_BITS) - 1);
        Some(Self {
            op,
            index,
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
        fn a_word_decodes_to_what_was_encoded(
            op in 0usize..Op::ALL.len(), index in 0u32..1 << INDEX_BITS, generation: u32,
        ) {
            let user_data = UserData { op: Op::ALL[op], index, generation };
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

    #[test]
    #[should_panic(expected = "fits its bits")]
    fn an_index_beyond_its_bits_is_a_bug() {
        UserData {
            op: Op::Recv,
            index: 1 << INDEX_BITS,
            generation: 0,
        }
        .encode();
    }
}
