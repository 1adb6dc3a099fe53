#!/bin/sh
# Find the first commit at which ranks disagree: a script for `git bisect run`.
#
#     RANKS=0-3 git bisect run /path/to/bisect.sh 'loss' torchrun --standalone --nproc-per-node 4 train.py
#
# Each of these ranks must stop at a breakpoint, and `dbg-broker serve` must not have another job. Copy this script out
# of the work tree first, because git checks out another commit there for each step.

expression=$1
shift
"$@" </dev/null >bisect.log 2>&1 &
job=$!

# If ranks disagree, the commit is bad (1). If ranks don't answer, the commit is skipped (125).
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
