//! `ringmain doctor` on the host of the test, whatever it is.

use crate::support::{Broker, refused_address, ringmain, run};

fn verdicts(out: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(out);
    let lines = text.lines().map(|line| {
        let (verdict, rest) = line.split_once(' ').expect("a verdict");
        let (id, _) = rest.trim_start().split_once(": ").expect("a name");
        (id.to_owned(), verdict.to_owned())
    });
    lines.collect()
}

fn expected_code(verdicts: &[(String, String)]) -> i32 {
    let has = |wanted: &str| verdicts.iter().any(|(_, verdict)| verdict == wanted);
    match (has("broken"), has("slower")) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_line() {
    let ended = run(ringmain(&["doctor"]), b"");
    let verdicts = verdicts(&ended.out);
    assert!(verdicts.len() > 25, "{verdicts:?}");
    assert_eq!(ended.code, expected_code(&verdicts), "{verdicts:?}");
    let json = run(ringmain(&["doctor", "--json"]), b"");
    let json = String::from_utf8(json.out).expect("text");
    for (id, _) in verdicts {
        assert!(json.contains(&format!("\"id\":\"{id}\"")), "{id}");
    }
}

#[test]
fn a_server_is_asked_and_one_that_is_gone_is_broken() {
    let broker = Broker::start();
    let mut command = ringmain(&["doctor"]);
    command.env("RINGMAIN_SERVER", broker.url());
    let verdicts_of = |ended: &crate::support::Ended| verdicts(&ended.out);
    let found = verdicts_of(&run(command, b""));
    for id in ["login", "round_trip", "cluster", "server_version"] {
        let wanted = (id.to_owned(), "fine".to_owned());
        assert!(found.contains(&wanted), "{id}: {found:?}");
    }
    let url = format!("iggy://iggy:iggy@{}", refused_address());
    let ended = run(
        ringmain(&["doctor", "--timeout", "1", "--server", &url]),
        b"",
    );
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(verdicts_of(&ended).contains(&("login".to_owned(), "broken".to_owned())));
    assert!(ended.err.contains("does not work here"), "{}", ended.err);
}
