//! Operations, the planes they run on, and command codes.
//!
//! An operation is one byte of a header; a command code is the older `u32` name of the same thing.
//! Reads and pings share the operation [`Operation::NonReplicated`] and carry their code in the
//! header beside it. This module holds the rules that follow from the operation alone: which plane,
//! who may send it, whether it takes a new request number, whether its body is stamped, how its
//! reply is framed.

use std::fmt;

/// What a request asks for: the byte at offset 176 of a request header and 208 of a reply header.
///
/// | value | operations | plane |
/// |---|---|---|
/// | 1, 3 | register (log in), logout | session |
/// | 2 | reads and ping, told apart by a [`CommandCode`] | non-replicated |
/// | 64..=68 | rewrites by the server; never sent by clients, 64, 65 and 68 come back in replies | metadata |
/// | 128..=149 | streams, topics, partitions, segments, groups, users, tokens | metadata |
/// | 160..=162 | messages and consumer offsets | partition |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// Logs in and opens a session (command codes 40 and 45).
    Register = 1,
    /// A read or a ping; the command code says which.
    NonReplicated = 2,
    /// Ends the session (command code 39).
    Logout = 3,
    /// Server rewrite of [`Operation::CreateTopic`].
    CreateTopicWithAssignments = 64,
    /// Server rewrite of [`Operation::CreatePartitions`].
    CreatePartitionsWithAssignments = 65,
    /// Server-made: takes a vanished client out of its consumer groups.
    RemoveConsumerGroupMember = 66,
    /// Server-made: completes the hand-over of a partition inside a consumer group.
    CompleteConsumerGroupRevocation = 67,
    /// Server rewrite of [`Operation::DeleteSegments`].
    TruncatePartition = 68,
    /// Creates a stream.
    CreateStream = 128,
    /// Renames a stream or changes its options.
    UpdateStream = 129,
    /// Deletes a stream.
    DeleteStream = 130,
    /// Drops all messages of a stream.
    PurgeStream = 131,
    /// Creates a topic; answered as [`Operation::CreateTopicWithAssignments`].
    CreateTopic = 132,
    /// Renames a topic or changes its options.
    UpdateTopic = 133,
    /// Deletes a topic.
    DeleteTopic = 134,
    /// Drops all messages of a topic.
    PurgeTopic = 135,
    /// Adds partitions; answered as [`Operation::CreatePartitionsWithAssignments`].
    CreatePartitions = 136,
    /// Removes the last partitions of a topic.
    DeletePartitions = 137,
    /// Drops the oldest segments of a partition; answered as [`Operation::TruncatePartition`].
    DeleteSegments = 138,
    /// Creates a consumer group.
    CreateConsumerGroup = 139,
    /// Deletes a consumer group.
    DeleteConsumerGroup = 140,
    /// Creates a user.
    CreateUser = 141,
    /// Changes a user's name or status.
    UpdateUser = 142,
    /// Deletes a user.
    DeleteUser = 143,
    /// Changes a user's password.
    ChangePassword = 144,
    /// Replaces a user's permissions.
    UpdatePermissions = 145,
    /// Creates a personal access token.
    CreatePersonalAccessToken = 146,
    /// Deletes a personal access token.
    DeletePersonalAccessToken = 147,
    /// Joins a consumer group.
    JoinConsumerGroup = 148,
    /// Leaves a consumer group.
    LeaveConsumerGroup = 149,
    /// Appends a batch of messages to a partition.
    SendMessages = 160,
    /// Stores a consumer's offset.
    StoreConsumerOffset = 161,
    /// Deletes a consumer's stored offset.
    DeleteConsumerOffset = 162,
}

/// Where an operation runs, which decides what a retry of it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plane {
    /// Login and logout.
    Session,
    /// No log: served from the state of the node asked; a retry simply asks again.
    NonReplicated,
    /// The metadata log: duplicates are recognised by `(client, request)` and recent replies are
    /// replayed.
    Metadata,
    /// The log of one partition: duplicates are recognised within a window, and answered without
    /// details.
    Partition,
}

