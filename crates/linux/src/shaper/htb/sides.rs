//! Check that the interfaces are not swapped.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::Error;
use crate::link::{self, route};
use crate::netlink::Netlink;
use crate::shaper::Layout;

/// Documentation address (RFC 5737): its route is the default route.
const DEFAULT_ROUTE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Most subscribers that are tried.
const MAX_TRIED_SUBSCRIBERS: usize = 16;
/// Most addresses that are tried of each subscriber.
const MAX_TRIED_ADDRESSES: usize = 3;

/// Refuses a layout with exchanged interfaces.
///
/// The mesh interface then leads out, and the wired interface to a subscriber.
pub(in crate::shaper) fn check(netlink: &mut Netlink, layout: &Layout) -> Result<(), Error> {
    let mesh = link::find(netlink, layout.mesh.name())?.index;
    let wired = link::find(netlink, layout.wired.name())?.index;
    if route::towards(netlink, DEFAULT_ROUTE_ADDRESS)? != Some(mesh) {
        return Ok(());
    }
    for subscriber in layout.subscribers.iter().take(MAX_TRIED_SUBSCRIBERS) {
        let Some(net) = subscriber.prefixes.first() else { continue };
        for address in net.hosts().take(MAX_TRIED_ADDRESSES) {
            if route::towards(netlink, address)? == Some(wired) {
                return Err(Error::Swapped {
                    mesh: layout.mesh.name().to_owned(),
                    wired: layout.wired.name().to_owned(),
                    subscriber: address,
                });
            }
        }
    }
    Ok(())
}
