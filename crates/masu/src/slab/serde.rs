//! A [`Slab`] as a map from keys to values, as the `slab` crate writes and reads it.

use super::change::Slab;
use super::collect::Builder;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

impl<T: Serialize> Serialize for Slab<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

struct Pairs<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
    type Value = Slab<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Slab<T>, A::Error> {
        // Memory must not be reserved on the word of the input's length.
        let mut builder = Builder::with_capacity(map.size_hint().unwrap_or(0).min(1024));
        while let Some((key, value)) = map.next_entry()? {
            builder.pair(key, value);
        }
        Ok(builder.build())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Slab<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}
