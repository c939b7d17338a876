//! Recorded and written machines: each is a tree of files in one text, `== path` before each file.

use std::fs;

use proptest::prelude::*;
use ringmain_doctor::{Asked, Facts, Host, Node, Quota, Report, Ring, Server, Verdict, check};

const GUEST: &str = include_str!("machines/guest-two-cores.txt");
const BARE: &str = include_str!("machines/bare-metal-two-sockets.txt");
const CONTAINER_V2: &str = include_str!("machines/container-v2-quota.txt");
const CONTAINER_V1: &str = include_str!("machines/container-v1-quota.txt");
const OLD: &str = include_str!("machines/old-kernel.txt");

/// Paths and contents of a machine. A path that ends with `/.` is a folder.
fn files(machine: &str) -> Vec<(&str, String)> {
    let parts = machine.split("== ").filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (path, content) = part.split_once('\n').expect("a path");
            (path, content.to_owned())
        })
        .collect()
}

fn unpack(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, content) in files {
        let place = root.path().join(path.trim_end_matches("/."));
        let is_folder = path.ends_with("/.");
        let folder = if is_folder {
            &*place
        } else {
            place.parent().expect("a parent")
        };
        fs::create_dir_all(folder).expect("a folder");
        if !is_folder {
            fs::write(&place, content).expect("a file");
        }
    }
    root
}

fn host(machine: &str) -> Host {
    let files: Vec<(&str, Vec<u8>)> = files(machine)
        .into_iter()
        .map(|(path, content)| (path, content.into_bytes()))
        .collect();
    Host::read(unpack(&files).path())
}

fn examined(machine: &str, ring: Option<Result<Ring, String>>) -> Report {
    check(&Facts {
        host: host(machine),
        ring,
        ..Facts::default()
    })
}

fn ring() -> Option<Result<Ring, String>> {
    Some(Ok(Ring {
        features: ringmain::Features::default(),
        registered_bytes: 1,
    }))
}

/// The names of the checks with this verdict, in their order.
fn named(report: &Report, verdict: Verdict) -> Vec<&'static str> {
    let checks = report.checks.iter();
    checks
        .filter(|check| check.verdict == verdict)
        .map(|check| check.id)
        .collect()
}

fn line<'r>(report: &'r Report, id: &str) -> &'r ringmain_doctor::Check {
    let mut checks = report.checks.iter();
    checks.find(|check| check.id == id).expect(id)
}

