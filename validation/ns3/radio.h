// SPDX-License-Identifier: GPL-2.0-only
//
// Powers between nodes, and the rule by which a receiver gets a frame or loses it.
//
// Powers: two-ray ground with ns-2's constants. Up to `rxRange` a frame can be decoded, up to
// `csRange` it is sensed and interferes, beyond that it does not exist. If the scenario has `link`
// lines, linked nodes hear each other at one common power and nothing else exists.
//
// Reception models:
//   ns2    a free receiver locks on the first frame that it senses, even one too weak to decode.
//          The locked frame is received iff it is decodable and its SINR never falls below `cp`.
//          A locked frame that fails causes EIFS.
//   sinr   as ns2, but a frame too weak to decode is energy only: no lock, no EIFS.
//   nocap  as ns2 on two flat powers 5 dB apart (decodable, sensed): every overlap destroys.
//   stock  ns-3's own preamble detection and DSSS error curves, noise figure 7 dB.
#pragma once

#include "options.h"
#include "scenario.h"

#include "ns3/constant-position-mobility-model.h"
#include "ns3/error-rate-model.h"
#include "ns3/preamble-detection-model.h"
#include "ns3/propagation-loss-model.h"
#include "ns3/wifi-phy.h"

#include <vector>

namespace harness
{

/// Received power for every ordered pair, and who is in reach of whom.
class Powers
{
  public:
    Powers(const Scenario& scenario, const Options& options);

    double Dbm(NodeIndex from, NodeIndex to) const
    {
        return m_dbm[from * m_count + to];
    }

    /// Decodable neighbours of each node, ascending.
    const std::vector<std::vector<NodeIndex>>& Neighbours() const
    {
        return m_neighbours;
    }

    double decodeDbm; ///< weakest decodable power
    double senseDbm;  ///< weakest sensed power

  private:
    void FromLinks(const Scenario& scenario);
    void FromPositions(const Scenario& scenario, const Options& options, bool flat);

    size_t m_count;
    std::vector<double> m_dbm;
    std::vector<std::vector<NodeIndex>> m_neighbours;
};

/// A fixed position that knows which node it belongs to, so that the power is a table look-up.
class NodePosition : public ns3::ConstantPositionMobilityModel
{
  public:
    static ns3::TypeId GetTypeId();
    NodeIndex index = 0;
};

/// Propagation "loss" that reads the received power from the table; transmit power plays no part.
class TablePropagation : public ns3::PropagationLossModel
{
  public:
    static ns3::TypeId GetTypeId();
    const Powers* powers = nullptr;

  private:
    double DoCalcRxPower(double txDbm,
                         ns3::Ptr<ns3::MobilityModel> from,
                         ns3::Ptr<ns3::MobilityModel> to) const override;
    int64_t DoAssignStreams(int64_t) override;
};

/// Gives one PHY the reception model chosen by `options.rx`.
void InstallReception(ns3::Ptr<ns3::WifiPhy> phy, const Powers& powers, const Options& options);

/// Process-wide switches of the two interposed ns-3 functions; call once, before the run.
void ConfigureRadio(const Options& options);

} // namespace harness
