//! Server URLs: where the servers are, who logs in, and which connection options apply.
//!
//! ```text
//! iggy://user:password@host:port[,host:port...][?option=value&...]     password login
//! iggy://TOKEN@host:port[,...][?...]                                   personal access token
//! iggy+tcp://...                                                       the same, transport spelled out
//! ```
//!
//! Every TCP connection string that the official SDK documents is read unchanged; so are two things
//! it does not read: IPv6 hosts in brackets, and a list of addresses. User name, password and token
//! are percent-decoded, so `@`, `:`, `/` and `?` can be part of them; a `%` that starts no valid
//! escape stands for itself.
//!
//! This file does no I/O except [`Address::resolve`], and opens no connection.
//!
//! Invariants: a [`ServerUrl`] has 1..=[`ADDRESSES_MAX`] addresses and credentials of 1..=255 bytes
//! a part. No `Debug`, no `Display` and no error of this file shows a password or a token, and no
//! error quotes input other than the name of an option: a password with a forgotten escape can land
//! in any other part.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ringmain_io::driver::DriverChoice;

/// Addresses a URL may list. A cluster has a handful of nodes; a longer list is a mistake.
pub const ADDRESSES_MAX: usize = 16;

/// Bytes of a user name, a password or a token: the login payload writes their length in one byte.
pub const CREDENTIAL_BYTES_MAX: usize = 255;

/// What [`fmt::Display`] leaves unescaped in a user name: the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What stands in place of a secret wherever one would be shown.
const REDACTED: &str = "***";

/// A password or a personal access token. Shows itself to nobody who does not ask by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for the login payload and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// User name and password (command code 40).
    Password {
        /// 1..=255 bytes of UTF-8, decoded.
        username: String,
        /// 1..=255 bytes of UTF-8, decoded.
        password: Secret,
    },
    /// Personal access token (command code 45), 1..=255 bytes, decoded.
    Token(Secret),
}

/// One server address: a host name, an IPv4 address or an IPv6 address, and a TCP port (1..=65535).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Host name or IP address; an IPv6 address is without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks the system's resolver. Blocks for as long as the resolver does; not for a shard thread.
    ///
    /// # Errors
    /// Whatever the resolver says (environment's fault: an unknown name, no name server), or
    /// [`io::ErrorKind::NotFound`] when it names no address at all.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        Ok(found)
    }

    /// `index` (from 0) is the place in the list, for the error alone.
    fn parse(text: &str, index: usize) -> Result<Self, ServerUrlError> {
        let wrong = |problem| ServerUrlError::Address {
            number: index + 1,
            problem,
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or_else(|| wrong(AddressProblem::BracketOpen))?;
                host.parse::<Ipv6Addr>()
                    .map_err(|_| wrong(AddressProblem::NotIpv6))?;
                let port = after
                    .strip_prefix(':')
                    .ok_or_else(|| wrong(AddressProblem::PortMissing))?;
                (host, port)
            }
            None => {
                let (host, port) = text
                    .rsplit_once(':')
                    .ok_or_else(|| wrong(AddressProblem::PortMissing))?;
                if host.contains(':') {
                    return Err(wrong(AddressProblem::Ipv6WithoutBrackets));
                }
                if !host_is_valid(host) {
                    return Err(wrong(AddressProblem::Host));
                }
                (host, port)
            }
        };
        // The digits are looked at because `parse` would let a leading plus sign pass.
        let digits_only = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if port != 0 && digits_only => Ok(Address {
                host: host.to_owned(),
                port,
            }),
            _ => Err(wrong(AddressProblem::Port)),
        }
    }
}

