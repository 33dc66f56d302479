/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, their exit status, and a word of what they print: wrong use, and cases that are rare. On `cpu`. */
#define _XOPEN_SOURCE 700 /* setenv, symlink */
#include "command.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool command_fails(const char *name);
bool command_fails(const char *name) { return name == NULL; } /* none does */

typedef struct line {
    const char *words;
    int status;
    const char *says; /* a part of what it prints on both streams */
} line;

static void hold(const line *lines, size_t count) {
    static command_result r;
    for (size_t i = 0; i < count; i++) {
        command_run(lines[i].words, &r);
        cr_expect_eq(r.status, lines[i].status, "%s: exit status %d: %s%s", lines[i].words, r.status, r.err, r.out);
        cr_expect(strstr(r.out, lines[i].says) || strstr(r.err, lines[i].says), "%s: no \"%s\" in: %s%s",
                  lines[i].words, lines[i].says, r.err, r.out);
        if (lines[i].status == 2 && lines[i].words[0])
            cr_expect(strchr(r.err, '\n') == r.err + strlen(r.err) - 1, "%s: not one line: %s", lines[i].words, r.err);
    }
}
#define HOLD(lines) hold(lines, sizeof(lines) / sizeof *(lines))

static void begin(void) {
    command_folder("lines");
    setenv("CLATTN_DEVICE", "cpu", 1);
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("CLATTN_TUNING_FILE", "off", 1);
    command_write_npy("q.npy", "<f4", "(1, 2, 3, 4)", 24, 0.5);
    command_write_npy("k.npy", "<f4", "(1, 2, 5, 4)", 40, 0.25);
    command_write_npy("one.npy", "<f4", "(1, 1, 1, 4)", 4, 0.25);
    command_write_npy("rows.npy", "<f4", "(3, 8)", 24, 1);
    command_write_npy("q1.npy", "<f4", "(1, 3, 8)", 24, 1);
    command_write_npy("two.npy", "<f4", "(2,)", 2, 0.5);
    command_write_npy("long.npy", "<i8", "(1,)", 1, 2);
    command_write_npy("longs.npy", "<i8", "(1, 1)", 1, 2);
    command_write_npy("segments.npy", "<i4", "(3,)", 3, 0);
    command_write_npy("segments5.npy", "<i4", "(1, 5)", 5, 0);
    command_write_npy("none.npy", "<f4", "(1, 0, 3, 4)", 0, 0);
    command_write_npy("big.npy", "<f4", "(1, 1, 1100, 2)", 2200, 0.01);
    command_write_npy("wide.npy", "<f4", "(1, 1, 30, 2)", 60, 0.01);
    command_write_npy("heads.npy", "<f4", "(1, 20, 6, 2)", 240, 0.5);
    command_write_npy("four.npy", "<f8", "(1, 4, 6, 2)", 48, 0.5);
    command_write_npy("nan.npy", "<f4", "(1, 1, 3, 4)", 12, (double)NAN);
    command_write_npy("zero.npy", "<f4", "(1, 1, 3, 4)", 12, 0);
    command_write_npy("many.npy", "<f4", "(1, 300, 1, 1)", 300, 0);
    command_write("a.txt", "a\nb\nc\n");
    command_write("long.txt", "a word that is far too long for the side of a map\nb\nc\n");
}

