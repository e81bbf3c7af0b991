// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "options.h"
#include "radio.h"
#include "scenario.h"

#include "ns3/ipv4-address.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/wifi-mac.h"
#include "ns3/wifi-phy.h"

#include <cstdint>
#include <fstream>
#include <vector>

namespace harness
{

/// What all nodes together did at the PHY and MAC.
struct Counters
{
    uint64_t transmissions = 0; ///< PHY transmissions, control frames included
    uint64_t retryDrops = 0;    ///< frames given up at the retry limit
    uint64_t queueDrops = 0;    ///< packets that found a full queue
};

/// ns-3's default attributes for everything this program builds; call once, first.
void SetDefaults(const Options& options);

/// Nodes with an 802.11b ad-hoc interface, IPv4, permanent ARP entries and static host routes.
class Network
{
  public:
    Network(const Scenario& scenario,
            const Options& options,
            const Powers& powers,
            const Routes& routes);

    const ns3::NodeContainer& Nodes() const
    {
        return m_nodes;
    }

    const Counters& Totals() const
    {
        return m_counters;
    }

    static ns3::Ipv4Address Address(NodeIndex node);

  private:
    struct Tap ///< context of a node's transmission trace
    {
        Network* network;
        NodeIndex node;
    };

    void InstallWifi(const Scenario& scenario, const Options& options, const Powers& powers);
    void FixRates(NodeIndex node, const Options& options, const Powers& powers);
    void InstallIp(const Powers& powers, const Routes& routes);
    static void OnTransmission(Tap* tap,
                               ns3::WifiConstPsduMap psdus,
                               ns3::WifiTxVector txVector,
                               double txPowerWatt);
    static void OnMacDrop(Counters* counters,
                          ns3::WifiMacDropReason reason,
                          ns3::Ptr<const ns3::WifiMpdu> frame);
    static void OnQueueDrop(Counters* counters, ns3::Ptr<const ns3::Packet> packet);

    ns3::NodeContainer m_nodes;
    ns3::NetDeviceContainer m_devices;
    Counters m_counters;
    std::vector<Tap> m_taps;
    std::ofstream m_trace;
};

} // namespace harness
