#!/bin/sh
# Find the commit since which ranks disagree: a script for `git bisect run`.
#
#     RANKS=0-3 git bisect run /path/to/bisect.sh 'loss' torchrun --standalone --nproc-per-node 4 train.py
#
# The training must stop at a breakpoint in each of these ranks, and `dbg-broker serve` must know no other job. Copy
# this script out of the work tree first: git checks out another commit there for each step.

expression=$1
shift
"$@" </dev/null >bisect.log 2>&1 &
job=$!

# A commit in which ranks disagree is bad (1), a commit whose ranks can't be asked is skipped (125).
verdict=125
everybody=yes
for rank in $(seq "${RANKS%-*}" "${RANKS#*-}"); do
    dbg-attach list "$rank" --wait --for 120 >/dev/null || everybody=no
done
if [ "$everybody" = yes ]; then
    dbg-attach eval "$RANKS" "$expression" --fail-if-differ
    case $? in
        0) verdict=0 ;;
        1) verdict=1 ;;
    esac
fi
kill "$job"
wait "$job"
exit "$verdict"
