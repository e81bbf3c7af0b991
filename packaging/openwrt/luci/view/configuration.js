'use strict';
'require view';
'require form';

// Options and their values: docs/packaging.md. procd reloads the daemon after "Save & Apply".

return view.extend({
	render: function() {
		const map = new form.Map('fairmesh', _('Fair shares'), _('Limits for the homes behind this gateway.'));
		let s = map.section(form.NamedSection, 'main', 'gateway', _('Gateway'));
		let o = s.option(form.Flag, 'enabled', _('Enabled'));
		o.rmempty = false;
		o = s.option(form.ListValue, 'mode', _('Mode'), _('Only "apply" sets limits.'));
		o.value('observe');
		o.value('apply');
		for (const [ name, title ] of [ [ 'mesh', _('Interface to the mesh') ], [ 'wired', _('Interface to the Internet') ] ]) {
			o = s.option(form.Value, name, title);
			o.datatype = 'maxlength(15)';
			o.rmempty = false;
		}
		o = s.option(form.Value, 'control', _('Control'));
		o.value('pfrc+bursts');
		o.value('rtt');
		o.value('fifo');
		o = s.option(form.ListValue, 'fairness', _('Fairness'), _('For the control "rtt".'));
		o.value('max-min');
		o.value('proportional');
		o.optional = true;

		s = map.section(form.GridSection, 'neighbour', _('Neighbours in the mesh'), _('Links of the gateway. They bound every limit.'));
		s.anonymous = true;
		s.addremove = true;
		s.option(form.Value, 'name', _('Name')).rmempty = false;
		s.option(form.Value, 'rate', _('Rate')).placeholder = '54 Mbit/s';
		s.option(form.Value, 'capacity', _('Measured capacity')).placeholder = '22 Mbit/s';

		s = map.section(form.GridSection, 'plan', _('Plans'));
		s.addremove = true;
		for (const [ name, title, example ] of [
			[ 'weight', _('Weight'), '1' ],
			[ 'down', _('Downstream'), '20 Mbit/s' ],
			[ 'up', _('Upstream'), '5 Mbit/s' ],
			[ 'guarantee_down', _('Guaranteed downstream'), '' ],
			[ 'guarantee_up', _('Guaranteed upstream'), '' ],
			[ 'quota', _('Quota'), '100 GB' ],
			[ 'quota_per', _('Period of the quota'), 'month' ],
			[ 'quota_down', _('Downstream after the quota'), '1 Mbit/s' ],
			[ 'quota_up', _('Upstream after the quota'), '1 Mbit/s' ]
		]) {
			o = s.option(form.Value, name, title);
			o.placeholder = example;
			o.optional = true;
		}

		s = map.section(form.GridSection, 'window', _('Plans by the clock'), _('Other rates or another weight of a plan at some times.'));
		s.anonymous = true;
		s.addremove = true;
		s.option(form.Value, 'plan', _('Plan')).rmempty = false;
		s.option(form.DynamicList, 'day', _('Days (all if empty)')).placeholder = 'sat';
		s.option(form.Value, 'from', _('From')).placeholder = '18:00';
		s.option(form.Value, 'to', _('To')).placeholder = '23:00';
		s.option(form.Value, 'down', _('Downstream')).placeholder = '5 Mbit/s';
		s.option(form.Value, 'up', _('Upstream')).placeholder = '1 Mbit/s';
		s.option(form.Value, 'weight', _('Weight')).placeholder = '1';

		s = map.section(form.GridSection, 'subscriber', _('Homes'), _('Homes that no routing daemon reports.'));
		s.anonymous = true;
		s.addremove = true;
		s.option(form.Value, 'name', _('Name')).rmempty = false;
		o = s.option(form.DynamicList, 'prefix', _('Addresses'));
		o.datatype = 'or(ipaddr,cidr)';
		o = s.option(form.DynamicList, 'mac', _('Ethernet addresses'));
		o.datatype = 'macaddr';
		s.option(form.Value, 'plan', _('Plan')).optional = true;
		return map.render();
	}
});
