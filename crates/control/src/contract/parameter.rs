//! What may be chosen of a mechanism, declared once: variants and parameters, with name, unit,
//! default, range and a sentence. Listings, schemas, pages and the command line read the tables;
//! the mechanism reads a struct with a field for each of them, so that a mistyped one does not
//! compile.

use core::fmt;

use fairmesh_units::Span;

use super::origin::Origin;

/// A variant of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// What follows the plus.
    pub name: &'static str,
    /// Whose it is.
    pub origin: Origin,
    /// One line for listings.
    pub about: &'static str,
}

/// A number of a mechanism that may be changed.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key in files.
    pub name: &'static str,
    /// What its numbers count, as listings show it: `s`, `packets`; empty for a ratio.
    pub unit: &'static str,
    /// One line for listings.
    pub about: &'static str,
    /// Its value unless changed.
    pub default: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Whether it counts things that cannot be divided.
    pub whole: bool,
}

impl Parameter {
    /// Whether it may have this value.
    pub fn allows(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value) && (!self.whole || value == libm::trunc(value))
    }

    /// The values that it may have, in words: `1 to 600 s`, `a whole number from 1 to 1000`.
    pub fn range(&self) -> impl fmt::Display {
        Range(*self)
    }
}

struct Range(Parameter);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { min, max, whole, .. } = self.0;
        match whole {
            true => write!(f, "a whole number from {min} to {max}"),
            false => write!(f, "{min} to {max}"),
        }
    }
}

/// A table of parameters in which `queue` is a buffer for each flow instead of
/// a shared one.
pub(crate) const fn own_buffers<const N: usize>(
    table: &[Parameter],
    about: &'static str,
    default: f64,
) -> [Parameter; N] {
    let mut own = [table[0]; N];
    let (mut at, mut found) = (0, false);
    while at < N {
        own[at] = table[at];
        if let b"queue" = table[at].name.as_bytes() {
            own[at].about = about;
            own[at].default = default;
            found = true;
        }
        at += 1;
    }
    assert!(found, "no parameter called queue");
    own
}

/// The type of a parameter's field.
pub(crate) trait Quantity {
    /// Whether it counts things that cannot be divided.
    const WHOLE: bool;
    /// From the number that files have.
    fn of(value: f64) -> Self;
}

impl Quantity for f64 {
    const WHOLE: bool = false;
    fn of(value: f64) -> Self {
        value
    }
}

impl Quantity for u32 {
    const WHOLE: bool = true;
    fn of(value: f64) -> Self {
        value as u32
    }
}

impl Quantity for u64 {
    const WHOLE: bool = true;
    fn of(value: f64) -> Self {
        value as u64
    }
}

/// Parameters in seconds.
impl Quantity for Span {
    const WHOLE: bool = false;
    fn of(value: f64) -> Self {
        Span::from_secs_f64(value)
    }
}

/// The variants and numbers that were chosen of an entry, in the order of its tables.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    pub(super) variants: u64,
    pub(super) values: Vec<f64>,
}

impl Chosen {
    /// Nothing chosen: no variants, defaults.
    pub(super) fn plain(parameters: &[Parameter]) -> Self {
        Chosen { variants: 0, values: parameters.iter().map(|p| p.default).collect() }
    }

    /// Whether the variant at this place of the table was chosen.
    pub(crate) fn has(&self, variant: usize) -> bool {
        self.variants >> variant & 1 != 0
    }

    /// The value of the parameter at this place of the table.
    pub(crate) fn value(&self, parameter: usize) -> f64 {
        self.values[parameter]
    }
}

