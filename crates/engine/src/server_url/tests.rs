//! Server URLs: what is read, what is refused and how, and that no secret is ever shown.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn password(username: &str, password: &str) -> Credentials {
    Credentials::Password {
        username: username.to_owned(),
        password: Secret(password.to_owned()),
    }
}

fn addresses(url: &ServerUrl) -> Vec<String> {
    url.addresses().iter().map(Address::to_string).collect()
}

fn refused(text: &str) -> ServerUrlError {
    ServerUrl::parse(text).expect_err(text)
}

fn address_problem(host: &str) -> AddressProblem {
    match refused(&format!("iggy://user:secret@{host}")) {
        ServerUrlError::Address { number: 1, problem } => problem,
        other => panic!("{host}: {other:?}"),
    }
}

#[test]
fn password_login() {
    for scheme in ["iggy", "iggy+tcp"] {
        let url = ServerUrl::parse(&format!("{scheme}://iggy:secret@localhost:8090")).expect("url");
        assert_eq!(*url.credentials(), password("iggy", "secret"));
        assert_eq!(addresses(&url), ["localhost:8090"]);
        assert_eq!(*url.options(), ServerOptions::default());
    }
}

#[test]
fn token_login() {
    let url = ServerUrl::parse("iggy://iggypat-1234@127.0.0.1:8090").expect("url");
    assert_eq!(
        *url.credentials(),
        Credentials::Token(Secret("iggypat-1234".to_owned()))
    );
}

#[test]
fn credentials_are_percent_decoded_and_an_unfinished_escape_stands_for_itself() {
    let url = ServerUrl::parse("iggy://a%40b:p%3A%2F%3f%C3%A9@h:1").expect("url");
    assert_eq!(*url.credentials(), password("a@b", "p:/?\u{e9}"));
    let url = ServerUrl::parse("iggy://user:100%@h:1").expect("url");
    assert_eq!(*url.credentials(), password("user", "100%"));
    let url = ServerUrl::parse("iggy://user:a/b?c=d&e@h:1").expect("url");
    assert_eq!(*url.credentials(), password("user", "a/b?c=d&e"));
}

#[test]
fn hosts_of_every_kind_and_several_of_them() {
    // A name that is whole, and what other tools write behind the port.
    for whole in [
        "iggy://t@example.net.:1",
        "iggy://t@localhost.:1/",
        "iggy://t@h:1/?nodelay=true",
    ] {
        let url = ServerUrl::parse(whole).expect(whole);
        assert_eq!((url.addresses().len(), url.addresses()[0].port()), (1, 1));
    }
    let url = ServerUrl::parse("iggy://t@[::1]:8090,10.0.0.2:1,iggy_1.example-net:65535")
        .expect("three addresses");
    assert_eq!(
        addresses(&url),
        ["[::1]:8090", "10.0.0.2:1", "iggy_1.example-net:65535"]
    );
    assert_eq!(url.addresses()[0].host(), "::1");
    assert_eq!(url.addresses()[2].port(), 65535);
    let many = ["h:1"; ADDRESSES_MAX + 1].join(",");
    assert_eq!(
        refused(&format!("iggy://t@{many}")),
        ServerUrlError::AddressesTooMany {
            count: ADDRESSES_MAX + 1
        }
    );
}

#[test]
fn every_option_is_read() {
    let url = ServerUrl::parse(
        "iggy+tcp://iggy:iggy@127.0.0.1:8090?tls=false&tls_domain=test.com&tls_ca_file=ca.pem\
         &reconnection_retries=5&reconnection_interval=10s&reestablish_after=1m 30s\
         &heartbeat_interval=500ms&nodelay=true&driver=epoll",
    )
    .expect("url");
    assert_eq!(
        *url.options(),
        ServerOptions {
            heartbeat_interval_us: Some(500_000),
            reconnection_retries: Some(ReconnectionRetries::Limit(5)),
            reconnection_interval_us: Some(10_000_000),
            reestablish_after_us: Some(90_000_000),
            driver: Some(DriverChoice::Epoll),
        }
    );
    let url =
        ServerUrl::parse("iggy://t@h:1?reconnection_retries=unlimited&reestablish_after=none")
            .expect("url");
    assert_eq!(
        url.options().reconnection_retries,
        Some(ReconnectionRetries::Unlimited)
    );
    assert_eq!(url.options().reestablish_after_us, Some(0));
    let url = ServerUrl::parse("iggy://t@h:1?heartbeat_interval=1s&heartbeat_interval=2s");
    let url = url.expect("the last one counts");
    assert_eq!(url.options().heartbeat_interval_us, Some(2_000_000));
}

