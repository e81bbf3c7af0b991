// SPDX-License-Identifier: GPL-2.0-only
#include "network.h"

#include "repairs.h"

#include "ns3/arp-cache.h"
#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/nstime.h"
#include "ns3/propagation-delay-model.h"
#include "ns3/queue-size.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-recovery-ops.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"
#include "ns3/wifi-helper.h"
#include "ns3/wifi-net-device.h"
#include "ns3/wifi-psdu.h"
#include "ns3/yans-wifi-channel.h"
#include "ns3/yans-wifi-helper.h"

using namespace ns3;

namespace harness
{

namespace
{

constexpr uint32_t SEED = 12345; ///< fixed; the run number tells seeds apart

std::string
DsssMode(uint32_t mbps)
{
    return "DsssRate" + std::to_string(mbps) + "Mbps";
}

uint32_t
ControlRate(const Options& options)
{
    return options.rate == 1 ? 1 : 2;
}

void
SetTcpDefaults(const Options& options)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(RepairedNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(options.sack != 0));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(options.minrto)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(10)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(options.mss));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(options.delack));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(options.initcwnd));
    Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
    // The window is limited at the sender. When the advertised window is exactly used up, ns-3.37
    // dereferences null, so the receive buffer must never be the limit.
    const uint32_t sendBuffer = options.wnd ? options.wnd * options.mss : 1U << 19;
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(sendBuffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1U << 21));
    // A starved flow must stay alive: ns-3 gives up after 6 timeouts by default.
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(100000));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(100000));
}

void
SetMacDefaults(const Options& options)
{
    const QueueSize queue(QueueSizeUnit::PACKETS, options.queue);
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(queue));
    // No lifetime; ns-3 drops frames older than 500 ms by default.
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1e6)));
    const std::string manager = "ns3::WifiRemoteStationManager::";
    Config::SetDefault(manager + "RtsCtsThreshold", UintegerValue(options.rts ? 0 : 65535));
    Config::SetDefault(manager + "MaxSsrc", UintegerValue(7));
    Config::SetDefault(manager + "MaxSlrc", UintegerValue(4));
}

} // namespace

void
SetDefaults(const Options& options)
{
    RngSeedManager::SetSeed(SEED);
    RngSeedManager::SetRun(options.seed);
    SetMacDefaults(options);
    SetTcpDefaults(options);
}

Network::Network(const Scenario& scenario,
                 const Options& options,
                 const Powers& powers,
                 const Routes& routes)
{
    m_nodes.Create(scenario.nodes.size());
    InstallWifi(scenario, options, powers);
    InstallIp(powers, routes);
    if (!options.trace.empty())
    {
        m_trace.open(options.trace);
    }
}

Ipv4Address
Network::Address(NodeIndex node)
{
    return Ipv4Address((10U << 24) + node + 1);
}

void
Network::InstallWifi(const Scenario& scenario, const Options& options, const Powers& powers)
{
    for (NodeIndex i = 0; i < m_nodes.GetN(); i++)
    {
        auto position = CreateObject<NodePosition>();
        position->index = i;
        position->SetPosition(Vector(scenario.nodes[i].x, scenario.nodes[i].y, 0));
        m_nodes.Get(i)->AggregateObject(position);
    }
    auto propagation = CreateObject<TablePropagation>();
    propagation->powers = &powers;
    auto channel = CreateObject<YansWifiChannel>();
    channel->SetPropagationLossModel(propagation);
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());

    YansWifiPhyHelper phy;
    phy.SetChannel(channel);
    // Keeps ns-3's range checks happy; the table decides the received power.
    phy.Set("TxPowerStart", DoubleValue(24.5));
    phy.Set("TxPowerEnd", DoubleValue(24.5));
    // ns-3 adds 10 log10(22/20) = 0.414 dB to this one.
    phy.Set("RxSensitivity", DoubleValue(powers.senseDbm - 0.42));
    phy.Set("CcaEdThreshold", DoubleValue(powers.senseDbm));
    phy.Set("CcaSensitivity", DoubleValue(powers.senseDbm));
    phy.Set("RxNoiseFigure", DoubleValue(options.rx == "stock" ? 7 : 0));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("harness::RtsLimitManager",
                                 "DataMode",
                                 StringValue(DsssMode(options.rate)),
                                 "ControlMode",
                                 StringValue(DsssMode(ControlRate(options))));
    m_devices = wifi.Install(phy, mac, m_nodes);

    for (NodeIndex i = 0; i < m_nodes.GetN(); i++)
    {
        m_taps.push_back({this, i});
    }
    for (NodeIndex i = 0; i < m_nodes.GetN(); i++)
    {
        auto device = DynamicCast<WifiNetDevice>(m_devices.Get(i));
        InstallReception(device->GetPhy(), powers, options);
        device->GetPhy()->TraceConnectWithoutContext(
            "PhyTxPsduBegin",
            MakeBoundCallback(&Network::OnTransmission, &m_taps[i]));
        device->GetMac()->TraceConnectWithoutContext(
            "DroppedMpdu",
            MakeBoundCallback(&Network::OnMacDrop, &m_counters));
        FixRates(i, options, powers);
    }
}

