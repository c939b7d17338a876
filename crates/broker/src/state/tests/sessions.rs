//! Logins, epochs, fencing, heartbeats, and the client table behind metadata requests.

use ringmain_wire::codec::Encode;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::payload::login::{ClientVersion, LoginRegisterWithPat};
use ringmain_wire::text::{Secret, Text};
use ringmain_wire::version::ProtocolVersion;

use super::{Bench, Peer, create_stream, login, name};
use crate::config::Config;
use crate::profile::Profile;

fn token_login(token: &str) -> Vec<u8> {
    let client_version = ClientVersion {
        protocol_version: ProtocolVersion::CURRENT,
        sdk_name: name("test"),
        sdk_version: name("0.1.0"),
    };
    let token = Secret::new(token).expect("a token");
    LoginRegisterWithPat {
        client_version,
        token,
        context: Text::EMPTY,
    }
    .to_vec()
}

#[test]
fn logins_by_password_and_by_token_are_told_apart_by_the_body() {
    let mut bench = Bench::new(Config {
        tokens: vec!["a-token".to_owned()],
        ..Config::default()
    });
    let connection = bench.connect();
    assert_eq!(
        bench
            .register(connection, 7, &token_login("a-token"))
            .result_of_login(),
        0
    );
    let connection = bench.connect();
    assert_eq!(
        bench
            .register(connection, 8, &token_login("another"))
            .eviction(),
        10
    );
    assert_eq!(
        bench
            .register(connection, 8, &login("iggy", "wrong"))
            .eviction(),
        9
    );
    assert_eq!(
        bench
            .register(connection, 8, &login("iggy", "iggy"))
            .result_of_login(),
        0
    );
    assert_eq!(
        (bench.state.stats.logins, bench.state.stats.logins_refused),
        (2, 2)
    );
}

impl super::Answer {
    fn result_of_login(&self) -> u32 {
        u32::from_le_bytes(self.body()[..4].try_into().expect("4 bytes"))
    }
}

#[test]
fn every_registration_gets_a_higher_epoch_and_fences_the_one_before() {
    let mut bench = Bench::new(Config::default());
    let first = bench.login(7);
    let second = bench.login(7);
    assert!(second.session > first.session);
    let answer = bench.metadata(first, Operation::CreateStream, 1, &create_stream("a"));
    assert_eq!(answer.eviction(), 7, "the older holder is fenced");
    assert_eq!(
        bench.ask(first, CommandCode::GET_STREAMS, &[]).status(),
        0,
        "its reads still work"
    );
    assert_eq!(
        bench
            .metadata(second, Operation::CreateStream, 1, &create_stream("a"))
            .result(),
        0
    );
}

#[test]
fn a_bound_connection_that_logs_in_again_keeps_its_epoch() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    let again = bench.register(peer.connection, 7, &login("iggy", "iggy"));
    assert_eq!(again.reply().op(), peer.session);
}

/// Commits a stream as client 7, loses the connection, resumes, and retries the same request.
fn retry_after_resume(profile: Profile) -> u32 {
    let mut bench = Bench::new(Config {
        profile,
        ..Config::default()
    });
    let peer = bench.login(7);
    assert_eq!(
        bench
            .metadata(peer, Operation::CreateStream, 1, &create_stream("a"))
            .result(),
        0
    );
    bench.state.disconnect(peer.connection);
    let peer = bench.login(7);
    bench
        .metadata(peer, Operation::CreateStream, 1, &create_stream("a"))
        .result()
}

#[test]
fn a_release_remembers_a_client_over_its_connections_and_the_captured_server_does_not() {
    assert_eq!(
        retry_after_resume(Profile::Release),
        0,
        "the first reply is repeated"
    );
    assert_eq!(
        retry_after_resume(Profile::Edge5),
        1012,
        "the stream exists already"
    );
}

#[test]
fn a_logout_forgets_the_client() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    let header =
        ringmain_wire::header::RequestHeader::logout(7, peer.session, 1).expect("a header");
    assert_eq!(
        bench.one(peer.connection, header.as_bytes(), &[]).status(),
        0
    );
    assert_eq!(bench.ask(peer, CommandCode::GET_STREAMS, &[]).status(), 40);
    let answer = bench.metadata(peer, Operation::CreateStream, 2, &create_stream("a"));
    assert_eq!(answer.eviction(), 1, "no session");
    assert_eq!(bench.state.clients.clients(), 0);
}