impl Operation {
    /// Every operation, by rising value.
    pub const ALL: [Self; 33] = [
        Self::Register,
        Self::NonReplicated,
        Self::Logout,
        Self::CreateTopicWithAssignments,
        Self::CreatePartitionsWithAssignments,
        Self::RemoveConsumerGroupMember,
        Self::CompleteConsumerGroupRevocation,
        Self::TruncatePartition,
        Self::CreateStream,
        Self::UpdateStream,
        Self::DeleteStream,
        Self::PurgeStream,
        Self::CreateTopic,
        Self::UpdateTopic,
        Self::DeleteTopic,
        Self::PurgeTopic,
        Self::CreatePartitions,
        Self::DeletePartitions,
        Self::DeleteSegments,
        Self::CreateConsumerGroup,
        Self::DeleteConsumerGroup,
        Self::CreateUser,
        Self::UpdateUser,
        Self::DeleteUser,
        Self::ChangePassword,
        Self::UpdatePermissions,
        Self::CreatePersonalAccessToken,
        Self::DeletePersonalAccessToken,
        Self::JoinConsumerGroup,
        Self::LeaveConsumerGroup,
        Self::SendMessages,
        Self::StoreConsumerOffset,
        Self::DeleteConsumerOffset,
    ];

    /// The operation of a header byte, `None` for 0 and every value that is not assigned.
    #[must_use]
    pub const fn from_u8(value: u8) -> Option<Self> {
        BY_VALUE[value as usize]
    }

    /// The header byte.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The plane it runs on.
    #[must_use]
    pub const fn plane(self) -> Plane {
        match self {
            Self::Register | Self::Logout => Plane::Session,
            Self::NonReplicated => Plane::NonReplicated,
            Self::SendMessages | Self::StoreConsumerOffset | Self::DeleteConsumerOffset => {
                Plane::Partition
            }
            _ => Plane::Metadata,
        }
    }

    /// Whether only the server makes it. A client that sends one is evicted.
    #[must_use]
    pub const fn is_internal(self) -> bool {
        matches!(self.as_u8(), 64..=127)
    }

    /// Whether a request of it takes a new request number. Register has number 0 and non-replicated
    /// requests repeat the current one.
    #[must_use]
    pub const fn advances_counter(self) -> bool {
        !matches!(self, Self::Register | Self::NonReplicated)
    }

    /// Whether its header carries XxHash3-64 of the body in `request_checksum`: metadata and
    /// session operations.
    #[must_use]
    pub const fn is_stamped(self) -> bool {
        matches!(self.plane(), Plane::Session | Plane::Metadata)
    }

    /// Whether the body of a reply of it starts with a result section.
    ///
    /// Register replies do so only when they are not empty; this is `true` for them and
    /// [`crate::frame::Reply`] knows the exception.
    #[must_use]
    pub const fn is_result_framed(self) -> bool {
        match self.plane() {
            Plane::Metadata => true,
            Plane::Session => matches!(self, Self::Register),
            Plane::Partition => !matches!(self, Self::SendMessages),
            Plane::NonReplicated => false,
        }
    }

    /// What the client sent when a reply carries this operation: undoes the server's rewrites (64,
    /// 65, 68), and is the operation itself otherwise.
    #[must_use]
    pub const fn client_operation(self) -> Self {
        match self {
            Self::CreateTopicWithAssignments => Self::CreateTopic,
            Self::CreatePartitionsWithAssignments => Self::CreatePartitions,
            Self::TruncatePartition => Self::DeleteSegments,
            other => other,
        }
    }

    /// What a reply to this operation carries: the server's rewrite, or the operation itself.
    #[must_use]
    pub const fn reply_operation(self) -> Self {
        match self {
            Self::CreateTopic => Self::CreateTopicWithAssignments,
            Self::CreatePartitions => Self::CreatePartitionsWithAssignments,
            Self::DeleteSegments => Self::TruncatePartition,
            other => other,
        }
    }