Test(command_lines, verbs_and_options) {
    static const line lines[] = {
        {"", 2, "Usage: clattn VERB"},
        {"help", 0, "Usage: clattn VERB"},
        {"-h", 0, "Usage: clattn VERB"},
        {"--help", 0, "Usage: clattn VERB"},
        {"--version", 0, "clattn 0"},
        {"help run", 0, "Usage: clattn run"},
        {"help inspect", 0, "Usage: clattn inspect"},
        {"help --layout", 0, "bhsd\nbshd\nbse\nsd\n"},
        {"help --causal", 0, "top-left\nbottom-right\n"},
        {"help --kv-type", 0, "bf16\nq8_0\nq4_0\n"},
        {"help --o-type", 0, "f32\nf64\nf16\nbf16\n"},
        {"help --weights-form", 0, "softmax\nscaled\n"},
        {"help --type", 0, "f64\nf32\n"},
        {"help --algorithms", 0, "blas\nreference\nall\n"},
        {"help --scale", 2, "there is no verb '--scale'"},
        {"bench -h", 0, "Usage: clattn bench"},
        {"runn", 2, "did you mean `clattn run`?"},
        {"xyzzyxyzzy", 2, "`clattn --help` lists them"},
        {"inspect -- --help", 2, "--help is none of X.npy"},
        {"inspect", 2, "needs a file"},
        {"inspect a\rb\nc", 2, "a b c is none of"},
        {"inspect -", 2, "- is none of"},
        {"inspect -.5", 2, "-.5 is none of"},
        {"inspect -5", 2, "-5 is none of"},
        {"inspect -inf", 2, "-inf is none of"},
        {"inspect -:", 2, "there is no option -:"},
        {"inspect -+", 2, "there is no option -+"},
        {"inspect x", 2, "x is none of"},
        {"inspect abcd", 2, "abcd is none of"},
        {"inspect abcdefghijkl", 2, "abcdefghijkl is none of"},
        {"inspect a b", 2, "'b' is one word too many"},
        {"doctor device", 2, "did you mean --device?"},
        {"doctor zzzzzzzzzz", 2, "it takes no words, only options"},
        {"doctor --device", 2, "--device needs a value"},
        {"doctor --device=", 2, "--device has an empty value"},
        {"doctor -dcpu --device cpu", 2, "--device is given twice"},
        {"devices --json=x", 2, "--json takes no value"},
        {"doctor --device gpu0", 2, "not one of opencl"},
        {"inspect nowhere.npy", 2, "nowhere.npy"},
        {"inspect nowhere.safetensors", 2, "nowhere.safetensors"},
        {"inspect nowhere.gguf", 2, "nowhere.gguf"},
    };
    begin();
    HOLD(lines);
    command_folder(NULL);
}

