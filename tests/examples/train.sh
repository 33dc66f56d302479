#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/train with small models: it learns, goes on from a checkpoint bit for bit, draws, and refuses what is wrong.
#   train.sh PROGRAM      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/../cli/judge.sh"
verb=
export OMP_NUM_THREADS=1 # `cpu`: threads take longer to meet than such small models to compute
cd "$work" || exit 1
small="--length 3 --layers 2 --width 32 --heads 2 --batch 32 --warmup 20 --rate 0.005 --seed 4"

# refuses NAME PATTERN ARGUMENTS...: exit status 1 with one line on stderr alone, which has the pattern
refuses() {
    refused=$1 pattern=$2
    shift 2
    ends 1 "$refused" "$clattn" "$@"
    says "$refused" "^error: .*$pattern" err
    holds "$refused: one line on stderr alone" [ "$(wc -l <err)" -eq 1 -a ! -s out ]
}
# The loss that stands in a step's line of the last run.
loss() { awk -v step="$1" '$1 == "step" && $2 == step { print $4 }' out; }
# The header of a checkpoint with another text in place of one as long.
changed() { LC_ALL=C sed "1s/$1/$2/" model.safetensors >changed.safetensors; }

# ---- learning, and going on ----
for device in ${DEVICES:-opencl cpu}; do
    run 0 "60 steps on $device" $small --device "$device" --until 0 --steps 60 --save whole.safetensors --plot whole.svg
    says "accuracy on $device" '^[0-9.]+ % of 1024 draws of unseen sequences are exactly right$'
    first=$(loss 20) last=$(loss 60)
    holds "the loss falls on $device: $first, $last" awk "BEGIN { exit !($last > 0 && $last < 0.7 * $first) }"
    run 0 "35 steps on $device" $small --device "$device" --until 0 --steps 35 --save model.safetensors
    run 0 "25 more on $device" --resume model.safetensors --device "$device" --until 0 --steps 60 --save whole2.safetensors --plot whole2.svg
    holds "both ways give the same bytes on $device" cmp whole.safetensors whole2.safetensors
    holds "and the same plot on $device" cmp whole.svg whole2.svg
done
holds "an SVG" sh -c "grep -q '^<svg' whole.svg && [ \$(grep -c '<polyline' whole.svg) -eq 2 ] && grep -q '^</svg>' whole.svg"
run 0 "until it can" $small --device cpu --task sort --until 99 --save sorted.safetensors
says "what it makes of sequences" '^([0-9] ){3}->( [0-9]){3}$'
says "99 %" '^(99\.[0-9]*|100\.00) % of 1024 draws of unseen'

# ---- Ctrl-C: what is there is written, and goes on ----
: >out # else what the last run said is taken for a step of this one
"$clattn" $small --device cpu --until 0 --steps 1000000 --save caught.safetensors --plot caught.svg >out 2>err &
child=$!
for _ in $(seq 600); do
    if grep -q '^step' out || ! kill -0 "$child" 2>/dev/null; then break; fi
    sleep 0.1
done
kill -INT "$child"
wait "$child"
status=$?
holds "Ctrl-C: exit status 130" [ "$status" -eq 130 ]
says "Ctrl-C" '^interrupted behind step [0-9]+; the checkpoint goes on from there$' err
step=$(sed -n 's/^interrupted behind step \([0-9]*\).*/\1/p' err)
holds "Ctrl-C: a plot" grep -q '</svg>' caught.svg
run 0 "on from there" --resume caught.safetensors --device cpu --until 0 --steps $((step + 1))
says "on from there" "^step +$((step + 1)) "

# ---- wrong use ----
run 0 "help" --help
refuses "an unknown option" 'no option' --depth 3
refuses "an option, letters changed about" 'no option; did you mean --length' --lenght 3
refuses "an option, letters changed about, without its value" 'did you mean --length' --lenght
refuses "one dash" 'did you mean --task' -task sort
refuses "an option without its value" 'lacks its value' --steps
refuses "an unknown task" 'a task is reverse or sort, not "shuffle"' --task shuffle
refuses "a length" 'length is a number from 3 to 64' --length 2
refuses "heads that do not divide" 'no multiple of 3 heads' --heads 3
refuses "a rate" 'rate is a number above 0' --rate 0
refuses "no number" 'seed is a number' --seed 1x
refuses "no steps" '--steps takes a number from 1' --steps 0
refuses "half a step" 'no whole number' --steps 1.5
refuses "beyond all" '--until takes a number from 0 to 100' --until 101
refuses "no such device" 'opencl:99:99' --device opencl:99:99
refuses "a plot that is no SVG" 'the plot is SVG' --plot x.png --device cpu
refuses "no such folder" 'nowhere/x.svg cannot be written' --plot nowhere/x.svg --device cpu
ends 1 "not there in time" "$clattn" $small --device cpu --until 100 --steps 1
says "not there in time" 'error: 1 steps did not reach 100 %' err

