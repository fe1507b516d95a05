//! A language of sums and products: its text, its tree, and what can be done with the tree.

use std::collections::HashMap;

/// An expression. Every part is a block of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// A number.
    Number(u64),
    /// A name.
    Name(String),
    /// Two operands and `+` or `*` between them.
    Pair(char, Box<Tree>, Box<Tree>),
    /// A function and its arguments, which are summed up.
    Call(String, Vec<Tree>),
}

use Tree::{Call, Name, Number, Pair};

/// A random text of the given depth.
pub fn write(rng: &mut fastrand::Rng, depth: u32, text: &mut String) {
    use std::fmt::Write;
    match rng.u8(..if depth == 0 { 2 } else { 8 }) {
        0 => write!(text, "{}", rng.u32(..1000)).expect("writing to a string"),
        1 => write!(text, "name_{}", rng.u8(..50)).expect("writing to a string"),
        2 => {
            write!(text, "function_{}(", rng.u8(..9)).expect("writing to a string");
            for argument in 0..rng.u8(1..5) {
                if argument > 0 {
                    text.push_str(", ");
                }
                write(rng, depth - 1, text);
            }
            text.push(')');
        }
        _ => {
            text.push('(');
            write(rng, depth - 1, text);
            text.push_str(if rng.bool() { " + " } else { " * " });
            write(rng, depth - 1, text);
            text.push(')');
        }
    }
}

/// The tree of a text that `write` wrote; moves `text` on to what follows.
pub fn parse(text: &mut &str) -> Tree {
    if let Some(rest) = text.strip_prefix('(') {
        *text = rest;
        let left = parse(text);
        let operator = text.as_bytes()[1].into();
        *text = &text[3..];
        let right = parse(text);
        *text = &text[1..];
        return Pair(operator, Box::new(left), Box::new(right));
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *text = rest;
    if let Ok(number) = word.parse() {
        return Number(number);
    }
    if !text.starts_with('(') {
        return Name(word.to_string());
    }
    let mut arguments = Vec::new();
    while !text.starts_with(')') {
        *text = text[1..].trim_start();
        arguments.push(parse(text));
    }
    *text = &text[1..];
    Call(word.to_string(), arguments)
}

impl Tree {
    /// A new tree in which whatever has only numbers in it is one number.
    pub fn folded(&self) -> Tree {
        match self {
            Pair(operator, left, right) => match (left.folded(), right.folded()) {
                (Number(left), Number(right)) => Number(apply(*operator, left, right)),
                (left, right) => Pair(*operator, Box::new(left), Box::new(right)),
            },
            Call(name, arguments) => {
                Call(name.clone(), arguments.iter().map(Tree::folded).collect())
            }
            other => other.clone(),
        }
    }

    /// Its value, names taken from `values`.
    pub fn value(&self, values: &HashMap<String, u64>) -> u64 {
        match self {
            Number(number) => *number,
            Name(name) => values[name],
            Pair(operator, left, right) => {
                apply(*operator, left.value(values), right.value(values))
            }
            Call(name, arguments) => {
                let sum = arguments.iter().map(|argument| argument.value(values));
                sum.fold(name.len() as u64, u64::wrapping_add)
            }
        }
    }

    /// The text again.
    pub fn text(&self) -> String {
        match self {
            Number(number) => number.to_string(),
            Name(name) => name.clone(),
            Pair(operator, left, right) => format!("({} {operator} {})", left.text(), right.text()),
            Call(name, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(Tree::text).collect();
                format!("{name}({})", arguments.join(", "))
            }
        }
    }
}

fn apply(operator: char, left: u64, right: u64) -> u64 {
    if operator == '+' { left.wrapping_add(right) } else { left.wrapping_mul(right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_tree_name_each_other() {
        let mut text = "((1 + 2) * function_3(name_4, (5 * 6)))";
        let whole = text;
        let tree = parse(&mut text);
        assert_eq!((tree.text().as_str(), text), (whole, ""));
        assert_eq!(tree.folded().text(), "(3 * function_3(name_4, 30))");
        let values = HashMap::from([("name_4".to_string(), 7)]);
        assert_eq!(tree.value(&values), 3 * (10 + 7 + 30));
    }
}
