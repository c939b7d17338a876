//! Why a request changed nothing, as the real server numbers it.

/// Why the catalog did not change. The code is the one of the real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) u32);

/// The stream does not exist.
pub(crate) const STREAM_NOT_FOUND: Refused = Refused(1009);
/// Another stream has this name.
pub(crate) const STREAM_EXISTS: Refused = Refused(1012);
/// No stream number is free.
pub(crate) const TOO_MANY_STREAMS: Refused = Refused(1020);
/// The topic does not exist.
pub(crate) const TOPIC_NOT_FOUND: Refused = Refused(2010);
/// Another topic of the stream has this name.
pub(crate) const TOPIC_EXISTS: Refused = Refused(2013);
/// More partitions were to be removed than there are.
pub(crate) const INVALID_PARTITIONS_COUNT: Refused = Refused(2019);
/// No topic number is free.
pub(crate) const TOO_MANY_TOPICS: Refused = Refused(2021);
/// The broker holds as many partitions as it may.
pub(crate) const PARTITIONS_EXHAUSTED: Refused = Refused(3013);
