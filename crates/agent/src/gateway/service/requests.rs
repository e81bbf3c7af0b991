//! Requests of the control socket.

use fairmesh_linux::{Direction, Shaper, Side};
use fairmesh_units::{BitRate, Span};
use serde_json::json;

use super::Gateway;
use crate::daemon::socket::Response;
use crate::error::RequestError;
use crate::gateway::governor::Override;
use crate::gateway::host::ReloadError;
use crate::gateway::journal::Level;
use crate::gateway::page;
use crate::gateway::report;
use crate::gateway::request::{OverrideRate, Request};
use crate::gateway::start::refused_by_control;

impl<P: Shaper> Gateway<P> {
    pub(super) fn call(&mut self, request: Request) -> Response {
        let now = self.now();
        let value = |v: Result<serde_json::Value, serde_json::Error>| match v {
            Ok(v) => Response::Ok(v),
            Err(e) => Response::Refused(RequestError::Syntax(e).into()),
        };
        match request {
            Request::Status => value(serde_json::to_value(report::status(
                &self.host,
                now,
                report::PartReports {
                    peers: self.peers_report(),
                    signs: self.signs(),
                    history: self.history_report(),
                },
            ))),
            Request::Why { subscriber } => match self.host.governor.member(&subscriber) {
                Ok(m) => {
                    let mut subscriber = report::subscriber(&self.host.governor, now, m);
                    subscriber.governed = self.peers_report().map(|others| others.governed());
                    let schedule = m.subscriber.plan.schedule;
                    subscriber.schedule =
                        schedule.and_then(|i| self.host.governor.calendar.report(i));
                    subscriber.level = report::LevelReport::of(&self.host.governor, now);
                    subscriber.bound = report::BoundReport::of(&self.host.governor);
                    value(serde_json::to_value(subscriber))
                }
                Err(e) => Response::Refused(RequestError::from(e).into()),
            },
            Request::Override { subscriber, directions, rate, seconds } => {
                match self.set_override(&subscriber, &directions, rate, seconds) {
                    Ok(()) => self.call(Request::Why { subscriber }),
                    Err(e) => Response::Refused(e.into()),
                }
            }
            Request::Reload => match self.take_configuration() {
                Ok(()) => Response::Ok(json!({
                    "reloaded": self.parts.file,
                    "subscribers": self.host.governor.subscribers().count(),
                })),
                Err(e) => Response::Refused(e.into()),
            },
            Request::Page => match self.call(Request::Status) {
                Response::Ok(status) => {
                    Response::Ok(page::report::report(&self.host, status, self.at.wall))
                }
                refused @ Response::Refused(_) => refused,
            },
            Request::Doctor => {
                let verified = self.host.verify();
                let plane = self.host.plane();
                let sides = [Side::Mesh, Side::Wired];
                let interfaces: Vec<_> =
                    sides.into_iter().filter_map(|side| plane.interface(side).ok()).collect();
                let bound = report::BoundReport::of(&self.host.governor);
                Response::Ok(json!({
                    "interfaces": interfaces, "verified": verified, "bound": bound,
                }))
            }
        }
    }

    fn set_override(
        &mut self,
        name: &str,
        directions: &[String],
        rate: OverrideRate,
        seconds: f64,
    ) -> Result<(), RequestError> {
        let one = |word: &String| match word.as_str() {
            "down" => Ok(Direction::Down),
            "up" => Ok(Direction::Up),
            other => Err(RequestError::Direction(other.to_owned())),
        };
        let mut which: Vec<Direction> = directions.iter().map(one).collect::<Result<_, _>>()?;
        if which.is_empty() {
            which = Direction::BOTH.to_vec();
        }
        let most = Override::LONGEST.as_secs_f64();
        if rate != OverrideRate::Clear && !(seconds >= 1.0 && seconds <= most) {
            return Err(RequestError::Duration(seconds));
        }
        let now = self.now();
        let until = now + Span::from_secs_f64(seconds);
        let value = match rate {
            OverrideRate::Clear => None,
            OverrideRate::Unlimited => Some(Override { rate: None, until }),
            OverrideRate::Limit(r) if Override::RATES.contains(&r) => {
                Some(Override { rate: Some(BitRate(r)), until })
            }
            OverrideRate::Limit(r) => {
                return Err(RequestError::Rate(BitRate(r)));
            }
        };
        let governor = &mut self.host.governor;
        governor.set_override(now, name, &which, value)?;
        let description = match rate {
            OverrideRate::Clear => "ended".to_owned(),
            OverrideRate::Unlimited => format!("unlimited for {seconds:.0} s"),
            OverrideRate::Limit(r) => format!("{} for {seconds:.0} s", BitRate(r)),
        };
        self.note(Level::Info, "override.set", || format!("\"{}\": {description}", name.trim()));
        self.save();
        Ok(())
    }

    /// Reads the configuration again; an invalid one changes nothing.
    pub(super) fn take_configuration(&mut self) -> Result<(), RequestError> {
        let result = self.try_reload();
        if let Err(e) = &result {
            let e = e.to_string();
            self.note(Level::Error, "config.refused", || {
                format!("{e}; the previous configuration stays in force")
            });
        }
        result
    }

    fn try_reload(&mut self) -> Result<(), RequestError> {
        let config = (self.parts.load)()?;
        for (key, same) in [
            ("metrics.listen", config.metrics == self.config.metrics),
            ("metrics.textfile", config.textfile == self.config.textfile),
            ("page", config.page == self.config.page),
            ("paths.socket", config.socket == self.config.socket),
            ("paths.state", config.state == self.config.state),
            ("history.size", config.history.size == self.config.history.size),
            ("history.folder", config.history.folder == self.config.history.folder),
        ] {
            if !same {
                let file = self.parts.file.clone();
                return Err(RequestError::Fixed {
                    file,
                    problem: Box::new(ReloadError::Fixed(key)),
                });
            }
        }
        let now = self.now();
        self.host.reload(now, &config).map_err(|e| {
            let file = self.parts.file.clone();
            match e {
                ReloadError::Control(e) => {
                    RequestError::Control { file, problem: refused_by_control(&config, e) }
                }
                problem @ ReloadError::Fixed(_) => {
                    RequestError::Fixed { file, problem: Box::new(problem) }
                }
            }
        })?;
        self.config = config;
        self.offer_discovery();
        self.keep_configuration();
        Ok(())
    }
}
