/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures, group G: what drivers get wrong and therefore no kernel and no plan may rely on. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "attention/tiles.h"
#include "cases.h"
#include "op_arrays.h"
#include "runtime/program.h"
#include <clattn/backward.h>
#include <clattn/ops.h>
#include <ctype.h>
#include <pthread.h>

/* ---- the text of kernels ---- */

/* A source without its comments, NUL at its end. */
static char *code_of(const cla_source *source) {
    char *code = malloc(source->bytes + 1), *to = code;
    bool inside = false;
    for (size_t i = 0; i < source->bytes; i++) {
        const char c = (char)source->text[i], next = i + 1 < source->bytes ? (char)source->text[i + 1] : '\0';
        if (!inside && c == '/' && next == '*')
            inside = true;
        if (!inside)
            *to++ = c;
        if (inside && c == '*' && next == '/') {
            inside = false;
            i++;
        }
    }
    *to = '\0';
    return code;
}

static bool in_a_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The word at or behind `at`; NULL when there is none. */
static const char *find_word(const char *code, const char *at, const char *word) {
    const size_t length = strlen(word);
    while ((at = strstr(at, word)) && ((at > code && in_a_name(at[-1])) || in_a_name(at[length])))
        at += length;
    return at;
}

/* Loops that double their step with a barrier inside are mis-compiled where the step ends at get_local_size. */
Test(cases, G01_no_kernel_doubles_a_step_up_to_the_size_of_its_group) {
    int seen = 0;
    for (const cla_source *s = cla_sources; s->name; s++, seen++) {
        char *code = code_of(s);
        const char *size = find_word(code, code, "get_local_size"); /* but to tell a group's number: real.clh */
        while (size && size > code + 30 && strncmp(size - 23, "get_global_offset(0) / ", 23) == 0)
            size = find_word(code, size + 1, "get_local_size");
        cr_expect_null(size, "%s: sizes of groups are constants of the key", s->name);
        for (const char *at = code; (at = find_word(code, at, "for")); at++) {
            const size_t head = strcspn(at, ")\n");
            const char *twice = strstr(at, "*= 2"), *shift = strstr(at, "<<= 1");
            cr_expect((!twice || twice > at + head) && (!shift || shift > at + head), "%s: %.60s", s->name, at);
        }
        free(code);
    }
    cr_expect_gt(seen, 20);
}

Test(cases, G16_no_kernel_holds_or_takes_a_half_by_value) {
    int pointers = 0;
    for (const cla_source *s = cla_sources; s->name; s++) {
        char *code = code_of(s);
        for (const char *at = code; (at = find_word(code, at, "half")); at++) {
            const bool pointer = strncmp(at, "half *", 6) == 0;
            cr_expect(pointer, "%s: %.60s", s->name, at);
            pointers += pointer;
        }
        cr_expect_null(strstr(code, "cl_khr_fp16"), "%s", s->name);
        free(code);
    }
    cr_expect_gt(pointers, 10);
}

/* ---- reductions ---- */

enum { VALUES = 1676 };

/* Distinct whole numbers from -4979 to 5002, as large as `by` makes them. */
static void spread(double *x, double by) {
    for (int i = 0; i < VALUES; i++)
        x[i] = by * (i * 7919 % 9982 - 4979);
}

static double extreme(const double *x, double sign) {
    double most = sign * x[0];
    for (int i = 1; i < VALUES; i++)
        most = fmax(most, sign * x[i]);
    return sign * most;
}

/* Scores so far apart that the one key with the largest has all of the weight: O is its value. */
static void g01(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .N = 2, .M = VALUES, .D = 1, .has_scale = true, .scale = 1000};
    oracle_case *c = oracle_make(&config);
    SET(c->q, 1, -1);
    spread(c->k, 1);
    spread(c->v, 1);
    runs(c, r);
    EXPECT(r, c->got.o, 0, extreme(c->v, 1), extreme(c->v, -1));
    oracle_free(c);
}
Test(cases, G01_every_algorithm_finds_the_largest_and_the_least_score_of_1676) { on_each(g01); }

/* Rows that one work-item has alone, and rows that a group of 64 shares. */
Test(cases, G01_softmax_finds_the_largest_and_the_least_of_1676_numbers) {
    static const int64_t shape[] = {VALUES};
    double x[VALUES];
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (double sign = -1; sign <= 1; sign += 2) {
            spread(x, 1000 * sign);
            op_array from = op_make(NULL, CLATTN_F32, 1, shape, OP_DENSE, x, NULL);
            op_array to = op_make(NULL, CLATTN_F32, 1, shape, OP_DENSE, NULL, NULL);
            SUCCEEDS(clattn_softmax(context, &(clattn_softmax_args){.x = from.t, .y = to.t}));
            op_fetch(&to, op_devices[d]);
            for (int i = 0; i < VALUES; i++)
                cr_expect_eq(op_value(&to, i), x[i] == extreme(x, 1), "%s: %d", op_devices[d], i);
            op_free(&from);
            op_free(&to);
        }
        clattn_context_destroy(context);
    }
}

