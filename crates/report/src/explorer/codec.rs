//! Text form of sampled curves: differences of rounded values, a few characters each.
//!
//! The form is `STEP:CODES`. A value is the sum of all differences so far, times the step. A
//! difference is a zigzag number in digits of base 32, lowest first; each digit except the last has
//! 32 added. Digits are the characters of base64. `~` and a plain number (not zigzag) repeat the
//! difference 0. The page decodes it in `explorer/src/model/curve.ts`.

/// Largest rounded value of a curve: a step is a fraction of a pixel of every chart.
const CURVE_RESOLUTION: f64 = 1000.0;
/// Shortest run of equal values that is written as a repetition.
const SHORTEST_RUN: usize = 4;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes a curve; values that are not finite count as 0.
pub fn encode(values: &[f64]) -> String {
    let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
    let step = step(values.iter().fold(0.0, |m: f64, v| m.max(finite(*v).abs())));
    let mut out = format!("{step}:");
    let (mut last, mut zeros) = (0i64, 0usize);
    for v in values {
        let value = (finite(*v) / step).round() as i64;
        let delta = value - last;
        last = value;
        if delta == 0 {
            zeros += 1;
            continue;
        }
        flush(&mut out, &mut zeros);
        number(&mut out, zigzag(delta));
    }
    flush(&mut out, &mut zeros);
    out
}

/// Returns a step of 1, 2 or 5 times a power of ten.
fn step(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let wanted = largest / CURVE_RESOLUTION;
    let power = 10f64.powi(wanted.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0].into_iter().map(|m| m * power).find(|s| *s >= wanted);
    let step = step.unwrap_or(10.0 * power);
    // Without the digits that the computation of powers of ten adds.
    format!("{step:.3e}").parse().unwrap_or(step)
}

fn flush(out: &mut String, zeros: &mut usize) {
    if *zeros >= SHORTEST_RUN {
        out.push('~');
        number(out, *zeros as u64);
    } else {
        (0..*zeros).for_each(|_| out.push('A'));
    }
    *zeros = 0;
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn number(out: &mut String, mut n: u64) {
    loop {
        let digit = (n & 31) as usize;
        n >>= 5;
        let more = if n > 0 { 32 } else { 0 };
        out.push(DIGITS[digit + more] as char);
        if n == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Vec<f64> {
        let (step, codes) = text.split_once(':').unwrap();
        let step: f64 = step.parse().unwrap();
        let digit = |c: u8| DIGITS.iter().position(|d| *d == c).unwrap() as u64;
        let mut bytes = codes.bytes().peekable();
        let (mut out, mut value) = (Vec::new(), 0i64);
        while let Some(&first) = bytes.peek() {
            let repeat = first == b'~';
            if repeat {
                bytes.next();
            }
            let (mut n, mut shift) = (0u64, 0);
            loop {
                let d = digit(bytes.next().unwrap());
                n |= (d & 31) << shift;
                shift += 5;
                if d < 32 {
                    break;
                }
            }
            if repeat {
                out.extend((0..n).map(|_| value as f64 * step));
            } else {
                value += (n >> 1) as i64 ^ -((n & 1) as i64);
                out.push(value as f64 * step);
            }
        }
        out
    }

    #[test]
    fn a_curve_comes_back_within_half_a_step() {
        let mut state = 1u64;
        for length in [0, 1, 2, 7, 400] {
            for top in [0.0, 1e-3, 0.7, 1.0, 999.0, 1e3, 2_345.6, 1e9] {
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 11) as f64 / (1u64 << 53) as f64
                };
                // A third of the values repeats the previous one.
                let mut curve: Vec<f64> = Vec::new();
                for _ in 0..length {
                    let again = next() < 0.34 || next() < 0.1;
                    let value = if again { *curve.last().unwrap_or(&0.0) } else { next() * top };
                    curve.push(value);
                }
                let text = encode(&curve);
                let back = decode(&text);
                assert_eq!(back.len(), curve.len(), "{text}");
                let bound = step(curve.iter().copied().fold(0.0, f64::max)) * 0.500_001;
                for (a, b) in curve.iter().zip(&back) {
                    assert!((a - b).abs() <= bound, "{a} {b} {text}");
                }
            }
        }
    }

    /// The page's decoder is tested with the same examples (`explorer/test/curve.test.mjs`).
    #[test]
    fn examples_are_kept() {
        let examples: [(&[f64], &str); 4] = [
            (&[], "1:"),
            (&[0.0; 120], "1:~4D"),
            (&[100.0, 100.0, 90.0, 0.0, 1000.0], "1:oGATzFw-B"),
            (&[1.5, f64::NAN, -1.5, -1.5], "0.002:8uB7uB7uBA"),
        ];
        for (values, text) in examples {
            assert_eq!(encode(values), text, "{values:?}");
        }
    }

    #[test]
    fn steps_are_fine_enough() {
        for largest in [1e-3, 0.5, 1.0, 3.0, 999.9, 1e3, 12_345.0, 7e8] {
            let step = step(largest);
            assert!(
                largest / step <= CURVE_RESOLUTION * 1.001 && largest / step > 390.0,
                "{largest} {step}"
            );
        }
    }
}
