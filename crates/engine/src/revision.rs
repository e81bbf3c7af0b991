//! Identity of results.

/// Number that changes when a record changes in a way that no fingerprint shows.
///
/// Examples are another definition of a measure, or another meaning of a field.
const RECORD_FORMAT: u8 = 1;

/// Kept fingerprints of the shipped scenarios, and of short runs of each kind.
///
/// `fairmesh fingerprints` computes the former; the latter are a run per control, transport, queue and kind
/// of radio (`tests/fingerprints.rs`).
const KEPT_FINGERPRINTS: [&[u8]; 2] =
    [include_bytes!("../fingerprints/scenarios.json"), include_bytes!("../fingerprints/kinds.txt")];

/// Identity of the results of this build: 16 hexadecimal digits.
///
/// It is a hash of the kept fingerprints, which the tests compare with new runs. It therefore changes
/// with every change of results, and only then. Stores of results use it as part of their keys.
pub const REVISION: &str = match core::str::from_utf8(&DIGITS) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

static DIGITS: [u8; 16] = digits(hash(RECORD_FORMAT, &KEPT_FINGERPRINTS));

/// Returns FNV-1a (64 bits) of the format and the files.
///
/// Carriage returns do not count, so that a checkout with other line ends has the same revision.
const fn hash(format: u8, files: &[&[u8]]) -> u64 {
    let mut hash = add(0xcbf2_9ce4_8422_2325, format);
    let mut f = 0;
    while f < files.len() {
        let mut i = 0;
        while i < files[f].len() {
            if files[f][i] != b'\r' {
                hash = add(hash, files[f][i]);
            }
            i += 1;
        }
        hash = add(hash, 0);
        f += 1;
    }
    hash
}

const fn add(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

const fn digits(hash: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let mut i = 0;
    while i < 16 {
        digits[i] = b"0123456789abcdef"[(hash >> (60 - 4 * i)) as usize & 15];
        i += 1;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_format_count() {
        let kept: Vec<u8> = KEPT_FINGERPRINTS.concat();
        let of = |format, text: &[u8]| hash(format, &[text]);
        for i in (0..kept.len()).step_by(7) {
            let mut other = kept.clone();
            other[i] = other[i].wrapping_add(1);
            assert_ne!(of(RECORD_FORMAT, &other), of(RECORD_FORMAT, &kept), "byte {i}");
        }
        assert_ne!(of(RECORD_FORMAT + 1, &kept), of(RECORD_FORMAT, &kept));
        assert_ne!(hash(RECORD_FORMAT, &[b"a", b"bc"]), hash(RECORD_FORMAT, &[b"ab", b"c"]));
    }

    #[test]
    fn line_ends_do_not_count() {
        assert_eq!(hash(1, &[b"a\r\nb\r\n"]), hash(1, &[b"a\nb\n"]));
    }

    #[test]
    fn it_is_the_hash_in_hexadecimal() {
        assert_eq!(
            u64::from_str_radix(REVISION, 16).unwrap(),
            hash(RECORD_FORMAT, &KEPT_FINGERPRINTS)
        );
        assert_eq!(REVISION.len(), 16);
    }
}
