//! The counters of one shard: written by its thread alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Latencies, LatencySamples, Stats};
use ringmain_io::transport::{TransportInfo, TransportStats};

/// A counter with one writer: adding is a load and a store, no locked instruction. Who sees the new
/// value sees what the writer did before.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What one shard counts.
#[derive(Default)]
pub(crate) struct ShardStats {
    pub(crate) turns: Counter,
    requests: Counter,
    records: Counter,
    payload_bytes: Counter,
    published: Mutex<Published>,
}

/// What is handed over as a whole.
#[derive(Default)]
struct Published {
    transport: TransportStats,
    info: Option<TransportInfo>,
    clients: ringmain_proto::Stats,
    latencies: Latencies,
}

impl Published {
    fn take<'a>(
        &mut self,
        transport: &TransportStats,
        info: &TransportInfo,
        clients: impl Iterator<Item = &'a ringmain_proto::Stats>,
        samples: &mut LatencySamples,
    ) {
        self.transport = *transport;
        self.info = Some(*info);
        self.clients = clients.fold(ringmain_proto::Stats::default(), add_client);
        samples.drain_into(&mut self.latencies);
    }
}

impl ShardStats {
    /// Counts records that have their answer. The accounts of their producers come first: these are
    /// a part of them.
    pub(crate) fn count_records(&self, records: u32, payload_bytes: u64) {
        self.payload_bytes.add(payload_bytes);
        self.records.add(u64::from(records));
    }

    /// Counts a request that has its answer, with its records.
    pub(crate) fn count_request(&self, records: u32, payload_bytes: u64) {
        self.count_records(records, payload_bytes);
        self.requests.add(1);
    }

    /// Hands the rest over. False when a reader is looking: then it waits for the next time.
    pub(crate) fn try_publish<'a>(
        &self,
        transport: &TransportStats,
        info: &TransportInfo,
        clients: impl Iterator<Item = &'a ringmain_proto::Stats>,
        samples: &mut LatencySamples,
    ) -> bool {
        let mut published = match self.published.try_lock() {
            Ok(published) => published,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        published.take(transport, info, clients, samples);
        true
    }

    /// Hands the rest over for the last time, and waits for a reader.
    pub(crate) fn publish_last<'a>(
        &self,
        transport: &TransportStats,
        info: &TransportInfo,
        clients: impl Iterator<Item = &'a ringmain_proto::Stats>,
        samples: &mut LatencySamples,
    ) {
        self.published().take(transport, info, clients, samples);
    }

    /// Adds this shard to a snapshot. Parts before wholes: the shard goes on counting meanwhile.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let published = self.published();
        add_transport(&mut stats.transport, &published.transport);
        stats.shards.extend(published.info);
        stats.latencies.merge(&published.latencies);
        let clients = published.clients;
        drop(published);
        add_clients(stats, clients);
        stats.requests += self.requests.get();
        stats.records += self.records.get();
        stats.payload_bytes += self.payload_bytes.get();
        stats.turns += self.turns.get();
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Destructured so that a new counter cannot be forgotten here.
fn add_clients(stats: &mut Stats, clients: ringmain_proto::Stats) {
    let ringmain_proto::Stats {
        batches_sent,
        batches_resent,
        batches_resent_after_silence,
        batches_resent_not_admitted,
        batches_resent_unknown_outcome,
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
    } = clients;
    stats.requests_sent += batches_sent;
    stats.retries += batches_resent;
    stats.retries_after_silence += batches_resent_after_silence;
    stats.retries_not_admitted += batches_resent_not_admitted;
    stats.retries_outcome_unknown += batches_resent_unknown_outcome;
    stats.calls_sent += calls_sent;
    stats.heartbeats += pings_sent;
    stats.silences += silences;
    stats.refusals_not_admitted += refusals_not_admitted;
    stats.refusals_outcome_unknown += refusals_unknown_outcome;
    stats.overtaken += overtaken;
    stats.window_waits += window_waits;
    stats.span_waits += span_waits;
    stats.replies_late += replies_late;
    stats.replies_foreign += replies_foreign;
    stats.logins += logins;
    stats.logins_postponed += logins_postponed;
    stats.coverage_losses += coverage_losses;
    stats.evictions += evictions;
    stats.disconnects += disconnects;
    stats.session_timeouts += session_timeouts;
    stats.heartbeat_timeouts += heartbeat_timeouts;
    stats.write_stalls += write_stalls;
}

/// Destructured for the same reason.
fn add_client(sum: ringmain_proto::Stats, one: &ringmain_proto::Stats) -> ringmain_proto::Stats {
    let ringmain_proto::Stats {
        batches_sent,
        batches_resent,
        batches_resent_after_silence,
        batches_resent_not_admitted,
        batches_resent_unknown_outcome,
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
        batches_resent_after_silence: sum.batches_resent_after_silence
            + batches_resent_after_silence,
        batches_resent_not_admitted: sum.batches_resent_not_admitted + batches_resent_not_admitted,
        batches_resent_unknown_outcome: sum.batches_resent_unknown_outcome
            + batches_resent_unknown_outcome,
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
