//! The older text format (0.0.4), made from OpenMetrics.
//!
//! It has no units, no end mark and no information type; and a counter's comments have the full name of its samples.

/// Returns the same metrics in that format.
pub fn from(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // The family's comment, which comes before its type.
    let mut help = "";
    for line in open.lines() {
        if let Some(comment) = line.strip_prefix("# HELP ") {
            help = comment;
        } else if let Some(comment) = line.strip_prefix("# TYPE ") {
            let (name, kind) = comment.split_once(' ').unwrap_or((comment, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            let meaning = help.strip_prefix(name).unwrap_or_default();
            text.push_str(&format!(
                "# HELP {name}{suffix}{meaning}\n# TYPE {name}{suffix} {kind}\n"
            ));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_have_the_names_of_samples() {
        let open = "# HELP a_bytes What.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"#\"} 1\n\
            # HELP b It.\n# TYPE b info\nb_info{v=\"1\"} 1\n# HELP c So.\n# TYPE c gauge\nc 2.5\n# EOF\n";
        assert_eq!(
            from(open),
            "# HELP a_bytes_total What.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"#\"} 1\n\
             # HELP b_info It.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c So.\n# TYPE c gauge\nc 2.5\n"
        );
    }
}
