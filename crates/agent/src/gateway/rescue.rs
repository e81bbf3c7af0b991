//! Effects that a gateway's guard undoes: limits and rules of a layout.

use std::time::Duration;

use fairmesh_linux::{Error, HtbShaper, Layout, Shaper};

use crate::daemon::guard::Rescue;
use crate::daemon::lock::Resource;

/// Time until changes that the daemon had begun are in the kernel after its end.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Returns the resources that two gateway daemons of one network namespace must not share.
pub fn resources(layout: &Layout) -> Vec<Resource> {
    let resource = |kind, name: &str| Resource { kind, name: name.to_owned() };
    vec![
        resource("interface", layout.mesh.name()),
        resource("interface", layout.wired.name()),
        resource("table", &layout.table),
    ]
}

/// Limits of one layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits(pub Layout);

impl Rescue for Limits {
    type Error = Error;

    /// Lifts all limits twice: changes of the dead daemon may arrive after the first time.
    fn lift(&mut self) -> Result<(), Error> {
        retry(|plane| plane.lift(&self.0))?;
        std::thread::sleep(SETTLE_TIME);
        retry(|plane| plane.lift(&self.0))
    }

    fn remove(&mut self) -> Result<(), Error> {
        retry(|plane| plane.remove(&self.0).map(drop))
    }
}

/// Makes several attempts: the kernel may be busy.
fn retry(act: impl Fn(&mut HtbShaper) -> Result<(), Error>) -> Result<(), Error> {
    let mut result = Ok(());
    for attempt in 0..5_u64 {
        result = HtbShaper::open().and_then(|mut plane| act(&mut plane));
        if result.is_ok() {
            return result;
        }
        std::thread::sleep(Duration::from_millis(50 << attempt));
    }
    result
}