/// Dotted IPv4, or a host name: dot-separated labels of 1..=63 letters, digits, `-` and `_` that
/// neither start nor end with `-`, 253 bytes together. A dot behind the last says that the name is
/// whole: no search domain is tried. A name of digits and dots alone is a mistyped IPv4 address.
fn host_is_valid(host: &str) -> bool {
    if host.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let numeric = host
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    !numeric
        && host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The options after `?`. `None` means that the URL does not say, and the engine's own default
/// holds.
///
/// Read without a field here, because they can have one meaning only: `nodelay=true|false` (the
/// engine gathers its writes itself and always sets `TCP_NODELAY`), and `tls=false`, `tls_domain`
/// and `tls_ca_file` (nothing without TLS). `tls=true` is refused, see
/// [`ServerUrlError::TlsUnsupported`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerOptions {
    /// `heartbeat_interval=5s`: time between pings, above 0, in microseconds.
    pub heartbeat_interval_us: Option<u64>,
    /// `reconnection_retries=3|unlimited`: rounds over all addresses, beyond the first, in which
    /// [`EngineBuilder::build`](crate::EngineBuilder::build) tries to log in, within its
    /// `connect_timeout_us`. A running engine reconnects for as long as records wait; their
    /// delivery timeout ends it.
    pub reconnection_retries: Option<ReconnectionRetries>,
    /// `reconnection_interval=1s`: least time between two attempts, above 0, in microseconds.
    pub reconnection_interval_us: Option<u64>,
    /// `reestablish_after=5s`: least time between the loss of a connection and the first attempt,
    /// in microseconds; 0 is at once. The larger of this and `reconnection_interval` holds for all
    /// attempts.
    pub reestablish_after_us: Option<u64>,
    /// `driver=auto|io_uring|epoll`: what moves the bytes, unless
    /// [`EngineBuilder::driver`](crate::EngineBuilder::driver) says. Of ringmain alone: the
    /// official SDK refuses a URL with it.
    pub driver: Option<DriverChoice>,
}

/// How often to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconnectionRetries {
    /// For ever.
    Unlimited,
    /// At most so many attempts in a row.
    Limit(u32),
}

/// The names of the options, in the order in which they are shown.
const OPTION_NAMES: [&str; 9] = [
    "tls",
    "tls_domain",
    "tls_ca_file",
    "reconnection_retries",
    "reconnection_interval",
    "reestablish_after",
    "heartbeat_interval",
    "nodelay",
    "driver",
];

