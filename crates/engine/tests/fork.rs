//! An engine and `fork`: the parent goes on, and a child that uses its parent's engine is told.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use ringmain::{BuildError, CallError, Engine, Producer, Receipt, Record, SendError};
use support::{Checked, PATIENCE, PROMPT, Server, block_on};

/// The variable that tells the test that it runs in a process of its own, where it may fork.
const VARIABLE: &str = "RINGMAIN_TEST_FORK";
const TEST: &str = "a_forked_child_is_told_and_the_parent_goes_on";

/// One use of a parent's engine; true when it was told what is wrong.
type Use = fn(&Engine, &Producer, &Receipt) -> bool;

fn told(text: impl ToString) -> bool {
    text.to_string().contains("forked")
}

/// True when `call` panics with the words for a child.
fn panics(call: impl FnOnce()) -> bool {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("no panic");
    panic.downcast_ref::<String>().is_some_and(told)
}

fn record() -> Record {
    Record::new("from the child")
}

const USES: [(&str, Use); 15] = [
    ("send", |_, producer, _| {
        producer
            .send(record())
            .is_err_and(|error| error == SendError::Forked && told(error))
    }),
    ("send, by reference", |_, producer, _| {
        let large = Record::new(vec![7; 100_000]);
        producer.send(large).is_err_and(told)
    }),
    ("send_slice", |_, producer, _| {
        producer.send_slice(b"x", None).is_err_and(told)
    }),
    ("try_send", |_, producer, _| {
        producer.try_send(record()).is_err_and(told)
    }),
    ("send_deadline", |_, producer, _| {
        let deadline = Instant::now() + PATIENCE;
        producer.send_deadline(record(), deadline).is_err_and(told)
    }),
    ("send_async", |_, producer, _| {
        block_on(producer.send_async(record())).is_err_and(told)
    }),
    ("send_batch", |_, producer, _| {
        producer.send_batch([record(), record()]).is_err_and(told)
    }),
    ("call", |engine, _, _| {
        let error = engine.create_stream("x", PATIENCE);
        error == Err(CallError::Forked)
    }),
    ("producer", |engine, _, _| {
        let built = engine.producer("x", "y").build();
        matches!(built, Err(BuildError::Call(CallError::Forked)))
    }),
    ("Receipt::wait", |_, _, receipt| {
        panics(|| {
            let _ = receipt.wait();
        })
    }),
    ("flush", |_, producer, _| {
        panics(|| {
            let _ = producer.flush(PATIENCE);
        })
    }),
    ("purge", |_, producer, _| {
        panics(|| {
            let _ = producer.purge();
        })
    }),
    ("Producer::close", |_, producer, _| {
        panics(|| {
            let _ = producer.close(PATIENCE);
        })
    }),
    ("Engine::close", |engine, _, _| {
        panics(|| {
            let _ = engine.close(PATIENCE);
        })
    }),
    ("stats", |engine, _, _| {
        panics(|| {
            let _ = engine.stats();
        })
    }),
];

/// Forks; the child runs `body` and ends with its answer as its exit code. Returns that code.
fn in_child(body: impl FnOnce() -> u8) -> i32 {
    // SAFETY: this process has no other test, and the child ends by `_exit` without returning from
    // here.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(100);
            // SAFETY: ends this child at once, whatever its copies of other threads held.
            unsafe { libc::_exit(i32::from(code)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is writable for the length of the call, and the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(
                libc::WIFEXITED(status),
                "the child died by a signal: {status:#x}"
            );
            libc::WEXITSTATUS(status)
        }
    }
}

#[test]
fn a_forked_child_is_told_and_the_parent_goes_on() {
    if std::env::var_os(VARIABLE).is_some() {
        return fork_and_use();
    }
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "set")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn fork_and_use() {
    let server = Server::embedded(ringmain_broker::Broker::builder());
    let engine = Checked::new(server.engine().build().expect("a healthy server"));
    let producer = engine
        .producer("stream", "topic")
        .create_if_missing(1)
        .linger_us(1_000_000)
        .build()
        .expect("a new topic");
    assert!(
        producer
            .send(record())
            .expect("accepted")
            .wait()
            .is_stored()
    );
    // It lingers: in the child's copy it has no answer for ever.
    let open = producer.send(record()).expect("accepted");
    for (index, (what, used)) in USES.iter().enumerate() {
        let code = in_child(|| 1 + u8::from(used(&engine, &producer, &open)));
        assert_eq!(code, 2, "{index}: {what}");
    }
    // Dropping the last handles, as a child that unwinds does, neither waits nor panics.
    let other = server.engine().build().expect("a healthy server");
    let sender = other.producer("stream", "topic").build().expect("a topic");
    let receipt = sender.send(record()).expect("accepted");
    let code = in_child(move || {
        let started = Instant::now();
        drop((receipt, sender, other));
        u8::from(started.elapsed() < Duration::from_secs(1))
    });
    assert_eq!(code, 1, "drop");
    let url = server.url();
    // A child may have an engine of its own.
    let code = in_child(|| {
        let own = Engine::builder()
            .server(url)
            .cores([])
            .build()
            .expect("a server");
        let producer = own.producer("stream", "topic").build().expect("a topic");
        let stored = producer
            .send(record())
            .expect("accepted")
            .wait()
            .is_stored();
        u8::from(stored && own.close(PROMPT).drained)
    });
    assert_eq!(code, 1, "an engine of the child's own");
    assert!(open.wait().is_stored(), "the parent goes on");
    assert!(
        producer
            .send(record())
            .expect("accepted")
            .wait()
            .is_stored()
    );
}
