//! Messages to and from neighbours, and a gateway's orders.

use fairmesh_control::{Event, Message};
use fairmesh_linux::MacAddr;
use fairmesh_units::{NodeId, Time};

use super::{HELLO_INTERVAL, Link, Router};
use crate::daemon::journal::Level;
use crate::node::machine::Machine;
use crate::node::message::{Draft, Field};
use crate::node::offers;

/// Sender of orders, which agents do not distinguish.
const ORDER_SENDER: NodeId = NodeId(0);

impl<M: Machine> Router<M> {
    pub(super) fn receive(&mut self, now: Time) {
        let mut messages = Vec::new();
        self.rig.machine.read(&mut |interface, carrier, bytes| {
            messages.push((interface, carrier, bytes.to_vec()));
        });
        for (interface, carrier, bytes) in messages {
            let Ok(accepted) = self.neighbours.receive(now, carrier, &bytes) else { continue };
            let message = accepted.message;
            let mac = message.mac;
            if !self.ports.get(interface).is_some_and(|p| p.stations) {
                self.links.entry(mac).or_insert_with(|| Link::new(interface, now)).seen = now;
            }
            // Broadcasts cross 802.11s meshes; the driver knows the neighbours.
            let Some(link) = self.links.get_mut(&mac) else { continue };
            link.messages[carrier as usize] = Some(now);
            if accepted.appeared {
                let name = &self.rig.config.interfaces[interface];
                self.rig.journal.note(now, Level::Info, "neighbour.appeared", || {
                    format!("{mac} on {name}, {}", message.fields.role().name())
                });
            }
            if let Some(number) = message.fields.number() {
                self.rig.numbers.announce(mac, number);
            }
            let Some(driver) = &mut self.driver else { continue };
            let Some(from) = self.rig.numbers.of(mac) else { continue };
            if accepted.restarted {
                driver.deliver_and_act(now, &Event::Restarted(from), &mut self.rig);
            }
            let own: Vec<MacAddr> = self.ports.iter().filter_map(|p| p.mac).collect();
            let name = self.rig.config.mechanism.definition().name.clone();
            for body in message.fields.bodies(&name, &own) {
                let event = Event::Message(Message { from, body });
                driver.deliver_and_act(now, &event, &mut self.rig);
            }
        }
        self.check_acts(now);
    }

    /// Opens the port of a gateway's orders if the control takes them, otherwise closes it.
    pub(super) fn listen(&mut self, now: Time) {
        let wanted = offers::takes_orders(&self.rig.config);
        let problem = self.rig.machine.listen(wanted).err().map(|e| e.to_string());
        self.listening = wanted && problem.is_none();
        if let Some(text) = problem.clone().filter(|p| self.deaf.as_ref() != Some(p)) {
            self.rig.journal.note(now, Level::Error, "orders.unavailable", || {
                format!("{text}; the gateway cannot limit a flood here")
            });
        }
        self.deaf = problem;
    }

    /// Passes a gateway's orders to the mechanism, and responds to them.
    pub(super) fn take_orders(&mut self, now: Time) {
        if !self.listening {
            return;
        }
        let Some(own) = self.ports.iter().find_map(|p| p.mac) else { return };
        let name = self.rig.config.mechanism.definition().name.clone();
        let mut bodies = Vec::new();
        let orders = &mut self.orders;
        self.rig.machine.read_orders(&mut |bytes| {
            let (order, response) = orders.receive(now, bytes, &name, own);
            bodies.extend(order);
            response
        });
        for body in bodies {
            let Some(driver) = &mut self.driver else { return };
            let event = Event::Message(Message { from: ORDER_SENDER, body: &body });
            driver.deliver_and_act(now, &event, &mut self.rig);
        }
        self.check_acts(now);
    }

    /// Sends the mechanism's bodies, or a message without one; returns the time of the next.
    pub(super) fn send(&mut self, now: Time) -> Time {
        while !self.rig.bodies.is_empty() || now >= self.next_hello {
            let mut draft = Draft::new();
            let _ = draft.push(Field::Role(self.rig.config.role));
            if let Some(number) = self.rig.numbers.announced() {
                let _ = draft.push(Field::Number(number));
            }
            let name = self.rig.config.mechanism.definition().name.clone();
            let bodies = self.rig.bodies.iter();
            let count = bodies.take_while(|(to, body)| {
                let mut longer = draft.clone();
                let fits = longer.push(Field::Mechanism(&name))
                    && to.is_none_or(|mac| longer.push(Field::To(mac)))
                    && longer.push(Field::Body(body));
                if fits {
                    draft = longer;
                }
                fits
            });
            let count = count.count();
            if count == 0 && !self.rig.bodies.is_empty() && draft.size() < 64 {
                // A body that fits into no message.
                self.rig.bodies.pop_front();
                self.rig.dropped_bodies += 1;
                continue;
            }
            let mut sealed = Vec::new();
            for (interface, (_, announcer)) in &mut self.announcers {
                if !self.ports.get(*interface).is_some_and(|p| p.talks) {
                    continue;
                }
                match announcer.seal(now, &draft) {
                    Ok(bytes) => sealed.push((*interface, bytes)),
                    Err(next) if sealed.is_empty() => return next,
                    // Interfaces send together, so that their rates differ only after one was down.
                    Err(_) => {}
                }
            }
            self.rig.bodies.drain(..count);
            self.next_hello = now + HELLO_INTERVAL;
            for (interface, bytes) in sealed {
                let also_udp = self.also_udp.contains(&interface);
                self.rig.machine.send(interface, &bytes, also_udp);
            }
        }
        self.next_hello
    }

    /// Number of messages sent over the busiest interface.
    pub(in crate::node) fn sent_messages(&self) -> u64 {
        self.announcers.values().map(|(_, a)| u64::from(a.sent())).max().unwrap_or(0)
    }
}
