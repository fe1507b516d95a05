//! From the environment to a [`Config`].
//!
//! Two walks over the variables give the precedence: `MASU_CONF` first, then one variable per key. Mistakes
//! are counted on the way and reported afterwards, in a second run over the same variables, because
//! `show_errors` may be the last thing set.

use core::ffi::{CStr, c_char};

use super::keys::{Config, MOST_GUARD_SLOTS, Outcome};
use super::nearest::nearest;
use super::origin::Origin;
use crate::text::Text;

const PREFIX: &[u8] = b"MASU_";
const LIST: &[u8] = b"CONF";
const COMMAND: &[u8] = b"CONF_COMMAND";

impl Config {
    /// [`under_environment`](Config::under_environment) of the defaults.
    ///
    /// # Safety
    /// As for that.
    pub unsafe fn parse(
        envp: *const *const c_char,
        secure: bool,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Config {
        // SAFETY: passed on.
        unsafe { Config::DEFAULT.under_environment(envp, secure, sink) }
    }

    /// Reads the configuration from the environment `envp`, over the values in `self`, and writes warnings
    /// and, with `verbose`, the effective configuration to `sink`. A `secure` process gets `self` under its
    /// policy.
    ///
    /// # Safety
    /// `envp` must be null or point to a null-terminated array of pointers to C strings, none of which
    /// changes during the call, nor as long as the result is used: a path in it stays where the string is.
    pub unsafe fn under_environment(
        self,
        envp: *const *const c_char,
        secure: bool,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Config {
        if secure || envp.is_null() {
            return self.under_policy();
        }
        // SAFETY: the caller vouches for `envp`, which is not null.
        self.with_variables(unsafe { Variables::new(envp) }, sink)
    }

    /// Reads the configuration from `variables`, each `NAME=value`, over the values in `self`. They must stay
    /// as long as the result is used, as for [`under_environment`](Config::under_environment).
    pub(super) fn with_variables<'a>(
        self,
        variables: impl Iterator<Item = &'a [u8]> + Clone,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Config {
        let variables = variables.filter_map(|variable| variable.strip_prefix(PREFIX));
        let mut config = self;
        let mut mistakes = false;
        apply(&mut config, variables.clone(), &mut |_| mistakes = true);
        mistakes &= config.show_errors;
        let effective = config.under_policy();
        if mistakes || effective.verbose {
            explain(&mut Text::new(sink), mistakes.then_some((config, variables)), &effective);
        }
        effective
    }
}

/// Writes what is wrong with the variables, for which they are applied once more to a copy, and with
/// `verbose` what is in force.
#[cold]
#[inline(never)]
fn explain<'a>(
    text: &mut Text,
    mistakes: Option<(Config, impl Iterator<Item = &'a [u8]> + Clone)>,
    effective: &Config,
) {
    if let Some((mut config, variables)) = mistakes {
        apply(&mut config, variables, &mut |mistake| mistake.tell(text));
    }
    if effective.verbose {
        let guard_slots = effective.guard_slots.min(MOST_GUARD_SLOTS);
        Config { guard_slots, ..*effective }.show(text);
    }
}

/// Applies `variables` (prefix removed) to `config`, and hands every mistake to `report`.
fn apply<'a>(
    config: &mut Config,
    variables: impl Iterator<Item = &'a [u8]> + Clone,
    report: &mut dyn FnMut(Mistake),
) {
    let assignments = variables.filter_map(|variable| split_at(variable, |byte| byte == b'='));

    let list = |wanted| assignments.clone().find(|&(name, _)| name == wanted);
    if let Some((_, list)) = list(LIST)
        && !list.is_empty()
    {
        each_item(list, &mut |key, value| set(config, key, value, Origin::List, report));
    }
    let command = list(COMMAND);
    for (name, value) in assignments {
        let value = value.trim_ascii();
        // An empty variable is the shell's way to unset one.
        if !value.is_empty() && !is_no_key(name) {
            let mut origin = Origin::Variable;
            if let Some((_, list)) = command {
                // Another value is one that was set later.
                each_item(list, &mut |key, by_command| {
                    if (key, by_command) == (name, value) {
                        origin = Origin::Command;
                    }
                });
            }
            set(config, name, value, origin, report);
        }
    }
}