/// Basic rates {1} or {1, 2} Mb/s. Left alone, an ad-hoc interface makes all DSSS rates basic as
/// soon as it meets a neighbour, and would send ACKs at 11 Mb/s.
void
Network::FixRates(NodeIndex node, const Options& options, const Powers& powers)
{
    auto manager =
        DynamicCast<WifiNetDevice>(m_devices.Get(node))->GetRemoteStationManager();
    manager->AddBasicMode(WifiMode(DsssMode(1)));
    if (options.rate != 1)
    {
        manager->AddBasicMode(WifiMode(DsssMode(2)));
    }
    for (const NodeIndex peer : powers.Neighbours()[node])
    {
        const auto address = Mac48Address::ConvertFrom(m_devices.Get(peer)->GetAddress());
        manager->AddSupportedMode(address, WifiMode(DsssMode(1)));
        manager->AddSupportedMode(address, WifiMode(DsssMode(options.rate)));
        // A known neighbour is not "met" again.
        manager->RecordGotAssocTxOk(address);
    }
}

void
Network::InstallIp(const Powers& powers, const Routes& routes)
{
    Ipv4StaticRoutingHelper routing;
    InternetStackHelper internet;
    internet.SetRoutingHelper(routing);
    internet.SetIpv6StackInstall(false);
    internet.Install(m_nodes);
    for (NodeIndex i = 0; i < m_nodes.GetN(); i++)
    {
        // Addresses by hand: the helper would put a queueing discipline above the interface.
        auto ip = m_nodes.Get(i)->GetObject<Ipv4L3Protocol>();
        const uint32_t interface = ip->AddInterface(m_devices.Get(i));
        ip->AddAddress(interface, Ipv4InterfaceAddress(Address(i), Ipv4Mask("255.0.0.0")));
        ip->SetUp(interface);
        auto arp = ip->GetInterface(interface)->GetArpCache();
        for (const NodeIndex peer : powers.Neighbours()[i])
        {
            auto entry = arp->Add(Address(peer));
            entry->SetMacAddress(m_devices.Get(peer)->GetAddress());
            entry->MarkPermanent();
        }
        m_nodes.Get(i)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext(
            "TcDrop",
            MakeBoundCallback(&Network::OnQueueDrop, &m_counters));
    }
    for (const auto& [where, via] : routes.NextHops())
    {
        const auto& [node, destination] = where;
        routing.GetStaticRouting(m_nodes.Get(node)->GetObject<Ipv4>())
            ->AddHostRouteTo(Address(destination), Address(via), 1);
    }
}

void
Network::OnTransmission(Tap* tap, WifiConstPsduMap psdus, WifiTxVector txVector, double)
{
    Network& network = *tap->network;
    network.m_counters.transmissions++;
    if (network.m_trace.is_open())
    {
        const auto& psdu = *psdus.begin()->second;
        const WifiMacHeader& header = psdu.GetHeader(0);
        uint8_t to[6];
        header.GetAddr1().CopyTo(to); // ns-3 numbers interfaces from 1
        network.m_trace << Simulator::Now().GetNanoSeconds() << ' ' << tap->node << ' '
                        << header.GetTypeString() << ' ' << ((to[4] << 8 | to[5]) - 1) << ' '
                        << psdu.GetSize() << ' ' << txVector.GetMode().GetDataRate(22) / 1000000
                        << ' ' << header.IsRetry() << '\n';
    }
}

void
Network::OnMacDrop(Counters* counters, WifiMacDropReason reason, Ptr<const WifiMpdu>)
{
    (reason == WIFI_MAC_DROP_REACHED_RETRY_LIMIT ? counters->retryDrops : counters->queueDrops)++;
}

void
Network::OnQueueDrop(Counters* counters, Ptr<const Packet>)
{
    counters->queueDrops++;
}

} // namespace harness
