//! `[discover]`: sources of further subscribers.

use fairmesh_document::{KeyPath, Problem};

use super::plans::Plans;
use super::subscribers::MAX_SUBSCRIBERS;
use super::values::span;
use crate::gateway::config::refuse::{Result, fail, refused};
use crate::gateway::config::{Discover, draft};

pub(super) fn discover(d: &draft::Discover, plans: &Plans) -> Result<Discover> {
    let plan = plans.find(d.plan.as_deref(), || KeyPath::from("discover.plan"))?;
    if plan.down.guarantee.or(plan.up.guarantee).is_some() {
        let what = "a guarantee for discovered subscribers";
        let expected = "a plan without guarantees: the number of discovered subscribers is unknown";
        return refused(KeyPath::from("discover.plan"), what, expected);
    }
    let nothing = d.netjson.is_none()
        && d.batman.is_none()
        && d.olsr.is_none()
        && d.babel.is_none()
        && !d.neighbours
        && !d.mesh_paths
        && !d.routes;
    if nothing {
        let expected =
            "netjson, batman, olsr, babel, neighbours = true, mesh_paths = true or routes = true";
        return refused(KeyPath::from("discover"), "no source of subscribers", expected);
    }
    let standard = Discover::default();
    let most = d.most.unwrap_or(standard.most as i64);
    if !(1..=MAX_SUBSCRIBERS as i64).contains(&most) {
        let range = format!("1 to {MAX_SUBSCRIBERS}");
        return fail(KeyPath::from("discover.most"), Problem::range(most, range));
    }
    Ok(Discover {
        netjson: d.netjson.clone(),
        batman: d.batman.as_ref().map(|i| i.name().to_owned()),
        olsr: d.olsr,
        babel: d.babel.clone(),
        neighbours: d.neighbours,
        mesh_paths: d.mesh_paths,
        routes: d.routes,
        routes_by: d.routes_by,
        plan,
        every: span(d.every, "discover.every", 10, (1, 3600))?,
        linger: span(d.linger, "discover.linger", 600, (0, 7 * 86_400))?,
        most: most as usize,
    })
}
