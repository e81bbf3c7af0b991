// SPDX-License-Identifier: GPL-2.0-only
#include "radio.h"

#include "interpose.h"

#include "ns3/double.h"
#include "ns3/error-rate-model.h"
#include "ns3/node.h"
#include "ns3/propagation-delay-model.h"
#include "ns3/simulator.h"
#include "ns3/threshold-preamble-detection-model.h"
#include "ns3/wifi-net-device.h"
#include "ns3/wifi-tx-vector.h"
#include "ns3/yans-wifi-channel.h"
#include "ns3/yans-wifi-phy.h"

#include <algorithm>
#include <cmath>

using namespace ns3;

namespace harness
{

namespace
{

constexpr double SILENT_DBM = -1000;
constexpr double LINK_DBM = -60;        ///< flat models: decodable
constexpr double FLAT_SENSED_DBM = -65; ///< flat models: sensed only; 5 dB < any capture margin
constexpr double EDGE_DB = 1e-3;        ///< a node exactly at the range limit is inside
constexpr double EDGE_M = 1e-6;

bool g_stockErrorCurves = false;
bool g_prune = false;

double
DbmToWatt(double dbm)
{
    return std::pow(10.0, dbm / 10) / 1e3;
}

/// Two-ray ground with the constants of ns-2's default 914 MHz radio: 0.28183815 W, antennas of
/// unit gain at 1.5 m. Friis up to the cross-over distance (86 m), d^-4 beyond.
double
TwoRayDbm(double metres)
{
    constexpr double power = 0.28183815;
    constexpr double height = 1.5;
    constexpr double wavelength = 3e8 / 914e6;
    const double crossover = 4 * M_PI * height * height / wavelength;
    const double watt = metres < crossover
                            ? power * std::pow(wavelength / (4 * M_PI * metres), 2)
                            : power * std::pow(height, 4) / std::pow(metres, 4);
    return 10 * std::log10(watt * 1e3);
}

/// Locks on any frame at or above `lockWatt`. Remembers whether the frame is lost already.
class FirstFrameLock : public PreambleDetectionModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("harness::FirstFrameLock").SetParent<PreambleDetectionModel>();
        return id;
    }

    bool IsPreambleDetected(double watt, double sinr, double) const override
    {
        if (watt < lockWatt)
        {
            return false;
        }
        lost = watt < decodeWatt || sinr < minSinr;
        return true;
    }

    double lockWatt = 0;
    double decodeWatt = 0;
    double minSinr = 0;
    mutable bool lost = false; ///< state of the frame this receiver is locked on
};

/// Follows a locked frame to its end and delivers it iff it was never lost.
class ThresholdErrors : public ErrorRateModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("harness::ThresholdErrors").SetParent<ErrorRateModel>();
        return id;
    }

    Ptr<FirstFrameLock> lock;

  private:
    double DoGetChunkSuccessRate(WifiMode,
                                 const WifiTxVector&,
                                 double sinr,
                                 uint64_t,
                                 uint8_t,
                                 WifiPpduField field,
                                 uint16_t) const override
    {
        lock->lost = lock->lost || sinr < lock->minSinr;
        // A header never fails by itself: the receiver stays busy until the frame's end.
        return field == WIFI_PPDU_FIELD_DATA && lock->lost ? 0.0 : 1.0;
    }
};

} // namespace

Powers::Powers(const Scenario& scenario, const Options& options)
    : m_count(scenario.nodes.size()),
      m_dbm(m_count * m_count, SILENT_DBM),
      m_neighbours(m_count)
{
    const bool flat = options.rx == "nocap" || !scenario.links.empty();
    decodeDbm = flat ? LINK_DBM - 0.01 : TwoRayDbm(options.rxRange) - EDGE_DB;
    senseDbm = flat ? FLAT_SENSED_DBM - 0.01 : TwoRayDbm(options.csRange) - EDGE_DB;
    if (scenario.links.empty())
    {
        FromPositions(scenario, options, flat);
    }
    else
    {
        FromLinks(scenario);
    }
}

void
Powers::FromLinks(const Scenario& scenario)
{
    for (const auto& [a, b] : scenario.links)
    {
        m_dbm[a * m_count + b] = m_dbm[b * m_count + a] = LINK_DBM;
        m_neighbours[a].push_back(b);
        m_neighbours[b].push_back(a);
    }
    for (auto& list : m_neighbours)
    {
        std::sort(list.begin(), list.end());
    }
}

void
Powers::FromPositions(const Scenario& scenario, const Options& options, bool flat)
{
    for (NodeIndex a = 0; a < m_count; a++)
    {
        for (NodeIndex b = 0; b < m_count; b++)
        {
            const Position& p = scenario.nodes[a];
            const Position& q = scenario.nodes[b];
            const double metres = std::hypot(p.x - q.x, p.y - q.y);
            if (a == b || metres > options.csRange + EDGE_M)
            {
                continue;
            }
            const bool decodable = metres <= options.rxRange + EDGE_M;
            const double flatDbm = decodable ? LINK_DBM : FLAT_SENSED_DBM;
            m_dbm[a * m_count + b] = flat ? flatDbm : TwoRayDbm(std::max(metres, 1.0));
            if (decodable)
            {
                m_neighbours[a].push_back(b);
            }
        }
    }
}

