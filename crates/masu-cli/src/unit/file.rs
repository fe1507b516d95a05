//! The unit files of a service, under a root directory: where they are, and the lines that matter
//! to masu.

use std::fs;
use std::path::{Path, PathBuf};

use super::user::User;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::near;

/// Where unit files are; the first match wins.
const PLACES: [&str; 7] = [
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    // What starts by a script in /etc/init.d.
    "run/systemd/generator.late",
];

/// A service.
pub struct Service {
    /// `redis-server.service`.
    pub name: String,
    /// The `key=value` lines of its section `[Service]`, including drop-ins, in order of
    /// precedence.
    lines: Vec<(String, String)>,
    root: PathBuf,
}

impl Service {
    /// Finds the service called `name`, or the one it is an alias of.
    pub fn find(root: &Path, name: &str) -> Result<Self, Failure> {
        let name = name.strip_suffix(".service").unwrap_or(name);
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "@-_.:\\".contains(c));
        if name.is_empty() || name.starts_with(['.', '-']) || name.contains(odd) {
            return Err(Failure::new(USAGE, format!("`{name}` is not the name of a service"))
                .remedy("systemctl list-units --type=service shows them"));
        }
        let full = format!("{name}.service");
        let Some(file) = unit_file(root, &full) else { return Err(unknown(root, name)) };
        let (own, file) = match alias(&file) {
            Some(own) if own.ends_with(".service") && !own.contains("@.") => {
                let file = unit_file(root, &own).unwrap_or(file);
                (own, file)
            }
            _ => (full.clone(), file),
        };
        if is_masked(&file) {
            let failure = Failure::new(USAGE, format!("{full} is masked: it cannot be started"));
            return Err(failure.remedy(format!("systemctl unmask {name}")));
        }
        let mut service = Self { name: own, lines: Vec::new(), root: root.to_owned() };
        service.read(&file);
        for drop_in in service.drop_ins() {
            service.read(&drop_in);
        }
        service.is_the_program()?;
        Ok(service)
    }

    /// Adds the lines of a file.
    fn read(&mut self, file: &Path) {
        let text = fs::read_to_string(file).unwrap_or_default().replace("\\\n", " ");
        let mut inside = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                inside = line == "[Service]";
            } else if inside
                && !line.starts_with(['#', ';'])
                && let Some((key, value)) = line.split_once('=')
            {
                self.lines.push((key.trim().to_owned(), value.trim().to_owned()));
            }
        }
    }

    /// Returns its drop-ins except masu's own: those of all its names, and those of all services. Of those with one name,
    /// systemd reads the first.
    fn drop_ins(&self) -> Vec<PathBuf> {
        let names = [self.name.clone()].into_iter().chain(aliases(&self.root, &self.name));
        let of_names: Vec<_> = names.flat_map(|name| drop_in_directories(&name)).collect();
        let directories = of_names.into_iter().chain(["service.d".to_owned()]);
        let name = |path: &PathBuf| path.file_name().map(ToOwned::to_owned);
        let mut files: Vec<PathBuf> = directories
            .flat_map(|directory| PLACES.map(|place| self.root.join(place).join(&directory)))
            .filter_map(|directory| fs::read_dir(directory).ok())
            .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
            .filter(|path| path.extension().is_some_and(|end| end == "conf"))
            .filter(|path| path.file_name().is_some_and(|name| name != super::NAME))
            .collect();
        files.sort_by_key(name);
        files.dedup_by_key(|path| name(path));
        files
    }

    fn values<'a>(&'a self, key: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.lines.iter().filter(move |(other, _)| other == key).map(|(_, value)| &value[..])
    }

    /// Refuses a service that only starts others, such as Debian's `postgresql`.
    fn is_the_program(&self) -> Result<(), Failure> {
        let start = self.values("ExecStart").next_back().unwrap_or_default();
        let program = start.trim_start_matches(['@', '-', ':', '+', '!']).split_whitespace().next();
        if program.is_none_or(|program| program.rsplit('/').next() != Some("true")) {
            return Ok(());
        }
        let name = self.name.trim_end_matches(".service");
        let instances = instances(&self.root, name);
        let remedy = match &instances[..] {
            [] => format!("name the one that runs: systemctl list-units '{name}*'"),
            names => format!("name the one that runs: {}", names.join(" or ")),
        };
        Err(Failure::new(USAGE, format!("{} runs nothing itself", self.name)).remedy(remedy))
    }

    /// Returns the present entries of `LD_PRELOAD`.
    pub fn preloads(&self) -> Vec<String> {
        let mut list = String::new();
        for value in self.values("Environment") {
            if value.is_empty() {
                list.clear();
            }
            for word in words(value) {
                if let Some(files) = word.strip_prefix("LD_PRELOAD=") {
                    list = files.to_owned();
                }
            }
        }
        list.split([':', ' ']).filter(|file| !file.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the file of variables that sets `LD_PRELOAD`, if there is one.
    pub fn preloading_file(&self) -> Option<String> {
        let name = self.name.trim_end_matches(".service");
        let (prefix, instance) = name.split_once('@').unwrap_or((name, ""));
        let mut files = Vec::new();
        for value in self.values("EnvironmentFile") {
            // An empty one takes back those before it.
            if value.is_empty() {
                files.clear();
                continue;
            }
            let file = value.trim_start_matches('-').replace("%n", &self.name).replace("%N", name);
            files.push(file.replace("%p", prefix).replace("%i", instance));
        }
        files.into_iter().find(|file| {
            let text = fs::read_to_string(self.root.join(file.trim_start_matches('/')));
            text.is_ok_and(|text| {
                text.lines().any(|line| line.trim_start().starts_with("LD_PRELOAD="))
            })
        })
    }

    /// Whether a setting is switched on.
    fn is_on(&self, key: &str) -> bool {
        let value = self.values(key).next_back().unwrap_or_default();
        let words = ["yes", "y", "true", "t", "1", "on", "tmpfs", "disconnected"];
        words.iter().any(|word| value.eq_ignore_ascii_case(word))
    }

    /// Whether it takes `LD_PRELOAD` away, whoever has set it.
    pub fn unsets_preload(&self) -> bool {
        let mut unsets = false;
        for value in self.values("UnsetEnvironment") {
            // An empty value takes the others back.
            unsets &= !value.is_empty();
            unsets |= words(value).iter().any(|word| word == "LD_PRELOAD");
        }
        unsets
    }

    /// Checks whether the service's processes can see the library's file.
    pub fn sees(&self, library: &Path) -> Result<(), Failure> {
        let hides = |what: &str| {
            let library = library.display();
            let cannot = if what == "NoExecPaths" { "may not run code of" } else { "does not see" };
            Err(Failure::new(REFUSED, format!("{} {cannot} {library}: {what} is set", self.name))
                .remedy(self.place_for_a_copy(what)))
        };
        for (key, places) in [
            ("ProtectHome", &["/home", "/root", "/run/user"][..]),
            ("PrivateTmp", &["/tmp", "/var/tmp"]),
            ("DynamicUser", &["/tmp", "/var/tmp"]),
        ] {
            if self.is_on(key) && places.iter().any(|place| library.starts_with(place)) {
                return hides(key);
            }
        }
        for key in ["RootDirectory", "RootImage"] {
            if self.values(key).next_back().is_some_and(|value| !value.is_empty() && value != "/") {
                return hides(key);
            }
        }
        let bound = ["BindPaths", "BindReadOnlyPaths"];
        for (key, unless) in [
            ("InaccessiblePaths", &bound[..]),
            ("TemporaryFileSystem", &bound),
            ("NoExecPaths", &["ExecPaths"]),
        ] {
            let shown = unless.iter().map(|key| self.nearest(key, library)).max();
            if self.nearest(key, library) > shown.unwrap_or(0) {
                return hides(key);
            }
        }
        Ok(())
    }

    /// Returns what to do about a setting that hides the library.
    fn place_for_a_copy(&self, hidden_by: &str) -> String {
        let is_for_libraries =
            |path: &str| path.split('/').any(|part| part == "lib" || part == "lib64");
        let mut places: Vec<String> = Vec::new();
        for value in self.values("ExecPaths").filter(|_| hidden_by == "NoExecPaths") {
            // An empty value takes the others back.
            if value.is_empty() {
                places.clear();
            }
            let paths = words(value).into_iter().filter(|path| is_for_libraries(path));
            places.extend(paths.map(|path| path.trim_start_matches(['-', '+']).to_owned()));
        }
        match &places[..] {
            [] => {
                "install masu below /usr or /usr/local, or name a copy there with --lib".to_owned()
            }
            places => format!("name a copy below {} with --lib", places.join(" or ")),
        }
    }

    /// Returns how deep the deepest directory above a file is that a list of paths has; 0 if it has none.
    fn nearest(&self, key: &str, file: &Path) -> usize {
        let mut nearest = 0;
        for value in self.values(key) {
            // An empty value takes the others back.
            nearest = if value.is_empty() { 0 } else { nearest };
            for word in words(value) {
                let mut parts = word.trim_start_matches(['-', '+']).split(':');
                let first = parts.next().unwrap_or_default();
                let place = if key.starts_with("Bind") { parts.next() } else { None };
                let place = Path::new(place.unwrap_or(first));
                if file.starts_with(place) {
                    nearest = nearest.max(place.components().count());
                }
            }
        }
        nearest
    }

    /// Returns the user as whom it runs, if that user may not read the library: the loader would leave it out.
    pub fn user_without(&self, library: &Path) -> Option<&str> {
        let set = |key| self.values(key).next_back().unwrap_or_default();
        let is_made_up = self.is_on("DynamicUser");
        let name = match set("User") {
            "" if is_made_up => self.name.trim_end_matches(".service"),
            name => name,
        };
        let more = self.values("SupplementaryGroups").flat_map(str::split_whitespace);
        let more: Vec<_> = more.chain([set("Group")]).collect();
        let user = User::find(&self.root, name, is_made_up, &more)?;
        (!user.may_read(library)).then_some(name)
    }

    /// Whether a filter restricts its system calls.
    pub fn restricts_calls(&self) -> bool {
        // systemd's own set for services includes everything masu needs.
        let mut filters = self.values("SystemCallFilter").filter(|value| !value.starts_with('~'));
        filters.any(|value| !value.is_empty() && !value.contains("@system-service"))
    }
}

/// Splits a line into words as systemd does: quotes keep blanks, and what follows a backslash means itself.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.extend(chars.next()),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ' | '\t', None) if word.is_empty() => {}
            (' ' | '\t', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Returns the name of the file that a link points to: an alias links to the file under its own
/// name.
fn alias(file: &Path) -> Option<String> {
    Some(fs::read_link(file).ok()?.file_name()?.to_str()?.to_owned())
}

/// Whether a unit file is one that systemd takes for masked: `/dev/null`, also on another machine, or empty.
fn is_masked(file: &Path) -> bool {
    let is_empty = |of: fs::Metadata| of.is_file() && of.len() == 0;
    alias(file).is_some_and(|target| target == "null") || fs::metadata(file).is_ok_and(is_empty)
}

/// Returns the other names of a service: links to its file.
fn aliases(root: &Path, name: &str) -> Vec<String> {
    let entries = PLACES.iter().filter_map(|place| fs::read_dir(root.join(place)).ok()).flatten();
    let others =
        entries.flatten().filter(|entry| alias(&entry.path()).is_some_and(|of| of == name));
    others
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|it| it != name)
        .collect()
}

/// Returns the names of the directories with a name's drop-ins: an instance also has its template's, and `a-b.service`
/// those of `a-.service`.
fn drop_in_directories(name: &str) -> Vec<String> {
    let template = name.split_once('@').map(|(name, _)| format!("{name}@.service.d"));
    let own = [Some(format!("{name}.d")), template].into_iter().flatten();
    let stem = name.trim_end_matches(".service").split('@').next().unwrap_or_default();
    let dashes = stem.rmatch_indices('-').filter(|(at, _)| at + 1 < stem.len());
    own.chain(dashes.map(|(at, _)| format!("{}.service.d", &stem[..=at]))).collect()
}

/// Returns the file of a unit; an instance has its template's.
fn unit_file(root: &Path, full: &str) -> Option<PathBuf> {
    let template = full.split_once('@').filter(|(_, rest)| *rest != ".service");
    let names = [Some(full.to_owned()), template.map(|(name, _)| format!("{name}@.service"))];
    let mut files = names
        .into_iter()
        .flatten()
        .flat_map(|name| PLACES.map(|place| root.join(place).join(&name)));
    files.find(|file| file.is_file() || file.is_symlink())
}

/// Returns the names of all services that have files.
fn services(root: &Path) -> Vec<String> {
    let entries = PLACES.iter().filter_map(|place| fs::read_dir(root.join(place)).ok()).flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> =
        names.filter_map(|name| Some(name.strip_suffix(".service")?.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the instances of the template `name@` that are enabled or running.
fn instances(root: &Path, name: &str) -> Vec<String> {
    let wanted = PLACES.iter().filter_map(|place| fs::read_dir(root.join(place)).ok()).flatten();
    let below = wanted
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(".wants"))
        .filter_map(|path| fs::read_dir(path).ok())
        .flatten();
    let begin = format!("{name}@");
    let names = below.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with(&begin) && !name.starts_with(&format!("{begin}.")))
        .filter_map(|name| Some(name.strip_suffix(".service")?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Common names of services that distributions call otherwise.
const OTHER_NAMES: [&[&str]; 5] = [
    &["redis", "redis-server", "valkey", "valkey-server"],
    &["mariadb", "mysql", "mysqld"],
    &["apache2", "httpd", "apache"],
    &["postgresql", "postgres"],
    &["memcached", "memcache"],
];

/// Where unit files of the services that users start for themselves are, except those in their homes.
const USERS_PLACES: [&str; 4] =
    ["etc/systemd/user", "usr/local/lib/systemd/user", "usr/lib/systemd/user", "lib/systemd/user"];

fn unknown(root: &Path, name: &str) -> Failure {
    if USERS_PLACES.iter().any(|place| root.join(place).join(format!("{name}.service")).exists()) {
        let problem =
            format!("{name} is a service of users, and `masu unit` serves only the system's");
        let lines = "[Service] and Environment=LD_PRELOAD=/path/to/libmasu.so";
        return Failure::new(USAGE, problem)
            .remedy(format!("systemctl --user edit {name}, two lines: {lines}"));
    }
    let all = services(root);
    let alike =
        OTHER_NAMES.iter().filter(|names| names.contains(&name)).flat_map(|names| names.iter());
    let other = alike.copied().find(|other| all.iter().any(|known| known == other));
    let meant = other.or_else(|| near::to(name, all.iter().map(String::as_str)));
    Failure::new(USAGE, format!("there is no service {name}")).remedy(match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => "systemctl list-unit-files --type=service shows them".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_behind_a_backslash_opens_nothing() {
        let line = r#"A="b \" c" LD_PRELOAD=/x.so 'D=e f' G=\'h"#;
        assert_eq!(words(line), [r#"A=b " c"#, "LD_PRELOAD=/x.so", "D=e f", "G='h"]);
        assert_eq!(words(" a\t b "), ["a", "b"]);
        assert_eq!(words("a\\"), ["a"]);
        assert!(words("").is_empty());
    }
}
