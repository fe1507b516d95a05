//! The systemd unit of a process, where its environment is set.

use std::path::Path;

use procfs_core::ProcessCGroups;

use super::root::Root;

/// A unit.
pub struct Unit {
    /// `nginx.service`.
    pub name: String,
    /// Whether a user's own systemd started it.
    of_user: bool,
}

impl Unit {
    /// Returns the service that the process is part of, from its control group.
    pub fn of(root: &Root) -> Option<Self> {
        let groups: ProcessCGroups = root.process("cgroup")?;
        let first = |group: &&procfs_core::ProcessCGroup| {
            group.hierarchy == 0 || group.controllers.iter().any(|name| name == "name=systemd")
        };
        Self::in_path(&groups.0.iter().find(first)?.pathname)
    }

    fn in_path(path: &str) -> Option<Self> {
        let parts = || path.split('/');
        let service = |part: &&str| part.ends_with(".service");
        // A user's systemd is a service too, and the units it starts are below it.
        let name = parts().rev().find(service).filter(|name| !name.starts_with("user@"))?;
        Some(Self { name: name.to_owned(), of_user: parts().any(|part| part.starts_with("user@")) })
    }

    /// Says how to preload masu into its processes.
    pub fn preloads(&self, library: Option<&Path>) -> String {
        let systemctl = if self.of_user { "systemctl --user" } else { "systemctl" };
        let library = library.unwrap_or(Path::new("/usr/lib/libmasu.so")).display();
        let name = &self.name;
        format!(
            "{systemctl} edit {name}, two lines: [Service] and Environment=LD_PRELOAD={library}; then \
             {systemctl} restart {name}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_the_innermost_one() {
        let unit = |path: &str| Unit::in_path(path).map(|unit| (unit.name, unit.of_user));
        let named = |name: &str, of_user: bool| Some((name.to_owned(), of_user));
        assert_eq!(unit("/system.slice/nginx.service"), named("nginx.service", false));
        assert_eq!(unit("/system.slice/a.service/worker"), named("a.service", false));
        let user = "/user.slice/user-1000.slice/user@1000.service";
        assert_eq!(unit(&format!("{user}/app.slice/x.service")), named("x.service", true));
        assert_eq!(unit(&format!("{user}/init.scope")), None);
        assert_eq!(unit("/user.slice/user-1000.slice/session-2.scope"), None);
        assert_eq!(unit("/"), None);
    }
}
