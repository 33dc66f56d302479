/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"

#include "job.h"
#include "option_values.h"
#include "problem_text.h"
#include <clattn/verify.h>
#include <stdio.h>
#include <string.h>

static const cla_arg_spec specs[] = {
    {"output", 'o', CLA_ARG_VALUE},      {"device", 'd', CLA_ARG_VALUE},       {"algorithm", 'a', CLA_ARG_VALUE},
    {"keep", 0, CLA_ARG_VALUE},          {"drop", 0, CLA_ARG_VALUE},           {"bias", 0, CLA_ARG_VALUE},
    {"causal", 0, CLA_ARG_OPTIONAL},     {"align", 0, CLA_ARG_VALUE},          {"offsets", 0, CLA_ARG_VALUE},
    {"window", 0, CLA_ARG_VALUE},        {"lengths", 0, CLA_ARG_VALUE},        {"key-lengths", 0, CLA_ARG_VALUE},
    {"query-lengths", 0, CLA_ARG_VALUE}, {"prefix-lengths", 0, CLA_ARG_VALUE}, {"query-segments", 0, CLA_ARG_VALUE},
    {"key-segments", 0, CLA_ARG_VALUE},  {"cu-queries", 0, CLA_ARG_VALUE},     {"cu-keys", 0, CLA_ARG_VALUE},
    {"block-table", 0, CLA_ARG_VALUE},   {"short-masks", 0, CLA_ARG_FLAG},     {"scale", 0, CLA_ARG_VALUE},
    {"softcap", 0, CLA_ARG_VALUE},       {"alibi", 0, CLA_ARG_FLAG},           {"alibi-slopes", 0, CLA_ARG_VALUE},
    {"sinks", 0, CLA_ARG_VALUE},         {"kv-type", 0, CLA_ARG_VALUE},        {"o-type", 0, CLA_ARG_VALUE},
    {"layout", 0, CLA_ARG_VALUE},        {"heads", 0, CLA_ARG_VALUE},          {"lse", 0, CLA_ARG_VALUE},
    {"weights", 0, CLA_ARG_VALUE},       {"weights-form", 0, CLA_ARG_VALUE},   {"weights-mean", 0, CLA_ARG_FLAG},
    {"weights-rows", 0, CLA_ARG_VALUE},  {"weights-heads", 0, CLA_ARG_VALUE},  {"column-sums", 0, CLA_ARG_VALUE},
    {"entropy", 0, CLA_ARG_VALUE},       {"heatmap", 0, CLA_ARG_VALUE},        {"labels", 0, CLA_ARG_VALUE},
    {"batch", 0, CLA_ARG_VALUE},         {"batch-invariant", 0, CLA_ARG_FLAG}, {"max-workspace", 0, CLA_ARG_VALUE},
    {"explain", 0, CLA_ARG_FLAG},        {"no-lint", 0, CLA_ARG_FLAG},         {"profile", 0, CLA_ARG_FLAG},
    {"profile-json", 0, CLA_ARG_VALUE},  {"roofline", 0, CLA_ARG_VALUE},       {"verify", 0, CLA_ARG_OPTIONAL},
    {"dump", 0, CLA_ARG_VALUE},          {"launch-ms", 0, CLA_ARG_VALUE},      {NULL, 0, CLA_ARG_FLAG}};

static bool parse_align_name(const char *text, clattn_align *align) {
    const int i = cla_index_of(text, cla_align_names);
    if (i >= 0)
        *align = i == 0 ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_BOTTOM_RIGHT;
    return i >= 0;
}

static int parse_positions(const cla_args *args, cla_run_options *o) {
    const char *causal = cla_args_value(args, "causal"), *align = cla_args_value(args, "align");
    const char *offsets = cla_args_value(args, "offsets");
    o->causal = cla_args_given(args, "causal");
    if (causal && !parse_align_name(causal, &o->align))
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --causal=%s is neither top-left (query i sees keys 0 to i) nor "
                        "bottom-right (the last query sees all keys)",
                        causal);
    if (offsets && align)
        return cla_fail(CLA_EXIT_USAGE, "run: --align %s and --offsets %s both place the queries; say one of them",
                        align, offsets);
    if (!align && !offsets)
        return CLA_EXIT_OK;
    clattn_align said = CLATTN_ALIGN_OFFSET;
    if (offsets || !parse_align_name(align, &said)) {
        int64_t numbers[1024];
        size_t count;
        if (align && !cla_parse_i64_list(align, numbers, sizeof numbers / sizeof numbers[0], &count))
            return cla_fail(CLA_EXIT_USAGE,
                            "run: --align %s is none of top-left, bottom-right, an integer, or integers "
                            "with commas (one a batch, at most 1024)",
                            align);
        o->offsets_option = align ? "align" : "offsets";
        o->offsets = align ? align : offsets;
    }
    const char *option = align ? "align" : "offsets", *text = align ? align : offsets;
    if (causal && said != o->align)
        return cla_fail(CLA_EXIT_USAGE, "run: --causal=%s and --%s %s contradict each other; say one of them", causal,
                        option, text);
    o->align = said;
    if (!o->causal && !cla_args_given(args, "window") && !cla_args_given(args, "alibi") &&
        !cla_args_given(args, "alibi-slopes"))
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --%s %s places the queries for --causal, --window or ALiBi, and neither is "
                        "given",
                        option, text);
    return CLA_EXIT_OK;
}

