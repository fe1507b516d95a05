//! `masu unit`: runs a systemd service on masu, by a drop-in file, and undoes it.
//!
//! - `file`: the parts of a service's unit files that matter to masu.
//! - `user`: whether the service's user may read the library.
//!
//! Only the drop-in is written or removed. It is called `zz-masu.conf`, so that it comes after
//! other drop-ins, including `override.conf` of `systemctl edit`: libraries preloaded there stay,
//! after masu.

mod file;
mod user;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use self::file::Service;
use crate::allocators::{file_name, is_masus_name};
use crate::conf;
use crate::failure::{Failure, REFUSED, warn};
use crate::library;
use crate::standard::print;

/// Run a systemd service on masu, or stop doing so.
///
/// Writes a drop-in file that preloads masu into the service, and changes nothing else. The service runs unchanged
/// until it is restarted.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu unit --print nginx                       show what would be written
  sudo masu unit redis-server                   write the drop-in
  sudo masu unit --policy container postgresql@15-main
  sudo masu unit --conf decay:2s,limit_soft:1GiB mariadb
  sudo masu unit --remove redis-server          remove the drop-in

Afterwards: systemctl daemon-reload && systemctl restart NAME

Exit codes:
  0 done    2 wrong command line, or no such service    125 masu cannot serve this service, or the file
  cannot be written")]
pub struct Unit {
    /// The service, with or without .service
    pub name: String,

    /// Remove the drop-in
    #[arg(long, conflicts_with_all = ["policy", "conf", "print"])]
    pub remove: bool,

    /// Show the drop-in and write nothing
    #[arg(long)]
    pub print: bool,

    /// A named set of values for all options: default, low-memory, throughput, container, realtime, hardened, debug
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,

    /// Options for masu, as `key:value,…`
    #[arg(long, value_name = "KEY:VALUE,…")]
    pub conf: Vec<String>,

