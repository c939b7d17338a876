//! A secret is planted wherever the engine takes one, and looked for in everything that it says:
//! errors, `Debug`, `Display`, events of every level, panics.

mod support;

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use ringmain::server_url::ServerUrl;
use ringmain::{Call, CallReply, Engine, Record};
use ringmain_broker::Broker;
use support::{PATIENCE, Server};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};

const SECRET: &str = "pl4nted";

/// Everything that was said.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn note(&self, text: impl AsRef<str>) {
        let mut said = self.0.lock().expect("no panic while it is held");
        said.push_str(text.as_ref());
        said.push('\n');
    }

    fn debug(&self, value: impl Debug) {
        self.note(format!("{value:?} {value:#?}"));
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.note(format!("{field}={value:?}"));
    }
}

impl Subscriber for Said {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// URLs with a secret in every place where a user may put one, right and wrong.
fn urls() -> Vec<String> {
    let mut urls = Vec::new();
    for template in [
        "iggy://user:S@127.0.0.1:1",
        "iggy://S@127.0.0.1:1",
        "iggy+quic://user:S@h:1",
        "http://user:S@h:1",
        "user:S@h:1",
        "iggy://user:S",
        "iggy://user:S@h",
        "iggy://user:S@h:port",
        "iggy://user:S@[h:1",
        "iggy://user:S@h:1?unknown=S",
        "iggy://user:S@h:1?tls=S",
        "iggy://user:S@h:1?reconnection_interval=S",
        "iggy://user:S@h:1?S",
        "iggy://user:a:S@h:1",
        "iggy://user:a@S@h:1",
        "iggy://user:%FF%S@h:1",
    ] {
        urls.push(template.replace('S', SECRET));
        let long = SECRET.repeat(60);
        urls.push(template.replace('S', &long));
    }
    urls
}

#[test]
fn nothing_that_is_said_holds_a_secret() {
    let said = Said::default();
    tracing::subscriber::set_global_default(said.clone()).expect("the only one");
    let in_panics = said.clone();
    std::panic::set_hook(Box::new(move |info| in_panics.note(info.to_string())));

    for url in urls() {
        let parsed = ServerUrl::parse(&url);
        said.debug(&parsed);
        match &parsed {
            Ok(url) => said.note(url.to_string()),
            Err(error) => said.note(error.to_string()),
        }
        let builder = Engine::builder().server(url.as_str()).cores([]);
        said.debug(&builder);
        // Nobody listens at these.
        let error = builder.build().expect_err("no server");
        said.debug(&error);
        said.note(error.to_string());
        let unwrapped = std::panic::catch_unwind(|| parsed.expect_err("a panic with the URL"));
        drop(unwrapped);
    }

    // The name of a user is no secret; what is given apart from the URL is.
    for apart in ["iggy://user@127.0.0.1:1", "iggy://127.0.0.1:1"] {
        for secret in [SECRET.to_owned(), SECRET.repeat(60)] {
            said.debug(ServerUrl::parse_with_secret(apart, &secret));
        }
    }
    let server = Server::embedded(Broker::builder());
    for who in ["iggy:S", "S"] {
        let who = who.replace('S', SECRET);
        let url = format!("iggy://{who}@{}", server.address());
        let error = Engine::builder().server(url).cores([]).build();
        let error = error.expect_err("a wrong password, a wrong token");
        said.debug(&error);
        said.note(error.to_string());
    }

    let engine = server.engine().build().expect("a healthy server");
    let producer = engine.producer("stream", "topic").create_if_missing(1);
    let producer = producer.build().expect("a new topic");
    let receipt = producer.send(Record::new("x")).expect("accepted");
    said.debug((&engine, &producer, &receipt));
    let call = Call::replicated(255, SECRET.as_bytes().to_vec());
    said.debug(&call);
    said.debug(engine.call(call, PATIENCE));
    said.debug(CallReply {
        body: SECRET.as_bytes().into(),
    });
    engine.close(PATIENCE);
    let _ = std::panic::take_hook();

    said.holds_none();
}

impl Said {
    /// Looks for the secret in everything that was said.
    fn holds_none(&self) {
        let mut text = self.0.lock().expect("no panic while it is held").clone();
        // Bytes in a list of numbers are no less readable.
        let mut bytes = String::new();
        for byte in SECRET.bytes() {
            write!(bytes, "{byte}, ").expect("a string");
        }
        assert!(text.contains("logged in"), "events were seen: {text}");
        assert!(text.contains("a panic with the URL"), "panics were seen");
        text.retain(|c| c != '\n');
        for form in [SECRET, bytes.trim_end_matches(", ")] {
            if let Some(at) = text.find(form) {
                let from = text[..at]
                    .char_indices()
                    .rev()
                    .nth(200)
                    .map_or(0, |(at, _)| at);
                panic!("a secret is shown: {}", &text[from..at + form.len()]);
            }
        }
    }
}
