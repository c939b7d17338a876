//! The writes of one connection that are not reported as done yet, oldest first.
//!
//! ```text
//! oldest                                  youngest
//! [ taken, notifications due ][ taken, .. ][ being taken ]   [ free ][ free ]
//! ```
//!
//! Invariant: only the youngest may have bytes that the kernel has not taken. The others wait for
//! zero-copy notifications, and there is more than one write only for their sake: the memory of a
//! zero-copy write is free after the peer has acknowledged it, and the socket would idle for that
//! long if the next write had to wait.

use crate::driver::Traffic;
use crate::memory::Mapping;
use crate::socket::write_queue::WriteQueue;

/// One write: its pieces and what is known of it.
pub(super) struct Write {
    pub(super) queue: WriteQueue,
    pub(super) notifications_in_flight: u32,
    pub(super) traffic: Traffic,
    /// True from a refusal of the chosen path to the end of this write: the rest goes by `sendmsg`.
    pub(super) plain_only: bool,
    /// Refusals in a row, for want of kernel memory or for no reason.
    pub(super) refusals: u32,
    /// The path was chosen for measurement; the meter runs while such writes are out.
    pub(super) is_measured: bool,
}

impl Write {
    fn new(pieces_max: usize) -> Self {
        Self {
            queue: WriteQueue::new(pieces_max),
            notifications_in_flight: 0,
            traffic: Traffic::SmallForeign,
            plain_only: false,
            refusals: 0,
            is_measured: false,
        }
    }

    /// Every byte is with the kernel, and it reads none of the memory any more.
    fn is_done(&self) -> bool {
        self.queue.is_done() && self.notifications_in_flight == 0
    }
}

/// See the module.
pub(super) struct Writes {
    /// A ring: `count` writes from `oldest` on are out.
    writes: Box<[Write]>,
    oldest: usize,
    count: usize,
}

impl Writes {
    pub(super) fn new(writes_max: u8, pieces_max: usize) -> Self {
        let writes = (0..writes_max).map(|_| Write::new(pieces_max)).collect();
        Self {
            writes,
            oldest: 0,
            count: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.count < self.writes.len()
    }

    /// The write that would be the next youngest: to gather pieces in.
    pub(super) fn next(&mut self) -> &mut Write {
        assert!(self.has_room(), "room for another write");
        let at = self.at(self.count);
        &mut self.writes[at]
    }

    /// The same, to look at.
    pub(super) fn peek_next(&self) -> &Write {
        &self.writes[self.at(self.count)]
    }

    /// What `next` gathered is a write now.
    pub(super) fn begin(&mut self, traffic: Traffic, is_measured: bool) {
        let next = self.next();
        assert!(next.queue.bytes() > 0, "a write has bytes");
        assert!(next.notifications_in_flight == 0);
        (next.traffic, next.is_measured) = (traffic, is_measured);
        (next.plain_only, next.refusals) = (false, 0);
        self.count += 1;
    }

    /// The write with bytes left for the kernel to take, if any has.
    pub(super) fn youngest(&mut self) -> Option<&mut Write> {
        let at = self.at(self.count.checked_sub(1)?);
        Some(&mut self.writes[at])
    }

    /// The number of the youngest write, for the user data of its operations.
    pub(super) fn youngest_number(&self) -> u8 {
        assert!(self.count > 0, "a write is out");
        self.at(self.count - 1) as u8
    }

    /// The write with this number.
    pub(super) fn numbered(&mut self, number: u8) -> Option<&mut Write> {
        self.writes.get_mut(usize::from(number))
    }

    pub(super) fn is_oldest_done(&self) -> bool {
        self.count > 0 && self.writes[self.oldest].is_done()
    }

    /// Frees the oldest write. True when it was measured.
    pub(super) fn retire_oldest(&mut self, mapping: &Mapping) -> bool {
        assert!(
            self.is_oldest_done(),
            "only a write that is done is retired"
        );
        let write = &mut self.writes[self.oldest];
        write.queue.clear(mapping);
        let was_measured = write.is_measured;
        self.oldest = self.at(1);
        self.count -= 1;
        was_measured
    }

    /// Frees every write, done or not, and what a gather may have left. Gives how many of them were
    /// measured. Only when nothing of the connection is with the kernel.
    pub(super) fn abandon(&mut self, mapping: &Mapping) -> u32 {
        let mut measured = 0;
        for position in 0..self.count {
            let write = &self.writes[self.at(position)];
            assert!(write.notifications_in_flight == 0, "notifications are home");
            measured += u32::from(write.is_measured);
        }
        self.writes
            .iter_mut()
            .for_each(|write| write.queue.clear(mapping));
        self.count = 0;
        measured
    }

    fn at(&self, position: usize) -> usize {
        (self.oldest + position) % self.writes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn begin(writes: &mut Writes, bytes: &'static [u8]) -> u8 {
        writes.next().queue.push_bytes(Bytes::from_static(bytes));
        writes.begin(Traffic::LargeForeign, false);
        writes.youngest_number()
    }

    #[test]
    fn writes_are_retired_in_order_whatever_the_order_of_notifications() {
        let mapping = Mapping::new(4096, 0, false).unwrap();
        let mut writes = Writes::new(3, 4);
        for round in 0..10 {
            let numbers = [
                begin(&mut writes, b"a"),
                begin(&mut writes, b"bb"),
                begin(&mut writes, b"ccc"),
            ];
            assert!(!writes.has_room());
            for number in numbers {
                let write = writes.numbered(number).unwrap();
                let bytes = write.queue.bytes();
                write.queue.advance(bytes);
                write.notifications_in_flight = 1;
            }
            // The youngest first.
            writes.numbered(numbers[2]).unwrap().notifications_in_flight = 0;
            assert!(!writes.is_oldest_done(), "round {round}");
            writes.numbered(numbers[0]).unwrap().notifications_in_flight = 0;
            assert!(writes.is_oldest_done());
            writes.retire_oldest(&mapping);
            assert!(!writes.is_oldest_done() && writes.has_room());
            writes.numbered(numbers[1]).unwrap().notifications_in_flight = 0;
            writes.retire_oldest(&mapping);
            writes.retire_oldest(&mapping);
            assert!(writes.is_empty() && writes.youngest().is_none());
        }
    }

    #[test]
    #[should_panic(expected = "only a write that is done")]
    fn a_write_with_bytes_left_is_not_retired() {
        let mapping = Mapping::new(4096, 0, false).unwrap();
        let mut writes = Writes::new(1, 4);
        begin(&mut writes, b"a");
        writes.retire_oldest(&mapping);
    }

    #[test]
    #[should_panic(expected = "room for another write")]
    fn there_are_no_more_writes_than_places() {
        let mut writes = Writes::new(1, 4);
        begin(&mut writes, b"a");
        writes.next();
    }

    #[test]
    fn abandoning_frees_what_is_out_and_what_was_only_gathered() {
        let mapping = Mapping::new(4096, 1, false).unwrap();
        let mut writes = Writes::new(2, 4);
        for _ in 0..2 {
            writes
                .next()
                .queue
                .push_block(&mapping, 0, mapping.address(0, 8), 8, true);
            if writes.is_empty() {
                writes.begin(Traffic::SmallRegistered, true);
            }
        }
        assert_eq!(mapping.lent(0), 2);
        assert_eq!(writes.abandon(&mapping), 1);
        assert_eq!((mapping.lent(0), writes.is_empty()), (0, true));
    }
}
