//! One anonymous private mapping and the count of kernel reads that each of its blocks is lent to.
//!
//! Invariants: the mapping is page-aligned, fully populated before anyone sees it (so no page fault
//! and no out-of-memory kill later on the data path), and lives until the last token, the arena and
//! the transport that may have handed its addresses to the kernel are gone; each of them holds it
//! by `Arc`.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::ArenaError;
use super::layout::{BASE_PAGE_BYTES, HUGE_PAGE_BYTES};

/// What backs the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Reserved huge pages of 2 MiB (`vm.nr_hugepages`).
    HugeReserved,
    /// Ordinary memory for which transparent huge pages were requested; the kernel decides.
    HugeTransparent,
    /// Ordinary pages.
    Base,
}

impl PageKind {
    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HugeReserved => "huge_reserved",
            Self::HugeTransparent => "huge_transparent",
            Self::Base => "base",
        }
    }
}

/// How many writes the kernel may still read a block for. One cache line each: the application
/// thread that fills a slot reads its own count, while the shard changes those of others.
#[derive(Default)]
#[repr(align(64))]
struct LentCount(AtomicU32);

/// The mapping. See the module.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    page_kind: PageKind,
    lent: Box<[LentCount]>,
    abandoned: AtomicBool,
    /// Lent blocks are read by safe code: see [`super::Lent`].
    #[cfg(feature = "simulation")]
    is_checked: AtomicBool,
}

// SAFETY: `Mapping` itself never reads or writes the memory; it only hands out addresses. Who may
// touch which block is decided by `SlotToken` (one owner per block) and by the transport (receive
// side), not by the thread that holds the mapping. The counts are atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above: every method that takes `&self` is free of data access or atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps and populates `bytes` zeroed bytes with `blocks` lent counts.
    ///
    /// # Errors
    /// [`ArenaError::Map`] when the kernel has no such memory for us.
    pub(crate) fn new(bytes: usize, blocks: usize, huge_pages: bool) -> Result<Self, ArenaError> {
        assert!(
            bytes > 0 && bytes.is_multiple_of(BASE_PAGE_BYTES),
            "a mapping is whole pages"
        );
        let huge_pages = huge_pages && bytes.is_multiple_of(HUGE_PAGE_BYTES);
        let (base, page_kind) = match huge_pages.then(|| map_huge_reserved(bytes)).flatten() {
            Some(base) => (base, PageKind::HugeReserved),
            None => map_ordinary(bytes, huge_pages)?,
        };
        let lent = std::iter::repeat_with(LentCount::default)
            .take(blocks)
            .collect();
        Ok(Self {
            base,
            bytes,
            page_kind,
            lent,
            abandoned: AtomicBool::new(false),
            #[cfg(feature = "simulation")]
            is_checked: AtomicBool::new(false),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn page_kind(&self) -> PageKind {
        self.page_kind
    }

    /// Address of the byte at `offset`; `len` bytes from there lie inside the mapping.
    pub(crate) fn address(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(
            offset <= self.bytes && len <= self.bytes - offset,
            "a range within the mapping"
        );
        // SAFETY: `offset` is within the mapping (asserted), which is one allocation that lives as
        // long as `self`, so the addition stays inside it.
        unsafe { self.base.add(offset) }
    }

    pub(crate) fn lent(&self, block: u32) -> u32 {
        self.lent[block as usize].0.load(Ordering::Acquire)
    }

    /// The kernel may read the block from now on, until [`Mapping::lend_end`].
    pub(crate) fn lend_begin(&self, block: u32) {
        // Relaxed is enough: the caller holds the token, so no other thread looks at the count
        // until the token is handed over, and that hand-over orders it.
        let before = self.lent[block as usize].0.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX, "lent count overflows");
    }

    /// The kernel is done with one write that read the block.
    pub(crate) fn lend_end(&self, block: u32) {
        let before = self.lent[block as usize].0.fetch_sub(1, Ordering::Release);
        assert!(
            before > 0,
            "a block is returned only as often as it was lent"
        );
    }

    /// Whether a change of a lent block is an assertion failure also without debug assertions.
    #[inline]
    pub(crate) fn is_checked(&self) -> bool {
        #[cfg(feature = "simulation")]
        let is_checked = self.is_checked.load(Ordering::Relaxed);
        #[cfg(not(feature = "simulation"))]
        let is_checked = false;
        is_checked
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn set_checked(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }

    /// Never unmap: the kernel may still hold addresses of the mapping. Only for a teardown that
    /// could not bring every operation home; a leak is harmless there, freed memory would not be.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping")
            .field("bytes", &self.bytes)
            .field("page_kind", &self.page_kind)
            .finish_non_exhaustive()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.abandoned.load(Ordering::Acquire) {
            return;
        }
        unmap(self.base, self.bytes);
    }
}

/// Reserved huge pages, or `None` when the host has none left for us. `MADV_POPULATE_WRITE` (5.14)
/// reports what would otherwise be a SIGBUS at the first touch, so on older kernels these pages are
/// not used.
fn map_huge_reserved(bytes: usize) -> Option<NonNull<u8>> {
    let huge_2_mib = 21 << libc::MAP_HUGE_SHIFT;
    let base = map(bytes, libc::MAP_HUGETLB | huge_2_mib).ok()?;
    if advise(base, bytes, libc::MADV_POPULATE_WRITE).is_err() {
        unmap(base, bytes);
        return None;
    }
    // Failing to keep the pages out of a forked child only costs that child memory.
    let _ = advise(base, bytes, libc::MADV_DONTFORK);
    Some(base)
}

/// Ordinary memory, aligned for transparent huge pages when they are wanted.
fn map_ordinary(bytes: usize, huge_pages: bool) -> Result<(NonNull<u8>, PageKind), ArenaError> {
    let refuse = |source| ArenaError::Map { bytes, source };
    let base = if huge_pages {
        map_aligned(bytes).map_err(refuse)?
    } else {
        map(bytes, 0).map_err(refuse)?
    };
    let transparent = huge_pages && advise(base, bytes, libc::MADV_HUGEPAGE).is_ok();
    // As above: only a forked child would pay.
    let _ = advise(base, bytes, libc::MADV_DONTFORK);
    match advise(base, bytes, libc::MADV_POPULATE_WRITE) {
        Ok(()) => {}
        // Before 5.14 the advice is unknown: touch each page instead.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => touch(base, bytes),
        Err(error) => {
            unmap(base, bytes);
            return Err(refuse(error));
        }
    }
    Ok((
        base,
        if transparent {
            PageKind::HugeTransparent
        } else {
            PageKind::Base
        },
    ))
}

/// Maps `bytes` at a multiple of the huge page size, by mapping more and giving the ends back.
fn map_aligned(bytes: usize) -> io::Result<NonNull<u8>> {
    let mapped_bytes = bytes
        .checked_add(HUGE_PAGE_BYTES)
        .ok_or(io::ErrorKind::OutOfMemory)?;
    let start = map(mapped_bytes, 0)?;
    let head_bytes = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
    let tail_bytes = HUGE_PAGE_BYTES - head_bytes;
    // SAFETY: `head_bytes < HUGE_PAGE_BYTES` and the mapping is `bytes + HUGE_PAGE_BYTES` long, so
    // both additions stay inside it or at its end.
    let (base, tail) = unsafe { (start.add(head_bytes), start.add(head_bytes + bytes)) };
    if head_bytes > 0 {
        unmap(start, head_bytes);
    }
    if tail_bytes > 0 {
        unmap(tail, tail_bytes);
    }
    Ok(base)
}

fn map(bytes: usize, extra_flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address the kernel chooses touches no memory of
    // ours.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra_flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(address.cast())
        .expect("the kernel never places a mapping at address 0 unasked"))
}

