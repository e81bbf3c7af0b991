# SPDX-License-Identifier: MIT OR Apache-2.0
# One run of one scenario on the packaged ns-2.35; prints one line of JSON.
#
#   ns harness.tcl scen=FILE seed=N ?key=value ...?
#
# Routes are DSDV's: nodes exchange them for 60 s while the air is free, then updates stop. They depend on
# `routing` alone, because the random generator is seeded again before the flows start. `paths=1` prints
# the path of every flow and stops there. Warm-up datagrams fill the ARP tables; a flow whose datagrams
# do not arrive ends the run with exit code 3.

if {[ns-version] ne "2.35"} { puts stderr "ns-2 [ns-version]; expected 2.35"; exit 2 }

# Defaults. Sizes are of IP datagrams; DSDV adds 20 bytes to what its node originates, so agents get less.
array set o {
    tag "" seed 1 routing 1 paths 0 dur 200 warm 20 rate 1 rts 0 queue 50 cp 10 pkt 1500 spread 0.5
    mss 1460 wnd 20 rxRange 250 csRange 550
}
foreach a $argv {
    if {![regexp {^([A-Za-z]+)=(.*)$} $a -> key value]} { puts stderr "$a: expected key=value"; exit 2 }
    if {$key ne "scen" && ![info exists o($key)]} { puts stderr "$key: is unknown"; exit 2 }
    set o($key) $value
}

