//! Route lookup: the interface over which the kernel would send to an address.

use std::net::IpAddr;

use crate::error::Error;
use crate::netlink::Netlink;
use crate::tc::{attributes, put};

/// `struct rtmsg`, and the offset of its type.
const RTMSG_BYTES: usize = 12;
const RTMSG_TYPE_OFFSET: usize = 7;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;

/// Returns the index of the interface towards an address.
///
/// `None` if there is no route, or if the address belongs to this machine.
///
/// # Errors
/// Returns an error if the kernel does not respond.
pub fn towards(netlink: &mut Netlink, address: IpAddr) -> Result<Option<u32>, Error> {
    let ask = |out: &mut Vec<u8>| question(out, address);
    let read = |_, payload: &[u8]| answer(payload);
    match netlink.get("a route", libc::RTM_GETROUTE, ask, read) {
        Ok(found) => Ok(found.flatten()),
        Err(e) if e.errno().is_some_and(|no| no != libc::EPERM) => Ok(None),
        Err(e) => Err(e),
    }
}

fn question(out: &mut Vec<u8>, address: IpAddr) {
    let octets = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    out.extend([family as u8, octets.len() as u8 * 8]);
    out.extend([0; RTMSG_BYTES - 2]);
    put(out, RTA_DST, &octets);
}

/// Reads a reply: the interface, or `None` inside for a route without an interface.
///
/// Returns `None` if it cannot be read.
pub fn answer(payload: &[u8]) -> Option<Option<u32>> {
    if *payload.get(RTMSG_TYPE_OFFSET)? != RTN_UNICAST {
        return Some(None);
    }
    let mut attributes = attributes(payload.get(RTMSG_BYTES..)?);
    let (_, value) = attributes.find(|(kind, _)| *kind == RTA_OIF)?;
    Some(Some(u32::from_ne_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_lead_nowhere() {
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(towards(&mut netlink, "127.0.0.1".parse().unwrap()).unwrap(), None);
        assert_eq!(towards(&mut netlink, "::1".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn only_unicast_routes_are_ways() {
        let reply = |kind: u8| {
            let mut out = vec![2, 32, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
            put(&mut out, RTA_OIF, &7u32.to_ne_bytes());
            out
        };
        assert_eq!(answer(&reply(RTN_UNICAST)), Some(Some(7)));
        assert_eq!(answer(&reply(7)), Some(None), "unreachable");
        assert_eq!(answer(&reply(RTN_UNICAST)[..RTMSG_BYTES]), None);
        let mut out = Vec::new();
        question(&mut out, "192.0.2.1".parse().unwrap());
        assert_eq!((out.len(), &out[..2]), (RTMSG_BYTES + 8, &[2, 32][..]));
    }
}