#[test]
fn options_that_cannot_be_honoured_are_refused_by_name() {
    assert_eq!(
        refused("iggy://t@h:1?tls=true&tls_domain=h"),
        ServerUrlError::TlsUnsupported
    );
    for (name, value) in [
        ("tls", "yes"),
        ("nodelay", "1"),
        ("heartbeat_interval", "0"),
        ("heartbeat_interval", "soon"),
        ("heartbeat_interval", "99999999999999y"),
        ("reconnection_interval", "disabled"),
        ("reconnection_retries", "-1"),
        ("reconnection_retries", "4294967296"),
        ("reestablish_after", "5"),
        ("reestablish_after", "%FF"),
    ] {
        match refused(&format!("iggy://t@h:1?{name}={value}")) {
            ServerUrlError::OptionValue { name: named, .. } => assert_eq!(named, name),
            other => panic!("{name}={value}: {other:?}"),
        }
    }
    assert_eq!(
        refused("iggy://t@h:1?nodelay=true&colour=red"),
        ServerUrlError::UnknownOption {
            name: "colour".to_owned()
        }
    );
    let long = "x".repeat(10_000);
    let shown = refused(&format!("iggy://t@h:1?{long}=1")).to_string();
    assert!(shown.len() < 300, "{}", shown.len());
    for text in [
        "iggy://t@h:1?",
        "iggy://t@h:1?nodelay=true&",
        "iggy://t@h:1?nodelay",
    ] {
        assert!(
            matches!(refused(text), ServerUrlError::OptionWithoutValue { .. }),
            "{text}"
        );
    }
}

#[test]
fn schemes_and_transports() {
    assert_eq!(refused(""), ServerUrlError::SchemeMissing);
    assert_eq!(refused("iggy:secret@h:1"), ServerUrlError::SchemeMissing);
    assert_eq!(refused("http://a:b@h:1"), ServerUrlError::SchemeUnknown);
    assert_eq!(refused("IGGY://a:b@h:1"), ServerUrlError::SchemeUnknown);
    for (scheme, transport) in [
        ("iggy+quic", "QUIC"),
        ("iggy+http", "HTTP"),
        ("iggy+ws", "WebSocket"),
    ] {
        assert_eq!(
            refused(&format!("{scheme}://a:b@h:1")),
            ServerUrlError::TransportUnsupported { transport }
        );
    }
}

#[test]
fn malformed_credentials() {
    let empty = |part| ServerUrlError::Empty { part };
    assert_eq!(refused("iggy://h:1"), ServerUrlError::CredentialsMissing);
    assert_eq!(refused("iggy://u:a@b@h:1"), ServerUrlError::AtSigns);
    assert_eq!(refused("iggy://u:a:b@h:1"), ServerUrlError::Colons);
    assert_eq!(refused("iggy://:b@h:1"), empty(UrlPart::Username));
    assert_eq!(refused("iggy://a:@h:1"), empty(UrlPart::Password));
    assert_eq!(refused("iggy://@h:1"), empty(UrlPart::Token));
    assert_eq!(
        refused("iggy://a:%FF@h:1"),
        ServerUrlError::NotUtf8 {
            part: UrlPart::Password
        }
    );
    let long = "x".repeat(CREDENTIAL_BYTES_MAX);
    assert!(ServerUrl::parse(&format!("iggy://{long}:{long}@h:1")).is_ok());
    assert_eq!(
        refused(&format!("iggy://{long}x@h:1")),
        ServerUrlError::TooLong {
            part: UrlPart::Token,
            bytes: CREDENTIAL_BYTES_MAX + 1
        }
    );
}

#[test]
fn malformed_addresses() {
    for (host, problem) in [
        ("", AddressProblem::PortMissing),
        ("host", AddressProblem::PortMissing),
        ("[::1]", AddressProblem::PortMissing),
        ("[::1]8090", AddressProblem::PortMissing),
        ("host:", AddressProblem::Port),
        ("host:0", AddressProblem::Port),
        ("host:65536", AddressProblem::Port),
        ("host:+80", AddressProblem::Port),
        ("host:80//", AddressProblem::Port),
        ("host:80/x", AddressProblem::Port),
        ("host:80/,host:81", AddressProblem::Port),
        ("[::1]:x", AddressProblem::Port),
        ("[::1:8090", AddressProblem::BracketOpen),
        ("[10.0.0.1]:8090", AddressProblem::NotIpv6),
        ("[fe80::1%25eth0]:8090", AddressProblem::NotIpv6),
        ("::1:8090", AddressProblem::Ipv6WithoutBrackets),
        (":8090", AddressProblem::Host),
        ("300.1.1.1:8090", AddressProblem::Host),
        ("-a:8090", AddressProblem::Host),
        ("a..b:8090", AddressProblem::Host),
        ("a..:8090", AddressProblem::Host),
        (".:8090", AddressProblem::Host),
        ("10.0.0.1.:8090", AddressProblem::Host),
        ("a b:8090", AddressProblem::Host),
    ] {
        assert_eq!(address_problem(host), problem, "{host}");
    }
    assert!(matches!(
        refused("iggy://t@h:1,"),
        ServerUrlError::Address { number: 2, .. }
    ));
}