/* ---- G03: private memory of work-groups on the stack of a CPU's thread ---- */

/* Accumulators of O of a whole group, as the driver keeps them over a barrier. */
Test(cases, G03_a_groups_accumulators_are_at_most_256_kib_on_cpus) {
    clattn_device_info cpu = {.device_class = CLATTN_DEVICE_CPU, .local_bytes = 2 << 20, .max_work_group = 4096};
    for (int wide = 0; wide < 2; wide++)
        for (int64_t D = 1; D <= 600; D++)
            for (int lean = 0; lean < 2; lean++) {
                const int64_t size = wide ? 8 : 4;
                const cla_tiles_problem p = {.dtype = wide ? CLATTN_F64 : CLATTN_F32, .lean = lean, .D = D, .Dv = D};
                cla_tiling list[CLA_TILES_ROWS], t, b;
                cr_assert(cla_tiles_choose(&cpu, &p, 0, &t));
                for (int i = cla_tiles_list(&cpu, &p, list) - 1; i >= 0; i--)
                    cr_assert_leq(size * list[i].rows * list[i].columns, 256 << 10, "D %d", (int)D);
                for (int rank = 0; cla_tiles_choose_backward(&cpu, &p, &t.tile, D, rank, &b); rank++)
                    cr_assert_leq(2 * size * (b.rows > b.keys ? b.rows : b.keys) * b.columns, 256 << 10, "D %d",
                                  (int)D);
            }
}

static void g03(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {
        .dtype = dtype, .H = 2, .Hk = 1, .N = 70, .M = 150, .D = 512, .lse = true, .keep = {4, 15}, .seed = 3};
    oracle_case *c = oracle_make(&config);
    agrees(c, r);
    oracle_free(c);
}

static void g03_backward(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .H = 2, .Hk = 1, .N = 40, .M = 70, .D = 512, .seed = 4};
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    if (oracle_backward_applies(g, r, NULL))
        cr_expect(oracle_backward_exact(g, text) && oracle_backward_run(g, r->context, NULL, r->algorithm, text) &&
                      oracle_backward_compare(g, r->algorithm, text),
                  "%s", text);
    oracle_backward_free(g);
    oracle_free(c);
}

/* Threads of the driver and of OpenMP that begin from here on have a quarter of the usual stack. */
static void lower_stacks(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, 2 << 20), 0);
    cr_assert_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

Test(cases, G03_head_dims_of_512_need_no_more_than_2_mib_of_stack) {
    lower_stacks();
    on_each(g03);
}

Test(cases, G03_gradients_of_head_dims_of_512_need_no_more_than_2_mib_of_stack) {
    oracle_runner runners[ORACLE_RUNNERS];
    lower_stacks();
    const size_t count = oracle_backward_open(runners);
    for (size_t i = 0; i < count; i++)
        g03_backward(&runners[i], CLATTN_F32);
    oracle_close(runners, count);
}

/* ---- G18: one buffer of all scores ---- */

/* 30 x 4224 x 4224 scores are 2.1 GB in f32. On a device that would give as much in one piece. A variant that a driver
 * gets wrong: test_tune.c. */
Test(cases, G18_scores_never_lie_in_one_buffer_above_256_mib) {
    enum { H = 30, N = 4224, D = 8, MOST = 256 << 20 };
    static const int64_t shape[] = {1, H, N, D}, rows[] = {1, H, N, 2};
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    context->info.max_alloc_bytes = context->info.global_bytes = (uint64_t)1 << 40;
    SUCCEEDS(clattn_buffer_create(context, 8 * sizeof(float) * H * N * D, &buffer));
    clattn_tensor at[8];
    for (int i = 0; i < 8; i++) {
        at[i] = clattn_tensor_buffer(buffer, CLATTN_F32, 4, i == 4 ? rows : shape);
        at[i].offset = i * (int64_t)(H * N * D);
    }
    const clattn_attention_args args = {
        .q = at[0], .k = at[1], .v = at[2], .o = at[3], .caller_workspace = true, .algorithm = "materialised"};
    SUCCEEDS(clattn_plan_create(context, &args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect(info.workspace_bytes > MOST / 2 && info.workspace_bytes <= MOST, "%zu", info.workspace_bytes);
    clattn_plan_destroy(plan);
    clattn_attention_backward_args backward = {
        .forward = args, .d_o = at[3], .d_q = at[5], .d_k = at[6], .d_v = at[7], .algorithm = "materialised"};
    backward.forward.state = at[4];
    SUCCEEDS(clattn_backward_plan_create(context, &backward, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect(info.workspace_bytes > MOST / 2 && info.workspace_bytes <= MOST, "%zu", info.workspace_bytes);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}