    /// Its command code. `None` for [`Operation::NonReplicated`], which has many, for
    /// [`Operation::Register`], which has two, and for what only servers make.
    #[must_use]
    pub const fn command_code(self) -> Option<CommandCode> {
        Some(match self {
            Self::Logout => CommandCode::LOGOUT_USER,
            Self::CreateStream => CommandCode::CREATE_STREAM,
            Self::UpdateStream => CommandCode::UPDATE_STREAM,
            Self::DeleteStream => CommandCode::DELETE_STREAM,
            Self::PurgeStream => CommandCode::PURGE_STREAM,
            Self::CreateTopic => CommandCode::CREATE_TOPIC,
            Self::UpdateTopic => CommandCode::UPDATE_TOPIC,
            Self::DeleteTopic => CommandCode::DELETE_TOPIC,
            Self::PurgeTopic => CommandCode::PURGE_TOPIC,
            Self::CreatePartitions => CommandCode::CREATE_PARTITIONS,
            Self::DeletePartitions => CommandCode::DELETE_PARTITIONS,
            Self::DeleteSegments => CommandCode::DELETE_SEGMENTS,
            Self::CreateConsumerGroup => CommandCode::CREATE_CONSUMER_GROUP,
            Self::DeleteConsumerGroup => CommandCode::DELETE_CONSUMER_GROUP,
            Self::CreateUser => CommandCode::CREATE_USER,
            Self::UpdateUser => CommandCode::UPDATE_USER,
            Self::DeleteUser => CommandCode::DELETE_USER,
            Self::ChangePassword => CommandCode::CHANGE_PASSWORD,
            Self::UpdatePermissions => CommandCode::UPDATE_PERMISSIONS,
            Self::CreatePersonalAccessToken => CommandCode::CREATE_PERSONAL_ACCESS_TOKEN,
            Self::DeletePersonalAccessToken => CommandCode::DELETE_PERSONAL_ACCESS_TOKEN,
            Self::JoinConsumerGroup => CommandCode::JOIN_CONSUMER_GROUP,
            Self::LeaveConsumerGroup => CommandCode::LEAVE_CONSUMER_GROUP,
            Self::SendMessages => CommandCode::SEND_MESSAGES,
            Self::StoreConsumerOffset => CommandCode::STORE_CONSUMER_OFFSET,
            Self::DeleteConsumerOffset => CommandCode::DELETE_CONSUMER_OFFSET,
            _ => return None,
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", self.as_u8())
    }
}

/// Operations by header byte, so that decoding is one load.
static BY_VALUE: [Option<Operation>; 256] = {
    let mut table = [None; 256];
    let mut index = 0;
    while index < Operation::ALL.len() {
        table[Operation::ALL[index] as usize] = Some(Operation::ALL[index]);
        index += 1;
    }
    table
};

/// The `u32` name of a command. Any number can be carried: a server may know commands that this
/// crate does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandCode(pub u32);

/// Declares the known codes once: the constant, its number and the name that [`CommandCode::name`]
/// gives.
macro_rules! command_codes {
    ($($constant:ident = $number:literal, $name:literal;)+) => {
        impl CommandCode {
            $(#[doc = concat!("Code ", $number, ", ", $name, ".")]
            pub const $constant: Self = Self($number);)+

            /// Every known code, by rising number.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant),+];

            /// What the code is called, `None` for one that this crate does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)+
                    _ => None,
                }
            }
        }
    };
}

command_codes! {
    PING = 1, "Ping";
    GET_STATS = 10, "GetStats";
    GET_SNAPSHOT_FILE = 11, "GetSnapshotFile";
    GET_CLUSTER_METADATA = 12, "GetClusterMetadata";
    DESCRIBE_OPTIONS = 13, "DescribeOptions";
    ATTACH_CONSUMER_SESSION = 14, "AttachConsumerSession";
    GET_ME = 20, "GetMe";
    GET_CLIENT = 21, "GetClient";
    GET_CLIENTS = 22, "GetClients";
    GET_USER = 31, "GetUser";
    GET_USERS = 32, "GetUsers";
    CREATE_USER = 33, "CreateUser";
    DELETE_USER = 34, "DeleteUser";
    UPDATE_USER = 35, "UpdateUser";
    UPDATE_PERMISSIONS = 36, "UpdatePermissions";
    CHANGE_PASSWORD = 37, "ChangePassword";
    LOGIN_USER = 38, "LoginUser";
    LOGOUT_USER = 39, "LogoutUser";
    LOGIN_REGISTER = 40, "LoginRegister";
    GET_PERSONAL_ACCESS_TOKENS = 41, "GetPersonalAccessTokens";
    CREATE_PERSONAL_ACCESS_TOKEN = 42, "CreatePersonalAccessToken";
    DELETE_PERSONAL_ACCESS_TOKEN = 43, "DeletePersonalAccessToken";
    LOGIN_WITH_PERSONAL_ACCESS_TOKEN = 44, "LoginWithPersonalAccessToken";
    LOGIN_REGISTER_WITH_PAT = 45, "LoginRegisterWithPat";
    POLL_MESSAGES = 100, "PollMessages";
    SEND_MESSAGES = 101, "SendMessages";
    FLUSH_UNSAVED_BUFFER = 102, "FlushUnsavedBuffer";
    GET_POLL_ROUTING = 103, "GetPollRouting";
    POLL_MESSAGES_ON_PRIMARY = 104, "PollMessagesOnPrimary";
    GET_CONSUMER_OFFSET = 120, "GetConsumerOffset";
    STORE_CONSUMER_OFFSET = 121, "StoreConsumerOffset";
    DELETE_CONSUMER_OFFSET = 122, "DeleteConsumerOffset";
    GET_CONSUMER_OFFSET_ROUTING = 123, "GetConsumerOffsetRouting";
    GET_STREAM = 200, "GetStream";
    GET_STREAMS = 201, "GetStreams";
    CREATE_STREAM = 202, "CreateStream";
    DELETE_STREAM = 203, "DeleteStream";
    UPDATE_STREAM = 204, "UpdateStream";
    PURGE_STREAM = 205, "PurgeStream";
    GET_TOPIC = 300, "GetTopic";
    GET_TOPICS = 301, "GetTopics";
    CREATE_TOPIC = 302, "CreateTopic";
    DELETE_TOPIC = 303, "DeleteTopic";
    UPDATE_TOPIC = 304, "UpdateTopic";
    PURGE_TOPIC = 305, "PurgeTopic";
    CREATE_PARTITIONS = 402, "CreatePartitions";
    DELETE_PARTITIONS = 403, "DeletePartitions";
    DELETE_SEGMENTS = 503, "DeleteSegments";
    GET_CONSUMER_GROUP = 600, "GetConsumerGroup";
    GET_CONSUMER_GROUPS = 601, "GetConsumerGroups";
    CREATE_CONSUMER_GROUP = 602, "CreateConsumerGroup";
    DELETE_CONSUMER_GROUP = 603, "DeleteConsumerGroup";
    JOIN_CONSUMER_GROUP = 604, "JoinConsumerGroup";
    LEAVE_CONSUMER_GROUP = 605, "LeaveConsumerGroup";
    SYNC_CONSUMER_GROUP = 606, "SyncConsumerGroup";
}