#[test]
fn a_secret_apart_from_the_url_is_taken_as_it_stands() {
    let url = ServerUrl::parse_with_secret("iggy://us%40er@h:1", "p%41@:").expect("password");
    assert_eq!(*url.credentials(), password("us@er", "p%41@:"));
    let url =
        ServerUrl::parse_with_secret("iggy://h:1?heartbeat_interval=1s", "tok").expect("token");
    assert_eq!(
        *url.credentials(),
        Credentials::Token(Secret("tok".to_owned()))
    );
    assert_eq!(url.options().heartbeat_interval_us, Some(1_000_000));
    assert_eq!(
        ServerUrl::parse_with_secret("iggy://u:p@h:1", "q"),
        Err(ServerUrlError::SecretTwice)
    );
    assert_eq!(
        ServerUrl::parse_with_secret("iggy://u@h:1", ""),
        Err(ServerUrlError::Empty {
            part: UrlPart::Password
        })
    );
}

#[test]
fn an_ip_address_resolves_without_a_name_server() {
    let url = ServerUrl::parse("iggy://t@[::1]:8090").expect("url");
    let found = url.addresses()[0].resolve().expect("numeric");
    assert_eq!(found, ["[::1]:8090".parse().expect("socket address")]);
}

/// Every byte escaped, so that any text can stand in any part.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        write!(escaped, "%{byte:02X}").expect("a String takes everything");
        escaped
    })
}

fn options() -> impl Strategy<Value = ServerOptions> {
    let retries = prop_oneof![
        Just(ReconnectionRetries::Unlimited),
        any::<u32>().prop_map(ReconnectionRetries::Limit)
    ];
    let us = || proptest::option::of(1..u64::from(u32::MAX));
    let driver = proptest::option::of(proptest::sample::select(&DriverChoice::ALL[..]));
    (us(), proptest::option::of(retries), us(), us(), driver).prop_map(
        |(heartbeat, retries, interval, reestablish, driver)| ServerOptions {
            heartbeat_interval_us: heartbeat,
            reconnection_retries: retries,
            reconnection_interval_us: interval,
            reestablish_after_us: reestablish,
            driver,
        },
    )
}

fn address() -> impl Strategy<Value = Address> {
    let host = prop_oneof![
        "[a-z0-9_]{1,10}(-[a-z0-9]{1,5})?(\\.[a-z][a-z0-9]{0,9}){1,3}",
        any::<Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| ip.to_string()),
    ];
    (host, 1..=u16::MAX).prop_map(|(host, port)| Address { host, port })
}

proptest! {
    /// A shown URL, with the secret put back where the stars are, is the URL again.
    #[test]
    fn display_and_parse_round_trip(
        username in proptest::option::of("\\PC{1,60}"),
        secret in "\\PC{1,60}",
        addresses in proptest::collection::vec(address(), 1..=ADDRESSES_MAX),
        options in options(),
    ) {
        let credentials = match username {
            Some(username) => password(&username, &secret),
            None => Credentials::Token(Secret(secret.clone())),
        };
        let url = ServerUrl { credentials, addresses, options };
        let shown = url.to_string();
        let full = shown.replacen(REDACTED, &escape(&secret), 1);
        prop_assert_ne!(&full, &shown);
        prop_assert_eq!(ServerUrl::parse(&full), Ok(url));
    }

    /// No text makes the parser panic, and what it accepts it accepts again as shown.
    #[test]
    fn any_text_is_read_or_refused(text in "(iggy(\\+tcp)?://)?\\PC{0,40}[:@]?\\PC{0,20}[?,]?\\PC{0,20}") {
        if let Ok(url) = ServerUrl::parse(&text) {
            let again = url.to_string().replacen(REDACTED, "secret", 1);
            let again = ServerUrl::parse(&again).expect("a shown URL is well formed");
            prop_assert_eq!(again.addresses(), url.addresses());
            prop_assert_eq!(again.options(), url.options());
        }
    }

    /// Wherever a password ends up by a mistake of spelling, it is not shown.
    #[test]
    fn secrets_are_never_shown(
        secret in "[A-Z]{12}",
        template in prop_oneof![
            Just("iggy://user:SECRET@h:1"), Just("iggy://SECRET@h:1?nodelay=false"),
            Just("SECRET://u:p@h:1"), Just("SECRET"), Just("u:SECRET@h:1"), Just("iggy+SECRET://u:p@h:1"),
            Just("iggy://u:x@SECRET@h:1"), Just("iggy://u:x@SECRET"), Just("iggy://u:x@SECRET:SECRET"),
            Just("iggy://u:x:SECRET@h:1"), Just("iggy://SECRET:8090"), Just("iggy://u:SECRET%FF@h:1"),
            Just("iggy://u:SECRET@h"), Just("iggy://u:SECRET@h:1?x=SECRET"), Just("iggy://u:x@h:1?SECRET"),
            Just("iggy://u:x@h:1?nodelay=SECRET"), Just("iggy://u:SECRET@h:1,:,"), Just("iggy://u:x@[SECRET]:1"),
        ],
    ) {
        let shown = match ServerUrl::parse(&template.replace("SECRET", &secret)) {
            Ok(url) => format!("{url} {url:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(&secret), "{}", shown);
    }
}