/// Declares what may be chosen of a mechanism: a struct with a `bool` for each variant and a
/// number for each parameter, and the tables that listings read.
///
/// ```text
/// options! {
///     variants {
///         exponential: Published("§7.4 Alg. 2"), "steps by factors";
///     }
///     parameters {
///         epoch: Span = 10.0, 1.0..=600.0, "s", "time between decisions";
///         one_way as "one-way": f64 = …;
///     }
/// }
/// ```
macro_rules! options {
    (
        variants { $( $variant:ident $(as $vkey:literal)? : $origin:expr, $vabout:literal; )* }
        parameters {
            $( $(#[$note:meta])* $param:ident $(as $pkey:literal)? : $ty:ty =
               $default:expr, $range:expr, $unit:literal, $about:literal; )*
        }
    ) => {
        /// What was chosen.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Options {
            $( pub $variant: bool, )*
            $( $(#[$note])* pub $param: $ty, )*
        }

        impl Options {
            /// For listings, in the order of the fields.
            pub(crate) const VARIANTS: &'static [$crate::Variant] = &[
                $( $crate::Variant {
                    name: $crate::contract::parameter::key!($variant $($vkey)?),
                    origin: $origin,
                    about: $vabout,
                }, )*
            ];
            /// For listings, in the order of the fields.
            pub(crate) const PARAMETERS: &'static [$crate::Parameter] = &[
                $( $crate::Parameter {
                    name: $crate::contract::parameter::key!($param $($pkey)?),
                    unit: $unit,
                    about: $about,
                    default: $default,
                    min: *$range.start(),
                    max: *$range.end(),
                    whole: <$ty as $crate::contract::parameter::Quantity>::WHOLE,
                }, )*
            ];

            /// From the choice for an entry with these tables.
            #[allow(unused_variables, unused_assignments, unused_mut)]
            pub(crate) fn of(chosen: &$crate::Chosen) -> Self {
                let (mut variant, mut parameter) = (0..64usize, 0..64usize);
                // Fields are worked out in the order in which they are written.
                Options {
                    $( $variant: variant.next().is_some_and(|i| chosen.has(i)), )*
                    $( $param: <$ty as $crate::contract::parameter::Quantity>::of(
                        parameter.next().map_or(0.0, |i| chosen.value(i)),
                    ), )*
                }
            }
        }
    };
}

/// The name of an option: that of its field, unless it has another.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

pub(crate) use {key, options};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::origin::Origin::Ours;

    options! {
        variants {
            first: Ours { after: "" }, "one";
            second_one as "second-one": Ours { after: "" }, "another";
        }
        parameters {
            time: Span = 2.0, 0.5..=60.0, "s", "a time";
            part: f64 = 0.1, 0.0..=1.0, "", "a part";
            one_way as "one-way": u32 = 20.0, 1.0..=1000.0, "packets", "a number";
        }
    }

    #[test]
    fn a_table_and_a_struct_from_one_declaration() {
        let names: Vec<_> = Options::PARAMETERS.iter().map(|p| (p.name, p.unit, p.whole)).collect();
        assert_eq!(
            names,
            [("time", "s", false), ("part", "", false), ("one-way", "packets", true)]
        );
        assert_eq!(Options::VARIANTS[1].name, "second-one");
        let plain = Options::of(&Chosen::plain(Options::PARAMETERS));
        assert_eq!((plain.first, plain.second_one), (false, false));
        assert_eq!((plain.time, plain.part, plain.one_way), (Span::from_secs(2), 0.1, 20));
        let chosen = Chosen { variants: 0b10, values: vec![0.5, 0.25, 7.0] };
        let chosen = Options::of(&chosen);
        assert_eq!((chosen.first, chosen.second_one), (false, true));
        assert_eq!((chosen.time, chosen.part, chosen.one_way), (Span::from_millis(500), 0.25, 7));
    }

    #[test]
    fn a_value_lies_in_the_range_and_counts_are_whole() {
        let [time, _, count] = Options::PARAMETERS else { panic!() };
        assert!(time.allows(0.5) && time.allows(60.0) && time.allows(1.25));
        for bad in [0.49, 60.01, f64::NAN, f64::INFINITY] {
            assert!(!time.allows(bad), "{bad}");
        }
        assert!(count.allows(7.0) && !count.allows(7.5) && !count.allows(0.0));
        assert_eq!(time.range().to_string(), "0.5 to 60");
        assert_eq!(count.range().to_string(), "a whole number from 1 to 1000");
    }
}
