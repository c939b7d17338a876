//! Which address a connection tries next: all addresses of all targets in turn, and the one that
//! took the last login first.
//!
//! Decides, and asks nobody: lookups are [`crate::resolver`]'s, connecting the driver's.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::resolver::{Target, Targets};

/// The way of one connection through the targets.
pub(super) struct Addresses {
    targets: Arc<Targets>,
    /// The present target.
    at: usize,
    /// Where the round over all targets began.
    began_at: usize,
    /// Addresses of the present target that failed, when it is a name.
    failed: Vec<SocketAddr>,
    /// Addresses of the present target, as far as they are known.
    known: Arc<[SocketAddr]>,
    /// What is being tried.
    present: Option<SocketAddr>,
    /// What took the last login.
    good: Option<SocketAddr>,
    /// An address was chosen and is to be connected to.
    is_due: bool,
    /// The number of the lookup under way, if there is one.
    lookup: Option<u64>,
    lookups: u64,
}

/// How an attempt begins.
pub(super) enum Attempt {
    /// There is nothing to look up: the address is due.
    Connect,
    /// The target's name has to be looked up; under this number.
    LookUp(usize, u64),
}

impl Addresses {
    /// Connections of one engine start at different targets.
    pub(super) fn new(targets: Arc<Targets>, conn: usize) -> Self {
        let at = conn % targets.len();
        Self {
            targets,
            at,
            began_at: at,
            failed: Vec::new(),
            known: Arc::new([]),
            present: None,
            good: None,
            is_due: false,
            lookup: None,
            lookups: 0,
        }
    }

    pub(super) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The target of the present attempt.
    pub(super) fn target(&self) -> &Target {
        self.targets.get(self.at)
    }

    /// Addresses that an attempt shares its time with: all there are, as far as they are known.
    pub(super) fn count(&self) -> usize {
        self.targets.len() - 1 + self.known.len().max(1)
    }

    /// The address of the present attempt, once it is known.
    pub(super) fn present(&self) -> Option<SocketAddr> {
        self.present
    }

    /// True while the driver does not know of the attempt: a lookup is under way, or its answer is
    /// due.
    pub(super) fn is_waiting(&self) -> bool {
        self.lookup.is_some() || self.is_due
    }

    pub(super) fn is_looking_up(&self, lookup: u64) -> bool {
        self.lookup == Some(lookup)
    }

    /// The address to connect to, once.
    pub(super) fn take_due(&mut self) -> Option<SocketAddr> {
        std::mem::take(&mut self.is_due)
            .then_some(self.present)
            .flatten()
    }

    pub(super) fn begin(&mut self) -> Attempt {
        match *self.target() {
            Target::Fixed(address) => {
                self.present = Some(address);
                self.is_due = true;
                Attempt::Connect
            }
            Target::Name(_) => {
                self.present = None;
                self.lookups += 1;
                self.lookup = Some(self.lookups);
                Attempt::LookUp(self.at, self.lookups)
            }
        }
    }

    /// The lookup under way gave these, at least one.
    pub(super) fn choose(&mut self, found: Arc<[SocketAddr]>) {
        self.lookup = None;
        self.known = found;
        let is_new = |address: &&SocketAddr| !self.failed.contains(address);
        let good = self
            .good
            .filter(|good| self.known.contains(good) && is_new(&good));
        let next = good.or_else(|| self.known.iter().find(is_new).copied());
        // All of them failed by now: the name gives no others than before.
        self.present = next.or_else(|| self.known.first().copied());
        self.is_due = true;
    }

    /// The attempt failed, or the connection was lost before its login. True when this ends a round
    /// over everything.
    pub(super) fn fail(&mut self) -> bool {
        self.lookup = None;
        self.is_due = false;
        if let Some(address) = self.present.take()
            && matches!(self.target(), Target::Name(_))
        {
            self.failed.push(address);
            if self.known.iter().any(|known| !self.failed.contains(known)) {
                return false;
            }
        }
        self.failed.clear();
        self.known = Arc::new([]);
        self.at = (self.at + 1) % self.targets.len();
        self.at == self.began_at
    }

    /// The login was taken here: the next attempt begins here, too.
    pub(super) fn keep(&mut self) {
        self.good = self.present.or(self.good);
        self.failed.clear();
        self.began_at = self.at;
    }
}
