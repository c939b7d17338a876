//! io_uring forbidden, or locked memory refused: real refusals of this kernel, in threads and
//! children of their own.

use std::process::Command;

use ringmain_io::driver::{Driver, DriverErrorKind};
use ringmain_io::memory::{ArenaConfig, DriverMemory};
use ringmain_io::ring::{RingError, SetupError};
use ringmain_io::transport::{LostCause, SocketOptions, Transport, WritePath};

use super::support::*;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE_WITH: u32 = 0x0005_0000;

/// From now on, system call `number` fails with `errno` in this thread.
fn forbid(number: libc::c_long, errno: i32) {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, number as u32),
        step(RETURN, 0, 0, REFUSE_WITH | errno as u32),
        step(RETURN, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program is valid and lives for the length of the calls; both concern this thread
    // only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program
            ),
            0
        );
    }
}

#[test]
fn a_filter_against_a_setup_call_is_named() {
    for (number, call) in [
        (libc::SYS_io_uring_setup, "io_uring_setup"),
        (libc::SYS_io_uring_register, "io_uring_register"),
        (libc::SYS_io_uring_enter, "io_uring_enter"),
    ] {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            let refusal = std::thread::spawn(move || {
                forbid(number, errno);
                let arena = DriverMemory::new(&small_arena()).unwrap();
                Transport::new(&config(WritePath::Auto), arena)
                    .err()
                    .expect("refused")
            });
            let error = refusal.join().unwrap();
            assert!(
                matches!(error, SetupError::Seccomp { .. }),
                "{call}, errno {errno}: {error:?}"
            );
            let text = error.to_string();
            assert!(
                text.contains(call) && text.contains("seccomp") && text.contains("profile"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_filter_that_comes_later_ends_the_ring_with_an_error() {
    let ended = std::thread::spawn(|| {
        let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
        rig.step(std::time::Duration::ZERO);
        forbid(libc::SYS_io_uring_enter, libc::EPERM);
        let error = rig
            .transport
            .wait(Some(std::time::Duration::from_millis(10)))
            .unwrap_err();
        // The teardown cannot bring its read home any more; the memory is leaked on purpose, and
        // nothing panics.
        drop(rig);
        error.to_string()
    });
    let text = ended.join().unwrap();
    assert!(text.contains("seccomp filter came later"), "{text}");
}

/// Errnos of `io_uring_enter` that pass by themselves, as a rule.
const PASSING: [i32; 4] = [libc::EAGAIN, libc::EBUSY, libc::ENOMEM, libc::EINTR];

#[test]
fn a_ring_that_is_refused_from_the_start_is_no_transport() {
    let tries = PASSING.map(|errno| {
        std::thread::spawn(move || {
            let arena = DriverMemory::new(&small_arena()).unwrap();
            forbid(libc::SYS_io_uring_enter, errno);
            let error = Transport::new(&config(WritePath::Auto), arena)
                .err()
                .expect("refused");
            assert!(
                matches!(
                    error,
                    SetupError::Refused {
                        call: "io_uring_enter",
                        ..
                    }
                ),
                "errno {errno}: {error:?}"
            );
        })
    });
    for tried in tries {
        tried.join().unwrap();
    }
}

#[test]
fn a_kernel_that_never_takes_anything_again_ends_the_ring_without_a_spin() {
    let ends = PASSING.map(|errno| {
        std::thread::spawn(move || {
            let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
            // The read of the wake-up stays queued: the kernel is not asked before the filter is
            // there.
            forbid(libc::SYS_io_uring_enter, errno);
            let mut waits = 0;
            let started = std::time::Instant::now();
            let error = loop {
                waits += 1;
                let step = std::time::Duration::from_millis(10);
                match rig.transport.wait(Some(step)) {
                    Ok(()) => while rig.transport.next_event().is_some() {},
                    Err(error) => break error,
                }
            };
            assert_eq!(error.to_string(), RingError::Refused { errno }.to_string());
            assert_eq!(error.kind(), DriverErrorKind::Exhausted);
            assert!(started.elapsed() >= std::time::Duration::from_secs(2));
            // Two seconds in pauses of 3.2 ms. A spin makes some hundred thousand.
            assert!(waits < 1500, "errno {errno}: {waits} waits are a spin");
            // Nor does the teardown wait for a ring that is known to be broken.
            let stopped = std::time::Instant::now();
            drop(rig);
            assert!(stopped.elapsed() < std::time::Duration::from_secs(2));
        })
    });
    for ended in ends {
        ended.join().unwrap();
    }
}

#[test]
fn interrupts_without_an_end_are_paused_for_while_nothing_is_queued() {
    let ended = std::thread::spawn(|| {
        let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
        rig.step(std::time::Duration::ZERO);
        forbid(libc::SYS_io_uring_enter, libc::EINTR);
        let started = std::time::Instant::now();
        for _ in 0..200 {
            rig.transport
                .wait(Some(std::time::Duration::from_secs(60)))
                .expect("a signal ends no ring");
        }
        assert!(started.elapsed() > std::time::Duration::from_millis(300));
        let interrupts = rig.transport.stats().enter_interrupts;
        // Its teardown would wait for a cancellation that this ring never carries out.
        std::mem::forget(rig);
        interrupts
    });
    assert!(ended.join().unwrap() >= 200);
}

/// Becomes a user of its own, without capabilities: the limit of locked memory does not bind root,
/// and counts all processes of a user together.
fn become_nobody_else() {
    let user = 1_000_000 + std::process::id();
    // SAFETY: setresuid takes no memory of ours; it concerns this child process only.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
}

fn limit_locked_memory(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: `limit` is readable for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
}

/// Slots of 64 KiB: the limits below leave room for some, for few, for none.
fn limited_arena() -> ArenaConfig {
    ArenaConfig {
        slot_bytes: 64 * 1024,
        slots: 64,
        ..small_arena()
    }
}

/// What `limited_arena` would like to register: its slots and its slab of 64 headers.
const WANTED_BYTES: u64 = 64 * 64 * 1024 + 4 * 4096;

/// In a child: every byte arrives, whatever part of the arena is registered.
fn send_under_limit(limit_bytes: u64) {
    let mut rig = Rig::new(&config(WritePath::Auto), &limited_arena());
    let stats = rig.transport.stats();
    assert_eq!(stats.registered_bytes_wanted, WANTED_BYTES);
    assert!(
        stats.registered_bytes <= limit_bytes && stats.registered_bytes < WANTED_BYTES,
        "{stats:?}"
    );
    // The ring itself counts, too; beyond it no more than one slot is left unused.
    assert!(
        limit_bytes < 1 << 20 || stats.registered_bytes + (256 << 10) > limit_bytes,
        "{stats:?}"
    );
    println!(
        "registered {} of {}",
        stats.registered_bytes, stats.registered_bytes_wanted
    );

    let (addr, served) = peer(read_to_end);
    rig.connect(CONN, addr, &SocketOptions::default());
    let mut sent = Vec::new();
    let frames: Vec<_> = (0..64)
        .map(|n| Frame::new(&rig.arena, n, 64 * 1024))
        .collect();
    for frame in &frames {
        rig.write_all(CONN, &frame.pieces());
        sent.extend(wire_bytes(&frame.pieces()));
    }
    frames
        .into_iter()
        .for_each(|frame| frame.release(&rig.arena));
    rig.finish_sent(served, &sent);
}

/// In a child: the locked memory of one transport is there for the next.
fn restart_under_limit(limit_bytes: u64) {
    let registered = || {
        Rig::new(&config(WritePath::WritevFixed), &limited_arena())
            .finish()
            .registered_bytes
    };
    let first = registered();
    assert!(first > limit_bytes / 2, "{first}");
    let second = registered();
    assert!(second + (256 << 10) > first, "{second} after {first}");
}

/// In a child: a demanded path that needs registered memory says what is missing.
fn demand_under_limit(_: u64) {
    let arena = DriverMemory::new(&limited_arena()).unwrap();
    let error = Transport::new(&config(WritePath::WritevFixed), arena)
        .err()
        .expect("refused");
    assert!(matches!(error, SetupError::WritePath { .. }), "{error:?}");
    assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
}

/// In a child: not even the ring fits.
fn fail_under_limit(_: u64) {
    let arena = DriverMemory::new(&limited_arena()).unwrap();
    match Transport::new(&config(WritePath::Auto), arena) {
        Err(error) => {
            assert!(
                matches!(error, SetupError::LockedMemory { limit_bytes: 0, .. }),
                "{error:?}"
            );
            assert!(error.to_string().contains("ulimit -l"), "{error}");
        }
        Ok(_) => println!("skipped: this kernel does not count rings as locked memory"),
    }
}

const LIMIT_VARIABLE: &str = "RINGMAIN_TEST_MEMLOCK_BYTES";

/// Runs `body` in a child process under a limit of locked memory: the limit belongs to a whole
/// process.
fn under_limit(test: &str, limit_bytes: u64, body: fn(u64)) {
    if std::env::var_os(LIMIT_VARIABLE).is_some() {
        limit_locked_memory(limit_bytes);
        become_nobody_else();
        return body(limit_bytes);
    }
    // SAFETY: geteuid takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        println!(
            "skipped: without CAP_IPC_LOCK the other tests of this user count against the same limit"
        );
        return;
    }
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(LIMIT_VARIABLE, "set")
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "limit {limit_bytes}: {text}"
    );
}

#[test]
fn half_the_locked_memory_registers_half_the_arena() {
    under_limit(
        "refusals::half_the_locked_memory_registers_half_the_arena",
        2 << 20,
        send_under_limit,
    );
}

#[test]
fn hardly_any_locked_memory_registers_nothing_and_still_sends() {
    under_limit(
        "refusals::hardly_any_locked_memory_registers_nothing_and_still_sends",
        160 << 10,
        send_under_limit,
    );
}

#[test]
fn locked_memory_is_given_back_at_once() {
    under_limit(
        "refusals::locked_memory_is_given_back_at_once",
        2 << 20,
        restart_under_limit,
    );
}

#[test]
fn a_demanded_path_without_locked_memory_is_an_error() {
    // Less than the slab and one slot.
    under_limit(
        "refusals::a_demanded_path_without_locked_memory_is_an_error",
        72 << 10,
        demand_under_limit,
    );
}

#[test]
fn no_locked_memory_for_the_ring_names_the_limit() {
    under_limit(
        "refusals::no_locked_memory_for_the_ring_names_the_limit",
        0,
        fail_under_limit,
    );
}

/// In a child: no descriptor is left for a socket, later for the ring.
#[test]
fn running_out_of_descriptors_is_an_event_and_a_typed_error() {
    const VARIABLE: &str = "RINGMAIN_TEST_DESCRIPTORS";
    if std::env::var_os(VARIABLE).is_none() {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "refusals::running_out_of_descriptors_is_an_event_and_a_typed_error",
            ])
            .env(VARIABLE, "set")
            .output()
            .expect("a child");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    let arena = DriverMemory::new(&small_arena()).unwrap();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable for the length of the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(result, 0);
    let usual = std::mem::replace(&mut limit.rlim_cur, 0);
    // SAFETY: `limit` is readable for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    rig.transport
        .connect(CONN, ([127, 0, 0, 1], 9).into(), &SocketOptions::default());
    rig.step(std::time::Duration::from_secs(10));
    let failed = rig
        .seen
        .iter()
        .any(|seen| matches!(seen, Seen::ConnectFailed(CONN, LostCause::Exhausted(_))));
    assert!(failed, "{:?}", rig.seen);
    let error = Transport::new(&config(WritePath::SendMsg), arena)
        .err()
        .expect("refused");
    assert!(matches!(error, SetupError::Descriptors { .. }), "{error:?}");
    rig.finish();
    limit.rlim_cur = usual;
    // SAFETY: `limit` is readable for the length of the call. What runs when the process ends may
    // need descriptors.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}
