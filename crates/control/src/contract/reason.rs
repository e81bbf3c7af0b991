//! Reasons for decisions, as logs, metrics and reports show them.

use core::fmt::{self, Write as _};

use fairmesh_units::{BitRate, FlowId, NodeId, Span};

use crate::Class;

/// A value in a reason's sentence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A rate.
    Rate(BitRate),
    /// A flow.
    Flow(FlowId),
    /// A flow of another gateway, by that gateway's number for it.
    Elsewhere(NodeId, FlowId),
    /// A node.
    Node(NodeId),
    /// A class.
    Class(Class),
    /// A share or ratio.
    Ratio(f64),
    /// A share or ratio, printed in per cent.
    Percent(f64),
    /// A count.
    Count(u64),
    /// A duration.
    Span(Span),
    /// A number as given.
    Number(f64),
    /// No value: the rest of the array.
    None,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Rate(r) => r.fmt(f),
            Value::Flow(flow) => write!(f, "{}", flow.0),
            Value::Elsewhere(node, flow) => write!(f, "{} of gateway {}", flow.0, node.0),
            Value::Node(node) => write!(f, "{}", node.0),
            Value::Class(class) => class.fmt(f),
            Value::Ratio(x) => write!(f, "{x:.3}"),
            Value::Percent(x) => write!(f, "{:.0} %", x * 100.0),
            Value::Count(n) => n.fmt(f),
            Value::Span(s) => s.fmt(f),
            Value::Number(x) => x.fmt(f),
            Value::None => Ok(()),
        }
    }
}

/// A reason: a stable code to count by and a sentence to read.
///
/// To build one copies a few words; the sentence is formatted only when it is printed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reason {
    /// Stable name such as `"source.allocation"`: the mechanism, a dot, the case.
    pub code: &'static str,
    /// Sentence in English, with a `{}` for each value.
    pub sentence: &'static str,
    /// The values, in the order of the sentence.
    pub values: [Value; 4],
}

impl Reason {
    /// Builds a reason; values beyond four are left out.
    pub fn new(code: &'static str, sentence: &'static str, given: &[Value]) -> Self {
        let mut values = [Value::None; 4];
        for (to, from) in values.iter_mut().zip(given) {
            *to = *from;
        }
        Reason { code, sentence, values }
    }

    /// Formats the sentence with a host's names for values.
    ///
    /// A value without a name is printed as a number.
    pub fn with_names(&self, name: impl Fn(&Value) -> Option<String>) -> String {
        let mut out = String::new();
        let _ = self.write_sentence(&mut out, |value, out| match name(value) {
            Some(name) => out.write_str(&name),
            None => write!(out, "{value}"),
        });
        out
    }

    fn write_sentence<W: fmt::Write>(
        &self,
        out: &mut W,
        value: impl Fn(&Value, &mut W) -> fmt::Result,
    ) -> fmt::Result {
        let mut values = self.values.iter();
        let mut rest = self.sentence;
        while let Some(at) = rest.find("{}") {
            out.write_str(&rest[..at])?;
            value(values.next().unwrap_or(&Value::None), out)?;
            rest = &rest[at + 2..];
        }
        out.write_str(rest)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_sentence(f, |value, f| value.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_takes_its_values_in_order() {
        let four =
            [Value::Flow(FlowId(7)), Value::Percent(0.256), Value::Count(3), Value::Number(1.5)];
        let reason = Reason::new("test.case", "flow {}: {} of {} at {}", &four);
        assert_eq!(reason.to_string(), "flow 7: 26 % of 3 at 1.5");
        let more = [four, four].concat();
        assert_eq!(Reason::new("test.case", "flow {}: {} of {} at {}", &more), reason);
        // More places than values: the surplus places stay empty.
        assert_eq!(Reason::new("c", "{}, {} and", &[Value::Count(1)]).to_string(), "1,  and");
        assert_eq!(
            Reason::new("c", "node {} {}", &[Value::Node(NodeId(2)), Value::Ratio(0.5)])
                .to_string(),
            "node 2 0.500"
        );
        let named = reason.with_names(|v| matches!(v, Value::Flow(_)).then(|| "farm up".into()));
        assert_eq!(named, "flow farm up: 26 % of 3 at 1.5");
    }
}
