# SPDX-License-Identifier: Apache-2.0
# For tools/compile_offline.sh: joins what was compiled (first file) with what it is for (second), computes occupancy,
# writes rows to `results` and tables to `tables`; exit status 1 when something is wrong. Occupancy is arithmetic on
# published sizes of the processors, no measurement.
BEGIN {
    FS = OFS = "\t"
    split("sm_75 sm_90 gfx90a gfx1100 dg2 pvc tgllp", order, " ")
    split("49152 49152 65536 65536 65536 131072 65536", limits, " ")
    for (i in order) { limit[order[i]] = limits[i] }
    class_title["default"] = "### First choices"
    class_title["fallback"] = "### What comes next where a device refuses the first choice"
    class_title["tuned"] = "### Other rows of the table, which only a tuner takes"
    wanted["attention_tiles_queries"] = "dQ"; wanted["attention_tiles_keys"] = "dK, dV"; wanted["attention_tiles_bias"] = "d bias"
}

function define(options, name,    x) {
    if (!match(options, "-D" name "=[0-9]+")) return 0
    x = substr(options, RSTART, RLENGTH)
    sub(/.*=/, "", x)
    return x + 0
}
function tile_name(o) {
    return define(o, "TR") " x " define(o, "TC") ", " define(o, "NR") " x " define(o, "NC") ", " define(o, "DC") ", " define(o, "JC") ", " \
        define(o, "NV") (define(o, "SLICED") ? ", s" : "") (define(o, "PREFETCH") ? ", p" : "")
}
function kind_of(file, dtype, storage, masks, o,    kind) {
    kind = (storage == "any" ? "any" : dtype) ", " (masks == 0 ? "none" : masks == 1 ? "interval" : masks == 2 ? "scores" : "both")
    if (storage == "any" && masks > 0) kind = "any, some"
    if (storage == "any" && dtype == "f64") kind = kind ", f64"
    return kind (define(o, "DROPOUT") ? ", dropout" : "")
}
function bare(options) { gsub(/ -DHINT=[^ ]*| -cl-intel[^ ]*| -cl-std=[^ ]*| -w|-cl-std=[^ ]*/, "", options); return options }
function least(a, b) { return a < b ? a : b }
function up(x, unit) { return int((x + unit - 1) / unit) * unit }

# The plan's own formula for attention_tiles.cl (host/attention/tiles.c).
function local_of_tiles(o,    bm, bn, scores, weights, wg) {
    wg = define(o, "TR") * define(o, "TC"); bm = define(o, "TR") * define(o, "NR"); bn = define(o, "TC") * define(o, "NC")
    scores = (bm + bn) * (define(o, "DC") / 4 + 1); weights = bm * (bn / 4 + 1) + bm * define(o, "TC") / 4
    return up(4 * define(o, "REAL") / 8 * ((scores > weights ? scores : weights) + define(o, "JC") * define(o, "TC") * define(o, "NV")) + \
        8 * bm + 4 * wg + 20, define(o, "REAL") / 2)
}

# Groups that a processor (multiprocessor, compute unit, work-group processor, Xe core) holds at once.
function groups_of(target, wg, registers, shared, many,    threads, per, most) {
    if (target ~ /^sm_/) {
        slots = target == "sm_75" ? 32 : 64; threads = up(wg, 32) / 32
        most = least(least(slots / threads, target == "sm_75" ? 16 : 32), 65536 / (up(registers * 32, 256) * threads))
        if (target == "sm_75") most = least(most, 65536 / up(shared + 1, 256))
        else most = least(most, 233472 / up(shared + 1024, 128))
    } else if (target == "gfx90a") {
        slots = 32; threads = up(wg, 64) / 64
        most = least(4 * int(least(8, 512 / up(registers, 8))) / threads, 65536 / (shared + 1))
    } else if (target == "gfx1100") {
        slots = 64; threads = up(wg, 32) / 32
        most = least(4 * int(least(16, 1536 / up(registers, 24))) / threads, 131072 / (shared + 1))
    } else {
        slots = target == "dg2" ? 128 : target == "pvc" ? 64 : 112
        threads = up(wg, target == "pvc" ? 16 : 8) / (target == "pvc" ? 16 : 8)
        most = least((many ? slots / 2 : slots) / threads, (target == "tgllp" ? 65536 : 131072) / (shared + 1))
    }
    used = int(most) * threads
    return int(most)
}

function wrong(text) {
    if (++wrongs <= 30) print "compile_offline: WRONG " text > "/dev/stderr"
}