/* A side of the window: a number, or -1 or inf for no limit. */
static bool parse_side(const char *text, size_t length, int64_t *side) {
    char part[32];
    if (length >= sizeof part)
        return false;
    memcpy(part, text, length);
    part[length] = '\0';
    if (strcmp(part, "-1") == 0 || strcmp(part, "inf") == 0) {
        *side = CLATTN_UNLIMITED;
        return true;
    }
    return cla_parse_i64(part, side) && *side >= 0;
}

static int parse_window(const char *text, cla_run_options *o) {
    if (!text)
        return CLA_EXIT_OK;
    const char *comma = strchr(text, ',');
    o->has_window = true;
    if (!comma || !parse_side(text, (size_t)(comma - text), &o->window_left) ||
        !parse_side(comma + 1, strlen(comma + 1), &o->window_right))
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --window %s is not LEFT,RIGHT: two numbers of keys, -1 or inf for a side "
                        "without a limit, as in --window 128,0",
                        text);
    return CLA_EXIT_OK;
}

static int parse_heads(const char *text, cla_heads *heads) {
    if (!text)
        return CLA_EXIT_OK;
    char first[32];
    const size_t length = strcspn(text, "/");
    bool good = length < sizeof first;
    if (good) {
        memcpy(first, text, length);
        first[length] = '\0';
        good = cla_parse_i64(first, &heads->heads) && heads->heads > 0;
        heads->key_heads = heads->heads;
        if (good && text[length] == '/')
            good = cla_parse_i64(text + length + 1, &heads->key_heads) && heads->key_heads > 0;
    }
    if (!good)
        return cla_fail(CLA_EXIT_USAGE, "run: --heads %s is not H or H/HK: query heads and key heads, from 1 up", text);
    if (heads->heads % heads->key_heads != 0)
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --heads %s: %lld query heads do not divide into %lld key heads; HK must "
                        "divide H",
                        text, (long long)heads->heads, (long long)heads->key_heads);
    return CLA_EXIT_OK;
}

static int parse_layout(const char *text, cla_heads *heads) {
    if (!text)
        return CLA_EXIT_OK;
    const int i = cla_index_of(text, cla_layout_names);
    if (i <= 0)
        return cla_fail(CLA_EXIT_USAGE, "run: --layout %s is none of bhsd, bshd, bse, sd", text);
    heads->layout = (cla_layout)i;
    return CLA_EXIT_OK;
}

static int parse_numbers(const cla_args *args, cla_run_options *o) {
    const char *scale = cla_args_value(args, "scale"), *batch = cla_args_value(args, "batch");
    const char *softcap = cla_args_value(args, "softcap"), *workspace = cla_args_value(args, "max-workspace");
    const char *rows = cla_args_value(args, "verify");
    o->has_scale = scale != NULL;
    if (scale && !cla_parse_f64(scale, &o->scale))
        return cla_fail(CLA_EXIT_USAGE, "run: --scale %s is no finite number", scale);
    if (softcap && (!cla_parse_f64(softcap, &o->softcap) || !(o->softcap > 0)))
        return cla_fail(CLA_EXIT_USAGE, "run: --softcap %s is no finite number above 0", softcap);
    o->verify_rows = CLATTN_ALL_ROWS;
    if (rows && (!cla_parse_i64(rows, &o->verify_rows) || o->verify_rows <= 0))
        return cla_fail(CLA_EXIT_USAGE, "run: --verify=%s is no number of rows above 0", rows);
    if (batch && (!cla_parse_i64(batch, &o->batch) || o->batch < 0))
        return cla_fail(CLA_EXIT_USAGE, "run: --batch %s is no batch, numbered from 0", batch);
    if (workspace && (!cla_parse_i64(workspace, &o->max_workspace) || o->max_workspace <= 0))
        return cla_fail(CLA_EXIT_USAGE, "run: --max-workspace %s is no number of bytes above 0", workspace);
    return CLA_EXIT_OK;
}

