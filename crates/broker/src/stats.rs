//! What the broker counted, as one snapshot.

use std::fmt;

use ringmain_wire::operation::Operation;

/// Counters since the broker started. All of them only rise, except those that say "now".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Connections accepted, refused ones included.
    pub connections_accepted: u64,
    /// Connections closed at once because there were too many.
    pub connections_refused: u64,
    /// Connections that the broker decided to close.
    pub connections_closed: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Frames received, of any kind.
    pub frames_in: u64,
    /// Bytes of those frames.
    pub bytes_in: u64,
    /// Replies queued.
    pub replies_out: u64,
    /// Evictions queued.
    pub evictions_out: u64,
    /// Bytes handed to the sockets.
    pub bytes_out: u64,
    /// Requests by operation, in the order of [`Operation::ALL`]; read with
    /// [`BrokerStats::requests`].
    requests: RequestCounts,
    /// Frames whose size or command broke the framing; each closed its connection.
    pub frames_unframed: u64,
    /// Frames of another shape than a request: ignored.
    pub frames_foreign: u64,
    /// Requests whose header or body breaks a rule: ignored, or answered as the real server does.
    pub requests_invalid: u64,
    /// Requests refused with a status.
    pub refusals: u64,
    /// Logins that succeeded.
    pub logins: u64,
    /// Logins that were refused.
    pub logins_refused: u64,
    /// Clients that lost their place in the full client table.
    pub clients_evicted: u64,
    /// Clients evicted because they were silent.
    pub heartbeats_missed: u64,
    /// Metadata requests answered from the client table.
    pub replies_repeated: u64,
    /// Batches committed.
    pub batches: u64,
    /// Records in those batches.
    pub records: u64,
    /// Bytes of those batches, headers included.
    pub record_bytes: u64,
    /// Records that retention removed.
    pub records_evicted: u64,
    /// Bytes of the batches that retention removed.
    pub record_bytes_evicted: u64,
    /// Sends answered with an empty success because their request was committed before.
    pub duplicates: u64,
    /// Sends answered with an empty success because their request is 128 or more below its client's
    /// highest.
    pub swallowed: u64,
    /// Retries of a send that still waits to be committed: not answered.
    pub sends_absorbed: u64,
    /// Sends dropped without a reply because a partition's queue was full.
    pub sends_dropped: u64,
    /// Sends dropped without a reply because their batch was malformed, checksum failures included.
    pub sends_malformed: u64,
    /// Sends whose layout was right and whose checksums were not.
    pub checksum_failures: u64,
    /// Requests that a script acted on.
    pub faults: u64,
    /// Connections closed because partial frames held too much memory.
    pub inbound_overflows: u64,
}

/// One count for each of [`Operation::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestCounts([u64; Operation::ALL.len()]);

impl Default for RequestCounts {
    fn default() -> Self {
        Self([0; Operation::ALL.len()])
    }
}

impl BrokerStats {
    /// Requests received of one operation.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> u64 {
        index_of(operation).map_or(0, |index| self.requests.0[index])
    }

    pub(crate) fn count_request(&mut self, operation: Operation) {
        if let Some(index) = index_of(operation) {
            self.requests.0[index] += 1;
        }
    }
}

fn index_of(operation: Operation) -> Option<usize> {
    Operation::ALL.binary_search(&operation).ok()
}

impl fmt::Display for BrokerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "connections  open {}  accepted {}  refused {}  closed by the broker {}",
            self.connections_open,
            self.connections_accepted,
            self.connections_refused,
            self.connections_closed
        )?;
        writeln!(
            f,
            "frames       in {} ({} bytes)  replies {}  evictions {}  out {} bytes",
            self.frames_in, self.bytes_in, self.replies_out, self.evictions_out, self.bytes_out
        )?;
        writeln!(
            f,
            "ignored      unframed {}  foreign {}  invalid {}  malformed sends {} (checksums {})",
            self.frames_unframed,
            self.frames_foreign,
            self.requests_invalid,
            self.sends_malformed,
            self.checksum_failures
        )?;
        writeln!(
            f,
            "sessions     logins {}  refused {}  evicted from the table {}  silent {}",
            self.logins, self.logins_refused, self.clients_evicted, self.heartbeats_missed
        )?;
        writeln!(
            f,
            "records      {} in {} batches ({} bytes)  evicted {} ({} bytes)",
            self.records,
            self.batches,
            self.record_bytes,
            self.records_evicted,
            self.record_bytes_evicted
        )?;
        writeln!(
            f,
            "sends        duplicates {}  swallowed {}  absorbed {}  dropped {}  refusals {}  faults {}",
            self.duplicates,
            self.swallowed,
            self.sends_absorbed,
            self.sends_dropped,
            self.refusals,
            self.faults,
        )?;
        write!(f, "requests    ")?;
        for operation in Operation::ALL {
            let requests = self.requests(operation);
            if requests > 0 {
                write!(f, " {operation:?} {requests}")?;
            }
        }
        Ok(())
    }
}