/// Calls `f` with each key and value in a list.
#[cold]
#[inline(never)]
fn each_item<'a>(list: &'a [u8], f: &mut dyn FnMut(&'a [u8], &'a [u8])) {
    for item in list.split(|&byte| byte == b',') {
        let item = item.trim_ascii();
        // An extra comma is no mistake.
        if !item.is_empty() {
            let (key, value) =
                split_at(item, |byte| byte == b':' || byte == b'=').unwrap_or((item, b""));
            f(key.trim_ascii(), value.trim_ascii());
        }
    }
}

#[inline(never)]
fn set(
    config: &mut Config,
    key: &[u8],
    value: &[u8],
    origin: Origin,
    report: &mut dyn FnMut(Mistake),
) {
    let outcome = config.set(key, value, origin);
    if !matches!(outcome, Outcome::Set) {
        report(Mistake { key, value, origin, outcome });
    }
}

/// An assignment that was not followed.
struct Mistake<'a> {
    key: &'a [u8],
    value: &'a [u8],
    origin: Origin,
    outcome: Outcome,
}

impl Mistake<'_> {
    /// Writes the one line that says what is wrong and how to correct it.
    fn tell(&self, text: &mut Text) {
        text.str("masu: warning: ");
        if self.origin == Origin::List {
            text.str("MASU_CONF: ");
        }
        match self.outcome {
            Outcome::BadValue(form) => {
                self.name(text).str(": ").quoted(self.value).str(" is not ").str(form)
            }
            _ => {
                match self.key {
                    [] if self.origin == Origin::List => text.str("empty key"),
                    _ => self.name(text.str("unknown key ")),
                };
                match nearest(self.key) {
                    Some(key) if self.origin != Origin::List => {
                        text.str("; did you mean MASU_").upper(key).str("?")
                    }
                    Some(key) => text.str("; did you mean ").bytes(key).str("?"),
                    None => text.str("; MASU_VERBOSE=1 lists the keys"),
                }
            }
        };
        text.line();
    }

    /// Writes the key as the user did.
    fn name<'t, 's>(&self, text: &'t mut Text<'s>) -> &'t mut Text<'s> {
        if self.origin != Origin::List {
            text.str("MASU_");
        }
        text.printable(self.key)
    }
}

/// Whether a name after the prefix belongs to the project's tools, entry points and tests, not to the engine:
/// such a variable is not a mistyped key. Its first word shows it.
fn is_no_key(name: &[u8]) -> bool {
    let word = name.split(|&byte| byte == b'_').next();
    matches!(word, Some(LIST | b"LIB" | b"LAB" | b"TEST" | b"DISABLE"))
}

/// The bytes before and after the first byte that `separates`.
fn split_at(bytes: &[u8], separates: impl Fn(u8) -> bool) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| separates(byte))?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// The strings of an `envp` array.
#[derive(Clone)]
struct Variables<'a> {
    next: *const *const c_char,
    strings: core::marker::PhantomData<&'a CStr>,
}

impl Variables<'_> {
    /// # Safety
    /// As for [`Config::under_environment`], as long as the iterator or a string from it is in use; `envp`
    /// must not be null.
    unsafe fn new(envp: *const *const c_char) -> Self {
        Variables { next: envp, strings: core::marker::PhantomData }
    }
}

impl<'a> Iterator for Variables<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: `next` starts at the array and stops at its terminating null, so it is in bounds.
        let string = unsafe { *self.next };
        if string.is_null() {
            return None;
        }
        // SAFETY: the entry was not the last one, so the next one exists.
        self.next = unsafe { self.next.add(1) };
        // SAFETY: a non-null entry is a C string that does not change while the iterator is used.
        Some(unsafe { CStr::from_ptr(string) }.to_bytes())
    }
}
