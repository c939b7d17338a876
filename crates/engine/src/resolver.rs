//! Host names to addresses, on threads of their own: the system's resolver blocks for as long as it
//! likes, and a shard may not.
//!
//! ```text
//!  shard --question--> dispatcher --one thread a name--> answer, a closure of the shard's
//! ```
//!
//! Names are looked up at each attempt to connect. A name that hangs holds back no other: each has
//! at most one lookup under way, and whoever asks meanwhile gets its answer.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use crate::server_url::Address;

/// Addresses of one name that are looked at. A name with more is a mistake or a joke.
const ADDRESSES_MAX: usize = 64;

/// Gives the addresses of a host, or why there are none.
pub(crate) type Resolve = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How an engine resolves names: by the system, unless it was given something else.
#[derive(Clone)]
pub(crate) struct Resolver(pub(crate) Arc<Resolve>);

impl Default for Resolver {
    fn default() -> Self {
        Self(Arc::new(|host: &str, port| {
            Ok((host, port).to_socket_addrs()?.collect())
        }))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

/// What a lookup gave: at least one address, or what the resolver said.
pub(crate) type Resolved = Result<Arc<[SocketAddr]>, Arc<str>>;

/// Where the servers are, as the URL lists them.
pub(crate) struct Targets {
    list: Vec<Target>,
    /// `None` when no target is a name.
    questions: Option<Sender<Question>>,
}

/// One address of the URL.
pub(crate) enum Target {
    /// Nothing to look up.
    Fixed(SocketAddr),
    /// The resolver knows.
    Name(Address),
}

/// Who wants to know an address.
struct Asker {
    /// Tells one who asks from another.
    key: (usize, usize),
    answer: Box<dyn FnOnce(Resolved) + Send>,
}

struct Question {
    target: usize,
    asker: Asker,
}

/// Who waits for the lookup of one name; `None` while none is under way.
type Waiting = Arc<Mutex<Option<Vec<Asker>>>>;

impl Targets {
    /// The targets of `addresses`. Starts the dispatcher when one of them is a name.
    ///
    /// # Errors
    /// No thread could be made.
    pub(crate) fn new(addresses: &[Address], resolver: &Resolver) -> io::Result<Self> {
        let list: Vec<Target> = addresses.iter().map(Target::of).collect();
        let mut questions = None;
        if list.iter().any(|target| matches!(target, Target::Name(_))) {
            let (sender, receiver) = channel();
            let names = addresses.to_vec();
            let resolve = Arc::clone(&resolver.0);
            Builder::new()
                .name("ringmain-names".to_owned())
                .spawn(move || dispatch(&receiver, &names, &resolve))?;
            questions = Some(sender);
        }
        Ok(Self { list, questions })
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, target: usize) -> &Target {
        &self.list[target]
    }

    /// Asks for the addresses of a name. `answer` runs on another thread, unless the same `key`
    /// asks again before.
    pub(crate) fn ask(
        &self,
        target: usize,
        key: (usize, usize),
        answer: impl FnOnce(Resolved) + Send + 'static,
    ) {
        let answer = Box::new(answer);
        let asker = Asker { key, answer };
        let questions = self.questions.as_ref().expect("a name has a dispatcher");
        // It ends only with the last of these senders; were it gone, the attempt runs out of time.
        drop(questions.send(Question { target, asker }));
    }
}

impl Target {
    fn of(address: &Address) -> Self {
        match address.host().parse() {
            Ok(ip) => Self::Fixed(SocketAddr::new(ip, address.port())),
            Err(_) => Self::Name(address.clone()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Name(address) => address.fmt(f),
        }
    }
}

/// Hands each question to the lookup of its name, until no shard can ask any more.
fn dispatch(questions: &Receiver<Question>, names: &[Address], resolve: &Arc<Resolve>) {
    let waiting: Vec<Waiting> = names.iter().map(|_| Waiting::default()).collect();
    while let Ok(Question { target, asker }) = questions.recv() {
        let (name, askers) = (names[target].clone(), Arc::clone(&waiting[target]));
        if !join(&askers, asker) {
            continue;
        }
        let resolve = Arc::clone(resolve);
        let theirs = Arc::clone(&askers);
        let spawned = Builder::new()
            .name("ringmain-lookup".to_owned())
            .spawn(move || answer(&theirs, &look_up(&name, &*resolve)));
        if let Err(error) = spawned {
            answer(&askers, &Err(format!("no thread for it: {error}").into()));
        }
    }
}

/// Adds who asks; true when there is no lookup under way. One that asks again replaces itself.
fn join(waiting: &Waiting, asker: Asker) -> bool {
    let mut waiting = lock(waiting);
    let is_first = waiting.is_none();
    let askers = waiting.get_or_insert_default();
    askers.retain(|other| other.key != asker.key);
    askers.push(asker);
    is_first
}

fn look_up(name: &Address, resolve: &Resolve) -> Resolved {
    let found = catch_unwind(AssertUnwindSafe(|| resolve(name.host(), name.port())));
    match found {
        Ok(Ok(found)) if found.is_empty() => Err("the name has no address".into()),
        Ok(Ok(mut found)) => {
            found.truncate(ADDRESSES_MAX);
            Ok(found.into())
        }
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("the resolver panicked".into()),
    }
}

fn answer(waiting: &Waiting, resolved: &Resolved) {
    let askers = lock(waiting).take().unwrap_or_default();
    for asker in askers {
        (asker.answer)(resolved.clone());
    }
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, Option<Vec<Asker>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
