//! The counters of one shard: written by its thread alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Latencies, LatencySamples, Stats};
use crate::outcome::Account;
use crate::receipt::BatchOutcome;
use ringmain_io::transport::{TransportInfo, TransportStats};

/// A counter with one writer: adding is a load and a store, no locked instruction.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one shard counts.
pub(crate) struct ShardStats {
    pub(crate) turns: Counter,
    pub(crate) requests: Counter,
    pub(crate) records: Counter,
    pub(crate) payload_bytes: Counter,
    stored: Counter,
    stored_offset_unknown: Counter,
    rejected: Counter,
    not_sent: Counter,
    unknown: Counter,
    published: Mutex<Published>,
}

/// What is handed over as a whole.
struct Published {
    transport: TransportStats,
    info: Option<TransportInfo>,
    clients: ringmain_proto::Stats,
    latencies: Latencies,
    samples_dropped: u64,
}

impl Default for ShardStats {
    fn default() -> Self {
        Self {
            turns: Counter::default(),
            requests: Counter::default(),
            records: Counter::default(),
            payload_bytes: Counter::default(),
            stored: Counter::default(),
            stored_offset_unknown: Counter::default(),
            rejected: Counter::default(),
            not_sent: Counter::default(),
            unknown: Counter::default(),
            published: Mutex::new(Published {
                transport: TransportStats::default(),
                info: None,
                clients: ringmain_proto::Stats::default(),
                latencies: Latencies::new(),
                samples_dropped: 0,
            }),
        }
    }
}

impl ShardStats {
    pub(crate) fn count_outcome(&self, outcome: &BatchOutcome, records: u32) {
        let counter = match outcome {
            BatchOutcome::Stored { .. } => &self.stored,
            BatchOutcome::StoredOffsetUnknown { .. } => &self.stored_offset_unknown,
            BatchOutcome::Rejected { .. } => &self.rejected,
            BatchOutcome::NotSent { .. } => &self.not_sent,
            BatchOutcome::Unknown { .. } => &self.unknown,
        };
        counter.add(u64::from(records));
    }