TypeId
NodePosition::GetTypeId()
{
    static TypeId id = TypeId("harness::NodePosition")
                           .SetParent<ConstantPositionMobilityModel>()
                           .AddConstructor<NodePosition>();
    return id;
}

TypeId
TablePropagation::GetTypeId()
{
    static TypeId id = TypeId("harness::TablePropagation")
                           .SetParent<PropagationLossModel>()
                           .AddConstructor<TablePropagation>();
    return id;
}

double
TablePropagation::DoCalcRxPower(double, Ptr<MobilityModel> from, Ptr<MobilityModel> to) const
{
    // Every position in this program is a NodePosition; a checked cast would cost per frame.
    return powers->Dbm(static_cast<NodePosition*>(PeekPointer(from))->index,
                       static_cast<NodePosition*>(PeekPointer(to))->index);
}

int64_t
TablePropagation::DoAssignStreams(int64_t)
{
    return 0;
}

void
ConfigureRadio(const Options& options)
{
    g_stockErrorCurves = options.rx == "stock";
    g_prune = options.prune != 0;
}

void
InstallReception(Ptr<WifiPhy> phy, const Powers& powers, const Options& options)
{
    if (options.rx == "stock")
    {
        auto detection = CreateObject<ThresholdPreambleDetectionModel>();
        detection->SetAttribute("MinimumRssi", DoubleValue(powers.decodeDbm));
        phy->SetPreambleDetectionModel(detection);
        return;
    }
    auto lock = CreateObject<FirstFrameLock>();
    lock->lockWatt = DbmToWatt(options.rx == "sinr" ? powers.decodeDbm : powers.senseDbm);
    lock->decodeWatt = DbmToWatt(powers.decodeDbm);
    lock->minSinr = std::pow(10.0, options.cp / 10);
    phy->SetPreambleDetectionModel(lock);
    auto errors = CreateObject<ThresholdErrors>();
    errors->lock = lock;
    phy->SetErrorRateModel(errors);
}

} // namespace harness

namespace ns3
{

// The library's version sends every DSSS frame to built-in curves, whatever model is installed.
double
ErrorRateModel::GetChunkSuccessRate(WifiMode mode,
                                    const WifiTxVector& txVector,
                                    double sinr,
                                    uint64_t bits,
                                    uint8_t antennas,
                                    WifiPpduField field,
                                    uint16_t station) const
{
    if (!harness::g_stockErrorCurves)
    {
        return DoGetChunkSuccessRate(mode, txVector, sinr, bits, antennas, field, station);
    }
    using Original = double (*)(const ErrorRateModel*,
                                WifiMode,
                                const WifiTxVector&,
                                double,
                                uint64_t,
                                uint8_t,
                                WifiPpduField,
                                uint16_t);
    static const auto original = harness::NextDefinition<Original>(
        "_ZNK3ns314ErrorRateModel19GetChunkSuccessRateE"
        "NS_8WifiModeERKNS_12WifiTxVectorEdmhNS_13WifiPpduFieldEt");
    return original(this, mode, txVector, sinr, bits, antennas, field, station);
}

// The library schedules a reception at every node on the channel and discards silent ones there.
void
YansWifiChannel::Send(Ptr<YansWifiPhy> sender, Ptr<const WifiPpdu> ppdu, double txDbm) const
{
    if (!harness::g_prune)
    {
        using Original =
            void (*)(const YansWifiChannel*, Ptr<YansWifiPhy>, Ptr<const WifiPpdu>, double);
        static const auto original = harness::NextDefinition<Original>(
            "_ZNK3ns315YansWifiChannel4SendENS_3PtrINS_11YansWifiPhyEEENS1_IKNS_8WifiPpduEEEd");
        original(this, sender, ppdu, txDbm);
        return;
    }
    const Ptr<MobilityModel> from = sender->GetMobility();
    for (const Ptr<YansWifiPhy>& receiver : m_phyList)
    {
        if (receiver == sender)
        {
            continue;
        }
        const Ptr<MobilityModel> to = receiver->GetMobility();
        const double dbm = m_loss->CalcRxPower(txDbm, from, to);
        if (dbm > harness::SILENT_DBM)
        {
            Simulator::ScheduleWithContext(receiver->GetDevice()->GetNode()->GetId(),
                                           m_delay->GetDelay(from, to),
                                           &YansWifiChannel::Receive,
                                           receiver,
                                           ppdu,
                                           dbm);
        }
    }
}

} // namespace ns3
