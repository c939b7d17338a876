//! Logout: operation 3 (code 39), empty body; the reply is empty.
//!
//! Forgets the client's registration, its watermark and cached replies. Without a login there is
//! nothing to do, and that is answered as done.
//!
//! Simplified: none.

use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call) {
    match state.logout(call.connection) {
        Some(session) => state.reply_session(call, session.client, session.epoch, &[]),
        None => state.reply_session(call, call.connection.transport_id(), 0, &[]),
    }
}
