//! Replaces this process by the program.
//!
//! This calls `execve` itself instead of std's `Command`, which resets the signal mask and
//! `SIGPIPE`: the program must get the process as `masu` got it.

use std::ffi::{CStr, CString, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::ptr;

/// Executes the program in the file `path`, with the `arguments` (the first is its own name) and
/// the `environment`. Returns only on failure, with the reason.
pub fn exec(
    path: &Path,
    arguments: &[OsString],
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> io::Error {
    let environment = environment.map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let (Ok(file), Ok(arguments), Ok(environment)) = (
        c_string(path.as_os_str().into()),
        arguments.iter().cloned().map(c_string).collect::<io::Result<Vec<_>>>(),
        environment.map(c_string).collect::<io::Result<Vec<_>>>(),
    ) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let error = execve(&file, &pointers(&arguments), &pointers(&environment));
    // A script without a #! line: execvp(3) and every shell run it with sh.
    if error.raw_os_error() == Some(libc::ENOEXEC) {
        let mut shell = vec![c"/bin/sh".to_owned(), file];
        shell.extend(arguments.into_iter().skip(1));
        return execve(c"/bin/sh", &pointers(&shell), &pointers(&environment));
    }
    error
}

fn execve(file: &CStr, argv: &[*const c_char], envp: &[*const c_char]) -> io::Error {
    debug_assert!(argv.ends_with(&[ptr::null()]) && envp.ends_with(&[ptr::null()]));
    // SAFETY: `file` is a C string; both arrays end in null and hold pointers into strings that the
    // callers keep until the call returns.
    unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(io::Error::from)
}
