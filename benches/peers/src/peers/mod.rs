//! Those who send.

pub(crate) mod frames;
pub(crate) mod raw;
pub(crate) mod ringmain;
pub(crate) mod sdk;
mod transport;
