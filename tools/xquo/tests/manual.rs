//! The manual page says what the command line says. To write it anew after a change:
//! `BLESS=1 cargo test -p xquo --test manual`.

use std::{env, fs};

use clap::CommandFactory;

#[test]
fn the_manual_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/xquo.1");
    let mut page = Vec::new();
    clap_mangen::Man::new(xquo::Arguments::command()).render(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    if env::var_os("BLESS").is_some() {
        fs::write(path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap_or_default(), page, "write it anew with BLESS=1");
}