#[test]
fn a_guest_of_two_cores() {
    let report = examined(GUEST, ring());
    assert_eq!(named(&report, Verdict::Broken), [""; 0]);
    assert_eq!(
        named(&report, Verdict::Slower),
        ["interrupts", "tcp_slow_start_after_idle"]
    );
    assert_eq!(
        named(&report, Verdict::Unknown),
        ["governor", "clock_cost", "time_steps", "socket_buffers"]
    );
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_ring_that_registers_no_memory_is_slower() {
    let refused = Ring {
        features: ringmain::Features::default(),
        registered_bytes: 0,
    };
    let report = examined(GUEST, Some(Ok(refused)));
    let verdict = line(&report, "registered_arena").verdict;
    assert_eq!(verdict, Verdict::Slower);
    let verdict = line(&examined(GUEST, ring()), "registered_arena").verdict;
    assert_eq!(verdict, Verdict::Fine);
}

#[test]
fn bare_metal_with_two_sockets() {
    let report = examined(BARE, ring());
    assert_eq!(
        named(&report, Verdict::Slower),
        [
            "kernel",
            "locked_memory",
            "huge_pages",
            "hyper_threads",
            "numa",
            "governor",
            "idle_states",
            "clock_source",
            "interrupts",
            "tcp_slow_start_after_idle",
        ]
    );
    let command = |id| line(&report, id).command.as_deref().expect(id);
    assert_eq!(command("hyper_threads"), "taskset -c 0,1,2,3 ringmain ...");
    assert!(command("numa").starts_with("numactl --cpunodebind=0"));
    assert!(command("interrupts").starts_with("for irq in 77 78; do echo 0 >"));
    assert!(command("clock_source").starts_with("echo tsc >"));
    assert!(line(&report, "time_steps").found.contains("chronyd"));
}

#[test]
fn buffers_are_judged_once_speed_and_round_trip_are_known() {
    let report = |machine, trip_us| {
        check(&Facts {
            host: host(machine),
            server: Some(Server {
                login: Ok(1),
                round_trips_us: vec![trip_us],
                nodes: Ok(None),
                version: Ok("0.9.0".to_owned()),
            }),
            ..Facts::default()
        })
    };
    for (machine, trip_us, verdict, command) in [
        (BARE, 100, Verdict::Fine, None),
        (
            BARE,
            1000,
            Verdict::Slower,
            Some("sysctl -w net.ipv4.tcp_wmem='4096 16384 25000000'"),
        ),
        (GUEST, 1000, Verdict::Unknown, None),
        (OLD, 1000, Verdict::Unknown, None),
    ] {
        let report = report(machine, trip_us);
        let found = line(&report, "socket_buffers");
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert_eq!(found.command.as_deref(), command, "{found:?}");
    }
}

#[test]
fn a_container_with_a_quota_and_a_filter() {
    let refused = "io_uring_setup is forbidden by a seccomp filter".to_owned();
    let report = examined(CONTAINER_V2, Some(Err(refused)));
    for id in ["io_uring", "seccomp"] {
        let found = line(&report, id);
        assert_eq!(found.verdict, Verdict::Slower, "{id}");
        assert!(
            found
                .cost
                .as_deref()
                .is_some_and(|cost| cost.contains("epoll"))
        );
    }
    assert!(line(&report, "cpu_quota").found.starts_with("1.500 cores"));
    assert_eq!(line(&report, "cpu_quota").verdict, Verdict::Slower);
    assert_eq!(line(&report, "locked_memory").verdict, Verdict::Slower);
    // What is not there is not fine: the sysctl came with 6.6, and nothing else is guessed.
    assert_eq!(line(&report, "sysctl").verdict, Verdict::Fine);
    for id in ["send_zc", "idle_states", "interrupts", "tcp_sack"] {
        assert_eq!(line(&report, id).verdict, Verdict::Unknown, "{id}");
    }
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_container_of_the_first_cgroups() {
    let report = examined(CONTAINER_V1, ring());
    // Its cgroup lies outside of what it sees; the mount itself has the quota.
    assert!(line(&report, "cpu_quota").found.starts_with("0.500 cores"));
    // This one ring was let through; the others are not.
    assert_eq!(line(&report, "sysctl").verdict, Verdict::Slower);
    assert_eq!(line(&report, "locked_memory").verdict, Verdict::Fine);
}

#[test]
fn an_old_kernel() {
    let report = examined(OLD, None);
    assert_eq!(named(&report, Verdict::Broken), [""; 0]);
    for id in ["kernel", "locked_memory"] {
        assert_eq!(line(&report, id).verdict, Verdict::Slower, "{id}");
    }
    for id in ["cores", "clock_source", "tcp_window_scaling", "tcp_sack"] {
        assert_eq!(line(&report, id).verdict, Verdict::Slower, "{id}");
    }
    assert_eq!(host(OLD).quota, Some(Quota::Unlimited));
    assert_eq!(
        line(&report, "tcp_slow_start_after_idle").verdict,
        Verdict::Fine
    );
}

#[test]
fn of_an_empty_folder_nothing_is_fine() {
    let root = tempfile::tempdir().expect("a folder");
    let host = Host::read(root.path());
    assert_eq!(host, Host::default());
    let report = check(&Facts {
        host,
        ..Facts::default()
    });
    assert!(report.checks.len() > 25);
    for check in &report.checks {
        assert_eq!(check.verdict, Verdict::Unknown, "{check:?}");
    }
    assert_eq!(report.exit_code(), 0);
}

/// A file that cannot be read turns its check unknown, whatever the machine; it never turns fine.
#[test]
fn each_file_that_is_missing_costs_certainty_and_never_gives_it() {
    for machine in [GUEST, BARE, CONTAINER_V2, CONTAINER_V1, OLD] {
        let all: Vec<(&str, Vec<u8>)> = files(machine)
            .into_iter()
            .map(|(path, content)| (path, content.into_bytes()))
            .collect();
        for missing in 0..all.len() {
            let mut some = all.clone();
            let (path, _) = some.remove(missing);
            // A queue, a state or an interrupt that is not there is one less, and no riddle.
            let is_counted = ["/queues/", "/cpuidle/", "/msi_irqs/", "/node", "/cpu0/"];
            if is_counted.iter().any(|part| path.contains(part)) || path.contains("operstate") {
                continue;
            }
            let before = examined(machine, ring());
            let after = check(&Facts {
                host: Host::read(unpack(&some).path()),
                ring: ring(),
                ..Facts::default()
            });
            for (before, after) in before.checks.iter().zip(&after.checks) {
                let is_lost = before.verdict != Verdict::Fine && after.verdict == Verdict::Fine;
                assert!(!is_lost, "without {path}: {before:?} became {after:?}");
            }
        }
    }
}

#[test]
fn more_shards_than_cores_and_more_memory_than_may_be_locked() {
    let host = host(BARE);
    let asked = |shards, memory_bytes| {
        check(&Facts {
            asked: Asked {
                shards,
                memory_bytes,
            },
            host: host.clone(),
            ..Facts::default()
        })
    };
    let report = asked(8, 1 << 20);
    assert_eq!(line(&report, "cores").verdict, Verdict::Slower);
    assert_eq!(
        line(&report, "cores").command.as_deref(),
        Some("--shards 7")
    );
    assert_eq!(line(&report, "hyper_threads").verdict, Verdict::Unknown);
    let report = asked(1, 1 << 20);
    assert_eq!(line(&report, "locked_memory").verdict, Verdict::Fine);
    assert_eq!(line(&report, "cores").verdict, Verdict::Fine);
}

#[test]
fn what_a_server_says() {
    let node = |is_healthy| Node {
        name: "a 127.0.0.1:1".to_owned(),
        is_leader: true,
        is_healthy,
    };
    let server = |nodes, version: &str| {
        check(&Facts {
            server: Some(Server {
                login: Ok(1),
                round_trips_us: vec![10, 20, 90],
                nodes: Ok(nodes),
                version: Ok(version.to_owned()),
            }),
            ..Facts::default()
        })
    };
    let report = server(Some(vec![node(true)]), "0.9.0");
    assert_eq!(line(&report, "cluster").verdict, Verdict::Fine);
    assert_eq!(line(&report, "server_version").verdict, Verdict::Fine);
    assert!(line(&report, "round_trip").found.starts_with("20 us"));
    let report = server(Some(vec![node(false)]), "7.0\u{1b}");
    assert_eq!(line(&report, "cluster").verdict, Verdict::Slower);
    assert_eq!(line(&report, "server_version").verdict, Verdict::Unknown);
    assert!(!report.text().contains('\u{1b}'), "one line a check");
    assert_eq!(report.text().lines().count(), report.checks.len());
    assert_eq!(line(&server(None, "x"), "cluster").verdict, Verdict::Fine);
}

#[test]
fn what_is_said_of_a_ring_is_what_the_engine_meets() {
    let broker = ringmain_broker::Broker::builder()
        .start()
        .expect("a broker");
    let url = format!("iggy://iggy:iggy@{}", broker.addr());
    let engine = ringmain::Engine::builder().server(url).cores([]);
    let met = engine.driver(ringmain::DriverChoice::IoUring).build();
    match (ringmain_doctor::probe_ring(), met) {
        (Ok(_), Ok(_)) => {}
        (Err(cause), Err(met)) => assert!(met.to_string().contains(&cause), "{met}: {cause}"),
        (probed, met) => panic!("{probed:?}, and the engine: {met:?}"),
    }
    assert!(ringmain_doctor::clock_cost_ns() > 0.0);
}

#[test]
fn an_embedded_broker_is_asked() {
    let broker = ringmain_broker::Broker::builder()
        .start()
        .expect("a broker");
    let url = ringmain::ServerUrl::parse(&format!("iggy://iggy:iggy@{}", broker.addr()));
    let server =
        ringmain_doctor::probe_server(&url.expect("a URL"), std::time::Duration::from_secs(60));
    assert!(server.login.is_ok(), "{server:?}");
    assert!(!server.round_trips_us.is_empty(), "{server:?}");
    assert_eq!(server.version.as_deref(), Ok("0.9.0"));
    let nodes = server.nodes.expect("an answer").expect("a cluster");
    assert!(nodes[0].is_leader && nodes[0].is_healthy, "{nodes:?}");
}

#[test]
fn what_is_measured_stands_beside_its_line() {
    let broker = ringmain_broker::Broker::builder().sink(true).start();
    let broker = broker.expect("a broker");
    let url = ringmain::ServerUrl::parse(&format!("iggy://iggy:iggy@{}", broker.addr()));
    let host = Host::read(std::path::Path::new("/"));
    let mut report = check(&Facts {
        host: host.clone(),
        ..Facts::default()
    });
    let before = report.clone();
    let effort = ringmain_doctor::Effort {
        rounds: 2,
        send: std::time::Duration::from_millis(5),
        exchanges: 20,
    };
    ringmain_doctor::measure(&mut report, &host, &url.expect("a URL"), &effort);
    let registers = ringmain_doctor::probe_ring().is_ok_and(|ring| ring.registered_bytes > 0);
    let has_two_cores = host
        .cpus_allowed
        .as_ref()
        .is_some_and(|cpus| cpus.len() > 1);
    for (before, after) in before.checks.iter().zip(&report.checks) {
        let wanted = match after.id {
            "registered_arena" => "plain",
            "huge_pages" => "huge pages",
            "busy_polling" => "sleeping",
            "cores" => "on one core",
            "clock_cost" => "ns",
            _ => {
                assert_eq!(before, after);
                continue;
            }
        };
        let measured = after.measured.as_deref().expect(after.id);
        // A host without memory to register, or a second core, says what it lacks.
        let can_be = match after.id {
            "registered_arena" => registers,
            "cores" => has_two_cores,
            _ => true,
        };
        assert_eq!(!measured.contains("not measured"), can_be, "{measured}");
        assert!(!can_be || measured.contains(wanted), "{measured}");
        assert_eq!(
            before.verdict, after.verdict,
            "a measurement judges nothing"
        );
    }
}

/// Bytes of anything, and bytes that look like what the kernel writes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let any = proptest::collection::vec(any::<u8>(), 0..200);
    let near = "[-0-9a-fCPU:,\\[\\]/. \nmax]{0,120}";
    prop_oneof![any, near.prop_map(String::into_bytes)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic_a_parser(bytes in bytes()) {
        ringmain_doctor::parse_every(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_bytes_of_any_file_panic_a_check(bytes in bytes(), shards in 1_u16..=64) {
        for machine in [GUEST, BARE] {
            let garbled: Vec<(&str, Vec<u8>)> = files(machine)
                .into_iter()
                .map(|(path, _)| (path, bytes.clone()))
                .collect();
            let host = Host::read(unpack(&garbled).path());
            let asked = Asked { shards, memory_bytes: u64::MAX };
            let report = check(&Facts { asked, host, ..Facts::default() });
            prop_assert_eq!(report.text().lines().count(), report.checks.len());
        }
    }
}
