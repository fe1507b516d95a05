//! The machine code that makes and drops a box: the class is a constant of the program, and only the function that
//! frees is called.
#![cfg(target_arch = "x86_64")]

mod common;

use std::process::Command;

/// The function that does all frees of a program.
const FREE: &str = "masu::global::engine::dealloc";

/// The instructions of a hit: from a function's first one straight on, past every conditional jump, to the `ret` or to
/// the jump to [`FREE`].
fn hit(program: &str, function: &str) -> Option<Vec<String>> {
    let only = format!("--disassemble={function}");
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "-C", "--no-show-raw-insn", "-M", "intel", &only, program]);
    let listing = String::from_utf8(objdump.output().ok()?.stdout).expect("text");
    let code = listing.lines().filter_map(|line| line.split_once(":\t"));
    let mut path: Vec<String> = Vec::new();
    for (_, instruction) in code {
        path.push(instruction.trim().to_owned());
        if instruction.trim() == "ret" {
            return Some(path);
        }
        assert!(!instruction.starts_with("call"), "{function} calls: {path:?}");
        if instruction.starts_with("jmp") {
            assert!(
                instruction.ends_with(&format!("<{FREE}>")),
                "{function} goes on to {instruction}"
            );
            return Some(path);
        }
    }
    panic!("no code of {function}: {listing}")
}

#[test]
fn a_box_of_constant_size_takes_no_table_and_few_instructions() {
    if Command::new("objdump").arg("--version").output().is_err() {
        println!("objdump is not installed");
        return;
    }
    // As a program of its own: the example would need what all of them need.
    let profile = "lto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"";
    let built = common::program("boxes", include_str!("../examples/boxes.rs"), Some(""), profile);
    let program = built.to_str().expect("UTF-8");
    let ran = common::output(&mut Command::new(&built));
    assert_eq!(ran, "499500\n");

    let make = hit(program, "make_box").expect("objdump runs");
    // Besides, the word is spread over the box (up to six moves), and a register is saved.
    assert!(make.len() <= 7 + 6 + 4, "{}: {make:#?}", make.len());
    let loads = make.iter().filter(|i| i.starts_with("movzx") || i.contains("[rip"));
    assert_eq!(loads.count(), 0, "the class is looked up: {make:#?}");

    let drop = hit(program, "drop_box").expect("objdump runs");
    assert_eq!(drop.len(), 1, "{drop:#?}");
    let free = hit(program, FREE).expect("objdump runs");
    assert!(free.len() <= 22, "{}: {free:#?}", free.len());
}