fn advise(base: NonNull<u8>, bytes: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the range is a whole mapping made by `map` and not yet unmapped; none of the advices
    // used here discards its content.
    match unsafe { libc::madvise(base.as_ptr().cast(), bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn touch(base: NonNull<u8>, bytes: usize) {
    for offset in (0..bytes).step_by(BASE_PAGE_BYTES) {
        // SAFETY: `offset` is inside the mapping, which nobody else knows yet.
        unsafe { base.add(offset).write_volatile(0) };
    }
}

fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is page-aligned and part of a mapping made by `map`; the callers unmap a
    // range exactly once and keep no address into it (for a whole `Mapping`: every holder of an
    // address holds the `Arc`).
    let result = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    assert!(
        result == 0,
        "munmap of a range we mapped: {}",
        io::Error::last_os_error()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_zeroed_and_writable_to_the_last_byte() {
        for (bytes, huge_pages) in [
            (BASE_PAGE_BYTES, false),
            (HUGE_PAGE_BYTES, true),
            (3 * BASE_PAGE_BYTES, true),
        ] {
            let mapping = Mapping::new(bytes, 1, huge_pages).unwrap();
            let base = mapping.address(0, bytes);
            // SAFETY: the mapping is `bytes` long, zeroed by the kernel, and known to this test
            // alone.
            let all = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(0xA5);
            assert_eq!(all[bytes - 1], 0xA5);
        }
    }

    #[test]
    fn huge_pages_are_aligned_to_their_size() {
        let mapping = Mapping::new(2 * HUGE_PAGE_BYTES, 0, true).unwrap();
        assert_eq!(
            mapping.address(0, 1).as_ptr().align_offset(HUGE_PAGE_BYTES),
            0
        );
        if mapping.page_kind() == PageKind::Base {
            println!("this kernel was built without transparent huge pages");
        }
    }

    #[test]
    fn a_size_beyond_the_address_space_is_refused_with_a_remedy() {
        let error = Mapping::new(1 << 50, 0, false).expect_err("refused");
        let text = error.to_string();
        assert!(
            text.contains("refused to map") && text.contains("memory limit"),
            "{text}"
        );
    }

    #[test]
    #[should_panic(expected = "only as often as it was lent")]
    fn a_block_returned_twice_is_a_bug() {
        let mapping = Mapping::new(BASE_PAGE_BYTES, 1, false).unwrap();
        mapping.lend_begin(0);
        mapping.lend_end(0);
        mapping.lend_end(0);
    }

    #[test]
    #[should_panic(expected = "a range within the mapping")]
    fn an_address_outside_is_a_bug() {
        let mapping = Mapping::new(BASE_PAGE_BYTES, 1, false).unwrap();
        mapping.address(BASE_PAGE_BYTES - 1, 2);
    }
}
