#!/usr/bin/env python3
"""Edits a copy of the kernel's mac80211_hwsim.c for a medium in user space.

    patch.py mac80211_hwsim.c    (edited in place)

Four changes, each needed by `fairmesh medium`:

1. Back-pressure. Module parameter `ring`: data frames of one hardware queue that the medium may hold. At that
   number the queue is stopped, and woken at a status, as a card's ring does. The stock driver never stops a queue,
   so that mac80211's own queues stay empty. When the medium goes away or an interface goes down, its frames are
   freed and all queues woken: traffic flows.
2. Status of frames in A-MPDUs, without which Minstrel-HT ignores them.
3. Airtime of sent and received frames, in attributes that the stock driver ignores there: HWSIM_ATTR_RX_RATE of a
   status and HWSIM_ATTR_FLAGS of a frame, us.
4. A survey that the medium writes to debugfs, in place of invented values.

Each edit names its place by text that occurs exactly once; another source is refused. No kernel text is kept here
beyond these places.
"""

import sys


class Source:
    def __init__(self, path):
        self.path = path
        self.text = open(path, encoding="utf-8").read()

    def _at(self, anchor, after):
        """Offset of the only occurrence of `anchor` behind the first one of `after`."""
        start = self.text.find(after) if after else 0
        if start < 0:
            sys.exit(f"{self.path}: no text {after!r}")
        at = self.text.find(anchor, start)
        if at < 0:
            sys.exit(f"{self.path}: no text {anchor!r} after {after!r}")
        if not after and self.text.count(anchor) != 1:
            sys.exit(f"{self.path}: {self.text.count(anchor)} times {anchor!r}; expected once")
        return at

    def before(self, anchor, new, after=""):
        at = self._at(anchor, after)
        self.text = self.text[:at] + new + self.text[at:]

    def behind(self, anchor, new, after=""):
        at = self._at(anchor, after) + len(anchor)
        self.text = self.text[:at] + new + self.text[at:]


source = Source(sys.argv[1])

# State of a radio.
source.behind(
    "struct mac80211_hwsim_data {\n",
    """	bool fm_surveyed;
	u64 fm_times[4];
	int fm_noise;
""",
)

# 1. Back-pressure.
source.before(
    "static void mac80211_hwsim_tx_frame_nl(",
    """static int ring;
module_param(ring, int, 0644);
MODULE_PARM_DESC(ring, "data frames of a hardware queue that user space may hold; 0: no bound");

static bool fm_full(struct mac80211_hwsim_data *data, int queue)
{
	struct sk_buff *skb;
	unsigned long flags;
	int held = 0;

	spin_lock_irqsave(&data->pending.lock, flags);
	skb_queue_walk(&data->pending, skb) {
		struct ieee80211_hdr *hdr = (void *)skb->data;

		if (IEEE80211_SKB_CB(skb)->hw_queue == queue &&
		    ieee80211_is_data(hdr->frame_control))
			held++;
	}
	spin_unlock_irqrestore(&data->pending.lock, flags);
	return held >= READ_ONCE(ring);
}

static void fm_release(struct mac80211_hwsim_data *data)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&data->pending)))
		ieee80211_free_txskb(data->hw, skb);
	ieee80211_wake_queues(data->hw);
}

""",
)
source.behind(
    "	skb_queue_tail(&data->pending, my_skb);\n",
    """	if (READ_ONCE(ring) > 0 && fm_full(data, info->hw_queue))
		ieee80211_stop_queue(hw, info->hw_queue);
""",
)
source.behind(
    "	while (!skb_queue_empty(&data->pending))\n		ieee80211_free_txskb(hw, skb_dequeue(&data->pending));\n",
    "	ieee80211_wake_queues(hw);\n",
    after="static void mac80211_hwsim_stop(",
)
source.behind("			data->wmediumd = portid;\n", "			fm_release(data);\n		}\n")
source.behind("		if (data->netgroup == hwsim_net_get_netgroup(net))", " {", after="static void hwsim_register_wmediumd(")

