//! GetClusterMetadata: operation 2, code 12, empty body.
//!
//! ```text
//! reply: name | nodes
//! ```
//!
//! Simplified: one node, the leader, healthy, at the address that this client reached it by. The
//! other transports report port 0, not served.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::Counted;
use ringmain_wire::payload::cluster::{ClusterMetadata, ClusterNode, ROLE_LEADER, STATUS_HEALTHY};
use ringmain_wire::text::Text;

use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call) {
    let Some(local) = state.local_address(call.connection) else {
        return;
    };
    let ip = local.ip().to_string();
    let text = |text| Text::new(text).expect("a short text");
    let node = ClusterNode {
        name: text("iggy-node"),
        ip: text(&ip),
        tcp_port: local.port(),
        quic_port: 0,
        http_port: 0,
        websocket_port: 0,
        role: ROLE_LEADER,
        status: STATUS_HEALTHY,
    };
    let reply = ClusterMetadata {
        name: text("single-node"),
        nodes: Counted(vec![node]),
    }
    .to_vec();
    state.reply_read(call, &reply);
}
