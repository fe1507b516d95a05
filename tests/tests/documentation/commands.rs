//! The pages whose commands are executed here, but for those that `elsewhere` lists.

use crate::run::check;

#[test]
fn readme() {
    check("README.md");
}

#[test]
fn the_commands_package() {
    check("crates/masu-cli/README.md");
}

#[test]
fn the_workloads_package() {
    check("crates/masu-workloads/README.md");
}

#[test]
fn rss_and_oom() {
    check("docs/rss-and-oom.md");
}

#[test]
fn what_holds_my_memory() {
    check("docs/what-holds-my-memory.md");
}

#[test]
fn bench() {
    check("docs/bench.md");
}

#[test]
fn doctor() {
    check("docs/doctor.md");
}

#[test]
fn find_a_leak() {
    check("docs/find-a-leak.md");
}

#[test]
fn watch_a_fleet() {
    check("docs/watch-a-fleet.md");
}

#[test]
fn it_does_not_take_effect() {
    check("docs/it-does-not-take-effect.md");
}

#[test]
fn configuration() {
    check("docs/configuration.md");
}

#[test]
fn hardened() {
    check("docs/hardened.md");
}

#[test]
fn guards() {
    check("docs/guards.md");
}

#[test]
fn mistakes() {
    check("docs/mistakes.md");
}

#[test]
fn limits() {
    check("docs/limits.md");
}

#[test]
fn languages() {
    check("docs/languages.md");
}

#[test]
fn systemd() {
    check("docs/systemd.md");
}

#[test]
fn slow_on_alpine() {
    check("docs/slow-on-alpine.md");
}

#[test]
fn ruby_bloats() {
    check("docs/ruby-bloats.md");
}

#[test]
fn which_number_is_real() {
    check("docs/which-number-is-real.md");
}

#[test]
fn moving() {
    check("docs/moving.md");
}

#[test]
fn dlopen_static_tls() {
    check("docs/dlopen-static-tls.md");
}

#[test]
fn statistics() {
    check("docs/statistics.md");
}

#[test]
fn threads_make_it_slower() {
    check("docs/threads-make-it-slower.md");
}

#[test]
fn profiling() {
    check("docs/profiling.md");
}