# ---- files: what is there stays ----
cp model.safetensors kept.safetensors
ln model.safetensors hard.svg
ln -s model.safetensors soft.svg
for plot in model.safetensors ./model.safetensors "$work/model.safetensors" hard.svg soft.svg; do
    refuses "a plot over the checkpoint: $plot" 'is the checkpoint' --resume model.safetensors --plot "$plot" --device cpu
done
rm hard.svg soft.svg
refuses "a plot over the checkpoint to be" 'is the checkpoint' $small --save new --plot ./new --device cpu
ln -s nowhere.svg leads-nowhere.svg
for option in --save --plot; do
    refuses "a link to nothing, $option" 'cannot be written' $small --device cpu --until 0 --steps 1 $option leads-nowhere.svg
    refuses "a folder, $option" 'no regular file' $small --device cpu --until 0 --steps 1 $option .
done
holds "a link to nothing stays, and gets nothing" [ -L leads-nowhere.svg -a ! -e leads-nowhere.svg ]
echo secret >unreadable.svg
chmod 200 unreadable.svg # which says something where the tests are not run by root
ends 1 "a device that fails" "$clattn" $small --device opencl:99:99 --plot unreadable.svg --save absent.safetensors
holds "what cannot be read stays" [ -s unreadable.svg ]
holds "what was not there is not made" [ ! -e absent.safetensors ]
mkdir plots
echo old >plots/x.svg
ln plots/x.svg before.svg
ln -s plots/x.svg link.svg
run 0 "a step alone" $small --device cpu --until 0 --steps 1 --save first.safetensors --plot link.svg
holds "a plot follows a link" [ -L link.svg -a "$(head -c 4 plots/x.svg)" = "<svg" ]
holds "and is not written in place" [ "$(cat before.svg)" = old ]
run 0 "on from one step, without accuracies" --resume first.safetensors --device cpu --until 0 --steps 2
holds "no temporary file is left" sh -c '[ -z "$(find . -name "*.tmp")" ]'
holds "the checkpoint stays" cmp model.safetensors kept.safetensors

# ---- checkpoints ----
refuses "no such checkpoint" 'none.safetensors' --resume none.safetensors
refuses "no more steps" 'has done 35 already' --resume model.safetensors --steps 35
refuses "another width" '--width 64: model.safetensors was trained with 32' --resume model.safetensors --width 64
head -c 40000 model.safetensors >cut.safetensors
refuses "a checkpoint that was cut" 'cut.safetensors' --resume cut.safetensors --device cpu
changed '"width":"32"' '"width":"64"'
refuses "of another shape" 'embedding.weight is .11, 32., and the model needs .11, 64.' --resume changed.safetensors --device cpu
changed 'moment2.norm.bias' 'moment2.norm.beta'
refuses "without a moment" 'no tensor moment2.norm.bias' --resume changed.safetensors --device cpu
changed '"layers":"2"' '"layers":"1"'
refuses "with a layer too many" 'layers.1.*does not have' --resume changed.safetensors --device cpu
changed '"step":"35"' '"step":"0x"'
refuses "without a step" 'its step is "0x"' --resume changed.safetensors --device cpu
changed 'examples.train 1' 'examples_train 2'
refuses "of another program" 'no checkpoint' --resume changed.safetensors --device cpu

# ---- a full disk: files of half a kilobyte at most ----
for option in --save --plot; do
    echo old >old
    cp old limited.svg
    (
        trap '' XFSZ
        ulimit -f 1
        exec "$clattn" $small --device cpu --until 0 --steps 2 $option limited.svg >/dev/null 2>err
    )
    status=$?
    holds "a full disk, $option: exit status 1" [ "$status" -eq 1 ]
    says "a full disk, $option" '^error: limited.svg.* cannot be written: ' err
    holds "a full disk, $option: the older file stays" cmp old limited.svg
    holds "a full disk, $option: nothing is left" [ -z "$(ls -A | grep -E '^\.(train|clattn)-')" ]
done

finish