impl ServerOptions {
    /// `text` is all that follows the `?`. Of an option given twice the last one counts, as in the
    /// official SDK.
    fn parse(text: &str) -> Result<Self, ServerUrlError> {
        let mut options = ServerOptions::default();
        for (index, option) in text.split('&').enumerate() {
            let (name, value) = option
                .split_once('=')
                .ok_or(ServerUrlError::OptionWithoutValue { number: index + 1 })?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ServerUrlError> {
        match name {
            "tls" if boolean("tls", value)? => return Err(ServerUrlError::TlsUnsupported),
            // Read by the official SDK only when TLS is on.
            "tls" | "tls_domain" | "tls_ca_file" => {}
            "nodelay" => {
                boolean("nodelay", value)?;
            }
            "reconnection_retries" => self.reconnection_retries = Some(retries(value)?),
            "reconnection_interval" => {
                self.reconnection_interval_us = Some(interval_us("reconnection_interval", value)?);
            }
            "heartbeat_interval" => {
                self.heartbeat_interval_us = Some(interval_us("heartbeat_interval", value)?);
            }
            "reestablish_after" => {
                self.reestablish_after_us = Some(duration_us("reestablish_after", value)?);
            }
            "driver" => {
                let driver = value.parse().map_err(|_| ServerUrlError::OptionValue {
                    name: "driver",
                    expected: "auto, io_uring or epoll",
                })?;
                self.driver = Some(driver);
            }
            _ => {
                return Err(ServerUrlError::UnknownOption {
                    name: shown_name(name),
                });
            }
        }
        Ok(())
    }
}

impl fmt::Display for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |value: Option<u64>| value.map(|us| format!("{us}us"));
        let options = [
            (
                "reconnection_retries",
                self.reconnection_retries.map(|retries| match retries {
                    ReconnectionRetries::Unlimited => "unlimited".to_owned(),
                    ReconnectionRetries::Limit(limit) => limit.to_string(),
                }),
            ),
            ("reconnection_interval", us(self.reconnection_interval_us)),
            ("reestablish_after", us(self.reestablish_after_us)),
            ("heartbeat_interval", us(self.heartbeat_interval_us)),
            ("driver", self.driver.map(|driver| driver.to_string())),
        ];
        let given = options
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (index, (name, value)) in given.enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

/// The official SDK reads every word but `true` as false. Here `tls=yes` is refused rather than
/// read as "send the password in clear", and `nodelay` follows the same rule.
fn boolean(name: &'static str, value: &str) -> Result<bool, ServerUrlError> {
    value.parse().map_err(|_| ServerUrlError::OptionValue {
        name,
        expected: "true or false",
    })
}

fn retries(value: &str) -> Result<ReconnectionRetries, ServerUrlError> {
    if value == "unlimited" {
        return Ok(ReconnectionRetries::Unlimited);
    }
    let limit = value.parse().map_err(|_| ServerUrlError::OptionValue {
        name: "reconnection_retries",
        expected: "unlimited or a number from 0 to 4294967295",
    })?;
    Ok(ReconnectionRetries::Limit(limit))
}

/// A duration above 0.
fn interval_us(name: &'static str, value: &str) -> Result<u64, ServerUrlError> {
    match duration_us(name, value)? {
        0 => Err(ServerUrlError::OptionValue {
            name,
            expected: "a duration above 0 such as 5s or 500ms",
        }),
        us => Ok(us),
    }
}

/// Durations as the official SDK spells them: `5s`, `1m 30s`, and four words for none.
fn duration_us(name: &'static str, value: &str) -> Result<u64, ServerUrlError> {
    let wrong = ServerUrlError::OptionValue {
        name,
        expected: "a duration such as 5s, 500ms or 1m 30s",
    };
    let Ok(value) = percent_decode_str(value).decode_utf8() else {
        return Err(wrong);
    };
    let value = value.to_lowercase();
    let duration = match value.as_str() {
        "0" | "unlimited" | "disabled" | "none" => Duration::ZERO,
        other => match humantime::parse_duration(other) {
            Ok(duration) => duration,
            Err(_) => return Err(wrong),
        },
    };
    u64::try_from(duration.as_micros()).map_err(|_| wrong)
}

/// The name of an option as an error may quote it: short and made of the characters names are made
/// of.
fn shown_name(name: &str) -> String {
    let shown: String = name
        .chars()
        .filter(|&c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.')
        .take(32)
        .collect();
    if shown.len() == name.len() {
        shown
    } else {
        format!("{shown}...")
    }
}

/// A part of a URL that holds text of the user, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPart {
    /// Before the `:` of the credentials.
    Username,
    /// After the `:` of the credentials, or given apart from the URL.
    Password,
    /// Credentials without a `:`, or given apart from the URL.
    Token,
}

impl fmt::Display for UrlPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlPart::Username => "user name",
            UrlPart::Password => "password",
            UrlPart::Token => "personal access token",
        })
    }
}

/// What is wrong with one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressProblem {
    /// No `:port`.
    #[error("has no port; add one, the server's default for TCP is :8090")]
    PortMissing,
    /// Port that is no number of 1..=65535.
    #[error("has a port that is not a number from 1 to 65535")]
    Port,
    /// `[` without `]`.
    #[error("opens a bracket that is never closed; write an IPv6 address as [::1]:8090")]
    BracketOpen,
    /// Brackets around something else.
    #[error("has brackets around what is not an IPv6 address (zone names are not supported)")]
    NotIpv6,
    /// Several colons outside brackets.
    #[error("has more than one colon; write an IPv6 address in brackets, as [::1]:8090")]
    Ipv6WithoutBrackets,
    /// Neither an IPv4 address nor a host name.
    #[error("names neither an IPv4 address nor a host")]
    Host,
}

