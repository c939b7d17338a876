//! Ping: operation 2, code 1, empty body; the reply is empty. The only read that needs no login.
//!
//! Simplified: none. Any frame proves that a client lives, so the heartbeat is recorded before
//! this.

use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call) {
    state.reply_read(call, &[]);
}
