//! Which cores the shards of an engine are pinned to, so that no two engines of a host share one
//! while another is free.
//!
//! A core is claimed by a name that every process of the host sees: an abstract Unix socket. It is
//! gone with the process, whatever ends it, and a second claim fails, also in the same process.
//! Containers with a network of their own do not see each other's claims.
//!
//! A child that another thread is just making has a copy of the claim until its exec. An engine
//! that is built within these microseconds after another one ended finds the core taken, and takes
//! another one or none.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A core that was chosen for a shard.
pub(crate) struct Core {
    pub(crate) id: usize,
    /// Held for as long as the shard lives; `None` when the core is another engine's, too, or
    /// claims are impossible.
    _claim: Option<UnixDatagram>,
}

/// What was chosen for one shard.
pub(crate) type Choice = Option<Core>;

impl Core {
    /// Claims `id` among the claims that begin with `prefix`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: another engine of this host has it.
    fn claim(prefix: &str, id: usize) -> io::Result<Self> {
        let name = SocketAddr::from_abstract_name(format!("{prefix}{id}"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(claim) => Ok(Self {
                id,
                _claim: Some(claim),
            }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            // A sandbox without Unix sockets: pin without a claim, as if alone.
            Err(_) => Ok(Self { id, _claim: None }),
        }
    }

    /// True when this engine alone has it, as far as is known.
    #[cfg(test)]
    fn is_claimed(&self) -> bool {
        self._claim.is_some()
    }
}

/// What claims begin with.
const PREFIX: &str = "ringmain-core-";

/// The cores that the caller named, one a shard.
pub(crate) fn named(ids: &[usize]) -> Vec<Choice> {
    ids.iter().map(|id| Some(named_core(PREFIX, *id))).collect()
}

fn named_core(prefix: &str, id: usize) -> Core {
    Core::claim(prefix, id).unwrap_or_else(|_| {
        ringmain_io::log!(
            warn,
            core = id,
            "another engine of this host is pinned to this core, too; name another one, or none"
        );
        Core { id, _claim: None }
    })
}

/// One core for each shard, of those that this process may use and no engine has, the last ones
/// first: the first ones carry most interrupts. The very first is left to the application. A shard
/// without a core is not pinned.
pub(crate) fn free(shards: usize) -> Vec<Choice> {
    let ids = core_affinity::get_core_ids().unwrap_or_default();
    let ids: Vec<usize> = ids.iter().map(|core| core.id).collect();
    let choices = free_of(PREFIX, &ids, shards);
    let pinned = choices.iter().flatten().count();
    if pinned < shards {
        ringmain_io::log!(
            warn,
            shards,
            pinned,
            cores = ids.len(),
            "not every shard has a core of its own: this process may use too few, or other engines have them; the \
             rest runs unpinned"
        );
    }
    choices
}

fn free_of(prefix: &str, ids: &[usize], shards: usize) -> Vec<Choice> {
    // They would leave none to the application.
    if ids.len() <= shards {
        return (0..shards).map(|_| None).collect();
    }
    let mut claims = ids[1..]
        .iter()
        .rev()
        .filter_map(|id| Core::claim(prefix, *id).ok());
    (0..shards).map(|_| claims.next()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Held by a test that makes a process, and by one that gives a claim back: a child has copies
    /// of all claims until its exec.
    static PROCESSES: Mutex<()> = Mutex::new(());

    /// Claims that no other test and no engine of this host sees.
    fn prefix(test: &str) -> String {
        format!("ringmain-test-{}-{test}-", std::process::id())
    }

    fn ids(choices: &[Choice]) -> Vec<Option<usize>> {
        choices
            .iter()
            .map(|core| core.as_ref().map(|core| core.id))
            .collect()
    }

    #[test]
    fn engines_share_no_core_while_another_is_free() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = prefix("share");
        let cores = [2, 3, 4, 5];
        let first = free_of(&prefix, &cores, 1);
        let second = free_of(&prefix, &cores, 1);
        assert_eq!((ids(&first), ids(&second)), (vec![Some(5)], vec![Some(4)]));
        let third = free_of(&prefix, &cores, 2);
        assert_eq!(ids(&third), [Some(3), None], "the first core is nobody's");
        assert!(third[0].as_ref().is_some_and(Core::is_claimed));
        drop(first);
        let fourth = free_of(&prefix, &cores, 1);
        assert_eq!(ids(&fourth), [Some(5)], "what an engine had is free again");
    }

    #[test]
    fn too_few_cores_pin_nothing() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = prefix("few");
        for (cores, shards) in [(&[][..], 1), (&[0][..], 1), (&[0, 1][..], 2)] {
            let choices = free_of(&prefix, cores, shards);
            assert_eq!(choices.len(), shards);
            assert!(choices.iter().all(Option::is_none));
        }
        assert_eq!(ids(&free_of(&prefix, &[0, 1], 1)), [Some(1)]);
    }

    #[test]
    fn a_core_that_was_named_is_taken_and_known_to_be_shared() {
        let prefix = prefix("named");
        let mine = named_core(&prefix, 7);
        let theirs = named_core(&prefix, 7);
        assert_eq!((mine.id, theirs.id), (7, 7));
        assert!(mine.is_claimed() && !theirs.is_claimed());
        assert_eq!(
            ids(&free_of(&prefix, &[6, 7], 1)),
            [None],
            "a named core is no free one"
        );
    }

    #[test]
    fn a_claim_is_seen_by_other_processes_and_ends_with_its_own() {
        const VARIABLE: &str = "RINGMAIN_TEST_CLAIM";
        if let Ok(prefix) = std::env::var(VARIABLE) {
            assert_eq!(ids(&free_of(&prefix, &[0, 1, 2], 1)), [Some(1)]);
            return;
        }
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = prefix("process");
        let mine = free_of(&prefix, &[0, 1, 2], 1);
        assert_eq!(ids(&mine), [Some(2)]);
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "cores::tests::a_claim_is_seen_by_other_processes_and_ends_with_its_own",
            ])
            .env(VARIABLE, &prefix)
            .output()
            .expect("a process");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        assert_eq!(
            ids(&free_of(&prefix, &[0, 1, 2], 1)),
            [Some(1)],
            "what that process had is free again"
        );
    }
}
