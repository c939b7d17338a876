//! Which server a command talks to: the one it was given, or the embedded broker.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ringmain::ServerUrl;
use ringmain_broker::Broker;

use crate::args::ServerArgs;
use crate::exit::Failure;

/// Bytes read of a password file: more than any password of the protocol, so that a wrong file is noticed, and not
/// the whole of a wrong file.
const PASSWORD_FILE_BYTES_MAX: u64 = 1024;

/// The server of a command.
pub(crate) struct Server {
    url: ServerUrl,
    /// `Some` when the server runs in this process; dropping it ends the server.
    embedded: Option<Broker>,
}

impl Server {
    /// The server that was asked for, or an embedded broker when none was.
    ///
    /// # Errors
    /// Those of [`given`], and [`Failure::Broker`] when the embedded broker does not start.
    pub(crate) fn given_or_embedded(args: &ServerArgs, sink: bool) -> Result<Self, Failure> {
        if let Some(url) = given(args)? {
            return Ok(Server {
                url,
                embedded: None,
            });
        }
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
        let url = given(args)?.ok_or(Failure::ServerMissing)?;
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

/// Whether `text`, found where no server URL belongs, may be one all the same, so that no message may quote it.
pub(crate) fn looks_like_url(text: &str) -> bool {
    text.contains("://") || (text.contains('@') && text.contains(':'))
}

fn given(args: &ServerArgs) -> Result<Option<ServerUrl>, Failure> {
    let Some(server) = &args.server else {
        return Ok(None);
    };
    let url = match &args.password_file {
        None => ServerUrl::parse(server)?,
        Some(path) => ServerUrl::parse_with_secret(server, &secret(path)?)?,
    };
    Ok(Some(url))
}

/// The content of a password file without the line end that editors add.
fn secret(path: &Path) -> Result<String, Failure> {
    let failed = |source| Failure::PasswordFile {
        path: path.to_path_buf(),
        source,
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(PASSWORD_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(failed)?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    Ok(secret.strip_suffix('\r').unwrap_or(secret).to_owned())
}
