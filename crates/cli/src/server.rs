//! Which server a command talks to: the one it was given, or the embedded broker.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use ringmain::ServerUrl;
use ringmain_broker::Broker;

use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::stdio::read_file;

/// The environment variable that names the server when no argument does.
pub(crate) const SERVER_VARIABLE: &str = "RINGMAIN_SERVER";

/// How long the server may take to answer the logout, when every record has its answer.
pub(crate) const LOGOUT: Duration = Duration::from_secs(1);

/// Bytes read of a password file: more than any password of the protocol, so that a wrong file is
/// noticed, and not the whole of a wrong file.
const PASSWORD_FILE_BYTES_MAX: usize = 1024;

/// The server of a command.
pub(crate) struct Server {
    url: ServerUrl,
    /// `Some` when the server runs in this process; dropping it ends the server.
    embedded: Option<Broker>,
}

impl Server {
    /// The server that was asked for, or an embedded broker when none was. `sink` asks for one,
    /// whatever the environment says.
    ///
    /// # Errors
    /// Those of [`given`], and [`Failure::Broker`] when the embedded broker does not start.
    pub(crate) fn given_or_embedded(args: &ServerArgs, sink: bool) -> Result<Self, Failure> {
        let of_environment = of_environment().filter(|_| !sink);
        if let Some(url) = given(args, of_environment)? {
            return Ok(Server {
                url,
                embedded: None,
            });
        }
        Self::embedded(sink)
    }

    /// An embedded broker that answers without storing.
    ///
    /// # Errors
    /// [`Failure::Broker`] when it does not start.
    pub(crate) fn sink() -> Result<Self, Failure> {
        Self::embedded(true)
    }

    fn embedded(sink: bool) -> Result<Self, Failure> {
        let broker = Broker::builder()
            .sink(sink)
            .start()
            .map_err(Failure::from_start)?;
        let url = ServerUrl::parse(&format!("iggy://iggy:iggy@{}", broker.addr()))?;
        Ok(Server {
            url,
            embedded: Some(broker),
        })
    }

    /// The server that was asked for.
    ///
    /// # Errors
    /// Those of [`given`], and [`Failure::ServerMissing`] when none was.
    pub(crate) fn given(args: &ServerArgs) -> Result<Self, Failure> {
        let url = given(args, of_environment())?.ok_or(Failure::ServerMissing)?;
        Ok(Server {
            url,
            embedded: None,
        })
    }

    /// Whether the server is the embedded broker.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// For the engine.
    pub(crate) fn url(&self) -> ServerUrl {
        self.url.clone()
    }

    /// For messages: the addresses, without credentials and options.
    pub(crate) fn shown(&self) -> String {
        let addresses: Vec<String> = self
            .url
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        addresses.join(",")
    }
}

/// The URL of the server that was asked for, if one was.
///
/// # Errors
/// Those of [`given`].
pub(crate) fn named(args: &ServerArgs) -> Result<Option<ServerUrl>, Failure> {
    given(args, of_environment())
}

/// The server that the environment names. A blank variable is an unset one.
pub(crate) fn of_environment() -> Option<OsString> {
    let value = env::var_os(SERVER_VARIABLE)?;
    let is_blank = value.to_str().is_some_and(|text| text.trim().is_empty());
    (!is_blank).then_some(value)
}

/// The server of the arguments, else that of the environment.
fn given(
    args: &ServerArgs,
    of_environment: Option<OsString>,
) -> Result<Option<ServerUrl>, Failure> {
    let Some(server) = args.server.clone().or(of_environment) else {
        return match args.password_file {
            Some(_) => Err(Failure::PasswordWithoutServer),
            None => Ok(None),
        };
    };
    let server = server.to_str().ok_or(Failure::ServerNotText)?;
    let url = match &args.password_file {
        None => ServerUrl::parse(server)?,
        Some(path) => ServerUrl::parse_with_secret(server, &secret(path)?)?,
    };
    Ok(Some(url))
}

/// The content of a password file without the line end that editors add.
fn secret(path: &Path) -> Result<String, Failure> {
    let failed = |source| Failure::PasswordFile { source };
    let bytes = read_file(path, PASSWORD_FILE_BYTES_MAX).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        failed(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not UTF-8",
        ))
    })?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    Ok(secret.strip_suffix('\r').unwrap_or(secret).to_owned())
}