#[test]
fn a_repeated_number_repeats_the_reply_and_a_skipped_one_counts_as_applied() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    let first = bench.metadata(peer, Operation::CreateStream, 5, &create_stream("a"));
    assert_eq!(
        bench.metadata(peer, Operation::CreateStream, 5, &create_stream("a")),
        first
    );
    assert_eq!(
        bench
            .metadata(peer, Operation::CreateStream, 4, &create_stream("b"))
            .result(),
        59
    );
    assert_eq!(bench.state.catalog.streams.len(), 1);
    assert_eq!(bench.state.stats.replies_repeated, 2);
}

#[test]
fn a_reused_number_with_another_stamped_body_is_not_answered() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    bench.metadata(peer, Operation::CreateStream, 1, &create_stream("a"));
    let body = create_stream("b");
    let header = ringmain_wire::header::RequestHeader::metadata(
        Operation::CreateStream,
        7,
        peer.session,
        1,
        &body,
    );
    bench.give(peer.connection, header.expect("a header").as_bytes(), &body);
    assert!(bench.answers(peer.connection).is_empty());
}

#[test]
fn a_body_that_does_not_match_its_stamp_is_refused() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    let header = ringmain_wire::header::RequestHeader::metadata(
        Operation::CreateStream,
        7,
        peer.session,
        1,
        &create_stream("a"),
    );
    let answer = bench.one(
        peer.connection,
        header.expect("a header").as_bytes(),
        &create_stream("b"),
    );
    assert_eq!(answer.status(), 4);
}

#[test]
fn a_silent_client_is_evicted_after_one_interval_and_a_fifth() {
    let mut bench = Bench::new(Config {
        heartbeat_us: 1_000_000,
        ..Config::default()
    });
    let silent = bench.login(7);
    let lively = bench.login(8);
    bench.advance(1_190_000);
    assert!(bench.answers(silent.connection).is_empty());
    assert_eq!(bench.ask(lively, CommandCode::PING, &[]).status(), 0);
    bench.advance(20_000);
    bench.advance(200_000);
    let answers = bench.answers(silent.connection);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].eviction(), 13);
    assert!(
        bench.answers(lively.connection).is_empty(),
        "a frame is a sign of life"
    );
    assert_eq!(bench.state.stats.heartbeats_missed, 1);
    assert_eq!(
        bench.ask(silent, CommandCode::GET_STREAMS, &[]).status(),
        40,
        "its session is gone"
    );
}

#[test]
fn the_captured_server_evicts_nobody_for_silence() {
    let mut bench = Bench::new(Config {
        heartbeat_us: 1_000_000,
        profile: Profile::Edge5,
        ..Config::default()
    });
    let silent = bench.login(7);
    bench.advance(60_000_000);
    assert!(bench.answers(silent.connection).is_empty());
    assert_eq!(bench.ask(silent, CommandCode::GET_STREAMS, &[]).status(), 0);
    assert_eq!(bench.state.stats.heartbeats_missed, 0);
}

#[test]
fn what_needs_a_login_says_so() {
    let mut bench = Bench::new(Config::default());
    let connection = bench.connect();
    let peer = Peer {
        connection,
        client: 7,
        session: 1,
    };
    assert_eq!(bench.ask(peer, CommandCode::PING, &[]).status(), 0);
    assert_eq!(bench.ask(peer, CommandCode::GET_ME, &[]).status(), 40);
    assert_eq!(bench.ask(peer, CommandCode::LOGIN_USER, &[]).eviction(), 15);
    assert_eq!(bench.send(peer, 1, 0, b"x").eviction(), 1);
}

#[test]
fn what_the_broker_does_not_do_is_said_and_never_met_with_silence() {
    let mut bench = Bench::new(Config::default());
    let peer = bench.login(7);
    for code in [
        CommandCode::GET_USERS,
        CommandCode::GET_CLIENTS,
        CommandCode::DESCRIBE_OPTIONS,
    ] {
        assert_eq!(bench.ask(peer, code, &[]).status(), 5, "{code}");
    }
    assert_eq!(bench.ask(peer, CommandCode(9999), &[]).status(), 3);
    for operation in Operation::ALL {
        let header =
            ringmain_wire::header::RequestHeader::metadata(operation, 7, peer.session, 1, &[]);
        let Ok(header) = header else { continue };
        bench.give(peer.connection, header.as_bytes(), &[]);
        let answers = bench.answers(peer.connection);
        assert_eq!(answers.len(), 1, "{operation}");
        assert!([3, 5].contains(&answers[0].status()), "{operation}");
    }
}
