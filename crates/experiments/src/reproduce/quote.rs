//! Evidence in a quotation of a paper.
//!
//! It is the numbers that the quotation prints, and the constants that a statement may take from
//! it.

/// Maximum length of a quotation, characters: numbers and a few words, not the paper's prose.
pub const MAX_QUOTE_CHARS: usize = 160;

/// A number as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Value of the number.
    pub value: f64,
    /// Digits after its point.
    pub digits: usize,
    /// True if a per cent sign follows.
    pub percent: bool,
    /// True if it counts millions where ours count thousands (Mbps instead of kbit/s).
    pub mega: bool,
}

/// Returns every number of a quotation, in order.
pub fn numbers(quote: &str) -> Vec<Printed> {
    let chars: Vec<char> = quote.chars().collect();
    let mut out = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        // A digit inside a word is part of a name: f4, U0.
        let in_name = i > 0 && (chars[i - 1].is_alphabetic() || chars[i - 1] == '_');
        if !chars[i].is_ascii_digit() || in_name {
            i += 1;
            continue;
        }
        let start = i;
        let mut point = None;
        while i < chars.len() {
            let more = chars.get(i + 1).is_some_and(char::is_ascii_digit);
            match chars[i] {
                c if c.is_ascii_digit() => {}
                '.' if point.is_none() && more => point = Some(i),
                ',' if more => {}
                _ => break,
            }
            i += 1;
        }
        let text: String = chars[start..i].iter().filter(|c| **c != ',').collect();
        let Ok(value) = text.parse::<f64>() else { continue };
        // One twelfth: our numbers are percentages.
        let below: String = match chars.get(i) {
            Some('/') => chars[i + 1..].iter().take_while(|c| c.is_ascii_digit()).collect(),
            _ => String::new(),
        };
        if let Ok(below) = below.parse::<f64>() {
            out.push(Printed {
                value: 100.0 * value / below,
                digits: 0,
                percent: true,
                mega: false,
            });
        }
        let rest: String = chars[i..].iter().collect();
        let unit = rest.trim_start();
        out.push(Printed {
            value,
            digits: point.map_or(0, |p| i - p - 1),
            percent: unit.starts_with('%'),
            mega: unit.starts_with("Mbps") || unit.starts_with("Mb/s"),
        });
    }
    out
}

/// Words for a factor, with the factor.
const FACTOR_WORDS: [(&str, f64); 9] = [
    ("half", 0.5),
    ("doubles", 2.0),
    ("twice", 2.0),
    ("two times", 2.0),
    ("two-fold", 2.0),
    ("three-fold", 3.0),
    ("third", 1.0 / 3.0),
    ("quarter", 0.25),
    ("order of magnitude", 10.0),
];

/// Returns true if the quotation supports a comparison with `constant` times another number.
///
/// It supports 1, a printed number, a word for it, or a printed percentage: an increase, a decrease
/// or a fraction.
pub fn bears_factor(quote: &str, constant: f64) -> bool {
    let word = |&(word, factor): &(&str, f64)| quote.contains(word) && same(constant, factor);
    let number = |p: &Printed| match p.percent {
        true => [p.value / 100.0, 1.0 - p.value / 100.0, 1.0 + p.value / 100.0]
            .iter()
            .any(|&f| same(constant, f)),
        false => same(constant, p.value),
    };
    same(constant, 1.0) || FACTOR_WORDS.iter().any(word) || numbers(quote).iter().any(number)
}

/// Words for a rate at which the ratio to the fair rate is 1.
const FAIR_RATE_WORDS: [&str; 3] = ["fair rate", "fair share", "fair allocation"];

/// Returns true if the quotation supports a comparison with the plain number `constant`.
pub fn bears_number(quote: &str, constant: f64) -> bool {
    if same(constant, 1.0) && FAIR_RATE_WORDS.iter().any(|f| quote.contains(f)) {
        return true;
    }
    numbers(quote).iter().any(|p| {
        let value = if p.mega { 1e3 * p.value } else { p.value };
        same(constant.abs(), value) || p.percent && same(constant.abs(), p.value / 100.0)
    })
}

/// Words of a sentence that gives several flows their numbers.
///
/// The numbers are in an order of their own, or one for all.
const LIST_WORDS: [&str; 4] = [" each", " all ", " for ", " other "];

/// Returns the digits with which each of `values` is printed in the quotation.
///
/// The values are in order, as in the line of a table, or anywhere in a sentence.
///
/// # Errors
/// The value that is not printed there.
pub fn row(quote: &str, values: &[f64]) -> Result<Vec<usize>, f64> {
    let printed = numbers(quote);
    let prose =
        LIST_WORDS.iter().any(|word| quote.contains(word) || quote.ends_with(word.trim_end()));
    let mut next = 0;
    let find = |value: &f64| {
        let after = printed[next..].iter().position(|p| same(p.value, *value)).map(|at| next + at);
        let anywhere = || printed.iter().position(|p| prose && same(p.value, *value));
        let at = after.or_else(anywhere).ok_or(*value)?;
        next = at + 1;
        Ok(printed[at].digits)
    };
    values.iter().map(find).collect()
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_printed() {
        let read =
            |q| numbers(q).iter().map(|p| (p.value, p.digits, p.percent)).collect::<Vec<_>>();
        assert_eq!(
            read("f1 and 305 Kb/s, 2% of 1,000."),
            [(305.0, 0, false), (2.0, 0, true), (1000.0, 0, false)]
        );
        assert_eq!(read("FIFO 0.10 15.2"), [(0.1, 2, false), (15.2, 1, false)]);
        assert!(numbers("2.2 Mbps")[0].mega);
    }

    #[test]
    fn a_row_is_printed_in_order_and_completely() {
        assert_eq!(row("FQ 0.55 0.20 5.36", &[0.55, 0.2, 5.36]), Ok(vec![2, 2, 2]));
        assert_eq!(row("FQ 0.55 0.20 5.36", &[0.2, 0.55]), Err(0.55));
        assert_eq!(row("FQ 0.55 0.20 5.36", &[0.55, 0.21]), Err(0.21));
        assert_eq!(row("1.0", &[1.0, 1.0]), Err(1.0));
        assert_eq!(row("82 Kb/s each", &[82.0, 82.0]), Ok(vec![0, 0]));
        assert_eq!(
            row("315 kbps for f4→6, and 335 kbps for f1→3", &[335.0, 315.0]),
            Ok(vec![0, 0])
        );
        assert_eq!(row("315 kbps for f4→6, and 335 kbps for f1→3", &[335.0, 314.0]), Err(314.0));
        assert_eq!(row("a limit of 1/12", &[100.0 / 12.0]), Ok(vec![0]));
    }

    #[test]
    fn constants_come_from_the_quotation() {
        assert!(bears_factor("nothing", 1.0) && !bears_factor("nothing", 0.97));
        assert!(
            bears_factor("a drop of only 4%", 0.96) && !bears_factor("a drop of only 4%", 0.95)
        );
        assert!(
            bears_factor("an increase of 200%", 3.0) && bears_factor("roughly half as much", 0.5)
        );
        assert!(bears_number("approach their fair rate", 1.0) && !bears_number("approach", 1.0));
        assert!(bears_number("in excess of 425 Kb/s", 425.0) && bears_number("0.6 Mbps", 600.0));
        assert!(bears_number("about 10% deviation", -0.1) && !bears_number("425", 420.0));
    }
}
