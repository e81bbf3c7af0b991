#!/bin/sh
# Generates the table of docs/control-truth.md: the gateway's daemon on the emulated mesh and in the simulator, over
# the kernel's TCP. Needs root and about 13 minutes on an otherwise idle machine.
#
#   sudo scripts/control-truth.sh [FOLDER]      # results, one folder per row; default results/truth
#
# FAIRMESH names the program (default target/release/fairmesh). A row with an invalid emulation
# is repeated once and marked INVALID if the repetition is invalid, too.
set -u
cd "$(dirname "$0")/.." || exit 2
program=${FAIRMESH:-target/release/fairmesh}
folder=${1:-results/truth}
mkdir -p "$folder" || exit 2

row() { # NAME SCENARIO OPTIONS...
    name=$1 scenario=$2
    shift 2
    for _ in 1 2; do
        "$program" emulate "scenarios/$scenario.toml" "$@" --set epoch=2 --set queue=100 --beside --beside-seeds 5 \
            --out "$folder/$name" >"$folder/$name.txt" 2>"$folder/$name.err" && break
    done
    code=$?
    printf '\n%s\n' "$name"
    sed -n '/^ control .*Jain/,/^$/p' "$folder/$name.txt"
    grep -h 'stood still' "$folder/$name.txt"
    [ $code -eq 0 ] || tail -n 2 "$folder/$name.err"
}

for shape in ${SHAPES:-chain tree}; do
    for way in up down; do
        row "$shape-$way" "testbed-$shape-$way" --control fifo,arc-fq,pfrc
        for congestion in cubic bbr; do
            [ "$shape" = tree ] || continue
            row "$shape-$way-$congestion" "testbed-$shape-$way" --control pfrc \
                --congestion $congestion
        done
    done
done
