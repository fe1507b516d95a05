//! The table of keys.
//!
//! A row is: documentation, name, kind, default. From it come the field of [`Config`] and of
//! [`Origins`], the name in the environment, the parser and the line in the effective configuration.

use super::Origin;
use super::kinds::{BackgroundThread, Count, Delay, Flag, Kind, Size};
use crate::text::Text;

/// What became of `key:value`.
pub(super) enum Outcome {
    /// The value is set.
    Set,
    /// No such key.
    UnknownKey,
    /// The value has the wrong form; this is the right one.
    BadValue(&'static str),
}

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:expr;)+) => {
        /// The options of the engine with their values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $name: <$kind as Kind>::Value,)+
            /// Where each value came from.
            pub origins: Origins,
        }

        /// The origin of each value of a [`Config`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Origins {
            $(#[doc = concat!("Origin of `", stringify!($name), "`.")] pub $name: Origin,)+
        }

        /// Every key's name.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),+];

        impl Config {
            /// The documented defaults.
            pub const DEFAULT: Config = Config {
                $($name: $default,)+
                origins: Origins { $($name: Origin::BuiltIn,)+ },
            };

            /// Sets the key called `name`, as a user writes it, to what `value` says.
            pub(super) fn set(&mut self, name: &[u8], value: &[u8], origin: Origin) -> Outcome {
                $(if is_key(name, stringify!($name)) {
                    return match <$kind as Kind>::parse(value) {
                        Some(value) => {
                            self.$name = value;
                            self.origins.$name = origin;
                            Outcome::Set
                        }
                        None => Outcome::BadValue(<$kind as Kind>::FORM),
                    };
                })+
                Outcome::UnknownKey
            }

            /// Writes a line per key: name, value, origin.
            pub fn show(&self, text: &mut Text) {
                text.str("masu: effective configuration").line();
                $(show_key(text, stringify!($name), self.origins.$name, |text| {
                    <$kind as Kind>::show(self.$name, text);
                });)+
                text.flush();
            }
        }
    };
}

keys! {
    /// How long freed memory stays with the process before it goes back to the system. Zero gives
    /// it back at once.
    decay: Delay = Delay::Millis(500);
    /// Bytes of stale memory above which a background thread may be started to give it back.
    budget: Size = 4 << 20;
    /// Whether a background thread gives memory back while the program is idle.
    background_thread: BackgroundThread = BackgroundThread::Auto;
    /// Most bytes of medium blocks a thread keeps for its next requests.
    run_cache: Size = 2 << 20;
    /// Most bytes of freed huge blocks kept until they decay.
    huge_cache: Size = 1 << 30;
    /// Most full slabs that a heap keeps as its own once other threads allocate too; further ones go
    /// to whoever frees into them.
    retain_full: Count = 32;
    /// Whether a heap beyond 16 MiB that grows takes its memory in huge pages of 2 MiB.
    huge_pages: Flag = true;
    /// Statistics on stderr at exit.
    show_stats: Flag = false;
    /// This configuration on stderr at start.
    verbose: Flag = false;
    /// A line on stderr for every mistake found: bad options, double and foreign frees.
    show_errors: Flag = true;
}

/// Whether `written`, in any case and with `.` or `-` for `_`, is the key `name`.
#[inline(never)]
fn is_key(written: &[u8], name: &str) -> bool {
    written.len() == name.len() && written.iter().zip(name.as_bytes()).all(|(&w, &n)| plain(w) == n)
}

/// A key's byte in its plain form: lower case, `_` between words.
pub(super) fn plain(byte: u8) -> u8 {
    match byte {
        b'.' | b'-' => b'_',
        _ => byte.to_ascii_lowercase(),
    }
}

/// One line of the effective configuration.
fn show_key(text: &mut Text, name: &str, origin: Origin, value: impl FnOnce(&mut Text)) {
    text.str("masu:   ").str(name).tab(28);
    value(text);
    text.tab(40);
    match origin {
        Origin::BuiltIn => text.str("built-in"),
        Origin::Program => text.str("program"),
        Origin::List => text.str("MASU_CONF"),
        Origin::Variable => text.str("MASU_").upper(name),
    };
    text.line();
}
