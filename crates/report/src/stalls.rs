//! Summary in one line of the time that an emulated run lost in stalls of the radio.

use fairmesh_lab::record::StallRecord;

/// Describes the stalls' number and duration, and compares their effect with the bound.
pub fn text(s: &StallRecord) -> String {
    let bent =
        format!("{:.1} % is bent, valid up to {:.0} %", s.bent * 100.0, s.bent_bound * 100.0);
    if s.number == 0 {
        return format!("the radio never stood still; {bent}");
    }
    let times = if s.number == 1 { "once".into() } else { format!("{} times", s.number) };
    format!(
        "the radio stood still {times}, {:.3} s in all ({:.1} % of the time), {:.1} ms at the longest; {bent}",
        s.sum_s,
        s.share * 100.0,
        s.longest_s * 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line() {
        let mut s = StallRecord { bent_bound: 0.1, ..StallRecord::default() };
        assert_eq!(text(&s), "the radio never stood still; 0.0 % is bent, valid up to 10 %");
        (s.number, s.sum_s, s.longest_s, s.share, s.bent) = (3, 0.15, 0.12, 0.01, 0.0767);
        assert_eq!(
            text(&s),
            "the radio stood still 3 times, 0.150 s in all (1.0 % of the time), 120.0 ms at the longest; \
             7.7 % is bent, valid up to 10 %"
        );
    }
}
