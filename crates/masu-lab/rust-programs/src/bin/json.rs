//! Documents that are parsed into trees, changed and written again.

use rust_programs::{Random, finish, mix, scaled, total};
use serde_json::{Value, json};

fn document(random: &mut Random) -> String {
    let people: Vec<Value> = (0..3000)
        .map(|n| {
            let tags: Vec<String> =
                (0..random.below(8)).map(|tag| format!("tag-{tag}-{}", random.below(100))).collect();
            json!({
                "id": n,
                "name": format!("person number {n}"),
                "tags": tags,
                "address": { "street": format!("{} long street", random.below(1000)), "zip": random.below(99_999) },
                "scores": [random.below(10), random.below(10), 0.5],
            })
        })
        .collect();
    json!({ "people": people }).to_string()
}

fn main() {
    let mut random = Random(2);
    let texts: Vec<String> = (0..4).map(|_| document(&mut random)).collect();
    let mut sum = 0u64;
    for round in 0..scaled(400) {
        let mut tree: Value = serde_json::from_str(&texts[round as usize % 4]).expect("JSON");
        let people = tree["people"].as_array_mut().expect("an array");
        for person in people.iter_mut().filter(|person| person["id"].as_u64().unwrap_or(0) % 3 == 0)
        {
            person["seen"] = json!([round, "again"]);
        }
        people.retain(|person| person["id"].as_u64().unwrap_or(0) % 7 != 0);
        sum = sum.wrapping_add(mix(total(&serde_json::to_vec(&tree).expect("JSON"))));
    }
    finish(sum);
}