/// Why a server URL was refused. Always the caller's (the user's) to correct; nothing was
/// contacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    /// There is no `://`.
    #[error("the server URL has no scheme; write iggy://user:password@host:port")]
    SchemeMissing,
    /// A scheme other than `iggy` and `iggy+...`.
    #[error("the server URL's scheme is neither iggy:// nor iggy+tcp://")]
    SchemeUnknown,
    /// A transport of the official SDK that ringmain does not speak.
    #[error(
        "the server URL asks for {transport}, and ringmain speaks TCP only; use iggy:// with the server's TCP port"
    )]
    TransportUnsupported {
        /// `QUIC`, `HTTP` or `WebSocket`.
        transport: &'static str,
    },
    /// There is no `@`.
    #[error(
        "the server URL has no credentials; write iggy://user:password@host:port or iggy://TOKEN@host:port"
    )]
    CredentialsMissing,
    /// More than one `@`.
    #[error(
        "the server URL has more than one '@'; write an '@' inside a user name, password or token as %40"
    )]
    AtSigns,
    /// More than one `:` before the `@`.
    #[error(
        "the server URL has more than one ':' before the '@'; write a ':' inside a user name, password or token as %3A"
    )]
    Colons,
    /// A password in the URL and another one beside it.
    #[error(
        "the server URL holds a password although one is given apart from it; remove one of them"
    )]
    SecretTwice,
    /// A part of the credentials is empty.
    #[error("the {part} is empty")]
    Empty {
        /// Which part.
        part: UrlPart,
    },
    /// A part of the credentials is too long for the protocol.
    #[error("the {part} has {bytes} bytes, and the protocol carries {CREDENTIAL_BYTES_MAX}")]
    TooLong {
        /// Which part.
        part: UrlPart,
        /// Its length after decoding.
        bytes: usize,
    },
    /// A part of the credentials is not UTF-8 after decoding.
    #[error("the {part} is not UTF-8 once its percent escapes are decoded")]
    NotUtf8 {
        /// Which part.
        part: UrlPart,
    },
    /// An address is malformed or missing.
    #[error("address {number} of the server URL {problem}")]
    Address {
        /// Place in the list, from 1.
        number: usize,
        /// What is wrong with it.
        problem: AddressProblem,
    },
    /// More addresses than [`ADDRESSES_MAX`].
    #[error("the server URL lists {count} addresses, and {ADDRESSES_MAX} are the most")]
    AddressesTooMany {
        /// How many there are.
        count: usize,
    },
    /// An option is not of the form `name=value`.
    #[error("option {number} of the server URL is not of the form name=value")]
    OptionWithoutValue {
        /// Place in the list, from 1.
        number: usize,
    },
    /// There is no such option.
    #[error(
        "the server URL has the unknown option '{name}'; remove it or use one of: {}",
        OPTION_NAMES.join(", ")
    )]
    UnknownOption {
        /// The name as far as it looks like one, 32 characters at most.
        name: String,
    },
    /// The value of an option makes no sense.
    #[error("option '{name}' of the server URL must be {expected}")]
    OptionValue {
        /// Which option.
        name: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// `tls=true`.
    #[error(
        "the server URL asks for TLS, which ringmain does not speak; remove tls=true and use a port without TLS, or a TLS tunnel"
    )]
    TlsUnsupported,
}

/// A server URL, taken apart and checked. See the [module](self) for its form.
///
/// `Display` gives a URL back in which `***` stands for the password or the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    credentials: Credentials,
    addresses: Vec<Address>,
    options: ServerOptions,
}

impl ServerUrl {
    /// Reads a URL that holds its own credentials. White space around it is ignored.
    ///
    /// # Errors
    /// [`ServerUrlError`], naming the offending part.
    pub fn parse(text: &str) -> Result<Self, ServerUrlError> {
        let (credentials, rest) = split(text)?;
        let credentials = credentials.ok_or(ServerUrlError::CredentialsMissing)?;
        let credentials = match credentials.split_once(':') {
            None => Credentials::Token(Secret(decode(UrlPart::Token, credentials)?)),
            Some((_, password)) if password.contains(':') => return Err(ServerUrlError::Colons),
            Some((username, password)) => Credentials::Password {
                username: decode(UrlPart::Username, username)?,
                password: Secret(decode(UrlPart::Password, password)?),
            },
        };
        Self::assemble(credentials, rest)
    }