set at {}
set flows {}
set file [open $o(scen)]
foreach line [split [read $file] "\n"] {
    set w [regexp -all -inline {\S+} [lindex [split $line #] 0]]
    switch -- [lindex $w 0] {
        node { lappend at [lrange $w 2 3] }
        flow { lappend flows [lrange $w 1 end] }
        "" - path {}
        default { puts stderr "$o(scen): $line: is unknown"; exit 2 }
    }
}
close $file

# Two-ray ground: received power at a distance beyond the crossover of 86 m.
proc power {metres} { expr {0.28183815 * pow(1.5, 4) / pow($metres, 4)} }
Phy/WirelessPhy set Pt_ 0.28183815
Phy/WirelessPhy set freq_ 914e+6
Phy/WirelessPhy set CSThresh_ [expr {[power $o(csRange)] * 0.9999999}]
Phy/WirelessPhy set RXThresh_ [expr {[power $o(rxRange)] * 0.9999999}]
Phy/WirelessPhy set CPThresh_ [expr {$o(cp) > 0 ? pow(10, $o(cp) / 10.0) * 0.9999999 : 1e9}]
Mac/802_11 set dataRate_ ${o(rate)}Mb
Mac/802_11 set basicRate_ [expr {$o(rate) > 2 ? 2 : 1}]Mb
Mac/802_11 set RTSThreshold_ [expr {$o(rts) ? 0 : 3000}]
Agent/DSDV set use_mac_ 0
Agent/DSDV set min_update_periods_ 1000000

set ns [new Simulator]
set trace [open [expr {$o(paths) ? "|cat" : "/dev/null"}] w]
$ns trace-all $trace
set topo [new Topography]
$topo load_flatgrid 10000 10000
set n [llength $at]
create-god $n
ns-random $o(routing)
$ns node-config -adhocRouting DSDV -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue \
    -ifqLen $o(queue) -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround \
    -phyType Phy/WirelessPhy -channel [new Channel/WirelessChannel] -topoInstance $topo \
    -agentTrace OFF -routerTrace [expr {$o(paths) ? "ON" : "OFF"}] -macTrace OFF -movementTrace OFF
for {set i 0} {$i < $n} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    $node($i) set X_ [expr {3000 + [lindex $at $i 0]}]
    $node($i) set Y_ [expr {3000 + [lindex $at $i 1]}]
    $node($i) set Z_ 0
    $ns at 60 "[$node($i) agent 255] set perup_ 1000000"
}

# Datagrams over every path, both ways, one pair after the other.
set start 100.0
set k 0
foreach f $flows {
    foreach {a b} [list [lindex $f 1] [lindex $f 2] [lindex $f 2] [lindex $f 1]] {
        set u [new Agent/UDP]
        $u set fid_ [expr {1000 + $k}]
        set heard($k) [new Agent/LossMonitor]
        $ns attach-agent $node($a) $u
        $ns attach-agent $node($b) $heard($k)
        $ns connect $u $heard($k)
        set c [new Application/Traffic/CBR]
        $c set packetSize_ 64
        $c set interval_ 0.1
        $c attach-agent $u
        set t [expr {80 + 18.0 * $k / (2 * [llength $flows])}]
        $ns at $t "$c start"
        $ns at [expr {$t + 0.35}] "$c stop"
        incr k
    }
}
proc check {} {
    global heard k o flows
    for {set i 0} {$i < $k} {incr i} {
        if {[$heard($i) set npkts_] < 1} {
            puts stderr "no route for flow [expr {$i / 2}] ([lindex $flows [expr {$i / 2}]])"
            exit 3
        }
    }
    if {$o(paths)} { exit 0 }
    ns-random $o(seed)
}
$ns at [expr {$start - 0.5}] check

# Flows start within a second.
set rng [new RNG]
$rng seed $o(seed)
set i 0
foreach f $flows {
    lassign $f protocol a b bps
    set begin [expr {$start + [$rng uniform 0 1]}]
    if {$protocol eq "tcp"} {
        set agent($i) [new Agent/TCP/Newreno]
        $agent($i) set packetSize_ $o(mss)
        $agent($i) set window_ $o(wnd)
        $agent($i) set tcpip_base_hdr_size_ 20
        set sink($i) [new Agent/TCPSink]
        $sink($i) set packetSize_ 20
        set source [new Application/FTP]
    } else {
        set agent($i) [new Agent/UDP]
        $agent($i) set packetSize_ 2000
        set sink($i) [new Agent/LossMonitor]
        set source [new Application/Traffic/CBR]
        $source set packetSize_ [expr {$o(pkt) + 8}]
        $source set interval_ [expr {$o(pkt) * 8.0 / $bps}]
        $source set random_ [expr {$o(spread) > 0}]
    }
    $ns attach-agent $node($a) $agent($i)
    $ns attach-agent $node($b) $sink($i)
    $ns connect $agent($i) $sink($i)
    $source attach-agent $agent($i)
    $ns at $begin "$source start"
    incr i
}

# Bytes that the receiver's application has.
proc got {i} {
    global flows sink agent o
    if {[lindex $flows $i 0] eq "tcp"} { return [expr {([$agent($i) set ack_] + 0.0) * $o(mss)}] }
    return [expr {[$sink($i) set npkts_] * 1.0 * $o(pkt)}]
}
proc snapshot {} {
    global flows before
    for {set i 0} {$i < [llength $flows]} {incr i} { set before($i) [got $i] }
    sample
}
set samples 0
proc sample {} {
    global ns flows agent window samples
    for {set i 0} {$i < [llength $flows]} {incr i} {
        if {[lindex $flows $i 0] ne "tcp"} continue
        set window($i) [expr {[info exists window($i)] ? $window($i) + [$agent($i) set cwnd_] : [$agent($i) set cwnd_]}]
    }
    incr samples
    $ns at [expr {[$ns now] + 1}] sample
}
proc finish {} {
    global flows before o window samples
    set out {}
    set sum 0
    for {set i 0} {$i < [llength $flows]} {incr i} {
        lassign [lindex $flows $i] protocol a b
        set bps [expr {([got $i] - $before($i)) * 8 / ($o(dur) - $o(warm))}]
        set sum [expr {$sum + $bps}]
        set line "{\"p\":\"$protocol\",\"src\":$a,\"dst\":$b,\"bps\":[format %.1f $bps]"
        if {$protocol eq "tcp"} { append line ",\"window\":[format %.2f [expr {$window($i) / $samples}]]" }
        lappend out "$line}"
    }
    puts "{\"tag\":\"$o(tag)\",\"seed\":$o(seed),\"flows\":\[[join $out ,]\],\"sum_bps\":[format %.1f $sum]}"
    exit 0
}
$ns at [expr {$start + $o(warm)}] snapshot
$ns at [expr {$start + $o(dur)}] finish
$ns run