/* One of the first count types. */
static int parse_types(const cla_args *args, cla_run_options *o) {
    const char *kv = cla_args_value(args, "kv-type"), *out = cla_args_value(args, "o-type");
    o->has_kv_type = kv != NULL;
    o->has_o_type = out != NULL;
    if (out && !cla_dtype_named(out, strlen(out), 4, &o->o_type))
        return cla_fail(CLA_EXIT_USAGE, "run: --o-type %s is none of f32, f64, f16, bf16", out);
    if (!kv)
        return CLA_EXIT_OK;
    const size_t first = strcspn(kv, ",");
    const char *second = kv[first] ? kv + first + 1 : kv;
    if (!cla_dtype_named(kv, first, 6, &o->k_type) || !cla_dtype_named(second, strlen(second), 6, &o->v_type))
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --kv-type %s is no type, and no two types K,V, of f32, f64, f16, bf16, q8_0, q4_0", kv);
    return CLA_EXIT_OK;
}

static int parse_weights(const cla_args *args, cla_run_options *o) {
    static const char *const of_weights[] = {"weights-form", "weights-mean", "weights-rows", "weights-heads"};
    const char *form = cla_args_value(args, "weights-form");
    const int i = form ? cla_index_of(form, cla_weights_form_names) : 0;
    if (i < 0)
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --weights-form %s is none of softmax, scaled (scores), capped (after the soft cap), "
                        "masked (after ALiBi, bias and masks)",
                        form);
    for (size_t n = 0; n < sizeof of_weights / sizeof of_weights[0]; n++)
        if (cla_args_given(args, of_weights[n]) && !cla_args_given(args, "weights"))
            return cla_fail(CLA_EXIT_USAGE, "run: --%s says how --weights are to be; add --weights FILE",
                            of_weights[n]);
    o->weights_form = (clattn_weights_form)i;
    o->weights_mean = cla_args_given(args, "weights-mean");
    if (o->weights_mean && i > 0)
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --weights-mean averages weights after the softmax, and --weights-form is %s; say one of "
                        "them",
                        form);
    return CLA_EXIT_OK;
}

static int check_algorithm(const char *name) {
    const char *names[32];
    size_t n = 0;
    if (!name)
        return CLA_EXIT_OK;
    char list[400] = "";
    for (size_t at = 0; n < clattn_algorithm_count() && n < 31; n++) {
        names[n] = clattn_algorithm_name(n);
        const int more = snprintf(list + at, sizeof list - at, "%s%s", n ? ", " : "", names[n]);
        at = more > 0 && at + (size_t)more < sizeof list ? at + (size_t)more : sizeof list - 1;
    }
    names[n] = NULL;
    if (cla_index_of(name, names) >= 0)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE, "run: --algorithm %s is none of %s", name, list);
}

/* Options that mean nothing, or two things, together. */
static int check_pairs(const cla_args *args, const cla_run_options *o) {
    if (cla_args_given(args, "lengths") && cla_args_given(args, "key-lengths"))
        return cla_fail(CLA_EXIT_USAGE, "run: --lengths and --key-lengths are the same; say one of them");
    if (o->alibi && o->slopes)
        return cla_fail(CLA_EXIT_USAGE,
                        "run: --alibi takes the usual slopes, --alibi-slopes %s others; say one of them", o->slopes);
    if (!o->query_segments != !o->key_segments)
        return cla_fail(CLA_EXIT_USAGE, "run: --query-segments and --key-segments go together; add --%s",
                        o->query_segments ? "key-segments" : "query-segments");
    if (o->cu_keys && !o->cu_queries)
        return cla_fail(CLA_EXIT_USAGE, "run: --cu-keys %s: add --cu-queries", o->cu_keys);
    if (o->prefix_lengths && !o->causal)
        return cla_fail(CLA_EXIT_USAGE, "run: --prefix-lengths loosen --causal, which is not given");
    if (o->block_table && !o->lengths)
        return cla_fail(CLA_EXIT_USAGE, "run: --block-table %s: add --key-lengths, the keys of each batch that count",
                        o->block_table);
    return CLA_EXIT_OK;
}