    /// Preload this library instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Read the machine's files under this directory
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

/// The beginning of the file, so that no other file is overwritten.
const MARK: &str = "# Written by `masu unit";
const NAME: &str = "zz-masu.conf";

/// Carries out `order` and returns the exit code.
pub fn run(order: &Unit) -> Result<u8, Failure> {
    let root = order.root.as_deref().unwrap_or(Path::new("/"));
    if order.remove {
        let name = to_remove(root, &order.name)?;
        let (directory, file, shown) = paths(root, &name);
        return remove(&name, &directory, &file, &shown);
    }
    let service = Service::find(root, &order.name)?;
    let (directory, file, shown) = paths(root, &service.name);
    let text = drop_in(order, &service)?;
    if order.print {
        print(&format!("# {shown}\n{text}"))?;
        return Ok(0);
    }
    keep_others(&file, &shown)?;
    let denied = |error: io::Error| cannot("write", &shown, &error, &order.name);
    fs::create_dir_all(&directory).map_err(denied)?;
    // Written as a whole or not at all: systemd may read at any moment.
    let new = directory.join(".zz-masu.conf.new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, &file)).map_err(denied)?;
    print(&format!("{shown} is written. For it to take effect:\n{}", after(&service.name)))?;
    Ok(0)
}

/// Returns the directory of a service's drop-ins, masu's file in it, and the path of that on the service's machine.
fn paths(root: &Path, name: &str) -> (PathBuf, PathBuf, String) {
    let directory = root.join("etc/systemd/system").join(format!("{name}.d"));
    let file = directory.join(NAME);
    (directory, file, format!("/etc/systemd/system/{name}.d/{NAME}"))
}

/// Returns the name of the service to take the drop-in from. The service may be gone, and the drop-in still there.
fn to_remove(root: &Path, typed: &str) -> Result<String, Failure> {
    let gone = format!("{}.service", typed.strip_suffix(".service").unwrap_or(typed));
    match Service::find(root, typed) {
        Ok(service) => Ok(service.name),
        Err(_) if !typed.contains('/') && paths(root, &gone).1.is_file() => Ok(gone),
        Err(failure) => Err(failure),
    }
}

/// Returns the file's text.
fn drop_in(order: &Unit, service: &Service) -> Result<String, Failure> {
    // A path that lasts as long as the package is installed, not only this build of it.
    let library = library::find(order.lib.as_deref())?.path;
    service.sees(&library)?;
    let mut preload = escaped(&format!("LD_PRELOAD={}", library.display()));
    // One that is masu is from this installation or another.
    let is_masu = |file: &str| is_masus_name(&file_name(Path::new(file)));
    for other in service.preloads().iter().filter(|other| !is_masu(other)) {
        // As the unit has it, with its specifiers.
        preload.push(':');
        preload.push_str(other);
    }
    if let Some(file) = service.preloading_file() {
        let problem =
            format!("{} sets LD_PRELOAD in {file}, which wins over any drop-in", service.name);
        return Err(Failure::new(REFUSED, problem)
            .remedy(format!("put {} first in that list", library.display())));
    }
    if service.unsets_preload() {
        let problem = format!(
            "{} takes LD_PRELOAD away with UnsetEnvironment, which wins over any drop-in",
            service.name
        );
        return Err(Failure::new(REFUSED, problem)
            .remedy(format!("take it out of that list: systemctl edit --full {}", service.name)));
    }
    let mut settings = vec![preload];
    for (name, value) in conf::of_unit(&order.conf, order.policy.as_deref())? {
        settings.push(escaped(&format!("{name}={value}")));
    }
    if let Some(user) = service.user_without(&library) {
        warn(&format!(
            "{} runs as {user}, who may not read {}: the loader would leave masu out; install masu below /usr or /usr/local, \
             or name a copy there with --lib",
            service.name,
            library.display()
        ));
    }
    if service.restricts_calls() {
        warn(&format!(
            "{} filters system calls; docs/syscalls.md (in share/doc/masu, or the sources) lists those that masu makes, and \
             `masu doctor -p` checks them",
            service.name
        ));
    }
    let mut text = format!(
        "{MARK} {0}`; `masu unit --remove {0}` removes it.\n[Service]\n",
        service.name.trim_end_matches(".service")
    );
    for setting in settings {
        text.push_str(&format!("Environment={}\n", quoted(&setting)));
    }
    Ok(text)
}

/// Has systemd take it literally: `%` begins a specifier.
fn escaped(assignment: &str) -> String {
    assignment.replace('\\', "\\\\").replace('%', "%%")
}

/// Makes it one word to systemd: quotes keep blanks.
fn quoted(escaped: &str) -> String {
    if escaped.contains([' ', '\t', '\'', '"']) {
        format!("\"{}\"", escaped.replace('"', "\\\""))
    } else {
        escaped.to_owned()
    }
}

fn remove(name: &str, directory: &Path, file: &Path, shown: &str) -> Result<u8, Failure> {
    keep_others(file, shown)?;
    match fs::remove_file(file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            print(&format!("{name} has no drop-in file from masu: there is nothing to remove.\n"))?;
            return Ok(0);
        }
        Err(error) => return Err(cannot("remove", shown, &error, name)),
    }
    // Other files keep the directory.
    let _ = fs::remove_dir(directory);
    print(&format!("{shown} is removed. For that to take effect:\n{}", after(name)))?;
    Ok(0)
}

/// Refuses a file of the same name that masu did not write.
fn keep_others(file: &Path, shown: &str) -> Result<(), Failure> {
    match fs::read_to_string(file) {
        Ok(text) if !text.starts_with(MARK) => {
            Err(Failure::new(REFUSED, format!("{shown} was not written by masu"))
                .remedy("move it out of the way first"))
        }
        _ => Ok(()),
    }
}

fn cannot(what: &str, file: &str, error: &io::Error, name: &str) -> Failure {
    let failure = Failure::new(REFUSED, format!("cannot {what} {file}: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let verb = if what == "remove" { "--remove " } else { "" };
            failure.remedy(format!("run it as root: sudo masu unit {verb}{name}"))
        }
        _ => failure,
    }
}

/// Returns the remaining step, which the user must take with the right to interrupt the service.
fn after(name: &str) -> String {
    // A template does not run itself; its instances do.
    if let Some(template) = name.strip_suffix("@.service") {
        return format!(
            "  systemctl daemon-reload && systemctl restart '{template}@*.service'\n  masu doctor -p PID, of each: systemctl show \
             -P MainPID '{template}@*.service'\n"
        );
    }
    format!(
        "  systemctl daemon-reload && systemctl restart {name}\n  masu doctor -p $(systemctl show -P MainPID {name})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_quoted_as_systemd_reads_them() {
        let line = |assignment| quoted(&escaped(assignment));
        assert_eq!(line("MASU_DECAY=2s"), "MASU_DECAY=2s");
        assert_eq!(line("MASU_STATS_FILE=/tmp/a.%p"), "MASU_STATS_FILE=/tmp/a.%%p");
        assert_eq!(line(r#"A=b "c""#), r#""A=b \"c\"""#);
    }
}
