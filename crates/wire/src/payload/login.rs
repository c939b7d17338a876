//! Login and logout.
//!
//! ```text
//! login body                                        login reply (behind a result section of count 0)
//!   protocol_version  u32  packed version             user_id                  u32
//!   sdk_name          name                            session                  u64  never 0
//!   sdk_version       name                            server_protocol_version  u32  packed version
//!   with a password:                                  server_version           name
//!     username        name
//!     password        secret
//!   with a token:
//!     token           secret
//!   context           text  may be empty
//! ```
//!
//! Both logins are operation 1, and only the body tells them apart: a server reads the
//! [`ClientVersion`] in front and judges it, then tries [`LoginRegister`], then
//! [`LoginRegisterWithPat`]. Logout has no body and an empty reply.

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::name::Name;
use crate::payload::Empty;
use crate::payload::shape::{command, empty_command, payload};
use crate::text::{Secret, Text};
use crate::version::ProtocolVersion;
use std::num::NonZeroU64;

impl Encode for ProtocolVersion {
    const NAME: &'static str = "protocol version";

    fn encoded_len(&self) -> usize {
        4
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.packed());
    }
}

impl<'a> Decode<'a> for ProtocolVersion {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let offset = reader.offset();
        Self::from_packed(field, offset, reader.u32(field)?)
    }
}

payload! {
    /// Who logs in, in terms of software. In front of both logins.
    #[derive(Eq)]
    pub struct ClientVersion<'a> {
        /// The version of the protocol that the client speaks.
        pub protocol_version: ProtocolVersion,
        /// What the client's library is called.
        pub sdk_name: Name<'a>,
        /// The version of that library.
        pub sdk_version: Name<'a>,
    }
}

payload! {
    /// Logs in with user name and password.
    #[derive(Eq)]
    pub struct LoginRegister<'a> {
        /// The client's software.
        pub client_version: ClientVersion<'a>,
        /// The user.
        pub username: Name<'a>,
        /// The user's password.
        pub password: Secret<'a>,
        /// Anything that the client wants to say about itself, or nothing.
        pub context: Text<'a>,
    }
}

payload! {
    /// Logs in with a personal access token.
    #[derive(Eq)]
    pub struct LoginRegisterWithPat<'a> {
        /// The client's software.
        pub client_version: ClientVersion<'a>,
        /// The token.
        pub token: Secret<'a>,
        /// Anything that the client wants to say about itself, or nothing.
        pub context: Text<'a>,
    }
}

payload! {
    /// The session that a login opened.
    #[derive(Eq)]
    pub struct LoginReply<'a> {
        /// The user's number.
        pub user_id: u32,
        /// The session epoch, to be echoed in every header from now on.
        pub session: NonZeroU64,
        /// The newest version of the protocol that the server speaks.
        pub server_protocol_version: ProtocolVersion,
        /// The server's own version.
        pub server_version: Name<'a>,
    }
}

empty_command! {
    /// Ends the session.
    pub struct Logout = LOGOUT_USER -> Empty;
}

command!(LoginRegister<'_>, LOGIN_REGISTER, LoginReply<'r>);
command!(
    LoginRegisterWithPat<'_>,
    LOGIN_REGISTER_WITH_PAT,
    LoginReply<'r>
);

impl<'a> ClientVersion<'a> {
    /// Reads what stands in front of either login, whatever follows it.
    ///
    /// # Errors
    ///
    /// [`WireError`]: a server answers with eviction reason 15 then.
    pub fn decode_prefix(body: &'a [u8]) -> Result<Self, WireError> {
        Self::read(&mut Reader::new(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_version() -> ClientVersion<'static> {
        ClientVersion {
            protocol_version: ProtocolVersion::CURRENT,
            sdk_name: Name::new("ringmain").expect("in range"),
            sdk_version: Name::new("0.1.0").expect("in range"),
        }
    }

    #[test]
    fn a_login_without_context_reads_as_one_kind_only() {
        let password = LoginRegister {
            client_version: client_version(),
            username: Name::new("iggy").expect("in range"),
            password: Secret::new("iggy").expect("in range"),
            context: Text::EMPTY,
        };
        let token = LoginRegisterWithPat {
            client_version: client_version(),
            token: Secret::new("a-token").expect("in range"),
            context: Text::EMPTY,
        };
        let (password_bytes, token_bytes) = (password.to_vec(), token.to_vec());
        assert_eq!(LoginRegister::decode(&password_bytes), Ok(password));
        assert!(LoginRegisterWithPat::decode(&password_bytes).is_err());
        assert_eq!(LoginRegisterWithPat::decode(&token_bytes), Ok(token));
        assert!(LoginRegister::decode(&token_bytes).is_err());
        for body in [&password_bytes, &token_bytes] {
            assert_eq!(ClientVersion::decode_prefix(body), Ok(client_version()));
        }
    }

    #[test]
    fn a_session_of_zero_is_refused() {
        let mut bytes = vec![0; 12];
        bytes.extend_from_slice(&ProtocolVersion::CURRENT.packed().to_le_bytes());
        bytes.extend_from_slice(b"\x010");
        assert_eq!(
            LoginReply::decode(&bytes),
            Err(WireError::OutOfRange {
                field: "session",
                offset: 4,
                found: 0,
                min: 1,
                max: u64::MAX
            })
        );
    }
}
