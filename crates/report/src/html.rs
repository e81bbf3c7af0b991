//! Minimal HTML helpers.

/// Escapes text for element content and attribute values.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes JSON for a `script` element: no `</script>` and no `<!--` can appear.
pub fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Replaces each `{{key}}` of `template` in one pass.
///
/// Keys in values are therefore not replaced.
///
/// # Panics
/// Panics if the template names a key that is not given; templates are part of the program.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (key, after) = after.split_once("}}").expect("template: unclosed key");
        let value = values.iter().find(|(k, _)| *k == key).expect("template: unknown key").1;
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out + rest
}

/// Style of all pages.
pub const STYLE: &str = include_str!("../assets/report.css");

/// Returns a page that needs no other file.
///
/// All parts are escaped already; styles are concatenated.
pub fn page(title: &str, styles: &[&str], body: &str) -> String {
    let values = [("title", title), ("style", &styles.join("\n")), ("body", body)];
    fill(include_str!("../assets/page.html"), &values)
}

/// Returns a table: header, then rows, with cells that are escaped already.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        cells.map(|c| format!("<{tag}>{c}</{tag}>")).collect()
    };
    let head = cells("th", &mut header.iter().copied());
    let body: String = rows
        .iter()
        .map(|r| format!("<tr>{}</tr>", cells("td", &mut r.iter().map(String::as_str))))
        .collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(escape("<a b='c\"'>&"), "&lt;a b=&#39;c&quot;&#39;&gt;&amp;");
        let v = serde_json::json!({"name": "</script><!--"});
        assert!(!script_json(&v).contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&script_json(&v)).unwrap(), v);
    }

    #[test]
    fn values_are_not_templates() {
        assert_eq!(fill("a{{x}}b{{y}}", &[("x", "{{y}}"), ("y", "!")]), "a{{y}}b!");
    }
}
