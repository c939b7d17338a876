//! Runs the built `ringmain` as a user does: as a process, against a broker in another process on
//! loopback.
//!
//! Nothing waits without end: a process that has not ended after [`PATIENCE`] is killed and fails
//! the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any of these processes takes on a busy machine, shorter than a test runner waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a process said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: Vec<u8>,
    /// Standard error.
    pub(crate) err: String,
}

impl Ended {
    /// Standard error without the warnings that are about the machine the test runs on.
    pub(crate) fn said(&self) -> String {
        let lines = self.err.split_inclusive('\n');
        lines.filter(|line| !is_of_machine(line)).collect()
    }
}

/// Whether a line warns of the machine: its cores, its limit of locked memory.
fn is_of_machine(line: &str) -> bool {
    let of_machine = [
        "a core of its own",
        "arena is registered",
        "no ring of receive buffers",
    ];
    of_machine.iter().any(|words| line.contains(words))
}

/// The command `ringmain` with `arguments`, knowing no server but one among them.
pub(crate) fn ringmain(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringmain"));
    command
        .args(arguments)
        .env_remove("RINGMAIN_SERVER")
        .env_remove("RINGMAIN_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs `command` to its end with `input` on its standard input.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Ended {
    let process = Process::start(&mut command);
    process.feed(input).ended()
}

/// A process that was started and is fed.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
}

impl Process {
    /// Starts `command`, made by [`ringmain`].
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the built binary");
        Process {
            input: child.stdin.take(),
            out: child.stdout.take(),
            err: child.stderr.take(),
            child,
        }
    }

    /// Writes to its standard input, which stays open. A process that ended early does not read all
    /// of it.
    pub(crate) fn write(&mut self, input: &[u8]) {
        let stdin = self.input.as_mut().expect("open");
        let _ = stdin.write_all(input).and_then(|()| stdin.flush());
    }

    /// Takes its standard output.
    pub(crate) fn take_out(&mut self) -> ChildStdout {
        self.out.take().expect("not taken before")
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends it a signal, `INT` or `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.expect("a shell").success());
    }

    /// Waits until its main thread waits for something, or it has ended: the process does not go on
    /// by itself.
    ///
    /// The letter stands behind the name of the process, in parentheses, in `/proc/PID/stat`.
    pub(crate) fn wait_until_it_waits(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let started = Instant::now();
        loop {
            let text = fs::read_to_string(&stat).expect("not waited for yet");
            let state = text.rsplit_once(") ").expect("a state").1.as_bytes()[0];
            if state == b'S' || state == b'Z' {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{text}");
            thread::yield_now();
        }
    }

    /// Waits until it watches for signals: a signal before that ends it in the way of the system.
    pub(crate) fn wait_until_it_watches(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        let started = Instant::now();
        loop {
            let text = fs::read_to_string(&status).expect("not waited for yet");
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("hex");
            // SIGINT is 2, SIGTERM 15, and the mask begins with 1.
            if caught & (1 << 1) != 0 && caught & (1 << 14) != 0 {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{text}");
            thread::yield_now();
        }
    }

    fn feed(mut self, input: &[u8]) -> Self {
        let input = input.to_vec();
        let mut stdin = self.input.take().expect("open");
        // On a thread, because a process that writes before it has read everything would block
        // both.
        thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        self
    }

    /// Reads one line of its standard error, but none of the warnings about the machine.
    pub(crate) fn read_err_line(&mut self) -> String {
        loop {
            let line = self.read_any_err_line();
            if !is_of_machine(&line) {
                return line;
            }
        }
    }

    fn read_any_err_line(&mut self) -> String {
        let err = self.err.as_mut().expect("not taken before");
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte, because a buffered reader would keep what follows.
        while err.read(&mut byte).expect("a pipe") == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("UTF-8")
    }

    /// Closes its standard input and waits for its end.
    pub(crate) fn ended(mut self) -> Ended {
        drop(self.input.take());
        self.ended_with_input_open()
    }

    /// Signals again and again until it has ended: two signals may become one, and the second that
    /// arrives counts.
    pub(crate) fn ended_by_signals(mut self) -> Ended {
        let started = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            self.interrupt();
            assert!(started.elapsed() < PATIENCE, "it does not end");
        }
        self.ended_with_input_open()
    }

    /// Waits for its end while its standard input stays open.
    pub(crate) fn ended_with_input_open(mut self) -> Ended {
        let out = reader(self.out.take());
        let err = reader(self.err.take());
        let status = wait(&mut self.child);
        Ended {
            code: status.code().expect("an exit code, not a signal"),
            out: out.join().expect("a reader"),
            err: String::from_utf8(err.join().expect("a reader")).expect("UTF-8"),
        }
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).expect("a pipe");
        }
        bytes
    })
}

/// Waits for the end of `child`, and kills it when it does not end.
fn wait(child: &mut Child) -> ExitStatus {
    let pid = child.id();
    let (ended, watched) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        let hangs = watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
        if hangs {
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -KILL {pid}")])
                .status();
        }
        hangs
    });
    let status = child.wait().expect("a child");
    drop(ended);
    assert!(!watchdog.join().expect("the watchdog"), "the process hangs");
    status
}

/// `ringmain broker` on a free port, until dropped.
pub(crate) struct Broker {
    child: Child,
    /// The address it printed.
    pub(crate) address: String,
}

impl Broker {
    /// Starts it and waits until it listens.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with more arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let mut command = ringmain(&["broker", "--listen", "127.0.0.1:0"]);
        let mut child = command
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("the built binary");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut address)
            .expect("its address");
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{address:?}");
        Broker { child, address }
    }

    /// Starts one that commits a fault, described by the lines of a script.
    pub(crate) fn start_with_fault(fault: &str) -> Self {
        Self::start_with_script(&format!("[[fault]]\n{fault}"))
    }

    /// Starts one that commits the faults of a script.
    pub(crate) fn start_with_script(faults: &str) -> Self {
        let script = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&script, faults).expect("a file");
        Broker::start_with(&["--script", script.path().to_str().expect("UTF-8")])
    }

    /// Its URL with the right password.
    pub(crate) fn url(&self) -> String {
        format!("iggy://iggy:iggy@{}", self.address)
    }

    /// Runs one command against it, on stream `s` and topic `t`.
    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Ended {
        run(self.command(arguments), input)
    }

    /// Looks again and again until a dump of the topic is `wanted`. A look is a process of its own,
    /// so this is no hurry for anybody.
    pub(crate) fn wait_for(&self, wanted: &[u8]) {
        let started = Instant::now();
        loop {
            let dumped = self.run(&["dump"], b"");
            if dumped.code == 0 && dumped.out == wanted {
                return;
            }
            // 6 is the topic that is not there yet.
            assert!([0, 6].contains(&dumped.code), "{}", dumped.err);
            assert!(started.elapsed() < PATIENCE, "{wanted:?} is never stored");
        }
    }

    /// The command that [`Broker::run`] runs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ringmain(arguments);
        command
            .args(["--stream", "s", "--topic", "t"])
            .env("RINGMAIN_SERVER", self.url());
        command
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address where nobody listens.
pub(crate) fn refused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}
