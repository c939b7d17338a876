//! Placeholder.

pub mod server_url;
