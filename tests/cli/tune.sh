#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn tune: usage errors, a small problem within a limit, the record that runs then follow, --show, --out.
#   tune.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=tune
CLATTN_TUNING_FILE=$work/record/tuning.txt
export CLATTN_TUNING_FILE

# ---- wrong use ----
run 2 "an unknown word" 'n8 d8 fast'
says "an unknown word" 'problem "n8 d8 fast": '
run 2 "a problem without a record" 'n8 d8 invariant'
says "a problem without a record" 'follow no record'
run 2 "an unknown algorithm" 'n8 d8' --algorithms fused_splitt
says "an unknown algorithm" "'fused_splitt'; did you mean fused_split"
run 2 "no time" 'n8 d8' --limit 0
run 2 "two problems for CLBlast" 'n8 d8' 'n9 d8' --clblast
says "two problems for CLBlast" 'tune: --clblast with 2 problems: it takes one'
run 2 "the cpu" 'n8 d8' -d cpu
says "the cpu" 'has nothing to tune'
CLATTN_TUNING_FILE=off run 2 "no record" 'n8 d8'
says "no record" 'there is no record to write to'
holds "nothing was written" [ ! -e "$work/record" ]

# ---- a small problem ----
run 0 "nothing yet" --show
says "nothing yet" 'nothing about this device: defaults hold'
run 0 "a small problem" 'h2 q1 k2048 d16' --algorithms fused_split --limit 20
says "a small problem" '^b1 h2 q1 k2048 d16 f32$'
says "a small problem" '^  fused_split .*x  '
says "a small problem" "^record $work/record/tuning.txt\$"
holds "the record's version" [ "$(head -1 "$work/record/tuning.txt")" = "clattn tuning 1" ]
holds "the record's device" grep -q '^device .* units$' "$work/record/tuning.txt"
holds "no temporary file is left" [ "$(ls -A "$work/record")" = tuning.txt ]
cp "$work/record/tuning.txt" "$work/copy"

# ---- what is recorded is followed, and a bad line is not ----
{
    cat "$work/copy"
    echo 'fused_split f32 d16 v16 q1 k2048 heads2 group1: splits=1 | 1.5 ms, default 2.5 ms'
    echo 'nonsense'
} >"$work/record/tuning.txt"
run 0 "an entry" --show
says "an entry" 'fused_split f32 d16 v16 q1 k2048 heads2 group1: splits=1, 1\.5 ms against 2\.5 ms by default'
says "an entry" 'passed over: line [0-9]*: no value behind'
run 0 "another file" 'h2 q1 k2048 d16' --algorithms fused_split --limit 20 --out "$work/other.txt"
says "another file" "^record $work/other.txt\$"
holds "another file is written" grep -q '^clattn tuning 1$' "$work/other.txt"
holds "the record is left alone" grep -q nonsense "$work/record/tuning.txt"
echo 'my notes' >"$work/notes"
run 2 "a file that is no record" 'h2 q1 k2048 d16' --algorithms fused_split --limit 20 --out "$work/notes"
says "a file that is no record" 'line 1 is not "clattn tuning 1"'
holds "and stays" [ "$(cat "$work/notes")" = 'my notes' ]

# ---- the time ends ----
run 0 "no time for all" 'h2 q1 k2048 d16' 'h2 q1 k1024 d16' 'h2 q1 k512 d16' --algorithms fused_split --limit 0.001
says "no time for all" 'the time is over; [123] of 3 problems were not tuned, and [0-2] not to the end'
holds "what was left is said last" sh -c "tail -n 1 '$work/out' | grep -q '^the time is over'"

# ---- Ctrl-C: what was found is saved ----
rm -f "$work/record/tuning.txt"
"$clattn" tune 'h2 q1 k2048 d16' 'h8 n2048 d64' 'h8 n2048 d128' --limit 300 >"$work/out" 2>"$work/err" &
child=$!
for _ in $(seq 600); do
    grep -q '^b1 h8 n2048 d64' "$work/out" && break
    sleep 0.1
done
kill -INT "$child" 2>/dev/null
wait "$child"
status=$?
holds "interrupted: exit status 130" [ "$status" -eq 130 ]
says "interrupted" 'interrupted; [12] of 3 problems were not tuned'
holds "interrupted: the record is whole" grep -q '^device ' "$work/record/tuning.txt"

finish
