//! Cursors over caller memory, and the two traits that every payload of this crate implements.
//!
//! [`Reader`] hands out borrowed pieces and turns each shortfall into an error that names the
//! field. [`Writer`] fills a slice whose length was computed beforehand. Neither allocates. All
//! integers are little-endian.
//!
//! A decoder takes all of its slice or fails: bytes behind the value are an error, so decoding what
//! was encoded and encoding what was decoded are exact inverses.

use crate::WireError;

/// A value that has a wire form.
pub trait Encode {
    /// What errors call the value.
    const NAME: &'static str;

    /// Exact number of bytes that [`Encode::write`] puts.
    fn encoded_len(&self) -> usize;

    /// Puts exactly [`Encode::encoded_len`] bytes. Called by the provided methods and by enclosing
    /// payloads.
    ///
    /// # Panics
    ///
    /// When the writer has less room than that.
    fn write(&self, out: &mut Writer<'_>);

    /// Encodes into the start of `out` and returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`WireError::Room`] when `out` is shorter than [`Encode::encoded_len`]; nothing is written
    /// then.
    fn encode(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let needed = self.encoded_len();
        let found = out.len();
        let out = out.get_mut(..needed).ok_or(WireError::Room {
            field: Self::NAME,
            needed,
            found,
        })?;
        let mut writer = Writer::new(out);
        self.write(&mut writer);
        assert_eq!(
            writer.room(),
            0,
            "encoded_len of {} is not exact",
            Self::NAME
        );
        Ok(needed)
    }

    /// Appends the encoding to `out`, growing it by exactly [`Encode::encoded_len`] bytes.
    fn encode_to_vec(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.encoded_len(), 0);
        let written = self.encode(&mut out[start..]);
        assert!(
            written.is_ok(),
            "the vector was grown to the encoded length"
        );
    }

    /// The encoding in a new vector.
    fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode_to_vec(&mut out);
        out
    }
}

/// A value that can be read back from its wire form, borrowing from it.
pub trait Decode<'a>: Encode + Sized {
    /// Reads one value, which errors call `field`, and leaves the reader behind it. Values made of
    /// several fields name those instead.
    ///
    /// # Errors
    ///
    /// [`WireError`] naming the first field that is wrong.
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError>;

    /// Reads one value and leaves the reader behind it.
    ///
    /// # Errors
    ///
    /// [`WireError`] naming the first field that is wrong.
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        Self::read_as(reader, Self::NAME)
    }

    /// Decodes a value that takes up all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`WireError`] naming the first field that is wrong; [`WireError::Trailing`] when bytes
    /// follow the value.
    fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        reader.finish(Self::NAME)?;
        Ok(value)
    }
}

/// A cursor over bytes from the peer.
///
/// Invariant: `offset <= bytes.len()`.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes not read yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer are left.
    #[inline]
    pub fn bytes(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], WireError> {
        if len > self.left() {
            return Err(WireError::Truncated {
                field,
                offset: self.offset,
                needed: len,
                found: self.left(),
            });
        }
        let start = self.offset;
        self.offset += len;
        Ok(&self.bytes[start..self.offset])
    }

    /// All bytes that are left, possibly none.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        let start = self.offset;
        self.offset = self.bytes.len();
        &self.bytes[start..]
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N)?);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when none is left.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(field)?[0])
    }

    /// A little-endian `u16`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer than 2 bytes are left.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// A little-endian `u32`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer than 4 bytes are left.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// A little-endian `u64`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer than 8 bytes are left.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A little-endian `u128`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when fewer than 16 bytes are left.
    #[inline]
    pub fn u128(&mut self, field: &'static str) -> Result<u128, WireError> {
        Ok(u128::from_le_bytes(self.array(field)?))
    }

    /// A byte that must be 0 or 1.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`], or [`WireError::OutOfRange`] for any other byte.
    pub fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        let offset = self.offset;
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(WireError::OutOfRange {
                field,
                offset,
                found: found.into(),
                min: 0,
                max: 1,
            }),
        }
    }

    /// The next `len` bytes as text.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`], or [`WireError::InvalidUtf8`] at the first byte that is wrong.
    pub fn utf8(&mut self, field: &'static str, len: usize) -> Result<&'a str, WireError> {
        let start = self.offset;
        let bytes = self.bytes(field, len)?;
        std::str::from_utf8(bytes).map_err(|error| WireError::InvalidUtf8 {
            field,
            offset: start + error.valid_up_to(),
            found: bytes[error.valid_up_to()],
        })
    }

    /// Ends the reading of a value that should take up the whole slice.
    ///
    /// # Errors
    ///
    /// [`WireError::Trailing`] when bytes are left.
    pub fn finish(&self, field: &'static str) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            found => Err(WireError::Trailing {
                field,
                offset: self.offset,
                found,
            }),
        }
    }
}

/// A cursor over memory to encode into.
///
/// Putting past the end is a defect of this crate, not of its user ([`Encode::encode`] checks the
/// room once for the whole value), so it panics.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    offset: usize,
}

impl<'a> Writer<'a> {
    /// A cursor at the first of `bytes`.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes that can still be put.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Puts bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let start = self.offset;
        self.offset += bytes.len();
        self.bytes[start..self.offset].copy_from_slice(bytes);
    }

    /// Puts one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Puts a little-endian `u16`.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Puts a little-endian `u32`.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Puts a little-endian `u64`.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Puts a little-endian `u128`.
    #[inline]
    pub fn u128(&mut self, value: u128) {
        self.bytes(&value.to_le_bytes());
    }
}
