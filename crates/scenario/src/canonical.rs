//! Canonical text of a resolved world, from which the keys of runs are computed.
//!
//! The text has every resolved value that a run depends on. Notation, key order and comments of a
//! file have no effect, but a changed default has. The text is hashed, not parsed. Values are in
//! their `Debug` form, which is exact: quantities are integers, and floating-point numbers print as
//! the shortest text that parses to the same number. Names of types, fields and variants are
//! therefore part of the format.

use core::fmt::{Result, Write};

use fairmesh_control::{Definition, Mechanism};

use crate::scenario::Scenario;

macro_rules! write_fields {
    ($out:expr, $($field:ident)*) => {
        $(writeln!($out, concat!(stringify!($field), " = {:?}"), $field)?;)*
    };
}

impl Scenario {
    /// Writes the network and its flows: all that a run without control depends on.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_network(&self, out: &mut impl Write) -> Result {
        // Without `..`: a new field must be added or excluded explicitly.
        let Scenario {
            name: _,
            description: _,
            duration,
            warmup,
            mac,
            channel,
            further,
            nodes,
            sensed_pairs,
            leaks,
            links,
            wires,
            flows,
            subscribers: _,
            queue,
            interferers,
            errors,
            rate_changes,
            route_changes,
            gateways,
            control: _,
            at_gateways: _,
            agents,
            taking_part: _,
            warnings: _,
            flow_numbers,
        } = self;
        write_fields!(out, duration warmup mac channel further nodes sensed_pairs leaks links wires flows);
        write_fields!(out, queue interferers errors rate_changes route_changes gateways agents);
        // Only parts have them, so that the text of a whole world does not depend on this field.
        if !flow_numbers.is_empty() {
            write_fields!(out, flow_numbers);
        }
        Ok(())
    }

    /// Writes all that a record of a run depends on.
    ///
    /// It includes the network, the name, the subscribers and the controls with the value of each of their
    /// options. Description and warnings are excluded.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_canonical(&self, out: &mut impl Write) -> Result {
        self.write_network(out)?;
        let Scenario { name, subscribers, taking_part, .. } = self;
        write_fields!(out, name subscribers taking_part);
        write_control(out, "control", Some(&self.control))?;
        write_control(out, "at_gateways", self.at_gateways.as_ref())
    }
}

fn write_control(out: &mut impl Write, key: &str, control: Option<&Mechanism>) -> Result {
    let Some(control) = control else { return writeln!(out, "{key} = none") };
    writeln!(out, "{key} = {control}")?;
    // Mechanisms of this project are part of the engine's revision. The text of any other is
    // quoted, so that it cannot imitate a further line.
    let revision = &control.definition().revision;
    if revision != Definition::SHIPPED {
        writeln!(out, "{key} revision = {revision:?}")?;
    }
    control
        .parameters()
        .try_for_each(|(option, value)| writeln!(out, "{key}.{} = {value:?}", option.name))
}
