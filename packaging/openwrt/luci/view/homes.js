'use strict';
'require view';
'require rpc';
'require poll';
'require ui';
'require dom';

// Children are arrays in every E(): LuCI reads a bare string as HTML, and names come from the mesh.

const status = rpc.declare({ object: 'fairmesh', method: 'status' });
const report = rpc.declare({ object: 'fairmesh', method: 'report', params: [ 'since' ] });
const setOverride = rpc.declare({ object: 'fairmesh', method: 'override', params: [ 'name', 'rate', 'time', 'direction' ] });

const PERIOD = 5;
const PAUSE = '8 kbit/s';

const ORIGINS = {
	nothing: _('no limit'),
	control: _('control'),
	aggregate: _('all homes together'),
	plan: _('plan'),
	override: _('override')
};

function rate(bits) {
	if (bits == null)
		return '–';
	if (bits >= 1e6)
		return '%s Mbit/s'.replace('%s', (bits / 1e6).toFixed(bits >= 1e7 ? 0 : 1));
	return '%s kbit/s'.replace('%s', (bits / 1e3).toFixed(0));
}

function limit(way) {
	if (way.not_in_force_because)
		return _('no limit (%s)').replace('%s', way.not_in_force_because);
	if (way.limit_bits_per_second == null)
		return _('no limit');
	return rate(way.limit_bits_per_second) + ', ' + (ORIGINS[way.limited_by] || way.limited_by);
}

function error(text) {
	return E('div', { 'class': 'alert-message warning' }, [ text ]);
}

return view.extend({
	load: function() {
		return Promise.all([ status(), report('24h') ]);
	},

	change: function(name, rate) {
		return setOverride(name, rate, '1h', 'both').then(L.bind(function(answer) {
			if (answer.error)
				ui.addNotification(null, E('p', {}, [ answer.error ]), 'danger');
			return status().then(L.bind(this.show, this));
		}, this));
	},

	button: function(label, name, rate) {
		return E('button', {
			'class': 'btn cbi-button',
			'click': ui.createHandlerFn(this, 'change', name, rate)
		}, [ label ]);
	},

	row: function(home) {
		const ways = home.ways;
		const held = ways.find(w => w.override_seconds_left != null);
		const changes = ways.filter(w => w.last_change).sort((a, b) => a.last_change.age_seconds - b.last_change.age_seconds);
		const minutes = held ? Math.ceil(held.override_seconds_left / 60) : 0;
		const actions = held
			? [ _('%d min left').replace('%d', minutes), ' ', this.button(_('End'), home.name, 'clear') ]
			: [ this.button(_('Pause 1 h'), home.name, PAUSE), ' ', this.button(_('Boost 1 h'), home.name, 'unlimited') ];
		const cells = [
			[ _('Home'), [ E('strong', {}, [ home.name ]), E('br'), E('small', {}, [ home.addresses.join(', ') ]) ] ],
			...ways.map(w => [
				w.direction === 'down' ? _('Downstream') : _('Upstream'),
				[ rate(w.rate_bits_per_second), E('br'), E('small', {}, [ limit(w) ]) ]
			]),
			[ _('Last change'), [ changes.length ? changes[0].last_change.reason : '–' ] ],
			[ _('Override'), actions ]
		];
		return E('tr', { 'class': 'tr' }, cells.map(c => E('td', { 'class': 'td', 'data-title': c[0] }, c[1])));
	},

	content: function(state) {
		if (!state || state.error)
			return [ error(state && state.error || _('The daemon does not respond. Enable it under Configuration.')) ];
		const heads = [ _('Home'), _('Downstream'), _('Upstream'), _('Last change'), _('Override') ];
		const facts = [
			state.mode === 'apply' ? _('Limits are set.') : _('Limits are only computed (observe).'),
			_('Control: %s.').replace('%s', state.control),
			_('State: %s.').replace('%s', state.phase)
		];
		return [
			E('p', {}, [ facts.join(' ') ]),
			...(state.faults || []).map(f => error(f)),
			E('table', { 'class': 'table' }, [
				E('tr', { 'class': 'tr table-titles' }, heads.map(h => E('th', { 'class': 'th' }, [ h ]))),
				...state.subscribers.map(L.bind(this.row, this))
			])
		];
	},

	starved: function(history) {
		if (!history || history.error)
			return [ E('p', {}, [ history && history.error || '' ]) ];
		if (!history.recorded)
			return [ E('p', {}, [ history.empty || _('The history of the last 24 hours is empty.') ]) ];
		const times = {};
		for (const s of history.starved)
			times[s.name] = Math.max(times[s.name] || 0, s.seconds);
		const list = Object.keys(times).map(n => _('%s (%d min)').replace('%s', n).replace('%d', Math.ceil(times[n] / 60)));
		return [
			E('p', {}, [
				list.length ? _('Starved in the last 24 hours: ') + list.join(', ') + '.' : _('No home starved in the recorded part of the last 24 hours.')
			]),
			...history.notes.map(n => E('small', {}, [ n, ' ' ]))
		];
	},

	show: function(state) {
		dom.content(this.place, this.content(state));
	},

	render: function(data) {
		this.place = E('div', { 'id': 'fairmesh-homes' }, this.content(data[0]));
		poll.add(L.bind(function() {
			return status().then(L.bind(this.show, this));
		}, this), PERIOD);
		return E('div', {}, [ E('h2', {}, [ _('Fair shares') ]), ...this.starved(data[1]), this.place ]);
	},

	handleSave: null,
	handleSaveApply: null,
	handleReset: null
});