FNR == NR {
    registers[$1, $2, $3, $4] = $5; spilled[$1, $2, $3, $4] = $6; private[$1, $2, $3, $4] = $7
    if ($4 == "FAILED") { failed[$1, $2, $3] = 1; wrong($1 " " $2 " does not compile: " $3) }
    if ($8 != "-" && $8 + 0 > shared[$2, bare($3), $4] + 0) shared[$2, bare($3), $4] = $8
    next
}

{
    target = $1; choice = $2; dtype = $3; file = $4; kernel = $6; wg = $7; storage = $8; masks = $9; options = $10
    key = target SUBSEP file SUBSEP options SUBSEP kernel
    if ((target, file, options) in failed) next
    if (!(key in registers)) { wrong(target " " kernel " is missing from what its compiler says: " options); next }
    bytes = shared[file, bare(options), kernel] + 0
    if (file == "attention_tiles.cl") {
        planned = local_of_tiles(options)
        if (bytes > planned) wrong(target " " kernel " takes " bytes " bytes of local memory, not " planned ": " options)
        if (bytes == 0) bytes = planned
    }
    groups = groups_of(target, wg, registers[key], bytes, options ~ /256-GRF/)
    share = int(100 * used / slots + 0.5)
    loss = spilled[key] > 0 || private[key] > 0
    # Others than fused_tiles may keep a small array of their own in memory: the list of parts, a block of numbers.
    # Kernels over rows, elements and tokens wait for memory: in f64, whose vectors take twice the registers, they may
    # spill, and a few registers where 32 work-items share them.
    waits = (dtype == "f64" || (target == "pvc" && spilled[key] <= 8)) && \
        file ~ /^(rows|pointwise|tokens|sums|rows_backward|points_backward|embed_backward|optimizer)\.cl$/
    if (choice == "default" && (file == "attention_tiles.cl" ? loss : spilled[key] > 0 && !waits)) wrong(target " " kernel " spills " spilled[key] ", private " private[key] ": " options)
    if (bytes > limit[target] || groups == 0) wrong(target " " kernel " does not fit: " bytes " bytes, " groups " groups: " options)
    print target, choice, dtype, kernel, storage, masks, wg, registers[key], spilled[key], private[key], bytes, groups, share "%", options > results
    programs[target]++
    if (loss) losses[target]++

    cell = registers[key] (loss ? " **(" spilled[key] "; " private[key] ")**" : "") ", " groups " = " share " %"
    o = options
    if (file ~ /^attention_tiles(_backward|_bias)?\.cl$/) {
        row = tile_name(o) " | " kind_of(file, dtype, storage, masks, o)
        if (file != "attention_tiles.cl") {
            row = tile_name(o) " | " wanted[kernel] ": " kind_of(file, dtype, define(o, "STAGED") ? "any" : "native", define(o, "MASKS"), o)
            choice = "gradients"
        }
    } else {
        row = kernel " | " (file == "peak.cl" ? "f32" : dtype) (o ~ / -DMASKS=/ ? ", masks " define(o, "MASKS") : "") (define(o, "STAGED") ? ", any storage" : "") \
            (define(o, "DROPOUT") ? ", dropout" : "")
        choice = "other"
    }
    if (!((choice, row) in known)) { known[choice, row] = 1; rows[choice, ++count[choice]] = row }
    cells[choice, row, target] = cell
    if (bytes > local[choice, row]) local[choice, row] = bytes
}

function write_table(choice, title, head,    i, j, line) {
    if (!count[choice]) return
    print "\n" title "\n\n| " head " | local B | sm_75 | sm_90 | gfx90a | gfx1100 | dg2 | pvc | tgllp |" > tables
    print "|---|---|---|---|---|---|---|---|---|---|" > tables
    for (i = 1; i <= count[choice]; i++) {
        line = "| " rows[choice, i] " | " local[choice, rows[choice, i]]
        for (j = 1; j <= 7; j++) line = line " | " cells[choice, rows[choice, i], order[j]]
        print line " |" > tables
    }
}

END {
    printf "" > tables
    for (i = 1; i <= 7; i++)
        print "- " order[i] ": " programs[order[i]] + 0 " kernels compiled, " losses[order[i]] + 0 " of them with spills or private arrays" > tables
    write_table("default", class_title["default"], "tile | storage, masks")
    write_table("fallback", class_title["fallback"], "tile | storage, masks")
    write_table("tuned", class_title["tuned"], "tile | storage, masks")
    write_table("gradients", "### Gradients by fused_tiles", "tile | wanted, storage, masks")
    write_table("other", "### The other kernels", "kernel | sums")
    exit wrongs > 0
}