    /// Reads a URL whose secret is given apart from it, as it stands (nothing in it is decoded).
    ///
    /// `iggy://user@host:port`: the secret is the password. `iggy://host:port`: it is a personal
    /// access token.
    ///
    /// # Errors
    /// [`ServerUrlError`]; [`ServerUrlError::SecretTwice`] when the URL holds a password as well.
    pub fn parse_with_secret(text: &str, secret: &str) -> Result<Self, ServerUrlError> {
        let (credentials, rest) = split(text)?;
        let credentials = match credentials {
            None => Credentials::Token(Secret(checked(UrlPart::Token, secret.to_owned())?)),
            Some(user) if user.contains(':') => return Err(ServerUrlError::SecretTwice),
            Some(user) => Credentials::Password {
                username: decode(UrlPart::Username, user)?,
                password: Secret(checked(UrlPart::Password, secret.to_owned())?),
            },
        };
        Self::assemble(credentials, rest)
    }

    /// Who logs in.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The addresses in the order of the URL, at least one.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The connection options.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// `rest` is what follows the credentials: addresses and options.
    fn assemble(credentials: Credentials, rest: &str) -> Result<Self, ServerUrlError> {
        let (hosts, options) = match rest.split_once('?') {
            Some((hosts, options)) => (hosts, Some(options)),
            None => (rest, None),
        };
        // What other tools write behind the port.
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let count = hosts.split(',').count();
        if count > ADDRESSES_MAX {
            return Err(ServerUrlError::AddressesTooMany { count });
        }
        let addresses = hosts
            .split(',')
            .enumerate()
            .map(|(index, address)| Address::parse(address, index))
            .collect::<Result<Vec<_>, _>>()?;
        let options = options.map(ServerOptions::parse).transpose()?;
        Ok(ServerUrl {
            credentials,
            addresses,
            options: options.unwrap_or_default(),
        })
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.credentials {
            Credentials::Password { username, .. } => {
                let username = utf8_percent_encode(username, ESCAPED);
                write!(f, "iggy://{username}:{REDACTED}@")?;
            }
            Credentials::Token(_) => write!(f, "iggy://{REDACTED}@")?,
        }
        for (index, address) in self.addresses.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{address}")?;
        }
        self.options.fmt(f)
    }
}

/// Takes the scheme off and splits the rest at its one `@`. A password may hold `/` and `?` as they
/// are, so nothing else can end the credentials.
fn split(text: &str) -> Result<(Option<&str>, &str), ServerUrlError> {
    let (scheme, rest) = text
        .trim()
        .split_once("://")
        .ok_or(ServerUrlError::SchemeMissing)?;
    match scheme {
        "iggy" | "iggy+tcp" => {}
        "iggy+quic" => return Err(ServerUrlError::TransportUnsupported { transport: "QUIC" }),
        "iggy+http" => return Err(ServerUrlError::TransportUnsupported { transport: "HTTP" }),
        "iggy+ws" => {
            return Err(ServerUrlError::TransportUnsupported {
                transport: "WebSocket",
            });
        }
        _ => return Err(ServerUrlError::SchemeUnknown),
    }
    match rest.split_once('@') {
        None => Ok((None, rest)),
        Some((_, rest)) if rest.contains('@') => Err(ServerUrlError::AtSigns),
        Some((credentials, rest)) => Ok((Some(credentials), rest)),
    }
}

/// Percent-decodes one part of the credentials. An escape that is none stays as it is, because the
/// official SDK decodes nothing and its passwords may hold a bare `%`.
fn decode(part: UrlPart, text: &str) -> Result<String, ServerUrlError> {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    let decoded = String::from_utf8(bytes).map_err(|_| ServerUrlError::NotUtf8 { part })?;
    checked(part, decoded)
}

fn checked(part: UrlPart, text: String) -> Result<String, ServerUrlError> {
    match text.len() {
        0 => Err(ServerUrlError::Empty { part }),
        1..=CREDENTIAL_BYTES_MAX => Ok(text),
        bytes => Err(ServerUrlError::TooLong { part, bytes }),
    }
}

#[cfg(test)]
mod tests;
