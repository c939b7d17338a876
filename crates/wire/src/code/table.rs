//! The codes that servers and SDKs of this protocol number, each with its name and what it means.
//!
//! One table gives the constants, the names and the meanings. It does not say what to do about a
//! code: that is [`ErrorCode::class`].

use super::ErrorCode;

/// Declares the known codes once: number, constant, name, meaning.
macro_rules! error_codes {
    ($($number:literal $constant:ident $name:literal $meaning:literal;)+) => {
        impl ErrorCode {
            $(#[doc = concat!("Code ", $number, ", `", $name, "`: ", $meaning, ".")]
            pub const $constant: Self = match Self::new($number) {
                Some(code) => code,
                None => panic!("no code is 0"),
            };)+

            /// Every known code, by rising number.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant),+];

            /// What the code is called, `None` for one that this crate does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.get() {
                    $($number => Some($name),)+
                    _ => None,
                }
            }

            /// What the code means, `None` for one that this crate does not know.
            #[must_use]
            pub const fn meaning(self) -> Option<&'static str> {
                match self.get() {
                    $($number => Some($meaning),)+
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    1 ERROR "Error" "a failure that the server does not name further";
    2 INVALID_CONFIGURATION "InvalidConfiguration" "a setting that makes no sense";
    3 INVALID_COMMAND "InvalidCommand" "a command that the server does not know or cannot read";
    4 INVALID_FORMAT "InvalidFormat" "bytes or text in the wrong format";
    5 FEATURE_UNAVAILABLE "FeatureUnavailable" "the server was built or started without this feature";
    6 INVALID_IDENTIFIER "InvalidIdentifier" "an identifier that is neither a number nor a name";
    7 INVALID_VERSION "InvalidVersion" "a version that cannot be read";
    8 DISCONNECTED "Disconnected" "the connection is gone";
    9 CANNOT_ESTABLISH_CONNECTION "CannotEstablishConnection" "no connection could be made";
    10 CANNOT_CREATE_BASE_DIRECTORY "CannotCreateBaseDirectory" "the server's data directory could not be made";
    11 CANNOT_CREATE_RUNTIME_DIRECTORY "CannotCreateRuntimeDirectory" "the server's runtime directory could not be made";
    12 CANNOT_REMOVE_RUNTIME_DIRECTORY "CannotRemoveRuntimeDirectory" "the server's runtime directory could not be removed";
    13 CANNOT_CREATE_STATE_DIRECTORY "CannotCreateStateDirectory" "the server's state directory could not be made";
    14 STATE_FILE_NOT_FOUND "StateFileNotFound" "the server's state file is missing";
    15 STATE_FILE_CORRUPTED "StateFileCorrupted" "the server's state file is damaged";
    16 INVALID_STATE_ENTRY_CHECKSUM "InvalidStateEntryChecksum" "an entry of the server's state does not match its checksum";
    19 CANNOT_OPEN_DATABASE "CannotOpenDatabase" "the server's database could not be opened";
    20 RESOURCE_NOT_FOUND "ResourceNotFound" "what the request names does not exist";
    21 CANNOT_CLOSE_WEB_SOCKET_CONNECTION "CannotCloseWebSocketConnection" "the WebSocket connection could not be closed";
    30 STALE_CLIENT "StaleClient" "the client was silent for too long and its session was ended";
    31 TCP_ERROR "TcpError" "a failure of TCP";
    32 QUIC_ERROR "QuicError" "a failure of QUIC";
    33 INVALID_SERVER_ADDRESS "InvalidServerAddress" "a server address that cannot be used";
    34 INVALID_CLIENT_ADDRESS "InvalidClientAddress" "a client address that cannot be used";
    35 INVALID_IP_ADDRESS "InvalidIpAddress" "an IP address that cannot be read";
    36 HTTP_ERROR "HttpError" "a failure of HTTP";
    37 INVALID_API_URL "InvalidApiUrl" "a URL of the HTTP interface that cannot be used";
    40 UNAUTHENTICATED "Unauthenticated" "nobody is logged in on this connection";
    41 UNAUTHORIZED "Unauthorized" "the user may not do this";
    42 INVALID_CREDENTIALS "InvalidCredentials" "wrong user name or password";
    43 INVALID_USERNAME "InvalidUsername" "a user name that is not allowed";
    44 INVALID_PASSWORD "InvalidPassword" "a password that is not allowed";
    45 INVALID_USER_STATUS "InvalidUserStatus" "a user status that does not exist";
    46 USER_ALREADY_EXISTS "UserAlreadyExists" "a user of this name exists";
    47 USER_INACTIVE "UserInactive" "the user is not active";
    48 CANNOT_DELETE_USER "CannotDeleteUser" "this user cannot be deleted";
    49 CANNOT_CHANGE_PERMISSIONS "CannotChangePermissions" "the permissions of this user cannot be changed";
    50 INVALID_PERSONAL_ACCESS_TOKEN_NAME "InvalidPersonalAccessTokenName" "a token name that is not allowed";
    51 PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS "PersonalAccessTokenAlreadyExists" "the user has a token of this name";
    52 PERSONAL_ACCESS_TOKENS_LIMIT_REACHED "PersonalAccessTokensLimitReached" "the user has as many tokens as allowed";
    53 INVALID_PERSONAL_ACCESS_TOKEN "InvalidPersonalAccessToken" "wrong personal access token";
    54 PERSONAL_ACCESS_TOKEN_EXPIRED "PersonalAccessTokenExpired" "the personal access token has expired";
    55 USERS_LIMIT_REACHED "UsersLimitReached" "there are as many users as allowed";
    56 INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY "InvalidPersonalAccessTokenExpiry" "a token expiry that is not allowed";
    57 TRANSIENT_NOT_COMMITTED "TransientNotCommitted" "it may or may not have been done; only the same request may be sent again";
    58 TRANSIENT_NOT_ACCEPTED "TransientNotAccepted" "it was not admitted and not done; it may be sent again, anywhere";
    59 REQUEST_ALREADY_APPLIED "RequestAlreadyApplied" "it was done before, and its reply is no longer kept";
    61 NOT_CONNECTED "NotConnected" "there is no connection";
    63 CLIENT_SHUTDOWN "ClientShutdown" "the client has been shut down";
    64 INVALID_TLS_DOMAIN "InvalidTlsDomain" "a TLS domain that cannot be used";
    65 INVALID_TLS_CERTIFICATE_PATH "InvalidTlsCertificatePath" "a TLS certificate path that cannot be used";
    66 INVALID_TLS_CERTIFICATE "InvalidTlsCertificate" "a TLS certificate that cannot be used";
    67 FAILED_TO_ADD_CERTIFICATE "FailedToAddCertificate" "the TLS certificate could not be added";
    70 INVALID_ENCRYPTION_KEY "InvalidEncryptionKey" "an encryption key that cannot be used";
    71 CANNOT_ENCRYPT_DATA "CannotEncryptData" "the data could not be encrypted";
    72 CANNOT_DECRYPT_DATA "CannotDecryptData" "the data could not be decrypted";
    73 INVALID_JWT_ALGORITHM "InvalidJwtAlgorithm" "a JWT algorithm that is not supported";
    74 INVALID_JWT_SECRET "InvalidJwtSecret" "a JWT secret that cannot be used";
    75 JWT_MISSING "JwtMissing" "the JWT is missing";
    76 CANNOT_GENERATE_JWT "CannotGenerateJwt" "the JWT could not be made";
    77 ACCESS_TOKEN_MISSING "AccessTokenMissing" "the access token is missing";
    78 INVALID_ACCESS_TOKEN "InvalidAccessToken" "the access token is wrong";
    79 CANNOT_FETCH_JWKS "CannotFetchJwks" "the JWT keys could not be fetched";
    80 INVALID_SIZE_BYTES "InvalidSizeBytes" "a size that cannot be read";
    81 INVALID_UTF8 "InvalidUtf8" "text that is not UTF-8";
    82 INVALID_NUMBER_ENCODING "InvalidNumberEncoding" "a number of the wrong length";
    83 INVALID_BOOLEAN_VALUE "InvalidBooleanValue" "a truth value that is neither true nor false";
    84 INVALID_NUMBER_VALUE "InvalidNumberValue" "text that is no number";
    100 CLIENT_NOT_FOUND "ClientNotFound" "no such client";
    101 INVALID_CLIENT_ID "InvalidClientId" "a client id that is not allowed";
    206 CONNECTION_CLOSED "ConnectionClosed" "the connection was closed";
    209 CANNOT_PARSE_HEADER_KIND "CannotParseHeaderKind" "a header kind that does not exist";
    300 HTTP_RESPONSE_ERROR "HttpResponseError" "the HTTP interface answered with a failure";
    301 INVALID_HTTP_REQUEST "InvalidHttpRequest" "a malformed HTTP request";
    302 INVALID_JSON_RESPONSE "InvalidJsonResponse" "an HTTP answer that is not the JSON expected";
    303 INVALID_BYTES_RESPONSE "InvalidBytesResponse" "an answer that is not the bytes expected";
    304 EMPTY_RESPONSE "EmptyResponse" "an empty answer where there should be one";
    305 CANNOT_CREATE_ENDPOINT "CannotCreateEndpoint" "the QUIC endpoint could not be made";
    306 CANNOT_PARSE_URL "CannotParseUrl" "a URL that cannot be read";
    400 WEB_SOCKET_ERROR "WebSocketError" "a failure of WebSocket";
    401 WEB_SOCKET_CONNECTION_ERROR "WebSocketConnectionError" "the WebSocket connection failed";
    402 WEB_SOCKET_CLOSE_ERROR "WebSocketCloseError" "the WebSocket connection did not close properly";
    403 WEB_SOCKET_RECEIVE_ERROR "WebSocketReceiveError" "nothing could be received over WebSocket";
    404 WEB_SOCKET_SEND_ERROR "WebSocketSendError" "nothing could be sent over WebSocket";
    1000 CANNOT_CREATE_STREAMS_DIRECTORY "CannotCreateStreamsDirectory" "the directory of streams could not be made";
    1001 CANNOT_CREATE_STREAM_DIRECTORY "CannotCreateStreamDirectory" "the directory of the stream could not be made";
    1002 CANNOT_CREATE_STREAM_INFO "CannotCreateStreamInfo" "the file about the stream could not be made";
    1003 CANNOT_UPDATE_STREAM_INFO "CannotUpdateStreamInfo" "the file about the stream could not be changed";
    1004 CANNOT_OPEN_STREAM_INFO "CannotOpenStreamInfo" "the file about the stream could not be opened";
    1005 CANNOT_READ_STREAM_INFO "CannotReadStreamInfo" "the file about the stream could not be read";
    1006 CANNOT_CREATE_STREAM "CannotCreateStream" "the stream could not be created";
    1007 CANNOT_DELETE_STREAM "CannotDeleteStream" "the stream could not be deleted";
    1008 CANNOT_DELETE_STREAM_DIRECTORY "CannotDeleteStreamDirectory" "the directory of the stream could not be deleted";
    1009 STREAM_ID_NOT_FOUND "StreamIdNotFound" "no stream of this number";
    1010 STREAM_NAME_NOT_FOUND "StreamNameNotFound" "no stream of this name";
    1011 STREAM_DIRECTORY_NOT_FOUND "StreamDirectoryNotFound" "the directory of the stream is missing";
    1012 STREAM_NAME_ALREADY_EXISTS "StreamNameAlreadyExists" "a stream of this name exists";
    1013 INVALID_STREAM_NAME "InvalidStreamName" "a stream name that is not allowed";
    1014 INVALID_STREAM_ID "InvalidStreamId" "a stream number that is not allowed";
    1015 CANNOT_READ_STREAMS "CannotReadStreams" "the streams could not be read";
    1019 INVALID_TOPIC_SIZE "InvalidTopicSize" "a topic size below that of a segment";
    1020 TOO_MANY_STREAMS "TooManyStreams" "there are as many streams as allowed";
    2000 CANNOT_CREATE_TOPICS_DIRECTORY "CannotCreateTopicsDirectory" "the directory of topics could not be made";
    2001 CANNOT_CREATE_TOPIC_DIRECTORY "CannotCreateTopicDirectory" "the directory of the topic could not be made";
    2002 CANNOT_CREATE_TOPIC_INFO "CannotCreateTopicInfo" "the file about the topic could not be made";
    2003 CANNOT_UPDATE_TOPIC_INFO "CannotUpdateTopicInfo" "the file about the topic could not be changed";
    2004 CANNOT_OPEN_TOPIC_INFO "CannotOpenTopicInfo" "the file about the topic could not be opened";
    2005 CANNOT_READ_TOPIC_INFO "CannotReadTopicInfo" "the file about the topic could not be read";
    2006 CANNOT_CREATE_TOPIC "CannotCreateTopic" "the topic could not be created";
    2007 CANNOT_DELETE_TOPIC "CannotDeleteTopic" "the topic could not be deleted";
    2008 CANNOT_DELETE_TOPIC_DIRECTORY "CannotDeleteTopicDirectory" "the directory of the topic could not be deleted";
    2009 CANNOT_POLL_TOPIC "CannotPollTopic" "the topic could not be polled";
    2010 TOPIC_ID_NOT_FOUND "TopicIdNotFound" "no topic of this number in the stream";
    2011 TOPIC_NAME_NOT_FOUND "TopicNameNotFound" "no topic of this name in the stream";
    2013 TOPIC_NAME_ALREADY_EXISTS "TopicNameAlreadyExists" "the stream has a topic of this name";
    2014 INVALID_TOPIC_NAME "InvalidTopicName" "a topic name that is not allowed";
    2015 TOO_MANY_PARTITIONS "TooManyPartitions" "more partitions than allowed";
    2016 INVALID_TOPIC_ID "InvalidTopicId" "a topic number that is not allowed";
    2017 CANNOT_READ_TOPICS "CannotReadTopics" "the topics of the stream could not be read";
    2018 INVALID_REPLICATION_FACTOR "InvalidReplicationFactor" "a replication factor that is not allowed";
    2019 INVALID_PARTITIONS_COUNT "InvalidPartitionsCount" "a partition count that is not allowed";
    2020 TOPIC_DIRECTORY_NOT_FOUND "TopicDirectoryNotFound" "the directory of the topic is missing";
    2021 TOO_MANY_TOPICS "TooManyTopics" "the stream has as many topics as allowed";
    3000 CANNOT_CREATE_PARTITION "CannotCreatePartition" "the partition could not be created";
    3001 CANNOT_CREATE_PARTITIONS_DIRECTORY "CannotCreatePartitionsDirectory" "the directory of partitions could not be made";
    3002 CANNOT_CREATE_PARTITION_DIRECTORY "CannotCreatePartitionDirectory" "the directory of the partition could not be made";
    3003 CANNOT_OPEN_PARTITION_LOG_FILE "CannotOpenPartitionLogFile" "the partition's log file could not be opened";
    3004 CANNOT_READ_PARTITIONS "CannotReadPartitions" "the directories of partitions could not be read";
    3005 CANNOT_DELETE_PARTITION "CannotDeletePartition" "the partition could not be deleted";
    3006 CANNOT_DELETE_PARTITION_DIRECTORY "CannotDeletePartitionDirectory" "the directory of the partition could not be deleted";
    3007 PARTITION_NOT_FOUND "PartitionNotFound" "no partition of this number in the topic";
    3008 NO_PARTITIONS "NoPartitions" "the topic has no partitions";
    3009 TOPIC_FULL "TopicFull" "the topic is full";
    3010 CANNOT_DELETE_CONSUMER_OFFSETS_DIRECTORY "CannotDeleteConsumerOffsetsDirectory" "the directory of consumer offsets could not be deleted";
    3011 CANNOT_DELETE_CONSUMER_OFFSET_FILE "CannotDeleteConsumerOffsetFile" "the file of the consumer offset could not be deleted";
    3012 CANNOT_CREATE_CONSUMER_OFFSETS_DIRECTORY "CannotCreateConsumerOffsetsDirectory" "the directory of consumer offsets could not be made";
    3013 PARTITION_ID_SPACE_EXHAUSTED "PartitionIdSpaceExhausted" "the topic has used up all partition numbers";
    3020 CANNOT_READ_CONSUMER_OFFSETS "CannotReadConsumerOffsets" "the consumer offsets could not be read";
    3021 CONSUMER_OFFSET_NOT_FOUND "ConsumerOffsetNotFound" "the consumer has no stored offset";
    3022 NOT_RESOLVED_CONSUMER "NotResolvedConsumer" "the consumer could not be found";
    3023 CANNOT_OPEN_CONSUMER_OFFSETS_FILE "CannotOpenConsumerOffsetsFile" "the file of consumer offsets could not be opened";
    3024 TOO_MANY_CONSUMER_OFFSETS "TooManyConsumerOffsets" "the partition keeps as many consumer offsets as allowed";
    4000 SEGMENT_NOT_FOUND "SegmentNotFound" "no such segment";
    4001 SEGMENT_CLOSED "SegmentClosed" "the segment is closed";
    4002 INVALID_SEGMENT_SIZE "InvalidSegmentSize" "a segment size that is not allowed";
    4003 CANNOT_CREATE_SEGMENT_LOG_FILE "CannotCreateSegmentLogFile" "the segment's log file could not be made";
    4004 CANNOT_CREATE_SEGMENT_INDEX_FILE "CannotCreateSegmentIndexFile" "the segment's index file could not be made";
    4005 CANNOT_CREATE_SEGMENT_TIME_INDEX_FILE "CannotCreateSegmentTimeIndexFile" "the segment's time index file could not be made";
    4006 CANNOT_SAVE_MESSAGES_TO_SEGMENT "CannotSaveMessagesToSegment" "messages could not be written to the segment";
    4007 CANNOT_SAVE_INDEX_TO_SEGMENT "CannotSaveIndexToSegment" "the segment's index could not be written";
    4008 CANNOT_SAVE_TIME_INDEX_TO_SEGMENT "CannotSaveTimeIndexToSegment" "the segment's time index could not be written";
    4009 INVALID_MESSAGES_COUNT "InvalidMessagesCount" "a message count that is not allowed or not right";
    4010 CANNOT_APPEND_MESSAGE "CannotAppendMessage" "the message could not be appended";
    4011 CANNOT_READ_MESSAGE "CannotReadMessage" "the message could not be read";
    4012 CANNOT_READ_MESSAGE_ID "CannotReadMessageId" "the message's id could not be read";
    4013 CANNOT_READ_MESSAGE_STATE "CannotReadMessageState" "the message's state could not be read";
    4014 CANNOT_READ_MESSAGE_TIMESTAMP "CannotReadMessageTimestamp" "the message's timestamp could not be read";
    4015 CANNOT_READ_HEADERS_LENGTH "CannotReadHeadersLength" "the length of the message's headers could not be read";
    4016 CANNOT_READ_HEADERS_PAYLOAD "CannotReadHeadersPayload" "the message's headers could not be read";
    4017 TOO_BIG_USER_HEADERS "TooBigUserHeaders" "more bytes of user headers than allowed";
    4018 INVALID_HEADER_KEY "InvalidHeaderKey" "a header key that is not allowed";
    4019 INVALID_HEADER_VALUE "InvalidHeaderValue" "a header value that is not allowed";
    4020 CANNOT_READ_MESSAGE_LENGTH "CannotReadMessageLength" "the message's length could not be read";
    4021 CANNOT_READ_MESSAGE_PAYLOAD "CannotReadMessagePayload" "the message's payload could not be read";
    4022 TOO_BIG_MESSAGE_PAYLOAD "TooBigMessagePayload" "a larger payload than allowed";
    4023 TOO_MANY_MESSAGES "TooManyMessages" "more messages than allowed";
    4024 EMPTY_MESSAGE_PAYLOAD "EmptyMessagePayload" "a message without a payload";
    4025 INVALID_MESSAGE_PAYLOAD_LENGTH "InvalidMessagePayloadLength" "a payload length that is not right";
    4026 CANNOT_READ_MESSAGE_CHECKSUM "CannotReadMessageChecksum" "the message's checksum could not be read";
    4027 INVALID_MESSAGE_CHECKSUM "InvalidMessageChecksum" "a message does not match its checksum";
    4028 INVALID_KEY_VALUE_LENGTH "InvalidKeyValueLength" "a messages key that is empty or too long";
    4029 COMMAND_LENGTH_ERROR "CommandLengthError" "a command of the wrong length";
    4030 INVALID_SEGMENTS_COUNT "InvalidSegmentsCount" "a segment count that is not allowed";
    4031 NON_ZERO_OFFSET "NonZeroOffset" "a message came with an offset, which the server gives";
    4032 NON_ZERO_TIMESTAMP "NonZeroTimestamp" "a message came with a timestamp, which the server gives";
    4033 MISSING_INDEX "MissingIndex" "an index is missing";
    4034 INVALID_INDEXES_BYTE_SIZE "InvalidIndexesByteSize" "indexes of a length that is not right";
    4035 INVALID_INDEXES_COUNT "InvalidIndexesCount" "the number of indexes is not right";
    4036 INVALID_MESSAGES_SIZE "InvalidMessagesSize" "the bytes of messages are not as many as announced";
    4037 TOO_SMALL_MESSAGE "TooSmallMessage" "a message shorter than its own header";
    4038 INVALID_MESSAGE_TIMESTAMP_DELTA "InvalidMessageTimestampDelta" "a message more than 71.58 minutes after the first one of its batch";
    4039 INVALID_BATCH_CHECKSUM "InvalidBatchChecksum" "a batch does not match its checksum";
    4040 INVALID_HEADER_KIND "InvalidHeaderKind" "a header kind that does not exist";
    4041 UNSUPPORTED_OPTION_KEY "UnsupportedOptionKey" "an option that the server does not know";
    4042 INVALID_OPTION_VALUE "InvalidOptionValue" "an option value that is not allowed";
    4043 OPTIONS_BLOCK_TOO_LARGE "OptionsBlockTooLarge" "more options than allowed";
    4050 CANNOT_SEND_MESSAGES_DUE_TO_CLIENT_DISCONNECTION "CannotSendMessagesDueToClientDisconnection" "messages could not be sent because the client is disconnected";
    4051 BACKGROUND_SEND_ERROR "BackgroundSendError" "sending in the background failed";
    4052 BACKGROUND_SEND_TIMEOUT "BackgroundSendTimeout" "sending in the background took too long";
    4053 BACKGROUND_SEND_BUFFER_FULL "BackgroundSendBufferFull" "the buffer of the background sender is full";
    4054 BACKGROUND_WORKER_DISCONNECTED "BackgroundWorkerDisconnected" "the background sender is gone";
    4055 BACKGROUND_SEND_BUFFER_OVERFLOW "BackgroundSendBufferOverflow" "the buffer of the background sender ran over";
    4056 PRODUCER_SEND_FAILED "ProducerSendFailed" "the producer could not send";
    4057 PRODUCER_CLOSED "ProducerClosed" "the producer is closed";
    4100 INVALID_OFFSET "InvalidOffset" "an offset that is not allowed";
    4101 INVALID_RESERVED_FIELD "InvalidReservedField" "a reserved field that is not zero";
    4102 SEGMENT_SIZE_MISMATCH_AT_OPEN "SegmentSizeMismatchAtOpen" "a segment file on disk is not as long as expected";
    5000 CONSUMER_GROUP_ID_NOT_FOUND "ConsumerGroupIdNotFound" "no consumer group of this number";
    5002 INVALID_CONSUMER_GROUP_ID "InvalidConsumerGroupId" "a group number that is not allowed";
    5003 CONSUMER_GROUP_NAME_NOT_FOUND "ConsumerGroupNameNotFound" "no consumer group of this name";
    5004 CONSUMER_GROUP_NAME_ALREADY_EXISTS "ConsumerGroupNameAlreadyExists" "the topic has a consumer group of this name";
    5005 INVALID_CONSUMER_GROUP_NAME "InvalidConsumerGroupName" "a group name that is not allowed";
    5006 CONSUMER_GROUP_MEMBER_NOT_FOUND "ConsumerGroupMemberNotFound" "the consumer group has no such member";
    5007 CANNOT_CREATE_CONSUMER_GROUP_INFO "CannotCreateConsumerGroupInfo" "the file about the consumer group could not be made";
    5008 CANNOT_DELETE_CONSUMER_GROUP_INFO "CannotDeleteConsumerGroupInfo" "the file about the consumer group could not be deleted";
    5009 CONSUMER_GROUP_PARTITION_NOT_OWNED "ConsumerGroupPartitionNotOwned" "the partition is not assigned to this member of the group";
    6000 MISSING_BASE_OFFSET_RETAINED_MESSAGE_BATCH "MissingBaseOffsetRetainedMessageBatch" "a stored batch has no base offset";
    6001 MISSING_LAST_OFFSET_DELTA_RETAINED_MESSAGE_BATCH "MissingLastOffsetDeltaRetainedMessageBatch" "a stored batch has no last offset";
    6002 MISSING_MAX_TIMESTAMP_RETAINED_MESSAGE_BATCH "MissingMaxTimestampRetainedMessageBatch" "a stored batch has no latest timestamp";
    6003 MISSING_LENGTH_RETAINED_MESSAGE_BATCH "MissingLengthRetainedMessageBatch" "a stored batch has no length";
    6004 MISSING_PAYLOAD_RETAINED_MESSAGE_BATCH "MissingPayloadRetainedMessageBatch" "a stored batch has no payload";
    7000 CANNOT_READ_BATCH_BASE_OFFSET "CannotReadBatchBaseOffset" "the base offset of a batch could not be read";
    7001 CANNOT_READ_BATCH_LENGTH "CannotReadBatchLength" "the length of a batch could not be read";
    7002 CANNOT_READ_LAST_OFFSET_DELTA "CannotReadLastOffsetDelta" "the last offset of a batch could not be read";
    7003 CANNOT_READ_MAX_TIMESTAMP "CannotReadMaxTimestamp" "the latest timestamp of a batch could not be read";
    7004 CANNOT_READ_BATCH_PAYLOAD "CannotReadBatchPayload" "the payload of a batch could not be read";
    8000 INVALID_CONNECTION_STRING "InvalidConnectionString" "a connection string that cannot be read";
    9000 SNAPSHOT_FILE_COMPLETION_FAILED "SnapshotFileCompletionFailed" "the snapshot could not be finished";
    10000 CANNOT_SERIALIZE_RESOURCE "CannotSerializeResource" "a resource could not be turned into bytes";
    10001 CANNOT_DESERIALIZE_RESOURCE "CannotDeserializeResource" "bytes could not be turned into a resource";
    10002 CANNOT_READ_FILE "CannotReadFile" "a file could not be read";
    10003 CANNOT_READ_FILE_METADATA "CannotReadFileMetadata" "the properties of a file could not be read";
    10004 CANNOT_SEEK_FILE "CannotSeekFile" "no seeking in a file";
    10005 CANNOT_APPEND_TO_FILE "CannotAppendToFile" "nothing could be appended to a file";
    10006 CANNOT_WRITE_TO_FILE "CannotWriteToFile" "a file could not be written";
    10007 CANNOT_OVERWRITE_FILE "CannotOverwriteFile" "a file could not be overwritten";
    10008 CANNOT_DELETE_FILE "CannotDeleteFile" "a file could not be deleted";
    10009 CANNOT_SYNC_FILE "CannotSyncFile" "a file could not be brought to disk";
    10010 CANNOT_READ_INDEX_OFFSET "CannotReadIndexOffset" "the offset in an index could not be read";
    10011 CANNOT_READ_INDEX_POSITION "CannotReadIndexPosition" "the position in an index could not be read";
    10012 CANNOT_READ_INDEX_TIMESTAMP "CannotReadIndexTimestamp" "the timestamp in an index could not be read";
    10013 TIMESTAMP_OUT_OF_RANGE "TimestampOutOfRange" "a timestamp outside of what is stored";
    11000 SHARD_NOT_FOUND "ShardNotFound" "no shard serves this partition";
    11001 SHARD_COMMUNICATION_ERROR "ShardCommunicationError" "a shard did not answer another one";
    12000 CANNOT_BIND_TO_SOCKET "CannotBindToSocket" "the server could not listen on its address";
    12001 TASK_TIMEOUT "TaskTimeout" "a task of the server took too long";
    13000 IO_ERROR "IoError" "input or output failed";
    14000 ALREADY_AUTHENTICATED "AlreadyAuthenticated" "the connection is logged in already";
    14001 INVALID_SESSION "InvalidSession" "a session of zero";
    14003 INCOMPATIBLE_PROTOCOL_VERSION "IncompatibleProtocolVersion" "the client's protocol version is outside of the server's window";
}
