//! Quantities, addresses and names as text in the configuration.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;
use std::net::IpAddr;

use fairmesh_linux::IpNet;
use fairmesh_units::{BitRate, Bytes, QuantityError, Span, Unit};
use serde::{Deserialize, Deserializer, de};

use super::Endpoint;
pub(crate) use crate::daemon::journal::is_shown;

/// Largest accepted rate.
pub(crate) const MAX_RATE: BitRate = BitRate(1_000_000_000_000);
/// Smallest accepted rate: HTB can still time a full frame within a minute or two.
pub(crate) const MIN_RATE: BitRate = BitRate(1_000);

/// Returns a name without space around it, if it is a valid one.
pub(super) fn valid_name(given: &str) -> Option<String> {
    let name = given.trim();
    let valid = name.chars().count() <= 64 && is_plain(name) && name != super::UNMAPPED;
    valid.then(|| name.to_owned())
}

/// A quantity that is written with its unit.
pub(crate) trait Quantity: FromStr<Err = QuantityError> {
    const UNIT: Unit;
}
impl Quantity for Span {
    const UNIT: Unit = Unit::Span;
}
impl Quantity for BitRate {
    const UNIT: Unit = Unit::BitRate;
}
impl Quantity for Bytes {
    const UNIT: Unit = Unit::Bytes;
}

/// Deserializes an optional quantity, for `#[serde(with)]`.
pub(crate) fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    struct Visitor<T>(PhantomData<T>);
    impl<T: Quantity> de::Visitor<'_> for Visitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::UNIT.expected())
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    d.deserialize_str(Visitor(PhantomData)).map(Some)
}

/// Form of an [`Endpoint`] as text.
const ENDPOINT_FORM: &str =
    "a socket address such as \"127.0.0.1:33123\", or the absolute path of a Unix socket";

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        if text.starts_with('/') {
            return Ok(Endpoint::Unix(text.into()));
        }
        text.parse().map(Endpoint::Tcp).map_err(|_| format!("expected {ENDPOINT_FORM}"))
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Endpoint;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ENDPOINT_FORM)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Endpoint, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        d.deserialize_str(Visitor)
    }
}

/// True if a name is not empty and a terminal shows it unchanged.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().all(is_shown)
}

/// Reads a prefix; a bare address is a prefix of one host.
pub(crate) fn prefix(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse::<IpNet>().ok().or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?)))
}

/// A prefix without host bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prefix(pub IpNet);

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Prefix;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a prefix such as \"10.1.0.0/24\", \"fd00:1::/64\" or \"10.1.0.7\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Prefix, E> {
                let net = prefix(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))?;
                if net != net.trunc() {
                    return Err(E::custom(format_args!(
                        "{net} has host bits set; expected {}",
                        net.trunc()
                    )));
                }
                if net.prefix_len() == 0 {
                    return Err(E::custom(format_args!(
                        "{net} covers all addresses; expected those of one subscriber"
                    )));
                }
                Ok(Prefix(net))
            }
        }
        d.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_address_is_one_host() {
        assert_eq!(prefix("10.0.0.7").unwrap().to_string(), "10.0.0.7/32");
        assert_eq!(prefix("fd00::1").unwrap().to_string(), "fd00::1/128");
        assert_eq!(prefix(" 10.1.0.0/24 ").unwrap().to_string(), "10.1.0.0/24");
        assert_eq!(prefix("10.1.0.0/33"), None);
    }
}
