//! The bodies of requests and replies, one module for each subject.
//!
//! | module | commands |
//! |---|---|
//! | [`login`] | login with password and with token, logout |
//! | [`cluster`] | ping, cluster metadata |
//! | [`stream`] | create, update, delete, purge and get streams |
//! | [`topic`] | the same of topics; create and delete partitions, delete segments |
//! | [`send`] | the reply to a send; the request is in [`crate::batch`] |
//! | [`poll`] | poll messages |
//! | [`consumer`] | get, store and delete consumer offsets |
//! | [`system`] | get me, get stats, describe options |
//! | [`token`] | personal access tokens |
//!
//! A request implements [`Command`], which names its code and the type of its reply. A reply's
//! payload is what [`Reply::outcome`](crate::frame::Reply::outcome) gives on success: the result
//! section is gone by then. Commands that have no type here go as [`Raw`] bodies.

pub mod cluster;
pub mod consumer;
pub mod login;
pub mod poll;
pub mod send;
mod shape;
pub mod stream;
pub mod system;
pub mod token;
pub mod topic;

pub use shape::{Counted, Empty, LengthPrefixed, Raw, ToEnd};

use crate::codec::{Decode, Encode};
use crate::operation::CommandCode;

/// A request body that knows what it is.
pub trait Command: Encode {
    /// The code, which also tells the operation.
    const CODE: CommandCode;

    /// What the payload of a successful reply decodes to.
    type Reply<'r>: Decode<'r>;
}

#[cfg(test)]
mod tests {
    use super::stream::{StreamDetails, StreamInfo, TopicInfo};
    use super::system::{ClientDetails, ClientInfo, ConsumerGroupMembership};
    use super::topic::{PartitionInfo, TopicDetails};
    use super::*;
    use crate::name::Name;
    use crate::options::Options;
    use crate::text::Text;

    fn topic(partitions_count: u32) -> TopicInfo<'static> {
        TopicInfo {
            id: 1,
            created_at: 2,
            partitions_count,
            message_expiry: 3,
            compression_algorithm: 1,
            max_topic_size: 4,
            size_bytes: 5,
            messages_count: 6,
            name: Name::new("topic").expect("in range"),
            options: LengthPrefixed(Options::EMPTY),
            derived_options: LengthPrefixed(Options::EMPTY),
        }
    }

    /// A list beside a field that counts it could disagree; what is written never does.
    #[test]
    fn counts_on_the_wire_are_those_of_the_lists() {
        let partition = PartitionInfo {
            id: 0,
            created_at: 1,
            segments_count: 2,
            current_offset: 3,
            size_bytes: 4,
            messages_count: 5,
        };
        let partitions = vec![partition; 3];
        let wrong = TopicDetails {
            topic: topic(9),
            partitions: partitions.clone(),
        };
        let right = TopicDetails {
            topic: topic(3),
            partitions,
        };
        assert_eq!(TopicDetails::decode(&wrong.to_vec()), Ok(right));

        let stream = |topics_count| StreamInfo {
            id: 1,
            created_at: 2,
            topics_count,
            size_bytes: 3,
            messages_count: 4,
            name: Name::new("stream").expect("in range"),
            options: LengthPrefixed(Options::EMPTY),
        };
        let details = |topics_count| StreamDetails {
            stream: stream(topics_count),
            topics: vec![topic(7); 2],
        };
        assert_eq!(StreamDetails::decode(&details(0).to_vec()), Ok(details(2)));

        let client = |consumer_groups_count| ClientInfo {
            client_id: 1,
            user_id: 2,
            transport: 1,
            address: Text::EMPTY,
            consumer_groups_count,
        };
        let group = ConsumerGroupMembership {
            stream_id: 1,
            topic_id: 2,
            group_id: 3,
        };
        let details = |count| ClientDetails {
            client: client(count),
            consumer_groups: vec![group],
        };
        assert_eq!(ClientDetails::decode(&details(5).to_vec()), Ok(details(1)));
    }
}
