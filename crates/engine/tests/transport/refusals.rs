//! io_uring forbidden, or locked memory refused: real refusals of this kernel, in threads and children of their own.

use std::process::Command;
use std::sync::Arc;

use ringmain::memory::{Arena, ArenaConfig};
use ringmain::ring::SetupError;
use ringmain::transport::{SocketOptions, Transport, TransportConfig, WritePath};

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
    // SAFETY: the program is valid and lives for the length of the calls; both concern this thread only.
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
    ] {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            let refusal = std::thread::spawn(move || {
                forbid(number, errno);
                let arena = Arc::new(Arena::new(&small_arena()).unwrap());
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
        // The teardown cannot bring its read home any more; the memory is leaked on purpose, and nothing panics.
        drop(rig);
        error.to_string()
    });
    let text = ended.join().unwrap();
    assert!(text.contains("seccomp filter came later"), "{text}");
}

/// Gives up CAP_IPC_LOCK, so that the limit of locked memory counts even for root.
fn drop_ipc_lock() {
    const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
    const CAP_IPC_LOCK: u32 = 14;
    let header = [CAPABILITY_VERSION_3, 0];
    let mut data = [[0u32; 3]; 2];
    // SAFETY: header and data have the layout of version 3 of the interface and outlive the calls.
    unsafe {
        assert_eq!(
            libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()),
            0
        );
        data[0]
            .iter_mut()
            .for_each(|set| *set &= !(1 << CAP_IPC_LOCK));
        assert_eq!(
            libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()),
            0
        );
    }
}

fn limit_locked_memory(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: `limit` is readable for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
}

/// Runs in a child, because the limit is the process's.
fn under_limit(limit_bytes: u64) {
    limit_locked_memory(limit_bytes);
    drop_ipc_lock();
    let arena = ArenaConfig {
        slot_bytes: 64 * 1024,
        slots: 64,
        ..small_arena()
    };
    let wanted = 64 * 64 * 1024 + 4 * 4096;
    let mut rig = Rig::new(&config(WritePath::Auto), &arena);
    let stats = rig.transport.stats();
    assert_eq!(stats.registered_bytes_wanted, wanted);
    assert!(
        stats.registered_bytes <= limit_bytes && stats.registered_bytes < wanted,
        "{stats:?}"
    );
    // No more than one slot short of the limit.
    assert!(
        limit_bytes < 256 * 1024 || stats.registered_bytes + 2 * 64 * 1024 > limit_bytes,
        "{stats:?}"
    );

    let (addr, served) = peer(read_to_end);
    rig.connect(CONN, addr, &SocketOptions::default());
    let frames: Vec<_> = (0..64).map(|n| frame(&rig.arena, n, 64 * 1024)).collect();
    let mut sent = Vec::new();
    for (header, body, len) in &frames {
        let pieces = [Piece::Slot(header, 0..256), Piece::Slot(body, 0..*len)];
        rig.write_all(CONN, &pieces);
        sent.extend(wire_bytes(&pieces));
    }
    release(
        &rig.arena,
        frames
            .into_iter()
            .flat_map(|(header, body, _)| [header, body]),
    );
    rig.transport.close(CONN);
    rig.drive_until_closed(CONN);
    assert!(
        served.join().unwrap() == sent,
        "registered or not, every byte arrives"
    );
    rig.finish();

    let demanded = TransportConfig {
        ..config(WritePath::WritevFixed)
    };
    let made = Transport::new(&demanded, Arc::new(Arena::new(&arena).unwrap()));
    assert_eq!(
        made.is_ok(),
        limit_bytes >= 256 * 1024,
        "a demanded path needs at least one slot"
    );
    if let Err(error) = made {
        assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
    }
}

const LIMIT_VARIABLE: &str = "RINGMAIN_TEST_MEMLOCK_BYTES";

#[test]
fn locked_memory_refused_registers_what_fits() {
    if let Ok(limit) = std::env::var(LIMIT_VARIABLE) {
        under_limit(limit.parse().expect("a number of bytes"));
        return;
    }
    for limit_bytes in [2u64 << 20, 512 * 1024, 0] {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "refusals::locked_memory_refused_registers_what_fits",
            ])
            .env(LIMIT_VARIABLE, limit_bytes.to_string())
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "limit {limit_bytes}: {text}"
        );
    }
}
