//! Defines a key: one type for its name and one for its handle, both with the same functions.

use core::fmt;

/// A key's result.
///
/// ```
/// fn report() -> masu::ctl::Result<usize> {
///     masu::ctl::epoch::advance()?;
///     masu::ctl::stats::allocated::read()
/// }
/// assert!(report().is_ok());
/// ```
pub type Result<T> = core::result::Result<T, Error>;

/// Why a write failed.
///
/// ```
/// use masu::ctl::{Error, decay};
/// assert_eq!(decay::write(Some(u64::MAX)), Err(Error::Invalid));
/// ```
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

/// Defines keys under their public path: documentation, type, type of the handle, name, type of the value, how it is
/// read and, if it can be, how it is written.
macro_rules! keys {
    ($path:literal; $($(#[doc = $doc:literal])+ $key:ident, $mib:ident: $name:literal => $type:ty {
        read: $read:expr, $(write: $write:expr,)?
    })+) => { $(
        $(#[doc = $doc])+
        ///
        /// ```
        #[doc = concat!("let value = ", $path, "::", stringify!($key), "::read()?;")]
        /// # let _ = value;
        /// # Ok::<(), masu::ctl::Error>(())
        /// ```
        #[allow(non_camel_case_types, reason = "the names of jemalloc's keys")]
        #[derive(Clone, Copy, Debug)]
        pub struct $key;

        #[doc = concat!("A handle to [`", stringify!($key), "`].")]
        ///
        /// ```
        #[doc = concat!("let handle: ", $path, "::", stringify!($mib), " = ", $path, "::", stringify!($key), "::mib()?;")]
        /// handle.read()?;
        /// # Ok::<(), masu::ctl::Error>(())
        /// ```
        #[allow(non_camel_case_types, reason = "the names of jemalloc's keys")]
        #[derive(Clone, Copy, Debug)]
        pub struct $mib(());

        impl $key {
            /// The key's name.
            ///
            /// ```
            #[doc = concat!("assert_eq!(", $path, "::", stringify!($key), "::NAME, \"", $name, "\");")]
            /// ```
            pub const NAME: &'static str = $name;

            /// A handle to the key.
            ///
            /// # Errors
            /// None at present.
            ///
            /// ```
            #[doc = concat!("let handle = ", $path, "::", stringify!($key), "::mib()?;")]
            /// handle.read()?;
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub const fn mib() -> $crate::ctl::Result<$mib> {
                Ok($mib(()))
            }

            /// Reads the value.
            ///
            /// # Errors
            /// None at present.
            ///
            /// ```
            #[doc = concat!("let value = ", $path, "::", stringify!($key), "::read()?;")]
            /// # let _ = value;
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub fn read() -> $crate::ctl::Result<$type> {
                Ok(($read)())
            }

            $(
            /// Sets the value.
            ///
            /// # Errors
            /// [`Error::Invalid`]($crate::ctl::Error::Invalid) if the key cannot have this value;
            /// nothing has changed then.
            ///
            /// ```
            #[doc = concat!("let value = ", $path, "::", stringify!($key), "::read()?;")]
            #[doc = concat!($path, "::", stringify!($key), "::write(value)?;")]
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub fn write(value: $type) -> $crate::ctl::Result<()> {
                ($write)(value)
            }

            /// Sets the value and returns the previous one.
            ///
            /// # Errors
            /// As for [`write`](Self::write).
            ///
            /// ```
            #[doc = concat!("let value = ", $path, "::", stringify!($key), "::read()?;")]
            #[doc = concat!("assert_eq!(", $path, "::", stringify!($key), "::update(value)?, value);")]
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
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
            ///
            /// ```
            #[doc = concat!("let value = ", $path, "::", stringify!($key), "::mib()?.read()?;")]
            /// # let _ = value;
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub fn read(&self) -> $crate::ctl::Result<$type> {
                $key::read()
            }

            $(
            #[doc = concat!("Sets the value of [`", stringify!($key), "`].")]
            ///
            /// # Errors
            /// [`Error::Invalid`]($crate::ctl::Error::Invalid) if the key cannot have this value;
            /// nothing has changed then.
            ///
            /// ```
            #[doc = concat!("let handle = ", $path, "::", stringify!($key), "::mib()?;")]
            /// handle.write(handle.read()?)?;
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub fn write(&self, value: $type) -> $crate::ctl::Result<()> {
                ($write)(value)
            }

            #[doc = concat!("Sets the value of [`", stringify!($key), "`] and returns the former one.")]
            ///
            /// # Errors
            /// As for `write`.
            ///
            /// ```
            #[doc = concat!("let handle = ", $path, "::", stringify!($key), "::mib()?;")]
            /// let value = handle.read()?;
            /// assert_eq!(handle.update(value)?, value);
            /// # Ok::<(), masu::ctl::Error>(())
            /// ```
            pub fn update(&self, value: $type) -> $crate::ctl::Result<$type> {
                $key::update(value)
            }
            )?
        }
    )+ };
}
pub(super) use keys;
