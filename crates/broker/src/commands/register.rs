//! Login and register: operation 1 (codes 40 and 45), request 0, session 0.
//!
//! ```text
//! client version | 40: user name, password  or  45: token | context
//! reply: result | user id u32 | session u64 | server protocol version u32 | server version
//! ```
//!
//! The two shapes share the operation and are told apart by the body alone: the password shape is
//! tried first. Every refusal is an eviction, and its order is the real server's: a body without a
//! readable version and SDK (15), a version outside the window (14), wrong credentials (9), a wrong
//! token (10), any other shape (15).
//!
//! Simplified: one user, number 0. The window holds one version, the protocol's own.

use std::num::NonZeroU64;

use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::name::Name;
use ringmain_wire::payload::login::{
    ClientVersion, LoginRegister, LoginRegisterWithPat, LoginReply,
};
use ringmain_wire::result;
use ringmain_wire::version::ProtocolVersion;

use crate::state::{Call, State};

/// Oldest and newest version taken.
const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    match admit(state, body) {
        Ok(()) => {
            let client = call.header.client();
            let epoch = state.register(call, client);
            let reply = LoginReply {
                user_id: 0,
                session: NonZeroU64::new(epoch)
                    .expect("the log has a position before the first login"),
                server_protocol_version: VERSION,
                server_version: Name::new(state.config.profile.server_version())
                    .expect("a short text"),
            };
            let mut body = result::SUCCESS.to_vec();
            reply.encode_to_vec(&mut body);
            state.reply_session(call, client, epoch, &body);
        }
        Err(reason) => {
            state.stats.logins_refused += 1;
            state.evict(call.connection, call.header.client(), reason);
        }
    }
}

fn admit(state: &State, body: &[u8]) -> Result<(), EvictionReason> {
    let client = ClientVersion::decode_prefix(body).map_err(|_| EvictionReason::MalformedLogin)?;
    let version = client.protocol_version;
    if version < VERSION || (version.major(), version.minor()) > (VERSION.major(), VERSION.minor())
    {
        let packed = VERSION.packed();
        return Err(EvictionReason::IncompatibleProtocol {
            max: packed,
            min: packed,
        });
    }
    let config = &state.config;
    let password = LoginRegister::decode(body);
    if let Ok(login) = &password
        && login.username.as_str() == config.username
        && login.password.expose() == config.password
    {
        return Ok(());
    }
    match LoginRegisterWithPat::decode(body) {
        Ok(login)
            if config
                .tokens
                .iter()
                .any(|token| token == login.token.expose()) =>
        {
            Ok(())
        }
        Ok(_) => Err(EvictionReason::InvalidToken),
        Err(_) if password.is_ok() => Err(EvictionReason::InvalidCredentials),
        Err(_) => Err(EvictionReason::MalformedLogin),
    }
}
