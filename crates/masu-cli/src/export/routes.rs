//! The answer for each path.

use std::fmt::Write;

use super::exposition::{Exposition, Form};
use super::http::{Answer, Request, quality};
use super::profile::{Profiles, What};
use super::server::Gone;
use crate::bytes::Bytes;

/// The content type of OpenMetrics.
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the older format.
const OLDER: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is served.
pub struct Routes {
    /// The metrics.
    pub exposition: Exposition,
    /// The profiles, if they are allowed.
    pub profiles: Option<Profiles>,
}

impl Routes {
    /// The answer to a request, of a reader that may be `gone` before it is there.
    pub fn answer(&self, request: &Request, gone: &Gone<'_>) -> Answer {
        match &*request.path {
            "/metrics" => self.metrics(request),
            "/healthz" => Answer::of(super::http::TEXT, &b"ok\n"[..]),
            "/" => self.index(),
            path => match profile_path(path) {
                Some((process, what)) => self.profile(request, process, what, gone),
                None => Answer::refusal(
                    404,
                    "the paths are /metrics, /healthz, /debug/pprof/allocs, /heap and /delta_heap",
                ),
            },
        }
    }

    fn metrics(&self, request: &Request) -> Answer {
        let gzip = request.gzip;
        let open = quality(&request.accept, "application/openmetrics-text");
        let is_open = open > 0.0 && open >= quality(&request.accept, "text/plain");
        let (kind, form) =
            if is_open { (OPEN, Form::Open { gzip }) } else { (OLDER, Form::Text { gzip }) };
        Answer { gzip, ..Answer::of(kind, self.exposition.page(form)) }
    }

    fn profile(
        &self,
        request: &Request,
        process: Option<&str>,
        what: &str,
        gone: &Gone<'_>,
    ) -> Answer {
        let Some(profiles) = &self.profiles else {
            return Answer::refusal(
                403,
                "this exporter serves no profiles: it was started with --no-profiles",
            );
        };
        let Some(what) = What::named(what) else {
            return Answer::refusal(404, "only memory profiles exist: allocs, heap and delta_heap");
        };
        let number = |text: &str| text.parse::<u64>().ok();
        let seconds = match request.asks("seconds").map(number) {
            Some(None) => return Answer::refusal(400, "seconds takes a number"),
            Some(Some(seconds)) => Some(seconds),
            None => None,
        };
        let process = match process.or_else(|| request.asks("pid")).map(str::parse::<u32>) {
            Some(Ok(process)) => process,
            Some(Err(_)) => return Answer::refusal(400, "pid takes the number of a process"),
            // A pod or a container often has only one.
            None => match &self.exposition.processes()[..] {
                [only] => only.pid,
                [] => return Answer::refusal(404, "no process here runs on masu"),
                all => {
                    let some: Vec<_> = all
                        .iter()
                        .take(5)
                        .map(|one| format!("{} ({})", one.pid, one.comm))
                        .collect();
                    return Answer::refusal(
                        400,
                        &format!(
                            "name the process with ?pid=PID: {} run on masu, such as {}",
                            all.len(),
                            some.join(", ")
                        ),
                    );
                }
            },
        };
        let taken = match request.is_head {
            true => profiles.is_there(process, seconds).map(|()| Vec::new()),
            false => profiles.of(process, what, seconds, gone),
        };
        match taken {
            Ok(bytes) => Answer::of("application/octet-stream", bytes),
            Err(refusal) => refusal,
        }
    }

    fn index(&self) -> Answer {
        let mut page = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>masu</title>\n<h1>masu</h1>\n\
             <p><a href=\"metrics\">metrics</a>\n",
        );
        let processes = self.exposition.processes();
        if processes.is_empty() {
            page.push_str("<p>No process that may be read runs on masu.\n");
        } else {
            page.push_str("<table>\n<tr><th>pid<th>program<th>resident<th>live<th>dirty\n");
        }
        for process in &processes {
            let [rss, live, free] =
                [process.rss, process.allocated, process.dirty].map(|n| Bytes(n).to_string());
            let (pid, name) = (process.pid, escaped(&process.comm));
            let _ = write!(page, "<tr><td>{pid}<td>{name}<td>{rss}<td>{live}<td>{free}");
            if self.profiles.is_some() {
                let _ = write!(page, "<td><a href=\"{pid}/debug/pprof/allocs\">profile</a>");
            }
            page.push('\n');
        }
        Answer::of("text/html; charset=utf-8", page.into_bytes())
    }
}

/// Returns the process, if it is in the path, and the kind of a profile.
fn profile_path(path: &str) -> Option<(Option<&str>, &str)> {
    let (before, what) = path.split_once("/debug/pprof/")?;
    let process = match before.strip_prefix('/') {
        Some(process) => Some(process),
        None if before.is_empty() => None,
        None => return None,
    };
    Some((process, what))
}

/// Escapes text for a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::exposition::Shown;
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn exposition(most: usize) -> Exposition {
        let shown = Shown { most, is_summed: false, counters: true };
        Exposition::new(shown, Duration::from_secs(9))
    }

    fn answer(routes: &Routes, path: &str, accept: &str) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request {
            path: path.into(),
            query: query.into(),
            accept: accept.into(),
            ..Request::default()
        };
        routes.answer(&request, &|| false)
    }

    #[test]
    fn readers_get_the_form_that_they_prefer() {
        let routes = Routes { exposition: exposition(9), profiles: None };
        // The headers that Prometheus, a browser, and a client without a preference send.
        for (accept, kind) in [
            (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OPEN,
            ),
            ("text/plain;version=0.0.4,application/openmetrics-text;q=0.5", OLDER),
            ("text/html,*/*;q=0.8", OLDER),
            ("", OLDER),
        ] {
            assert_eq!(answer(&routes, "/metrics", accept).kind, kind, "{accept}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_said() {
        let mut routes = Routes {
            exposition: exposition(0),
            profiles: Some(Profiles::new(1 << 19, Arc::default())),
        };
        let me = std::process::id();
        for (path, status, said) in [
            ("/debug/pprof/allocs", 404, "no process here"),
            ("/debug/pprof/allocs?pid=x", 400, "number of a process"),
            ("/debug/pprof/heap?pid=1&seconds=soon", 400, "seconds takes a number"),
            ("/1/debug/pprof/heap?seconds=601", 400, "at most 600"),
            ("/4194305/debug/pprof/heap", 404, "there is no process 4194305"),
            (&format!("/{me}/debug/pprof/delta_heap"), 404, "does not run on masu"),
            ("/debug/pprof/goroutine", 404, "only memory profiles"),
            ("/x", 404, "/metrics"),
        ] {
            let answer = answer(&routes, path, "");
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, status, "{path}: {body}");
            assert!(body.contains(said), "{path}: {body}");
        }
        routes.profiles = None;
        let refused = answer(&routes, "/debug/pprof/allocs", "");
        assert!(refused.status == 403 && refused.body.ends_with(b"--no-profiles\n"));
        assert_eq!(answer(&routes, "/healthz", "").status, 200);
    }

    #[test]
    fn names_cannot_speak_to_a_browser() {
        assert_eq!(escaped("<b>&"), "&lt;b&gt;&amp;");
    }
}
