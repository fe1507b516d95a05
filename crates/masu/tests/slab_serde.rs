//! A slab written and read as a map, as the `slab` crate does.
#![cfg(feature = "serde")]

use masu::Slab;

#[test]
fn a_map_of_keys_and_values() {
    let mut slab: Slab<String> = Slab::new();
    for text in ["a", "b", "c"] {
        slab.insert(text.into());
    }
    slab.remove(1);
    let written = serde_json::to_string(&slab).unwrap();
    assert_eq!(written, r#"{"0":"a","2":"c"}"#);

    let mut read: Slab<String> = serde_json::from_str(&written).unwrap();
    assert_eq!(read.iter().collect::<Vec<_>>(), slab.iter().collect::<Vec<_>>());
    assert_eq!([read.insert("b".into()), read.insert("d".into())], [1, 3]);

    assert!(serde_json::from_str::<Slab<String>>("[1]").is_err());
    assert!(serde_json::from_str::<Slab<u8>>(r#"{"0":1,"x":2}"#).is_err());
}
