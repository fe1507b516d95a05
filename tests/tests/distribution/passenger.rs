//! Passenger, which starts the interpreter that its configuration names: Apache with the line of docs/ruby-bloats.md, in an
//! image of this system with masu's packages.

use std::fs;
use std::path::Path;

use masu_tests::running::free_port;
use masu_tests::{left_out, scratch, workspace};

use crate::image::{Image, TO_RUN, search_path};
use crate::packages;

/// The page's script, and the page's line for Apache.
const SCRIPT: &str = "'#!/bin/sh' 'exec masu run -- ruby \"$@\"'";
const LINE: &str = "PassengerRuby /usr/local/bin/ruby-on-masu";

/// The application says whether its own process has the library.
const APPLICATION: &str = "run ->(_) { [200, { 'Content-Type' => 'text/plain' }, \
    [File.read('/proc/self/maps').include?('/libmasu.so.0') ? 'on masu' : 'not on masu']] }\n";

const SERVER: &str = "ServerName localhost
PidFile /srv/passenger/pid
ErrorLog /srv/passenger/log
Mutex file:/srv/passenger
User www-data
Group www-data
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule passenger_module /usr/lib/apache2/modules/mod_passenger.so
PassengerRoot /usr/lib/ruby/vendor_ruby/phusion_passenger/locations.ini
PassengerInstanceRegistryDir /srv/passenger
PassengerDisableAnonymousTelemetry on
PassengerAppRoot /srv/passenger/app
DocumentRoot /srv/passenger/app/public
";

#[test]
fn an_application_of_passenger_is_on_masu() {
    let page = fs::read_to_string(workspace().join("docs/ruby-bloats.md")).expect("the page");
    assert!(page.contains(&format!("`{LINE}` in Apache")) && page.contains(SCRIPT), "{page}");
    let Some(packages) = packages() else { return };
    if !Path::new("/usr/lib/apache2/modules/mod_passenger.so").exists() {
        return left_out("Passenger", "its module for Apache is not installed");
    }
    let Some(image) = Image::of_this_system() else { return };
    image.install(packages, &TO_RUN);
    let place = scratch();
    let file = |name: &str, text: &str| {
        fs::write(place.path().join("file"), text).expect("written");
        image.put(&place.path().join("file"), name);
    };
    let port = free_port();
    file("/srv/passenger/app/config.ru", APPLICATION);
    file("/srv/passenger/app/public/robots.txt", "");
    for (configuration, says) in [(LINE, "on masu"), ("PassengerRuby /usr/bin/ruby", "not on masu")]
    {
        file("/srv/passenger/conf", &format!("{SERVER}Listen 127.0.0.1:{port}\n{configuration}\n"));
        let said = image.shell(
            &search_path(),
            &format!(
                "printf '%s\\n' {SCRIPT} >/usr/local/bin/ruby-on-masu
                chmod +x /usr/local/bin/ruby-on-masu
                apache2 -f /srv/passenger/conf -DFOREGROUND >&2 &
                server=$!
                # It starts twice, and the application after that.
                curl --silent --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:{port}/ || cat /srv/passenger/log
                kill $server
                wait $server || true"
            ),
        );
        assert_eq!(said, says, "{configuration}");
    }
}