    /// Hands the rest over, unless a reader is looking: then it waits for the next time.
    pub(crate) fn publish<'a>(
        &self,
        transport: &TransportStats,
        info: &TransportInfo,
        clients: impl Iterator<Item = &'a ringmain_proto::Stats>,
        samples: &mut LatencySamples,
    ) {
        let mut published = match self.published.try_lock() {
            Ok(published) => published,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        published.transport = *transport;
        published.info = Some(*info);
        published.clients = clients.fold(ringmain_proto::Stats::default(), add_client);
        let dropped = samples.drain_into(&mut published.latencies);
        published.samples_dropped += dropped;
    }

    /// Adds this shard to a snapshot.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.turns += self.turns.get();
        stats.requests += self.requests.get();
        stats.records += self.records.get();
        stats.payload_bytes += self.payload_bytes.get();
        stats.account += Account {
            stored: self.stored.get(),
            stored_offset_unknown: self.stored_offset_unknown.get(),
            rejected: self.rejected.get(),
            not_sent: self.not_sent.get(),
            unknown: self.unknown.get(),
            ..Account::default()
        };
        let published = self.published();
        add_transport(&mut stats.transport, &published.transport);
        stats.shards.extend(published.info);
        stats.latencies.merge(&published.latencies);
        stats.latency_samples_dropped += published.samples_dropped;
        let clients = &published.clients;
        stats.retries += clients.batches_resent;
        stats.retries_after_silence += clients.silences;
        stats.retries_not_admitted += clients.refusals_not_admitted;
        stats.retries_outcome_unknown += clients.refusals_unknown_outcome;
        stats.overtaken += clients.overtaken;
        stats.window_waits += clients.window_waits;
        stats.span_waits += clients.span_waits;
        stats.replies_late += clients.replies_late;
        stats.replies_foreign += clients.replies_foreign;
        stats.logins += clients.logins;
        stats.evictions += clients.evictions;
        stats.disconnects += clients.disconnects;
        stats.coverage_losses += clients.coverage_losses;
        stats.write_stalls += clients.write_stalls;
        stats.heartbeats += clients.pings_sent;
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Destructured so that a new counter cannot be forgotten here.
fn add_client(sum: ringmain_proto::Stats, one: &ringmain_proto::Stats) -> ringmain_proto::Stats {
    let ringmain_proto::Stats {
        batches_sent,
        batches_resent,
        calls_sent,
        pings_sent,
        silences,
        refusals_not_admitted,
        refusals_unknown_outcome,
        overtaken,
        window_waits,
        span_waits,
        replies_late,
        replies_foreign,
        logins,
        logins_postponed,
        coverage_losses,
        evictions,
        disconnects,
        session_timeouts,
        heartbeat_timeouts,
        write_stalls,
    } = *one;
    ringmain_proto::Stats {
        batches_sent: sum.batches_sent + batches_sent,
        batches_resent: sum.batches_resent + batches_resent,
        calls_sent: sum.calls_sent + calls_sent,
        pings_sent: sum.pings_sent + pings_sent,
        silences: sum.silences + silences,
        refusals_not_admitted: sum.refusals_not_admitted + refusals_not_admitted,
        refusals_unknown_outcome: sum.refusals_unknown_outcome + refusals_unknown_outcome,
        overtaken: sum.overtaken + overtaken,
        window_waits: sum.window_waits + window_waits,
        span_waits: sum.span_waits + span_waits,
        replies_late: sum.replies_late + replies_late,
        replies_foreign: sum.replies_foreign + replies_foreign,
        logins: sum.logins + logins,
        logins_postponed: sum.logins_postponed + logins_postponed,
        coverage_losses: sum.coverage_losses + coverage_losses,
        evictions: sum.evictions + evictions,
        disconnects: sum.disconnects + disconnects,
        session_timeouts: sum.session_timeouts + session_timeouts,
        heartbeat_timeouts: sum.heartbeat_timeouts + heartbeat_timeouts,
        write_stalls: sum.write_stalls + write_stalls,
    }
}

/// Destructured for the same reason.
fn add_transport(sum: &mut TransportStats, one: &TransportStats) {
    let TransportStats {
        enters,
        submissions,
        completions,
        submission_queue_full,
        completion_overflows,
        stale_completions,
        enter_retries,
        enter_interrupts,
        sleeps,
        wakes,
        connects,
        connect_failures,
        closes,
        writes,
        write_operations,
        write_bytes,
        short_writes,
        write_fallbacks,
        zero_copy_notifications,
        zero_copy_copied,
        receives,
        receive_bytes,
        receive_requests,
        receive_buffers_empty,
        registered_bytes,
        registered_bytes_wanted,
    } = *one;
    sum.enters += enters;
    sum.submissions += submissions;
    sum.completions += completions;
    sum.submission_queue_full += submission_queue_full;
    sum.completion_overflows += completion_overflows;
    sum.stale_completions += stale_completions;
    sum.enter_retries += enter_retries;
    sum.enter_interrupts += enter_interrupts;
    sum.sleeps += sleeps;
    sum.wakes += wakes;
    sum.connects += connects;
    sum.connect_failures += connect_failures;
    sum.closes += closes;
    sum.writes += writes;
    for (sum, one) in sum.write_operations.iter_mut().zip(write_operations) {
        *sum += one;
    }
    for (sum, one) in sum.write_bytes.iter_mut().zip(write_bytes) {
        *sum += one;
    }
    sum.short_writes += short_writes;
    sum.write_fallbacks += write_fallbacks;
    sum.zero_copy_notifications += zero_copy_notifications;
    sum.zero_copy_copied += zero_copy_copied;
    sum.receives += receives;
    sum.receive_bytes += receive_bytes;
    sum.receive_requests += receive_requests;
    sum.receive_buffers_empty += receive_buffers_empty;
    sum.registered_bytes += registered_bytes;
    sum.registered_bytes_wanted += registered_bytes_wanted;
}
