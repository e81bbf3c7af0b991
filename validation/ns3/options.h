// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>

namespace harness
{

/// Everything that is not in the scenario file; one command-line option each, same name.
struct Options
{
    std::string scen;         ///< scenario file
    std::string tag;          ///< label copied to the output
    uint32_t seed = 1;        ///< run number of the random streams
    double dur = 200;         ///< simulated seconds
    double warm = 20;         ///< seconds left out of the goodput
    double jitter = 1;        ///< flows start uniformly in [0, jitter] s
    std::string rx = "ns2";   ///< reception model, see radio.h
    double rxRange = 250;     ///< decode range, m
    double csRange = 550;     ///< sensing and interference range, m
    double cp = 10;           ///< SINR below which a frame is lost, dB
    uint32_t rate = 1;        ///< data rate, Mb/s: 1, 2 or 11 (control 1, 2, 2)
    uint32_t rts = 0;         ///< 1: RTS/CTS before every unicast data frame
    uint32_t queue = 50;      ///< interface queue, packets, frame in service included
    uint32_t pkt = 1500;      ///< UDP payload, bytes
    double cbrspread = 0;     ///< UDP gaps are multiplied by U(1-s, 1+s)
    uint32_t mss = 1460;      ///< TCP segment, bytes
    uint32_t sack = 0;        ///< 1: TCP with SACK
    uint32_t delack = 1;      ///< segments per TCP ACK
    uint32_t initcwnd = 2;    ///< initial TCP window, segments
    uint32_t wnd = 0;         ///< largest number of outstanding segments, 0 = no limit
    double minrto = 0.2;      ///< smallest retransmission timeout, s
    uint32_t fixreno = 1;     ///< 0: TCP without SACK as shipped with ns-3.37, see repairs.h
    uint32_t prune = 0;       ///< 1: do not schedule receptions that are out of range
    std::string trace;        ///< file for one line per transmission, empty = none
};

} // namespace harness
