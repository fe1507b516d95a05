//! `masu export`: every process with masu, for Prometheus and for collectors of profiles.
//!
//! ```text
//! run ─ server       connections, and how they end
//!   │    └─ http     one request, one answer
//!   ├─ routes        which path is answered by what
//!   ├─ exposition    the metrics as text, cached for a while and shared by all clients
//!   │    ├─ fleet    the processes, what each holds and has done
//!   │    │    └─ container   what its control group allows
//!   │    ├─ groups   their sums by name
//!   │    ├─ families the metrics: names, units, meanings
//!   │    └─ older    the same text for clients that do not read OpenMetrics
//!   └─ profile       heap profiles of single processes, as `masu prof -p` reads them
//! ```

mod container;
mod exposition;
mod families;
mod fleet;
mod groups;
mod http;
mod older;
mod profile;
mod routes;
mod server;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::conf;
use crate::failure::{Failure, USAGE, warn};
use crate::standard::print;
use exposition::{Exposition, Form, Shown};
use profile::Profiles;
use routes::Routes;

/// Serve Prometheus metrics and heap profiles of every process on masu.
///
/// One exporter serves a machine, a pod or a container. It reads the processes from outside: they need no
/// preparation and are not stopped. A request changes nothing in a process, with one exception: a request for a profile
/// switches sampling on for a few seconds. --no-profiles refuses such requests.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu export                               http://127.0.0.1:9464/metrics
  masu export --listen 0.0.0.0:9464 --no-profiles
  masu export --by command                  one time series for all processes of the same name
  masu export --once > /var/lib/prometheus/node-exporter/masu.prom

Paths:
  /metrics                         OpenMetrics, or the older text format, as the client asks
  /debug/pprof/allocs?pid=PID      profiles for Parca, Alloy and `go tool pprof`; also /heap and /delta_heap.
  /PID/debug/pprof/allocs          The process is sampled for ?seconds=N, by default 5. PID may be left out
                                   if only one process is on masu
  /healthz                         ok, while the exporter runs
  /                                the processes, with links

Only root, or CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH, can read other users' processes.
docs/watch-a-fleet.md (in share/doc/masu or in the sources) lists the metrics.

Exit codes:
  0 stopped by SIGTERM or SIGINT    2 wrong command line, or an address that it cannot listen on
  125 with --once: the metrics could not be written")]
pub struct Order {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    pub listen: String,

    /// Serve metrics only, and refuse requests for profiles
    #[arg(long)]
    pub no_profiles: bool,

    /// Average number of bytes between two samples of a profile [default: 512KiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "no_profiles")]
    pub rate: Option<String>,

    /// Show each process, or sum all processes of the same name
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Process)]
    pub by: By,

    /// List only this many processes, the largest ones; the rest are only counted. With `--by command`, this many
    /// names, the first ones; processes with other names are summed as `(other)`
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = crate::see::whole::<usize>(0..=u32::MAX.into()))]
    pub most: usize,

    /// Reuse figures that are not older than this
    #[arg(long, value_name = "T", default_value = "1s", value_parser = crate::see::duration)]
    pub max_age: Duration,

    /// Print the metrics once, in the older text format, and exit
    #[arg(long, conflicts_with_all = ["listen", "no_profiles", "rate", "max_age"])]
    pub once: bool,
}

/// What a time series stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum By {
    /// A process
    Process,
    /// All processes of the same name, as `ps -o comm` shows it: series do not grow in number with every new process,
    /// and counters do not fall when one ends
    Command,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let shown =
        Shown { most: order.most, is_summed: order.by == By::Command, counters: !order.once };
    let exposition = Exposition::new(shown, order.max_age);
    if order.once {
        let page = exposition.page(Form::Text { gzip: false });
        print(&String::from_utf8_lossy(&page))?;
        return Ok(0);
    }
    let rate = conf::rate_in_bytes(order.rate.as_deref())?;
    let listener = listen(&order.listen)?;
    let failed = |error| Failure::new(USAGE, format!("cannot listen: {error}"));
    let address = listener.local_addr().map_err(failed)?;
    if !order.no_profiles && !address.ip().is_loopback() {
        warn(&format!(
            "anyone who can reach {address} can have processes sampled; --no-profiles serves metrics only"
        ));
    }
    let stopped = Arc::default();
    let stop = server::stop(&stopped).map_err(failed)?;
    let profiles = (!order.no_profiles).then(|| Profiles::new(rate, stopped));
    let routes = Routes { exposition, profiles };
    // A service may have no stdout.
    let _ = print(&format!("masu: metrics at http://{address}/metrics\n")).map_err(Failure::tell);
    server::serve(&listener, &stop, Arc::new(move |request, gone| routes.answer(request, gone)));
    Ok(0)
}

/// Listens on the typed address.
fn listen(typed: &str) -> Result<TcpListener, Failure> {
    let remedy =
        "--listen takes an address of this machine and a port, such as 127.0.0.1:9464 or [::]:9464";
    let wrong =
        |why: &str| Err(Failure::new(USAGE, format!("--listen: `{typed}` {why}")).remedy(remedy));
    let Ok(found) = typed.to_socket_addrs() else {
        return wrong("is not an address with a port");
    };
    let found: Vec<SocketAddr> = found.collect();
    let error = match TcpListener::bind(&found[..]) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let problem = format!("--listen: {typed} is already in use");
            Err(Failure::new(USAGE, problem).remedy(
                "`ss -ltnp` shows by which process; name another port with --listen, or 0 for a free one",
            ))
        }
        std::io::ErrorKind::AddrNotAvailable => wrong("is not an address of this machine"),
        std::io::ErrorKind::PermissionDenied => {
            wrong("is a port for root only; ports from 1024 on are for all users")
        }
        _ => wrong(&format!("cannot be listened on: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_listened_on_is_said() {
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = busy.local_addr().unwrap().to_string();
        for (typed, said) in [
            ("nowhere", "not an address with a port"),
            ("127.0.0.1:99999", "not an address with a port"),
            ("192.0.2.1:9464", "not an address of this machine"),
        ] {
            let (problem, remedy) = listen(typed).unwrap_err().into_parts();
            assert!(problem.contains(said), "{problem}");
            assert!(remedy.unwrap().contains("127.0.0.1:9464"));
        }
        let (problem, remedy) = listen(&taken).unwrap_err().into_parts();
        assert!(
            problem.contains("already in use") && remedy.unwrap().contains("ss -ltnp"),
            "{problem}"
        );
        assert!(listen("127.0.0.1:0").is_ok());
    }
}
