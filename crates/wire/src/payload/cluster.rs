//! Ping, and the nodes of the cluster.
//!
//! ```text
//! cluster metadata reply              node
//!   name         text                   name            text
//!   nodes count  u32                    ip              text
//!   nodes                               tcp_port        u16
//!                                       quic_port       u16
//!                                       http_port       u16
//!                                       websocket_port  u16
//!                                       role            u8   0 leader, 1 follower
//!                                       status          u8   0 healthy, 1 to 5 see below
//! ```
//!
//! Both requests have no body, and the reply to a ping has none either.

use crate::payload::shape::{empty_command, payload};
use crate::payload::{Counted, Empty};
use crate::text::Text;

/// `role` of the node that takes writes.
pub const ROLE_LEADER: u8 = 0;

/// `role` of a node that follows.
pub const ROLE_FOLLOWER: u8 = 1;

/// `status` of a node in service.
pub const STATUS_HEALTHY: u8 = 0;

/// `status` of a node that comes up.
pub const STATUS_STARTING: u8 = 1;

/// `status` of a node that goes down.
pub const STATUS_STOPPING: u8 = 2;

/// `status` of a node that the others cannot reach.
pub const STATUS_UNREACHABLE: u8 = 3;

/// `status` of a node that was taken out of service.
pub const STATUS_MAINTENANCE: u8 = 4;

/// `status` of a node of which nothing is known.
pub const STATUS_UNKNOWN: u8 = 5;

empty_command! {
    /// Keeps the session alive. Answered before login, too.
    pub struct Ping = PING -> Empty;
}

empty_command! {
    /// Asks for the nodes of the cluster.
    pub struct GetClusterMetadata = GET_CLUSTER_METADATA -> ClusterMetadata<'r>;
}

payload! {
    /// A cluster.
    #[derive(Eq)]
    pub struct ClusterMetadata<'a> {
        /// Its name.
        pub name: Text<'a>,
        /// Its nodes.
        pub nodes: Counted<ClusterNode<'a>>,
    }
}

payload! {
    /// A node of a cluster. A port of 0 is not served. Roles and states beyond those known are
    /// kept.
    #[derive(Copy, Eq)]
    pub struct ClusterNode<'a> {
        /// Its name.
        pub name: Text<'a>,
        /// Its address or host name.
        pub ip: Text<'a>,
        /// Port of this protocol over TCP.
        pub tcp_port: u16,
        /// Port of this protocol over QUIC.
        pub quic_port: u16,
        /// Port of the HTTP interface.
        pub http_port: u16,
        /// Port of this protocol over WebSocket.
        pub websocket_port: u16,
        /// What it does in the cluster.
        pub role: u8,
        /// How it is.
        pub status: u8,
    }
}
