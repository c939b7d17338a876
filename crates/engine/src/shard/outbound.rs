//! From the protocol's decisions to the kernel: connects, closes, frames.
//!
//! A frame is a 256-byte header from the slab, stamped here and now, and a body that is not
//! touched. All frames that may go are put into one vectored write; when the next one may start is
//! the transport's decision.

use bytes::Bytes;
use ringmain_proto::{BatchKey, CallKey, ConnectionAction, Micros, Transmit};
use ringmain_wire::batch::Piece;
use ringmain_wire::header::HEADER_BYTES;
use ringmain_wire::{CommandCode, HeaderError, Operation, RequestHeader};

use super::connection::Connection;
use super::core::{Core, InFlight};
use crate::limits;
use ringmain_io::driver::{Driver, Gather};
use ringmain_io::memory::SlotToken;

impl Core {
    /// Carries out what the client of a connection wants done.
    pub(super) fn drive_connection(&mut self, now: Micros, index: usize, driver: &mut impl Driver) {
        let conn = &mut self.conns[index];
        if conn.take_close_wanted() {
            driver.close(conn.index);
        }
        while let Some(action) = self.conns[index].client.poll_connection(now) {
            match action {
                ConnectionAction::Connect => self.begin_attempt(now, index, driver),
                ConnectionAction::Disconnect => self.give_up_connection(now, index, driver),
            }
        }
        self.connect_when_due(now, index, driver);
        self.transmit(now, index, driver);
    }

    fn transmit(&mut self, now: Micros, index: usize, driver: &mut impl Driver) {
        let conn = &mut self.conns[index];
        if !conn.is_open {
            return;
        }
        let Some(mut gather) = driver.gather(conn.index) else {
            return;
        };
        let frames_before = conn.writing.len();
        while gather.room_pieces() >= limits::FRAME_PIECES_MAX
            && gather.bytes() < limits::WRITE_BYTES_MAX
            && conn.writing.len() - frames_before < limits::WRITE_FRAMES_MAX
        {
            let Some(transmit) = conn.client.poll_transmit(now) else {
                break;
            };
            conn.writing.push_back(transmit.frame());
            if let Transmit::Batch {
                key: BatchKey(key),
                request,
                session,
                ..
            } = transmit
            {
                let in_flight = self.batches[key as usize]
                    .as_mut()
                    .expect("a submitted batch is in the table");
                let numbers = Numbers {
                    client: conn.client.client(),
                    session,
                    request,
                    timestamp: transmit.timestamp(),
                };
                push_batch(
                    &mut gather,
                    &mut self.headers[key as usize],
                    in_flight,
                    now,
                    numbers,
                );
            } else {
                push_other(&mut gather, conn, transmit);
            }
        }
        let frames = conn.writing.len() - frames_before;
        if frames > 0 {
            conn.writes.push_back(frames);
            gather.submit();
        }
    }
}

/// Numbers of a request header.
#[derive(Clone, Copy)]
struct Numbers {
    client: u128,
    session: u64,
    request: u64,
    /// Tells the transmissions of a request apart; servers echo it.
    timestamp: u64,
}

fn push_batch(
    gather: &mut impl Gather,
    header: &mut SlotToken,
    in_flight: &mut InFlight,
    now: Micros,
    numbers: Numbers,
) {
    let body = &in_flight.batch.body;
    let Numbers {
        client,
        session,
        request,
        timestamp,
    } = numbers;
    let built = RequestHeader::partition(
        Operation::SendMessages,
        client,
        session,
        request,
        body.body_bytes,
    );
    stamp(header, built, timestamp);
    gather.push_slot(header, 0..HEADER_BYTES);
    for piece in body.pieces() {
        match piece {
            Piece::Own(range) => gather.push_slot(&body.slot, range),
            Piece::Payload(payload) => gather.push_bytes(payload.clone()),
        }
    }
    in_flight.attempts += 1;
    if in_flight.transmitted_at == Micros::ZERO {
        in_flight.transmitted_at = now;
        in_flight.batch.owed.request = request;
    }
}

/// Every frame but a batch: a header of the connection's own and an owned body.
fn push_other(gather: &mut impl Gather, conn: &mut Connection, transmit: Transmit) {
    let client = conn.client.client();
    let timestamp = transmit.timestamp();
    let (header, built, body) = match transmit {
        Transmit::Batch { .. } => unreachable!("batches have their own way"),
        Transmit::Call {
            key: CallKey(key),
            operation,
            code,
            request,
            session,
            ..
        } => {
            let slot = &mut conn.calls[key as usize];
            let body = slot
                .cell
                .as_ref()
                .expect("a submitted call is in the table")
                .body();
            let built = call_header(operation, code, (client, session, request), &body);
            (&mut slot.header, built, body)
        }
        Transmit::Login => {
            let body = conn.login_body.clone();
            (
                &mut conn.login_header,
                RequestHeader::register(client, &body),
                body,
            )
        }
        Transmit::Ping { request, session } => {
            let built =
                RequestHeader::non_replicated(CommandCode::PING, client, session, request, 0);
            (&mut conn.ping_header, built, Bytes::new())
        }
        Transmit::Logout { request, session } => {
            let built = RequestHeader::logout(client, session, request);
            (&mut conn.logout_header, built, Bytes::new())
        }
    };
    stamp(header, built, timestamp);
    gather.push_slot(header, 0..HEADER_BYTES);
    gather.push_bytes(body);
}

fn call_header(
    operation: Operation,
    code: CommandCode,
    (client, session, request): (u128, u64, u64),
    body: &Bytes,
) -> Result<RequestHeader, HeaderError> {
    match operation {
        Operation::NonReplicated => {
            RequestHeader::non_replicated(code, client, session, request, body.len())
        }
        operation => RequestHeader::metadata(operation, client, session, request, body),
    }
}

/// Writes a header into its slab entry. The protocol client gives legal numbers, and bodies were
/// measured when they were accepted.
fn stamp(header: &mut SlotToken, built: Result<RequestHeader, HeaderError>, timestamp: u64) {
    let mut built =
        built.unwrap_or_else(|error| panic!("a header that breaks the protocol's rules: {error}"));
    built.set_timestamp(timestamp);
    header.as_mut()[..HEADER_BYTES].copy_from_slice(built.as_bytes());
}
