/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder learns to reverse or to sort sequences of digits, on any device; its accuracy is that on sequences that are
 * never trained. A checkpoint goes on as if the run had not stopped, bit for bit.
 *   build/examples/train --save model.safetensors --plot loss.svg
 *   build/examples/train --resume model.safetensors --steps 2000 --until 99.9
 * Ctrl-C ends it behind the steps under way, and what was asked for is written. */
#define _POSIX_C_SOURCE 200809L
#include "args.h"
#include "complain.h"
#include "train_out.h"
#include "train_plot.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: train [OPTION...]\n"
    "  --device D       opencl, cpu, ... (clattn devices); without: the best there is\n"
    "  --steps N        up to step N (3000)\n"
    "  --until P        stops when P percent of draws of unseen sequences are right (99.5); given, it is an error\n"
    "                   where the steps do not get there; 0: goes through all steps\n"
    "  --save X.safetensors    writes a checkpoint at the end, or where Ctrl-C ends it\n"
    "  --resume X.safetensors  goes on from one, with its settings\n"
    "  --plot X.svg     draws loss and accuracy\n"
    "  --profile        tells the times of kernels (OpenCL)\n"
    "settings, which a checkpoint keeps:\n"
    "  --task reverse|sort     (reverse)\n"
    "  --length N       digits of a sequence (12)\n"
    "  --layers N, --width N, --heads N   of the decoder (5, 128, 4)\n"
    "  --batch N        sequences a step (64)\n"
    "  --rate R         Adam's, at its largest (0.001)\n"
    "  --warmup N, --decay N   steps in which it grows, and then falls to a tenth (50, 500)\n"
    "  --seed N         of weights and sequences (0)\n";

enum { UNSEEN = 1000 }; /* so many draws at least; where few such sequences exist, some come again */

typedef struct options {
    const char *device, *save, *resume, *plot;
    settings settings;
    bool given[SETTINGS], until_given, profile, help;
    int64_t steps;
    double until; /* percent */
} options;

typedef struct run {
    const options *options;
    const settings *settings;
    clattn_context *context;
    model *model;
    history history;
    int32_t *tokens, *answers; /* of ACCURACY_STEPS batches */
    int32_t *digits;           /* of one */
    double loss, accuracy;     /* the mean of the steps last done; from 0 to 1 */
} run;

/* ---- Ctrl-C: the first is noted, the second ends the process ---- */

static volatile sig_atomic_t interrupted;

static void note_signal(int number) { interrupted = number; }

static void note_signals(void) {
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- options ---- */

static bool take_number(const char *name, const char *text, double least, double most, double *to) {
    char *end = NULL;
    *to = strtod(text, &end);
    return (end != text && !*end && *to >= least && *to <= most) ||
           complain("%s takes a number from %g to %.0f, not \"%.60s\"", name, least, most, text);
}

static bool take_steps(options *o, const char *text) {
    double steps = 0;
    if (!take_number("--steps", text, 1, 1e8, &steps))
        return false;
    o->steps = (int64_t)steps;
    return steps == floor(steps) || complain("--steps %s is no whole number", text);
}

/* An option that is not there, or, without is_given, lacks its value. */
static bool no_option(const char *text, bool is_given) {
    const char *names[SETTINGS + 8] = {"device", "steps", "until", "save", "resume", "plot", "profile"};
    for (size_t i = 0; settings_name(i); i++)
        names[7 + i] = settings_name(i);
    const char *name = text + strspn(text, "-"), *near_name = cla_nearest(name, names);
    if (!is_given && name == text + 2 && cla_index_of(name, names) >= 0)
        return complain("%s lacks its value; --help tells them", text);
    if (near_name)
        return complain("%s is no option; did you mean --%s?", text, near_name);
    return complain("%s is no option; --help tells them", text);
}

static bool take_option(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **text;
    } named[] = {{"--device", &o->device}, {"--save", &o->save}, {"--resume", &o->resume}, {"--plot", &o->plot}};
    size_t setting = 0;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0) {
            *named[i].text = value;
            return true;
        }
    if (strcmp(name, "--steps") == 0)
        return take_steps(o, value);
    if (strcmp(name, "--until") == 0) {
        o->until_given = true;
        return take_number(name, value, 0, 100, &o->until);
    }
    if (strncmp(name, "--", 2) != 0 || !settings_find(name + 2, &setting))
        return no_option(name, true);
    o->given[setting] = true;
    return settings_set(&o->settings, setting, value, name);
}