# 1, 2, 3. Status of a frame.
status = "static int hwsim_tx_info_frame_received_nl("
source.before(
    "	ieee80211_tx_info_clear_status(txi);\n",
    """	if (READ_ONCE(ring) > 0 && !fm_full(data2, txi->hw_queue))
		ieee80211_wake_queue(data2->hw, txi->hw_queue);
	if (info->attrs[HWSIM_ATTR_RX_RATE]) {
		struct ieee80211_sta *sta;

		hdr = (struct ieee80211_hdr *)skb->data;
		rcu_read_lock();
		sta = ieee80211_find_sta_by_ifaddr(data2->hw, hdr->addr1, hdr->addr2);
		if (sta)
			ieee80211_sta_register_airtime(sta, skb->priority & 7,
						       nla_get_u32(info->attrs[HWSIM_ATTR_RX_RATE]), 0);
		rcu_read_unlock();
	}

""",
    after=status,
)
source.before(
    "	ieee80211_tx_status_irqsafe(data2->hw, skb);\n",
    """	if (txi->flags & IEEE80211_TX_CTL_AMPDU) {
		bool acked = txi->flags & IEEE80211_TX_STAT_ACK;

		txi->flags |= IEEE80211_TX_STAT_AMPDU;
		if (!acked)
			txi->flags |= IEEE80211_TX_STAT_AMPDU_NO_BACK;
		txi->status.ampdu_len = 1;
		txi->status.ampdu_ack_len = acked;
	}

""",
    after=status,
)
source.behind(
    "	rx_status.signal = nla_get_u32(info->attrs[HWSIM_ATTR_SIGNAL]);\n",
    """	if (info->attrs[HWSIM_ATTR_FLAGS]) {
		struct ieee80211_sta *sta;

		hdr = (void *)skb->data;
		rcu_read_lock();
		sta = ieee80211_find_sta_by_ifaddr(data2->hw, hdr->addr2, hdr->addr1);
		if (sta)
			ieee80211_sta_register_airtime(sta, 0, 0,
						       nla_get_u32(info->attrs[HWSIM_ATTR_FLAGS]));
		rcu_read_unlock();
	}
""",
)

# 4. Survey.
source.before(
    "DEFINE_DEBUGFS_ATTRIBUTE(hwsim_fops_rx_rssi,",
    """static ssize_t fm_survey_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	struct mac80211_hwsim_data *data = file->private_data;
	char text[128];
	u64 t[4];
	int noise;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, len))
		return -EFAULT;
	text[len] = 0;
	if (sscanf(text, "%llu %llu %llu %llu %d", &t[0], &t[1], &t[2], &t[3], &noise) != 5)
		return -EINVAL;
	mutex_lock(&data->mutex);
	memcpy(data->fm_times, t, sizeof(t));
	data->fm_noise = noise;
	data->fm_surveyed = true;
	mutex_unlock(&data->mutex);
	return len;
}

static const struct file_operations fm_survey_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = fm_survey_write,
};

""",
)
source.behind(
    'debugfs_create_file("ps", 0666, data->debugfs, data, &hwsim_fops_ps);\n',
    '	debugfs_create_file("survey", 0200, data->debugfs, data, &fm_survey_fops);\n',
)
source.before(
    "	if (idx < 0 || idx >= ARRAY_SIZE(hwsim->survey_data))\n		return -ENOENT;\n",
    """	if (hwsim->fm_surveyed) {
		if (idx != 0 || !hwsim->channel)
			return -ENOENT;
		mutex_lock(&hwsim->mutex);
		survey->channel = hwsim->channel;
		survey->filled = SURVEY_INFO_NOISE_DBM | SURVEY_INFO_IN_USE | SURVEY_INFO_TIME |
				 SURVEY_INFO_TIME_BUSY | SURVEY_INFO_TIME_RX | SURVEY_INFO_TIME_TX;
		survey->noise = hwsim->fm_noise;
		survey->time = div_u64(hwsim->fm_times[0], 1000);
		survey->time_busy = div_u64(hwsim->fm_times[1], 1000);
		survey->time_rx = div_u64(hwsim->fm_times[2], 1000);
		survey->time_tx = div_u64(hwsim->fm_times[3], 1000);
		mutex_unlock(&hwsim->mutex);
		return 0;
	}

""",
)

with open(source.path, "w", encoding="utf-8") as out:
    out.write(source.text)