Test(command_lines, bench) {
    static const line lines[] = {
        {"bench --file zero.txt --devices cpu", 2, "there is no attention problem without `backward` in it"},
        {"bench --file linear.txt --backward --devices cpu", 2, "there is no attention problem with `backward` in it"},
        {"bench --file byte.txt --devices cpu", 2, "there is a zero byte in it"},
        {"bench --file huge.txt --devices cpu", 2, "above 1 MiB"},
        {"bench --file nowhere.txt --devices cpu", 2, "nowhere.txt"},
        {"bench --file mixed.txt --devices cpu --algorithms blas --repeat 1", 0, "1 linear layers of --file"},
        {"bench 'n8 d8' --algorithms zzzzzzzzz --devices cpu", 2,
         "there is no algorithm 'zzzzzzzzz'; `clattn devices`"},
        {"bench 'n8 d8' --repeat x", 2, "--repeat x"},
        {"bench 'n8 d8' --repeat 1001", 2, "--repeat 1001"},
        {"bench 'n8 d8' --limit x", 2, "--limit x"},
        {"bench 'n8 d8' --limit 0", 2, "--limit 0"},
        {"bench 'n8 d8' --devices cpu --algorithms blas --roofline r.svg --repeat 1", 1,
         "--roofline: nothing was profiled"},
        {"bench 'n8 d8' --devices cpu --algorithms blas --roofline r.png", 2, "the plot is SVG"},
        {"bench 'n8 d8' --devices cpu --algorithms blas --roofline svg", 2, "the plot is SVG"},
        {"bench 'n8 d8' --devices cpu --algorithms fused_lanes --plot p.svg", 1, "nothing was measured"},
        {"bench 'n8 d8' --devices cpu --algorithms all --repeat 1 --plot p.svg --peak", 0, "b1 h1 n8 d8 f32"},
        {"bench 'n8 d8' --sweep =8:16 --devices cpu", 2, "a sweep is LETTER=FIRST:LAST"},
        {"bench 'n8 d8' --sweep n=8:1234567890123456789012345 --devices cpu", 2, "a sweep is LETTER=FIRST:LAST"},
        {"bench 'n8 d8' --sweep n=8:16:x --devices cpu", 2, "a sweep is LETTER=FIRST:LAST"},
        {"bench 'n8 d8' --sweep n=x:16 --devices cpu", 2, "a sweep is LETTER=FIRST:LAST"},
        {"bench 'n8 d8' --sweep n=8:99999999999999 --devices cpu", 2, "sizes go up from 1"},
        {"bench 'n8 d8' --sweep n=1:2000000 --devices cpu --algorithms fused_lanes --file huge2.txt", 2, "huge2.txt"},
        {"bench 'h2 n8' --sweep d=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "d8 f32"},
        {"bench 'h2 n8 d4 v8' --sweep d=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "d4 v8 f32"},
        {"bench 'h2 n8 d4' --sweep v=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "d4 v8 f32"},
        {"bench 'n8 d4' --sweep h=1:2 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "h2 n8 d4 f32"},
        {"bench 'h4/2 n8 d4' --sweep h=2:4 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "h4"},
        {"bench 'n8 d4' --sweep b=1:2 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "b2 h1 n8 d4 f32"},
        {"bench 'k8 d4' --sweep q=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "d4 f32"},
        {"bench 'q8 d4' --sweep k=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "q8 k4 d4 f32"},
        {"bench 'd4' --sweep n=4:8 --devices cpu --algorithms blas --repeat 1 --plot p.svg", 0, "n8 d4 f32"},
        {"bench '' --sweep n=4:8 --devices cpu", 2, "head dim"},
        {"bench d4 d8 --sweep n=4:8 --devices cpu --algorithms blas,reference --backward --repeat 1 --plot p.svg", 0,
         "n8 d8 f32"},
        {"bench 'n8 d8 f64' 'n8 d8 f16' 'n8 d8 kv=f16' --devices cpu --backward --repeat 1 --json b.json", 0,
         "n8 d8 f16"},
        {"bench 'n64 d64' 'n64 d64' --devices cpu --algorithms blas,reference --limit 1e-9 --plot p.svg", 0,
         "no transfers"},
        {"bench 'n64 d64' --devices cpu --algorithms blas --limit 1e-9 --json t.json", 0, "no transfers"},
        {"bench 'h4 n1024 d64' --devices cpu --repeat 1", 0, "reference was left out of 1 of 1 problems"},
        {"bench 'n8 d8' --devices cpu, --algorithms blas", 2, "an entry is empty"},
        {"bench --linear 'm4 n8 kx'", 2, "'kx' is no word of a linear layer"},
        {"bench --linear 'm4 n8 k0'", 2, "'k0' is no word of a linear layer"},
        {"bench --linear 'x4 n8 k4'", 2, "'x4' is no word of a linear layer"},
        {"bench --linear 'n8 k4'", 2, "m, n and k are needed"},
        {"bench --linear 'm8  k4 '", 2, "m, n and k are needed"},
        {"bench --linear 'm8 n4'", 2, "m, n and k are needed"},
        {"bench --linear 'm8 n4 k4' --algorithms zzzzzzzzz --devices cpu", 2, "there is no algorithm 'zzzzzzzzz'"},
        {"bench --linear 'm8 n4 k4' --algorithms bla,blas --devices cpu", 2, "there is no algorithm 'bla'"},
        {"bench --linear 'm8 n4 k4' --repeat x", 2, "--repeat x"},
        {"bench --linear 'm8 n4 k4' --repeat 0", 2, "--repeat 0"},
        {"bench --linear 'm8 n4 k4' --repeat 99999999", 2, "--repeat 99999999"},
        {"bench --linear 'm8 n4 k4' --devices gpu0", 2, "gpu0"},
    };
    begin();
    static char text[(1 << 20) + 100];
    memset(text, '#', sizeof text - 1);
    command_write("huge.txt", text);
    command_write("zero.txt", "# nothing\n\nlinear m4 n4 k4\n");
    command_write("linear.txt", "linear m4 n4 k4\nbackward\n");
    command_write("mixed.txt", "linear\tm4 n4 k4\nlinearm4\nbackwards: n8 d8\n");
    FILE *file = fopen("byte.txt", "wb");
    cr_assert(file && fwrite("n8\0d8\n", 6, 1, file) == 1 && fclose(file) == 0);
    command_write("mixed.txt", "linear\tm4 n4 k4\nbackwards: n8 d8\nx: n8 d8\r\n");
    HOLD(lines);
    command_folder(NULL);
}

Test(command_lines, run) {
#define RUN "run q.npy k.npy k.npy -o o.npy "
    static const line lines[] = {
        {RUN "--window 1", 2, "--window 1 is not LEFT,RIGHT"},
        {RUN "--window 1,x", 2, "is not LEFT,RIGHT"},
        {RUN "--window -2,1", 2, "is not LEFT,RIGHT"},
        {RUN "--window 12345678901234567890123456789012345,1", 2, "is not LEFT,RIGHT"},
        {RUN "--window inf,-1 --align top-left", 0, "o "},
        {RUN "--causal=top-left --align top-left", 0, "o "},
        {RUN "--causal=top-left --align bottom-right", 2, "contradict each other"},
        {RUN "--align top-left", 2, "places the queries for --causal"},
        {RUN "--align top-left --alibi-slopes two.npy", 0, "o "},
        {RUN "--align top-left --alibi", 0, "o "},
        {RUN "--alibi", 2, "--alibi with 3 queries and 5 keys needs an alignment"},
        {RUN "--alibi-slopes two.npy", 2, "--alibi-slopes with 3 queries and 5 keys needs an alignment"},
        {RUN "--window 1,1", 2, "--window with 3 queries and 5 keys needs an alignment"},
        {RUN "--heads 12345678901234567890123456789012345", 2, "is not H or H/HK"},
        {RUN "--heads x", 2, "is not H or H/HK"},
        {RUN "--heads 0", 2, "is not H or H/HK"},
        {RUN "--heads 4/x", 2, "is not H or H/HK"},
        {RUN "--heads 4/0", 2, "is not H or H/HK"},
        {RUN "--heads 4/3", 2, "do not divide"},
        {RUN "--heads 4", 2, "heads"},
        {RUN "--softcap x", 2, "--softcap x is no finite number above 0"},
        {RUN "--softcap -1", 2, "--softcap -1 is no finite number above 0"},
        {RUN "--batch x --heatmap m.svg", 2, "--batch x is no batch"},
        {RUN "--batch -1 --heatmap m.svg", 2, "--batch -1 is no batch"},
        {RUN "--batch 1 --heatmap m.svg", 2, "--batch 1 of 1"},
        {RUN "--batch 0", 2, "add --heatmap"},
        {RUN "--max-workspace x", 2, "--max-workspace x is no number of bytes"},
        {RUN "--max-workspace 0", 2, "--max-workspace 0 is no number of bytes"},
        {RUN "--verify=x", 2, "--verify=x"},
        {RUN "--kv-type f8", 2, "--kv-type f8 is no type"},
        {RUN "--kv-type f16,f8", 2, "--kv-type f16,f8 is no type"},
        {RUN "--o-type f8", 2, "--o-type f8 is none of"},
        {RUN "--o-type bf16", 2, "bf16"},
        {RUN "--query-segments segments.npy", 2, "add --key-segments"},
        {RUN "--key-segments segments5.npy", 2, "add --query-segments"},
        {RUN "--query-segments segments.npy --key-segments segments5.npy", 0, "o "},
        {RUN "--query-segments segments5.npy --key-segments segments5.npy", 2, "query-segments"},
        {RUN "--query-segments two.npy --key-segments segments5.npy", 2, "query-segments"},
        {RUN "--cu-keys 0,1", 2, "add --cu-queries"},
        {RUN "--cu-queries 0,3", 2, "add --cu-keys"},
        {RUN "--cu-queries 3 --cu-keys 5", 2, "at least two numbers"},
        {RUN "--cu-queries 0,3 --cu-keys 0,2,5", 2, "numbers, and --cu-queries has"},
        {RUN "--cu-queries 0,3 --cu-keys 0,5 --causal", 2, "needs an alignment"},
        {"run rows.npy rows.npy rows.npy -o o.npy --layout sd --cu-queries 0,1,3 --cu-keys 0,1,3 --causal", 0, "o "},
        {"run rows.npy rows.npy rows.npy -o o.npy --layout sd --cu-queries 0,1,3 --cu-keys 0,1,3 --heatmap m.svg", 2,
         "sequences one after another"},
        {RUN "--prefix-lengths long.npy", 2, "loosen --causal"},
        {RUN "--block-table segments5.npy", 2, "add --key-lengths"},
        {RUN "--key-lengths longs.npy", 2, "key-lengths"},
        {RUN "--key-lengths 1,2", 2, "2 numbers for 1"},
        {RUN "--key-lengths 12345678901234567890123456789012345", 2, "key-lengths"},
        {RUN "--key-lengths x", 2, "key-lengths"},
        {RUN "--alibi-slopes 0.5,0.25 --align top-left", 0, "o "},
        {RUN "--alibi-slopes 0.5 --align top-left", 2, "alibi-slopes"},
        {RUN "--alibi-slopes 0.5,x --align top-left", 2, "alibi-slopes"},
        {RUN "--alibi-slopes q.npy --align top-left", 2, "alibi-slopes"},
        {RUN "--offsets 1 --causal", 0, "o "},
        {RUN "--offsets 1,2 --causal", 2, "offsets"},
        {RUN "--algorithm zzz", 2, "--algorithm zzz is none of"},
        {RUN "--weights w.npy --weights-rows 0 --weights-heads 1", 0, "weights"},
        {RUN "--lse o.npy", 2, "would write to the same place"},
        {RUN "--lse q.npy", 2, "would replace the file"},
        {"run q.npy k.npy k.npy -o folder.npy", 1, "it is there, and is no file"},
        {"run q.npy k.npy k.npy -o q.npy/o.npy", 1, "there is no folder"},
        {"run q.npy k.npy k.npy -o nowhere/o.npy", 1, "there is no folder"},
        {"run q.npy k.npy k.npy -o link.npy", 1, "it is a link that leads nowhere"},
        {"run q.npy k.npy k.npy -o locked.npy", 1, "is read-only"},
        {"run q.npy k.npy k.npy -o o.safetensors:", 2, "the tensor's name behind the colon is empty"},
        {"run q.npy k.npy k.npy -o o.bin", 2, "a tensor file is X.npy"},
        {"run q.npy k.npy k.npy -o o.safetensors:o --lse o.safetensors:o", 2, "would write to the same place"},
        {"run q.npy k.npy k.npy -o o.safetensors:o --lse o.safetensors:l --entropy e.safetensors", 0,
         "o.safetensors:l"},
        {"run q.npy k.npy k.npy -o linked.npy", 0, "linked.npy"},
        {"run rows.npy rows.npy rows.npy -o o.npy --heads 2", 0, "o "},
        {"run q1.npy q1.npy q1.npy -o o.npy --heads 2 --layout bse --o-type f64", 0, "o "},
        {"run rows.npy q1.npy rows.npy -o o.npy", 2, "rank"},
        {"run long.npy long.npy long.npy -o o.npy", 2, "long.npy"},
        {RUN "--keep two.npy", 2, "keep"},
        {RUN "--bias longs.npy", 2, "bias"},
        {RUN "--sinks long.npy", 2, "sinks"},
        {"run one.npy one.npy one.npy -o o.npy --heatmap m.svg --verify", 0, "m.svg"},
        {"run one.npy one.npy one.npy -o o.npy --o-type f16 --verify", 0, "f16"},
        {"run four.npy four.npy four.npy -o o.npy --heatmap m.svg --batch 0 --verify", 0, "m.svg"},
        {"run heads.npy heads.npy heads.npy -o o.npy --heatmap m.svg --causal", 0, "m.svg"},
        {"run big.npy big.npy big.npy -o o.npy --heatmap m.svg --causal", 0, "m.svg"},
        {"run wide.npy big.npy big.npy -o o.npy --heatmap m.svg", 0, "m.svg"},
        {"run one.npy zero.npy zero.npy -o o.npy --heatmap m.svg", 0, "m.svg"},
        {"run zero.npy zero.npy zero.npy -o o.npy --heatmap m.svg --labels a.txt,long.txt", 0, "m.svg"},
        {"run zero.npy nan.npy zero.npy -o o.npy --heatmap m.svg --verify", 0, "m.svg"},
        {"run many.npy many.npy many.npy -o o.npy --heatmap m.svg", 2, "draws at most 256 heads"},
        {"run zero.npy zero.npy zero.npy -o o.npy --heatmap m.svg --key-lengths 0", 0, "m.svg"},
        {"run none.npy none.npy none.npy -o o.npy --heatmap m.svg", 2, "there are no weights to draw"},
    };
    begin();
    cr_assert(mkdir("folder.npy", 0700) == 0 && symlink("nowhere/x.npy", "link.npy") == 0);
    cr_assert(symlink("target.npy", "linked.npy") == 0);
    command_write("target.npy", "old");
    command_write("locked.npy", "old");
    cr_assert(chmod("locked.npy", 0400) == 0);
    HOLD(lines);
    command_folder(NULL);
}

Test(command_lines, other_verbs) {
    static const line lines[] = {
        {"check nowhere.safetensors --algorithm zzzzzzzzz", 2, "cannot be opened"},
        {"check " TESTS_DIR "/vectors/seed.safetensors --device cpu --algorithm zzzzzzzzz", 2,
         "there is no algorithm 'zzzzzzzzz'"},
        {"check " TESTS_DIR "/vectors/seed.safetensors --device cpu --algorithm all --filter s001_sdpa", 0, "passed"},
        {"check " TESTS_DIR "/vectors/seed.safetensors --algorithm reference --filter s001_sdpa", 0, "1 passed"},
        {"check " TESTS_DIR "/vectors/seed.safetensors --algorithm fused_lanes --filter s001_sdpa", 0, "1 skipped"},
        {"study zzzzzzzzz", 2, "there is no experiment 'zzzzzzzzz'; `clattn study --help`"},
        {"study sdpaa", 2, "did you mean sdpa?"},
        {"study sdpa --type f16", 2, "--type f16"},
        {"study sdpa --seed x", 2, "--seed x"},
        {"study sdpa --seed -1", 2, "--seed -1"},
        {"study cost --to x", 2, "--to x"},
        {"study cost --to 100", 2, "--to 100"},
        {"study cost --limit x", 2, "--limit x"},
        {"study cost --limit 0", 2, "--limit 0"},
        {"study sdpa --plot p.png", 2, "the plot is SVG"},
        {"study sdpa --plot p.svg", 2, "sdpa has no curves"},
        {"study cost --to 1024 --limit 1 --json s.json --plot p.svg", 0, "entries"},
        {"study sdpa --type f64 --json s.json", 0, "agree"},
        {"tune --show", 0, "record none"},
        {"tune", 2, "cpu has nothing to tune"},
        {"tune 'n8 d8' --limit x", 2, "--limit x"},
        {"tune 'n8 d8' --limit 0", 2, "--limit 0"},
        {"tune 'n8 d8' --algorithms zzzzzzzzz", 2, "there is no algorithm 'zzzzzzzzz'; `clattn"},
        {"tune 'n8 d8' --algorithms fused_lanez", 2, "did you mean fused_lanes?"},
        {"tune 'n8 d8' --algorithms fused_lanes,blas", 2, "cpu has nothing to tune"},
        {"tune 'n8 d8' --algorithms a-name-that-is-longer-than-any-algorithm-could-ever-have-been-called-here", 2,
         "there is no algorithm"},
        {"tune 'n8 d8' 'n9 d8' --clblast", 2, "--clblast with 2 problems"},
        {"tune --clblast", 2, "cpu has nothing to tune"},
        {"tune 'n8 d8' --clblast", 2, "cpu has nothing to tune"},
        {"tune 'n8 d8 invariant'", 2, "calls with `invariant` follow no record"},
        {"tune 'n8 d8 fast'", 2, "no such word"},
        {"tune --device gpu0", 2, "gpu0"},
        {"devices --device cpu", 0, "cpu"},
        {"devices --device gpu0", 2, "gpu0"},
        {"devices --device cpu --build", 0, "cpu"},
        {"devices --device cpu --peak --json", 0, "\"cpu\""},
    };
    begin();
    HOLD(lines);
    command_folder(NULL);
}

/* A file of the GGUF format without tensors and with metadata of each kind. */
static void write_gguf(const char *path) {
    FILE *file = fopen(path, "wb");
#define PUT(type, value) (*(type *)room = (value), fwrite(room, sizeof(type), 1, file))
    static uint64_t word[1];
    void *const room = word;
    static const char *const keys[] = {"a.u32", "b.f32", "c.text", "d.list", "e.big", "f\x01"};
    static const uint32_t types[] = {4, 6, 8, 9, 10, 7};
    cr_assert(file && fwrite("GGUF", 4, 1, file) == 1);
    PUT(uint32_t, 3);
    PUT(uint64_t, 0);
    PUT(uint64_t, 6);
    for (size_t i = 0; i < 6; i++) {
        PUT(uint64_t, strlen(keys[i]));
        fwrite(keys[i], strlen(keys[i]), 1, file);
        PUT(uint32_t, types[i]);
        if (types[i] == 4)
            PUT(uint32_t, 7);
        else if (types[i] == 6)
            PUT(float, 0.5F);
        else if (types[i] == 8) {
            PUT(uint64_t, 5);
            fwrite("ll\x7fma", 5, 1, file);
        } else if (types[i] == 9) {
            PUT(uint32_t, 0);
            PUT(uint64_t, 3);
            fwrite("abc", 3, 1, file);
        } else if (types[i] == 10) {
            PUT(uint64_t, UINT64_MAX);
        } else
            fwrite("\1", 1, 1, file);
    }
    cr_assert(fclose(file) == 0);
}

static void write_safetensors(const char *path, const char *header, size_t bytes) {
    FILE *file = fopen(path, "wb");
    const uint64_t length = strlen(header);
    cr_assert(file && fwrite(&length, 8, 1, file) == 1 && fputs(header, file) >= 0);
    for (size_t i = 0; i < bytes; i++)
        fputc(0, file);
    cr_assert(fclose(file) == 0);
}

Test(command_lines, inspect) {
    static const line lines[] = {
        {"inspect a.gguf", 0, "u32 7"},
        {"inspect a.gguf", 0, "f32 0.5"},
        {"inspect a.gguf", 0, "string ll?ma"},
        {"inspect a.gguf", 0, "3 of u8"},
        {"inspect a.gguf", 0, "u64 that is not shown"},
        {"inspect a.gguf", 0, "0 tensors, 6 metadata keys"},
        {"inspect one.safetensors", 0, "1 tensor, 1 metadata key\n"},
        {"inspect one.safetensors", 0, "[F8_E4M3]"},
        {"inspect one.safetensors", 0, "a?b"},
        {"inspect empty.safetensors", 0, "0 tensors, 0 metadata keys"},
        {"inspect two.npy", 0, "f32  [2]  8 bytes"},
    };
    begin();
    write_gguf("a.gguf");
    write_safetensors(
        "one.safetensors",
        "{\"__metadata__\":{\"key\":\"a\\u007fb\"},\"t\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}",
        2);
    write_safetensors("empty.safetensors", "{}", 0);
    HOLD(lines);
    command_folder(NULL);
}

/* Files of devices and drivers that are there differ from machine to machine: of these only that it goes through. */
Test(command_lines, doctor) {
    static const line lines[] = {
        {"doctor --device cpu", 0, "no cache of compiled kernels"},
        {"doctor --device cpu", 0, "cpu f16: right"},
        {"doctor --device opencl:77:0", 1, "cannot be opened"},
    };
    static const line kept[] = {{"doctor --device cpu", 0, "compiled kernels are kept there"}};
    static const line will_be[] = {{"doctor --device cpu", 0, "compiled kernels will be kept there"}};
    static const line no_folder[] = {{"doctor --device cpu", 1, "compiled kernels cannot be kept"}};
    static const line record[] = {{"doctor --device cpu", 1, "not all of it is understood"}};
    static const line none[] = {{"doctor", 1, "there is no driver (no file .icd)"},
                                {"doctor", 1, "OpenCL has nothing to offer here"},
                                {"doctor", 1, "cpu f64: right"}};
    static const line file[] = {{"doctor", 1, "names no library"}};
    static const line gone[] = {{"doctor", 1, "does not load"}};
    static const line nowhere[] = {{"doctor", 1, "No such file"}};
    static command_result r;
    begin();
    HOLD(lines);
    cr_assert(mkdir("cache", 0700) == 0 && mkdir("vendors", 0700) == 0);
    setenv("CLATTN_CACHE_DIR", "cache", 1);
    HOLD(kept);
    setenv("CLATTN_CACHE_DIR", "later", 1);
    HOLD(will_be);
    setenv("CLATTN_CACHE_DIR", "a.txt", 1);
    HOLD(no_folder);
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("CLATTN_TUNING_FILE", "a.txt", 1);
    HOLD(record);
    setenv("CLATTN_TUNING_FILE", "off", 1);
    command_run("doctor", &r); /* of what there is */
    cr_expect(strstr(r.out, "Drivers") && strstr(r.out, "Device files"), "%s", r.out);
    setenv("OCL_ICD_FILENAMES", "", 1);
    setenv("OCL_ICD_VENDORS", "vendors", 1);
    HOLD(none);
    setenv("OCL_ICD_FILENAMES", "x", 1);
    command_write("vendors/a.icd", "");
    command_write("vendors/b.icd", "\n");
    HOLD(file);
    command_write("list.icd", "libclattn_no_such_driver.so\n");
    setenv("OCL_ICD_VENDORS", "list.icd", 1);
    HOLD(gone);
    setenv("OCL_ICD_VENDORS", "./list.icd", 1);
    HOLD(gone);
    setenv("OCL_ICD_VENDORS", "a", 1);
    HOLD(gone);
    setenv("OCL_ICD_VENDORS", "a/b", 1);
    HOLD(nowhere);
    setenv("OCL_ICD_VENDORS", "other.icd", 1);
    static const line absent[] = {{"doctor", 1, "other.icd"}};
    HOLD(absent);
    setenv("OCL_ICD_VENDORS", "", 1);
    setenv("OPENCL_VENDOR_PATH", "vendors", 1);
    HOLD(file);
    command_folder(NULL);
}