static bool take_options(int argc, char **argv, options *o) {
    *o = (options){.settings = settings_default, .steps = 3000, .until = 99.5};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            o->help = true;
        else if (strcmp(argv[i], "--profile") == 0)
            o->profile = true;
        else if (i + 1 == argc)
            return no_option(argv[i], false);
        else if (!take_option(o, argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

/* Now, not after minutes of training. */
static bool can_write(const options *o) {
    if (out_is_same(o->plot, o->save) || out_is_same(o->plot, o->resume))
        return complain("--plot %s is the checkpoint", o->plot);
    if (!out_check(o->save) || !out_check(o->plot))
        return false;
    const char *dot = o->plot ? strrchr(o->plot, '.') : ".svg";
    return (dot && strcmp(dot, ".svg") == 0) ||
           complain("--plot %s: the plot is SVG, so name it something.svg", o->plot);
}

/* ---- training ---- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sequences from n on, count of them, as they lie one after another. */
static void draw(const run *r, bool unseen, int64_t n, int64_t count) {
    const int64_t L = r->settings->length;
    for (int64_t i = 0; i < count; i++)
        train_sequence(r->settings, unseen, (uint64_t)(n + i), r->tokens + i * 2 * L, r->answers + i * L);
}

/* Each digit is said after the right ones before it. A sequence whose digits are all right so is just what the decoder
 * would write by itself, and so are the sequences counted here. */
static bool measure(run *r) {
    const int64_t B = r->settings->batch, L = r->settings->length, batches = (UNSEEN + B - 1) / B;
    int64_t right = 0;
    for (int64_t i = 0; i < batches; i++) {
        draw(r, true, i * B, B);
        if (!model_give(r->model, 1, r->tokens, NULL) || !model_digits(r->model, r->digits))
            return false;
        for (int64_t b = 0; b < B; b++)
            right += memcmp(r->digits + b * L, r->answers + b * L, (size_t)L * sizeof *r->digits) == 0;
    }
    r->accuracy = (double)right / (double)(batches * B);
    return true;
}

/* Up to the next measured accuracy, or the end. Nothing waits for the device in between. */
static bool train_part(run *r) {
    history *h = &r->history;
    const int64_t left = r->options->steps - h->step, whole = ACCURACY_STEPS - h->step % ACCURACY_STEPS;
    const int64_t count = left < whole ? left : whole, B = r->settings->batch;
    float *losses = h->losses + h->step;
    double sum = 0;
    draw(r, false, h->step * B, count * B);
    bool ok = model_give(r->model, count, r->tokens, r->answers);
    for (int64_t i = 0; ok && i < count; i++)
        ok = model_step(r->model, i, h->step + i + 1);
    ok = ok && model_losses(r->model, count, losses);
    for (int64_t i = 0; ok && i < count; i++) {
        sum += (double)losses[i];
        ok = isfinite(losses[i]) ||
             complain("step %" PRId64 ": the loss is no number any more; try a lower --rate", h->step + i + 1);
    }
    if (!ok)
        return false;
    h->step += count;
    r->loss = sum / (double)count;
    if (!measure(r))
        return false;
    if (h->step % ACCURACY_STEPS == 0)
        h->accuracies[h->step / ACCURACY_STEPS - 1] = (float)r->accuracy;
    return true;
}

static bool is_enough(const run *r) { return r->options->until > 0 && 100 * r->accuracy >= r->options->until; }

static bool train(run *r) {
    const options *o = r->options;
    const history *h = &r->history;
    const double start = seconds();
    bool ok = true;
    while (ok && h->step < o->steps && !is_enough(r) && !interrupted) {
        ok = train_part(r);
        if (ok)
            printf("step %5" PRId64 "   loss %.5f   unseen %6.2f %%   %.1f s\n", h->step, r->loss, 100 * r->accuracy,
                   seconds() - start);
        fflush(stdout);
    }
    if (ok && interrupted)
        fprintf(stderr, "interrupted behind step %" PRId64 "%s\n", h->step,
                o->save ? "; the checkpoint goes on from there" : "; without --save it is lost");
    return ok;
}

/* ---- what comes of it ---- */

static void print_digits(const int32_t *digits, int64_t count, const char *end) {
    for (int64_t i = 0; i < count; i++)
        printf("%s%d", i > 0 ? " " : "", (int)digits[i]);
    fputs(end, stdout);
}

static bool show(run *r) {
    const int64_t B = r->settings->batch, L = r->settings->length, shown = B < 3 ? B : 3;
    draw(r, true, 0, B);
    if (!model_give(r->model, 1, r->tokens, NULL) || !model_digits(r->model, r->digits))
        return false;
    for (int64_t i = 0; i < shown; i++) {
        print_digits(r->tokens + i * 2 * L, L, " -> ");
        print_digits(r->digits + i * L, L, "\n");
    }
    printf("%.2f %% of %" PRId64 " draws of unseen sequences are exactly right\n", 100 * r->accuracy,
           (UNSEEN + B - 1) / B * B);
    return true;
}

static bool report_profile(const run *r) {
    clattn_profile_entry entries[64];
    size_t count = 0;
    if (!r->options->profile)
        return true;
    if (!done(clattn_context_profile(r->context, entries, 64, &count)))
        return false;
    for (size_t i = 0; i < count && i < 64; i++)
        fprintf(stderr, "%-28s %7" PRIu64 " times %10.1f ms, %8.4f each\n", entries[i].name, entries[i].count,
                entries[i].total_ms, entries[i].total_ms / (double)entries[i].count);
    return true;
}

static bool open_run(run *r, int64_t step) {
    const options *o = r->options;
    const settings *s = r->settings;
    const clattn_context_options profile = {.profile = o->profile};
    clattn_device_info info;
    weights *file = NULL;
    const size_t digits = (size_t)(s->batch * s->length);
    if (!done(clattn_context_create(o->device, &profile, &r->context)) || !done(clattn_context_info(r->context, &info)))
        return false;
    if (step > 0 && !(file = checkpoint_open(r->context, o->resume, step, &r->history)))
        return false;
    r->model = model_open(r->context, s, ACCURACY_STEPS, file, checkpoint_others);
    weights_close(file);
    r->tokens = calloc(ACCURACY_STEPS * digits, 2 * sizeof *r->tokens);
    r->answers = calloc(ACCURACY_STEPS * digits, sizeof *r->answers);
    r->digits = calloc(digits, sizeof *r->digits);
    if (!r->model || !history_grow(&r->history, o->steps))
        return false;
    if (!r->tokens || !r->answers || !r->digits)
        return complain("out of memory");
    char name[SETTING_TEXT];
    settings_text(s, 0, name);
    printf("%" PRId64 " layers, %" PRId64 " parameters learn to %s %" PRId64 " digits on %s\n", s->layers,
           clattn_parameters_elements(model_weights(r->model)->all, weight_prefix(VALUE)), name, s->length, info.name);
    fflush(stdout);
    return true;
}

static bool run_all(options *o) {
    int64_t step = 0;
    run r = {.options = o, .settings = &o->settings};
    bool ok = !o->resume || checkpoint_settings(o->resume, o->given, &o->settings, &step);
    ok = ok && settings_check(&o->settings) &&
         (step < o->steps ||
          complain("--steps %" PRId64 ": %s has done %" PRId64 " already", o->steps, o->resume, step)) &&
         can_write(o) && open_run(&r, step);
    ok = ok && train(&r) && show(&r) && report_profile(&r) &&
         (!o->save || checkpoint_write(o->save, r.settings, &r.history, r.model)) &&
         (!o->plot || train_plot(o->plot, r.settings, &r.history));
    if (ok && o->until_given && o->until > 0 && !is_enough(&r) && !interrupted)
        ok = complain("%" PRId64 " steps did not reach %g %%", o->steps, o->until);
    model_close(r.model);
    clattn_context_destroy(r.context);
    history_free(&r.history);
    free(r.tokens);
    free(r.answers);
    free(r.digits);
    return ok;
}

int main(int argc, char **argv) {
    options o;
    if (!take_options(argc, argv, &o))
        return 1;
    if (o.help) {
        fputs(usage, stdout);
        return 0;
    }
    note_signals();
    if (!run_all(&o))
        return 1;
    if (fflush(stdout) != 0 || ferror(stdout))
        return complain("the output cannot be written"), 1;
    return interrupted ? 128 + interrupted : 0;
}
