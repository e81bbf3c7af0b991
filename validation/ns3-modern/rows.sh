#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Prints the rows with A-MSDUs and those of several flows: one JSON line per run, to be appended to results.jsonl.
# MESH: another program than build/harness.
cd "$(dirname "$0")"
run() { # tag, scenario, duration, warm-up, options
    tag=$1; scen=$2; dur=$3; warm=$4; shift 4
    # More seeds where the starved flow changes from seed to seed.
    case $tag in s7_* | s6_stack_tcp_64k_3839_rts1) seeds="1 2 3 4 5 6 7 8" ;; *) seeds="1 2 3" ;; esac
    for seed in $seeds; do
        "${MESH:-build/harness}" --scen=scen/$scen.txt --tag=$tag --seed=$seed --dur=$dur --warm=$warm "$@"
    done
}
n="--std=n --width=20 --mcs=7"; ac="--std=ac --width=80 --mcs=7"; ax="--std=ax --width=80 --mcs=9 --nss=2"
for rts in 0 1; do
    o="--rts=$rts"
    # Lone links.
    run s5_n20_mcs7_nss1_off_3839_rts$rts link_60M 4 1 $n --ampdu=0 --amsdu=3839 $o
    run s5_n20_mcs7_nss1_off_7935_rts$rts link_80M 4 1 $n --ampdu=0 --amsdu=7935 $o
    run s5_n20_mcs7_nss1_64k_3839_rts$rts link_80M 4 1 $n --ampdu=65535 --amsdu=3839 $o
    run s5_ac80_mcs7_nss1_off_3839_rts$rts link_250M 2.5 1 $ac --ampdu=0 --amsdu=3839 $o
    run s5_ac80_mcs7_nss1_off_11398_rts$rts link_250M 2.5 1 $ac --ampdu=0 --amsdu=11398 $o
    run s5_ac80_mcs7_nss1_max_3839_rts$rts link_330M 2.5 1 $ac --ampdu=1048575 --amsdu=3839 $o
    run s5_ax80_mcs9_nss2_off_7935_rts$rts link_450M 2.5 1 $ax --ampdu=0 --amsdu=7935 $o
    run s5_ax80_mcs9_nss2_16k_3839_rts$rts link_800M 2.5 1 $ax --ampdu=16383 --amsdu=3839 $o
    # Cells.
    run s5_cell_n5_off_3839_rts$rts cell_n5 4 1 $ac --ampdu=0 --amsdu=3839 $o
    run s5_cell_n5_max_3839_rts$rts cell_n5 4 1 $ac --ampdu=1048575 --amsdu=3839 $o
    # One flow over one to three hops.
    for scen in chain1_tcp chain2_tcp chain3_tcp chain2_udp chain3_udp; do
        run s5_${scen}_off_3839_rts$rts $scen 15 5 $n --ampdu=0 --amsdu=3839 $o
        run s5_${scen}_64k_3839_rts$rts $scen 15 5 $n --ampdu=65535 --amsdu=3839 $o
    done
    # Several flows, without A-MSDUs and with them.
    for scen in down3_tcp stack_tcp slow_tcp slow_udp; do
        run s6_${scen}_64k_rts$rts $scen 15 5 $n --ampdu=65535 $o
    done
    for scen in down3_tcp stack_tcp slow_tcp; do
        run s6_${scen}_64k_3839_rts$rts $scen 15 5 $n --ampdu=65535 --amsdu=3839 $o
        run s6_${scen}_off_3839_rts$rts $scen 15 5 $n --ampdu=0 --amsdu=3839 $o
    done
done
# Networks in which the starved flow changes from seed to seed.
for scen in up3_tcp tree_tcp rand15_tcp; do
    run s7_${scen}_64k_rts0 $scen 15 5 $n --ampdu=65535 --rts=0
    run s7_${scen}_64k_3839_rts0 $scen 15 5 $n --ampdu=65535 --amsdu=3839 --rts=0
done
