//! Decisions of an Iggy producer, without I/O: sessions, request numbers, windows, retries,
//! deadlines, receipts.
//!
//! A [`Client`] is one logical client of a server: an id for life, one session at a time, over
//! successive connections. It has no clock, socket, thread or entropy, sees no payload, and
//! allocates nothing once constructed.
//!
//! # How to drive it
//!
//! The driver feeds what happened through `handle_*` (connection up or down, replies and evictions
//! decoded from received bytes, writes finished, time passed), gives work through the plain verbs
//! ([`Client::submit`], [`Client::call`], [`Client::close`], ...), and after **each** of these
//! drains the `poll_*` methods:
//!
//! 1. [`Client::poll_connection`] until `None`: open or close the connection.
//! 2. [`Client::poll_transmit`] as often as there is room to write: frames go to the socket in the
//!    order polled. The request number is taken here, so what is not polled costs no number and no
//!    window.
//! 3. [`Client::poll_outcome`] until `None`: resolve receipts, free memory, reuse keys.
//! 4. [`Client::poll_deadline`]: wait for I/O until then, at the latest, and call
//!    [`Client::handle_timeout`].
//!
//! What the driver owes in return:
//!
//! - A request header carries [`Transmit::timestamp`] in its timestamp field, and a reply is read
//!   with [`Reply::decode`] or by the same rules: this tells the transmissions of a request apart.
//! - `now` never goes back. Every frame polled stays untouched in memory until
//!   [`Client::handle_written`] for it, or [`Client::handle_disconnected`]; an outcome is never
//!   given before, so memory may be freed on the outcome.
//! - [`Client::handle_disconnected`] is called once for each connection or failed attempt, when the
//!   kernel is done with all its memory. Replies of a connection are not fed after that.
//! - Bytes that do not decode end the connection: close it, then [`Client::handle_disconnected`].
//!
//! Nothing else is asked, and nothing else is done behind the driver's back.
//!
//! ```
//! use ringmain_proto::*;
//! use ringmain_wire::Operation;
//!
//! let now = Micros(0);
//! let mut client = Client::new(Config::new(0xC11E47, 1))?;
//! let (lane, key) = (LaneKey(0), BatchKey(7));
//! client.open_lane(lane, LaneConfig::default())?;
//! client.submit(lane, key, 100, Micros(30_000_000))?;
//!
//! // Connect and log in.
//! assert_eq!(client.poll_connection(now), Some(ConnectionAction::Connect));
//! client.handle_connected(now)?;
//! assert_eq!(client.poll_transmit(now), Some(Transmit::Login));
//! client.handle_written(now, Frame::Login)?;
//! let verdict = Verdict::LoggedIn { session: 5 };
//! let echo = Echo::Absent;
//! client.handle_reply(now, &Reply { operation: Operation::Register, request: 0, echo, verdict });
//!
//! // The batch goes out under the first number, and is answered.
//! let transmit = client.poll_transmit(now);
//! assert_eq!(transmit, Some(Transmit::Batch { key, lane, request: 1, session: 5, attempt: 1 }));
//! client.handle_written(now, Frame::Batch(key))?;
//! let verdict = Verdict::Confirmed { partition_id: 3, base_offset: 42 };
//! client.handle_reply(now, &Reply { operation: Operation::SendMessages, request: 1, echo, verdict });
//!
//! let receipt = Receipt::Stored { partition_id: 3, base_offset: 42 };
//! assert_eq!(client.poll_outcome(), Some(Outcome::Batch { key, lane, records: 100, receipt }));
//! assert_eq!(client.account().stored, 100);
//!
//! // The end: a logout, then the connection goes.
//! client.close(now, Micros(1_000_000));
//! assert_eq!(client.poll_transmit(now), Some(Transmit::Logout { request: 2, session: 5 }));
//! client.handle_written(now, Frame::Logout)?;
//! let verdict = Verdict::Success;
//! client.handle_reply(now, &Reply { operation: Operation::Logout, request: 2, echo, verdict });
//! assert_eq!(client.poll_connection(now), Some(ConnectionAction::Disconnect));
//! client.handle_disconnected(now)?;
//! assert_eq!(client.state(), SessionState::Closed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order and windows
//!
//! A lane is a partition. Its window holds the requests without a final answer, by rising number;
//! laws W1 to W7 of the design are kept here and nowhere else:
//!
//! - A number is taken from one counter, shared with metadata calls and the logout, when a batch is
//!   polled for the first time. It stays with the batch for good; only the session epoch changes.
//! - A new number is at most 127 above the oldest unresolved one of its lane ([`limits`] shows
//!   why), and at most `window_requests_max` are unresolved. What does not fit waits, and costs
//!   nothing but its place.
//! - Retries go before new batches, oldest first: after a reconnect, after silence, after a
//!   refusal. A refusal (57, 58) first stops the lane until everything in flight is answered or
//!   silent for a request timeout, then pauses, longer each time.
//! - [`Ordering::Strict`] is a window of one, never reorders, and leaves no holes: the lane halts
//!   at the first batch that is not stored, until [`Client::resume_lane`]. [`Ordering::Pipelined`]
//!   can be overtaken by a refusal or a silent drop; [`Stats::overtaken`] counts at least every
//!   case.
//! - Silence is no refusal: a request without an answer is sent again on the same connection.
//!   Silence is counted from the write, or from the last answer to what is ahead of it in its lane
//!   or on the connection: a slow server is not silent. After [`Config::request_timeout_us`] it is
//!   sent again in any case. Earlier with proof that the server has read past it: at once when
//!   three later ones of its lane are answered (and two round trips are over); and the oldest of a
//!   lane, after its own pace's limit (as TCP's, 200 ms at least), when anything sent after it is
//!   answered; for want of that a ping asks. Each silence in a row lasts twice as long as the one
//!   before, up to 10 s.
//! - After a lost connection one request goes first, the oldest; each answer lets one more out.
//!
//! Deadlines wait for progress, if the driver wants it: see [`Deadline`].
//!
//! Replies are matched by operation and number. A reply to a number that is settled, or was never
//! used, is counted and changes nothing. Reads go one at a time and never under a number that an
//! earlier read or ping of the connection used, so no late answer is taken for another's.
//!
//! # Sessions
//!
//! A lost connection, an eviction that leaves room for it (see [`reaction`]), a request refused as
//! "not logged in", a login, a heartbeat or a write that takes too long: each leads to a new
//! connection and a new login under the same client id, after a pause that doubles, with jitter
//! from the seed, until a session makes progress. A refused login and a mismatch of versions end
//! the client with a [`FatalError`].
//!
//! # Exactly once, at least once, unknown
//!
//! A retry carries the same number under the same client id, so the server recognises it as long as
//! its duplicate memory covers the client. Then:
//!
//! - **Exactly once in effect**: while coverage holds, every record with a `Stored` or
//!   `StoredOffsetUnknown` receipt is in the log once, however often it was transmitted, over any
//!   number of reconnects. Law W1 keeps retries within what the server remembers.
//! - **Unknown**: a record that was transmitted, not answered, and given up at its deadline, by a
//!   purge, or because coverage was lost under [`OnLostCoverage::Report`]. It may be stored, once,
//!   now or later, at any place in the order. Sending it again under a new number may duplicate it.
//! - **At least once**: under [`OnLostCoverage::Resend`], for requests that were in flight when
//!   coverage was lost. They may be stored twice, and their receipt says `Stored`.
//!
//! Coverage is known to be lost when a new login returns an epoch that is not above the old one
//! (the server lost its log), or the server evicted the client with `NoSession` (capacity, or a
//! restart without the client table). It is **not** detectable when a server that lost its log has
//! meanwhile committed more than the old epoch, or when a partition alone forgot the client (it
//! remembers 4096 of them), or with servers that predate the duplicate window. In these cases a
//! retried request may be stored twice.
//!
//! `NotSent` and `Rejected` are promises: not stored, and never will be. They are given only when
//! every transmission of the request was answered with a refusal; one transmission without an
//! answer makes it `Unknown`, whatever the others were told. A refusal answers the transmission
//! that it echoes, once, however often it is delivered. From a server that does not echo, a refusal
//! counts as an answer only to a request that was transmitted once.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod alarms;
mod backoff;
mod batch;
mod calls;
mod client;
mod config;
mod error;
mod eviction;
mod key;
mod lane;
pub mod limits;
mod mutation;
mod numbers;
mod order;
mod outcome;
mod pace;
mod pending;
mod reply;
mod request;
mod session;
#[cfg(test)]
mod snapshot;
mod stage;
mod stats;
mod table;
mod time;
mod timers;

pub use action::{ConnectionAction, Transmit};
pub use client::Client;
pub use config::{Config, ConfigError, LaneConfig, OnLostCoverage, Ordering};
pub use error::{CallError, DriverError, Ended, LaneError, SubmitError};
pub use eviction::{Reaction, reaction};
pub use key::{BatchKey, CallKey, Frame, LaneKey};
#[cfg(feature = "mutations")]
pub use mutation::Mutation;
pub use outcome::{Account, Answer, NotSent, Outcome, Receipt};
pub use reply::{Echo, Reply, ReplyMatch, Verdict};
pub use session::{FatalError, IllegalEvent, SessionEvent, SessionState};
pub use stats::Stats;
pub use time::{Deadline, Micros};
