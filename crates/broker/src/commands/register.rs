//! Login and register: operation 1 (codes 40 and 45), request 0, session 0.
//!
//! ```text
//! version u32 | sdk name u8 + text | sdk version u8 + text |
//!   40: user name u8 + text, password u8 + text
//!   45: token u8 + text
//! | context u32 + bytes
//! reply: count u32 = 0 | user id u32 | session u64 | server protocol version u32 | server version u8 + text
//! ```
//!
//! The two shapes share the operation and are told apart by the body alone: the password shape is tried first.
//! Every refusal is an eviction, and its order is the real server's: a body without a readable version and SDK
//! (15), a version outside the window (14), wrong credentials (9), a wrong token (10), any other shape (15).
//!
//! Simplified: one user, number 0. The window is exactly the protocol's own version by `major.minor`.

use ringmain_wire::WireError;
use ringmain_wire::codec::{Decode, Reader};
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::name::Name;
use ringmain_wire::result;
use ringmain_wire::version::ProtocolVersion;

use crate::profile::Profile;
use crate::state::{Call, State};

/// Oldest and newest version taken.
const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    match admit(state, body) {
        Ok(()) => {
            let client = call.header.client();
            let epoch = state.register(call, client);
            let body = reply(state.config.profile, epoch);
            state.reply_session(call, client, epoch, &body);
        }
        Err(reason) => {
            state.stats.logins_refused += 1;
            state.evict(call.connection, call.header.client(), reason);
        }
    }
}

fn admit(state: &State, body: &[u8]) -> Result<(), EvictionReason> {
    let mut reader = Reader::new(body);
    let version = prefix(&mut reader).map_err(|_| EvictionReason::MalformedLogin)?;
    if version < VERSION || (version.major(), version.minor()) > (VERSION.major(), VERSION.minor())
    {
        let packed = VERSION.packed();
        return Err(EvictionReason::IncompatibleProtocol {
            max: packed,
            min: packed,
        });
    }
    let password = password(reader.clone());
    if let Ok((username, password)) = password
        && username == state.config.username
        && password == state.config.password
    {
        return Ok(());
    }
    match token(reader) {
        Ok(token) if state.config.tokens.iter().any(|known| known == token) => Ok(()),
        Ok(_) => Err(EvictionReason::InvalidToken),
        Err(_) if password.is_ok() => Err(EvictionReason::InvalidCredentials),
        Err(_) => Err(EvictionReason::MalformedLogin),
    }
}

/// Version, SDK name and SDK version.
fn prefix(reader: &mut Reader<'_>) -> Result<ProtocolVersion, WireError> {
    let version = reader.u32("version")?;
    let version = ProtocolVersion::from_packed("version", 0, version)?;
    Name::read_as(reader, "sdk_name")?;
    Name::read_as(reader, "sdk_version")?;
    Ok(version)
}

fn password(mut reader: Reader<'_>) -> Result<(&str, &str), WireError> {
    let username = Name::read_as(&mut reader, "username")?;
    let password = Name::read_as(&mut reader, "password")?;
    context(&mut reader)?;
    Ok((username.as_str(), password.as_str()))
}

fn token(mut reader: Reader<'_>) -> Result<&str, WireError> {
    let token = Name::read_as(&mut reader, "token")?;
    context(&mut reader)?;
    Ok(token.as_str())
}

fn context(reader: &mut Reader<'_>) -> Result<(), WireError> {
    let length = reader.u32("context_length")?;
    reader.bytes("context", length as usize)?;
    reader.finish("login")
}

fn reply(profile: Profile, epoch: u64) -> Vec<u8> {
    let version = match profile {
        Profile::Release => "0.9.0",
        Profile::Edge5 => "0.9.0-edge.5",
    };
    let mut body = result::SUCCESS.to_vec();
    body.extend_from_slice(&0_u32.to_le_bytes());
    body.extend_from_slice(&epoch.to_le_bytes());
    body.extend_from_slice(&VERSION.packed().to_le_bytes());
    body.push(version.len() as u8);
    body.extend_from_slice(version.as_bytes());
    body
}
