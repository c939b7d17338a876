//! The message batch: the one layout of a send, of what the server stores, and of what a poll
//! returns.
//!
//! ```text
//! SendMessages body
//! +-----------------+--------+-------+--------------+----------------+-------------------------+
//! | metadata_length | stream | topic | partitioning | messages_count | batch                   |
//! | u32             | 3..257 | 3..257| 2..257       | u32            |                         |
//! +-----------------+--------+-------+--------------+----------------+-------------------------+
//!                    <------------- metadata_length --------------->
//! batch
//! +----------------------+-----------------------------+-----------------------------+---
//! | batch header         | message header | payload    | message header | payload    | ...
//! | 256                  | 48             | user headers| 48            | user headers|
//! +----------------------+-----------------------------+-----------------------------+---
//!  <------------------------------- batch_length ----------------------------------->
//! ```
//!
//! All integers are little-endian and nothing is aligned.
//!
//! | type | job |
//! |---|---|
//! | [`BatchWriter`] | builds a send in the caller's memory, copying and hashing each payload once |
//! | [`Referenced`] | a payload of it that stays where it is |
//! | [`SendMessagesRef`] | takes a send apart, as the server does on receipt |
//! | [`BatchReader`] | checks one batch and walks its messages |
//! | [`StoredBatches`] | walks the batches of a poll reply |
//! | [`stamp`] | what the server writes into a batch when it stores it |
//!
//! # Checksums
//!
//! A message's checksum covers its header after the checksum field, its payload and its user
//! headers. The batch's covers five header fields, the count and the messages' checksums, so it
//! costs 8 bytes a message however large the payloads are. The fields come first in the hashed
//! bytes and two of them, `batch_length` and the count, are known only when the batch is full: no
//! running hash can be kept while messages arrive, and sealing hashes the checksums then.
//!
//! # Time
//!
//! A batch stores the time of its earliest message, its origin, and for each message the
//! microseconds after that. The first message sets the origin. A later message that is earlier
//! moves it, and with it the time and so the checksum of every other message. [`BatchWriter`] then
//! makes no checksums any more until the batch is sealed, and all of them there: one more pass over
//! the batch, whatever the order of the times. Batches of records that are stamped in the order of
//! arrival do not pay for it.

mod copy;
mod layout;
mod reader;
mod referenced;
mod stamp;
mod target;
mod writer;

pub use layout::{
    BATCH_HEADER_BYTES, BatchHeader, MESSAGE_HEADER_BYTES, MessageHeader, PAYLOAD_BYTES_MAX,
    TIMESTAMP_SPAN_US_MAX,
};
pub use reader::{BatchReader, Integrity, Message, Messages, StoredBatches};
pub use referenced::{Piece, Pieces, Referenced};
pub use stamp::{Stamp, stamp};
pub use target::{SendMessagesRef, SendTarget};
pub use writer::{AppendError, BatchWriter, BufferTooSmall, RecordParts, Sealed};

#[cfg(test)]
mod tests;
