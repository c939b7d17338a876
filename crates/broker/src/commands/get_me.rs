//! GetMe: operation 2, code 20, empty body.
//!
//! ```text
//! reply: client number u32 | user id u32 | transport u8 | address | groups
//! ```
//!
//! Simplified: the client number is the connection's, the user is 0, there are no groups.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::system::{ClientDetails, ClientInfo};
use ringmain_wire::text::Text;

use crate::state::{Call, State};

/// The number of TCP.
const TRANSPORT_TCP: u8 = 1;

pub(super) fn handle(state: &mut State, call: &Call) {
    let Some(peer) = state.peer(call.connection) else {
        return;
    };
    let address = peer.to_string();
    let client = ClientInfo {
        client_id: call.connection.0 as u32,
        user_id: 0,
        transport: TRANSPORT_TCP,
        address: Text::new(&address).expect("a short text"),
        consumer_groups_count: 0,
    };
    let reply = ClientDetails {
        client,
        consumer_groups: Vec::new(),
    }
    .to_vec();
    state.reply_read(call, &reply);
}
