//! What a key is: a type for its name, one for its handle, both with the same functions.

use core::fmt;

/// What a key answers.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a key was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key cannot have this value.
    Invalid,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid => f.write_str("the key cannot have this value"),
        }
    }
}

impl core::error::Error for Error {}

/// Defines keys: documentation, type, type of the handle, name, type of the value, how it is read and,
/// where it can be, how it is written.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $key:ident, $mib:ident: $name:literal => $type:ty {
        read: $read:expr, $(write: $write:expr,)?
    })+) => { $(
        $(#[doc = $doc])+
        #[allow(non_camel_case_types, reason = "the names of jemalloc's keys")]
        #[derive(Clone, Copy, Debug)]
        pub struct $key;

        #[doc = concat!("A handle to [`", stringify!($key), "`].")]
        #[allow(non_camel_case_types, reason = "the names of jemalloc's keys")]
        #[derive(Clone, Copy, Debug)]
        pub struct $mib(());

        impl $key {
            /// The key's name.
            pub const NAME: &'static str = $name;

            /// A handle to the key.
            ///
            /// # Errors
            /// None at present.
            pub const fn mib() -> $crate::ctl::Result<$mib> {
                Ok($mib(()))
            }

            /// Reads the value.
            ///
            /// # Errors
            /// None at present.
            pub fn read() -> $crate::ctl::Result<$type> {
                Ok(($read)())
            }

            $(
            /// Sets the value.
            ///
            /// # Errors
            /// [`Error::Invalid`]($crate::ctl::Error::Invalid) if it cannot be this one; then
            /// nothing has changed.
            pub fn write(value: $type) -> $crate::ctl::Result<()> {
                ($write)(value)
            }

            /// Sets the value and returns the former one.
            ///
            /// # Errors
            /// As for [`write`](Self::write).
            pub fn update(value: $type) -> $crate::ctl::Result<$type> {
                let old = ($read)();
                ($write)(value)?;
                Ok(old)
            }
            )?
        }

        impl $mib {
            #[doc = concat!("Reads the value of [`", stringify!($key), "`].")]
            ///
            /// # Errors
            /// None at present.
            pub fn read(&self) -> $crate::ctl::Result<$type> {
                $key::read()
            }

            $(
            #[doc = concat!("Sets the value of [`", stringify!($key), "`].")]
            ///
            /// # Errors
            /// [`Error::Invalid`]($crate::ctl::Error::Invalid) if it cannot be this one; then
            /// nothing has changed.
            pub fn write(&self, value: $type) -> $crate::ctl::Result<()> {
                ($write)(value)
            }

            #[doc = concat!("Sets the value of [`", stringify!($key), "`] and returns the former one.")]
            ///
            /// # Errors
            /// As for `write`.
            pub fn update(&self, value: $type) -> $crate::ctl::Result<$type> {
                $key::update(value)
            }
            )?
        }
    )+ };
}
pub(super) use keys;
