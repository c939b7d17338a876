//! Personal access tokens.
//!
//! ```text
//! create   name, expiry u64     -> token  secret
//! delete   name                 -> empty
//! get all  empty                -> to the end: name, expiry_at u64
//! ```

use crate::name::Name;
use crate::payload::shape::{command, empty_command, payload};
use crate::payload::{Empty, ToEnd};
use crate::text::Secret;

payload! {
    /// Creates a token for the user who is logged in.
    #[derive(Copy, Eq)]
    pub struct CreatePersonalAccessToken<'a> {
        /// Its name, not in use by that user yet.
        pub name: Name<'a>,
        /// How long it is valid, in microseconds; [`u64::MAX`] for ever.
        pub expiry: u64,
    }
}

payload! {
    /// Deletes a token.
    #[derive(Copy, Eq)]
    pub struct DeletePersonalAccessToken<'a> {
        /// Its name.
        pub name: Name<'a>,
    }
}

empty_command! {
    /// Asks for all tokens of the user who is logged in.
    pub struct GetPersonalAccessTokens = GET_PERSONAL_ACCESS_TOKENS
        -> ToEnd<PersonalAccessTokenInfo<'r>>;
}

payload! {
    /// The token itself, told once.
    #[derive(Copy, Eq)]
    pub struct RawPersonalAccessToken<'a> {
        /// What to log in with.
        pub token: Secret<'a>,
    }
}

payload! {
    /// A token, without the secret.
    #[derive(Copy, Eq)]
    pub struct PersonalAccessTokenInfo<'a> {
        /// Its name.
        pub name: Name<'a>,
        /// When it expires, in microseconds since 1970; 0 never.
        pub expiry_at: u64,
    }
}

command!(
    CreatePersonalAccessToken<'_>,
    CREATE_PERSONAL_ACCESS_TOKEN,
    RawPersonalAccessToken<'r>
);
command!(
    DeletePersonalAccessToken<'_>,
    DELETE_PERSONAL_ACCESS_TOKEN,
    Empty
);