impl CommandCode {
    /// The operation that carries the code. A code that no operation claims, known or not, goes as
    /// [`Operation::NonReplicated`]; whether the server has such a command is for the server to
    /// say.
    #[must_use]
    pub const fn operation(self) -> Operation {
        if self.0 == Self::LOGIN_REGISTER.0 || self.0 == Self::LOGIN_REGISTER_WITH_PAT.0 {
            return Operation::Register;
        }
        let mut index = 0;
        while index < Operation::ALL.len() {
            let operation = Operation::ALL[index];
            if let Some(code) = operation.command_code()
                && code.0 == self.0
            {
                return operation;
            }
            index += 1;
        }
        Operation::NonReplicated
    }
}

impl fmt::Display for CommandCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({})",
            self.name().unwrap_or("unknown command"),
            self.0
        )
    }
}

impl fmt::Debug for CommandCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandCode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_operations_map_one_to_one() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            if let Some(operation) = Operation::from_u8(byte) {
                assert_eq!(operation.as_u8(), byte);
                known += 1;
            }
        }
        assert_eq!(known, Operation::ALL.len());
        assert!(Operation::ALL.is_sorted());
        assert_eq!(Operation::from_u8(0), None);
    }

    #[test]
    fn rewrites_map_back_to_what_was_sent() {
        let rewrites = [(64, 132), (65, 136), (68, 138)];
        for operation in Operation::ALL {
            let sent = rewrites
                .iter()
                .find(|(rewritten, _)| *rewritten == operation.as_u8())
                .map_or(operation.as_u8(), |(_, sent)| *sent);
            assert_eq!(operation.client_operation().as_u8(), sent);
            if !operation.is_internal() {
                assert_eq!(operation.reply_operation().client_operation(), operation);
            }
        }
    }

    #[test]
    fn every_command_code_goes_with_the_operation_that_claims_it() {
        assert!(CommandCode::KNOWN.is_sorted());
        for operation in Operation::ALL {
            if let Some(code) = operation.command_code() {
                assert_eq!(code.operation(), operation);
                let name = match operation {
                    Operation::Logout => "LogoutUser".to_owned(),
                    other => format!("{other:?}"),
                };
                assert_eq!(code.name(), Some(&*name));
            }
        }
        assert_eq!(CommandCode(40).operation(), Operation::Register);
        assert_eq!(CommandCode(45).operation(), Operation::Register);
        assert_eq!(CommandCode(100).operation(), Operation::NonReplicated);
        assert_eq!(CommandCode(60_000).operation(), Operation::NonReplicated);
    }

    #[test]
    fn rules_of_every_plane() {
        for operation in Operation::ALL {
            let (counter, stamped, framed) = match operation.plane() {
                Plane::Session => (
                    operation == Operation::Logout,
                    true,
                    operation == Operation::Register,
                ),
                Plane::NonReplicated => (false, false, false),
                Plane::Metadata => (true, true, true),
                Plane::Partition => (true, false, operation != Operation::SendMessages),
            };
            assert_eq!(operation.advances_counter(), counter, "{operation}");
            assert_eq!(operation.is_stamped(), stamped, "{operation}");
            assert_eq!(operation.is_result_framed(), framed, "{operation}");
        }
    }
}