static int check_together(const cla_args *args, const cla_run_options *o) {
    static const char *const of_the_map[] = {"labels", "batch"};
    for (size_t i = 0; i < sizeof of_the_map / sizeof of_the_map[0]; i++)
        if (cla_args_given(args, of_the_map[i]) && !o->heatmap)
            return cla_fail(CLA_EXIT_USAGE, "run: --%s is for the heat map; add --heatmap FILE.svg", of_the_map[i]);
    if (!o->output && !o->lse && !o->weights && !o->column_sums && !o->entropy && !o->heatmap && !o->dump &&
        !o->verify && !o->explain)
        return cla_fail(CLA_EXIT_USAGE, "run: there is nothing to do with the result; add -o O.npy or "
                                        "-o FILE.safetensors:NAME");
    const int exit_status = check_pairs(args, o);
    return exit_status == CLA_EXIT_OK ? check_algorithm(o->algorithm) : exit_status;
}

int cla_run_options_parse(int argc, char **argv, cla_run_options *options) {
    cla_args args;
    int exit_status = cla_args_parse("run", argc, argv, specs, 3, 3, "three tensor files Q K V", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *lengths = cla_args_given(&args, "lengths") ? "lengths" : "key-lengths";
    *options = (cla_run_options){.q = args.words[0],
                                 .k = args.words[1],
                                 .v = args.words[2],
                                 .output = cla_args_value(&args, "output"),
                                 .device = cla_args_value(&args, "device"),
                                 .algorithm = cla_args_value(&args, "algorithm"),
                                 .keep = cla_args_value(&args, "keep"),
                                 .drop = cla_args_value(&args, "drop"),
                                 .bias = cla_args_value(&args, "bias"),
                                 .sinks = cla_args_value(&args, "sinks"),
                                 .lengths = cla_args_value(&args, lengths),
                                 .lengths_option = lengths,
                                 .query_lengths = cla_args_value(&args, "query-lengths"),
                                 .prefix_lengths = cla_args_value(&args, "prefix-lengths"),
                                 .cu_queries = cla_args_value(&args, "cu-queries"),
                                 .cu_keys = cla_args_value(&args, "cu-keys"),
                                 .slopes = cla_args_value(&args, "alibi-slopes"),
                                 .query_segments = cla_args_value(&args, "query-segments"),
                                 .key_segments = cla_args_value(&args, "key-segments"),
                                 .block_table = cla_args_value(&args, "block-table"),
                                 .alibi = cla_args_given(&args, "alibi"),
                                 .batch_invariant = cla_args_given(&args, "batch-invariant"),
                                 .short_masks = cla_args_given(&args, "short-masks"),
                                 .lse = cla_args_value(&args, "lse"),
                                 .weights = cla_args_value(&args, "weights"),
                                 .weights_rows = cla_args_value(&args, "weights-rows"),
                                 .weights_heads = cla_args_value(&args, "weights-heads"),
                                 .column_sums = cla_args_value(&args, "column-sums"),
                                 .entropy = cla_args_value(&args, "entropy"),
                                 .heatmap = cla_args_value(&args, "heatmap"),
                                 .labels = cla_args_value(&args, "labels"),
                                 .dump = cla_args_value(&args, "dump"),
                                 .explain = cla_args_given(&args, "explain"),
                                 .no_lint = cla_args_given(&args, "no-lint"),
                                 .profile = cla_args_given(&args, "profile"),
                                 .profile_json = cla_args_value(&args, "profile-json"),
                                 .roofline = cla_args_value(&args, "roofline"),
                                 .verify = cla_args_given(&args, "verify")};
    if ((exit_status = cla_launch_option("run", &args)) != CLA_EXIT_OK ||
        (exit_status = parse_positions(&args, options)) != CLA_EXIT_OK ||
        (exit_status = parse_window(cla_args_value(&args, "window"), options)) != CLA_EXIT_OK ||
        (exit_status = parse_heads(cla_args_value(&args, "heads"), &options->heads)) != CLA_EXIT_OK ||
        (exit_status = parse_layout(cla_args_value(&args, "layout"), &options->heads)) != CLA_EXIT_OK ||
        (exit_status = parse_types(&args, options)) != CLA_EXIT_OK ||
        (exit_status = parse_weights(&args, options)) != CLA_EXIT_OK ||
        (exit_status = parse_numbers(&args, options)) != CLA_EXIT_OK)
        return exit_status;
    return check_together(&args, options);
}
