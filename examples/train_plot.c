/* SPDX-License-Identifier: Apache-2.0 */
#include "train_plot.h"

#include "train_out.h"
#include <math.h>

/* Colours that stay apart for colour-blind readers (Okabe & Ito). */
#define LOSS "#0072B2"
#define RIGHT "#D55E00"

enum { WIDTH = 960, HEIGHT = 540, LEFT = 80, TOP = 60, ACROSS = 800, DOWN = 400 };

typedef struct {
    FILE *out;
    const history *history;
    int low, high; /* powers of ten around the losses */
} plot;

static double x_of(const plot *p, double step) { return LEFT + ACROSS * step / (double)p->history->step; }
static double x_of_accuracy(const plot *p, int64_t i) { return x_of(p, (double)((i + 1) * ACCURACY_STEPS)); }
static double y_of_share(double share) { return TOP + DOWN * (1 - share); }
static double y_of_loss(const plot *p, double loss) {
    return y_of_share((log10(fmax(loss, 1e-30)) - p->low) / (p->high - p->low));
}

static void find_decades(plot *p) {
    double least = 1, most = 1;
    for (int64_t i = 0; i < p->history->step; i++) {
        least = fmin(least, fmax((double)p->history->losses[i], 1e-9));
        most = fmax(most, (double)p->history->losses[i]);
    }
    p->low = (int)floor(log10(least));
    p->high = (int)fmax(ceil(log10(most)), p->low + 1);
}

static void text(const plot *p, double x, double y, const char *anchor, const char *colour, const char *words) {
    fprintf(p->out, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>%s</text>\n", x, y, anchor, colour, words);
}

static void across(const plot *p, double y) {
    fprintf(p->out, "<path d='M%d %.1fh%d' stroke='#ccc'/>\n", LEFT, y, ACROSS);
}

/* 1, 2 or 5 times a power of ten: at most six of them in a span. */
static double round_part(double span) {
    const double ten = pow(10, floor(log10(span / 6))), times = span / 6 / ten;
    return fmax(1, ten * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10));
}

static void put_axes(const plot *p) {
    char words[40];
    const double part = round_part((double)p->history->step);
    for (int power = p->low; power <= p->high; power++) {
        const double y = y_of_loss(p, pow(10, power));
        across(p, y);
        snprintf(words, sizeof words, "%g", pow(10, power));
        text(p, LEFT - 8, y + 5, "end", LOSS, words);
    }
    for (int percent = 0; percent <= 100; percent += 25) {
        snprintf(words, sizeof words, "%d %%", percent);
        text(p, LEFT + ACROSS + 8, y_of_share(percent / 100.0) + 5, "start", RIGHT, words);
    }
    for (int i = 0; i * part <= (double)p->history->step; i++) {
        const double x = x_of(p, i * part);
        fprintf(p->out, "<path d='M%.1f %dv6' stroke='black'/>\n", x, TOP + DOWN);
        snprintf(words, sizeof words, "%.0f", i * part);
        text(p, x, TOP + DOWN + 22, "middle", "black", words);
    }
    fprintf(p->out, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='black'/>\n", LEFT, TOP, ACROSS,
            DOWN);
    text(p, LEFT + ACROSS / 2.0, TOP + DOWN + 46, "middle", "black", "steps");
    text(p, LEFT, TOP - 8, "start", LOSS, "loss");
    text(p, LEFT + ACROSS, TOP - 8, "end", RIGHT, "unseen sequences that are exactly right");
}

static void put_curves(const plot *p) {
    const history *h = p->history;
    fprintf(p->out, "<polyline fill='none' stroke='%s' stroke-width='1.2' points='", LOSS);
    for (int64_t i = 0; i < h->step; i++)
        fprintf(p->out, "%.2f,%.2f\n", x_of(p, (double)(i + 1)), y_of_loss(p, (double)h->losses[i]));
    fprintf(p->out, "'/>\n<polyline fill='none' stroke='%s' stroke-width='2.2' points='", RIGHT);
    for (int64_t i = 0; i < h->step / ACCURACY_STEPS; i++)
        fprintf(p->out, "%.2f,%.2f\n", x_of_accuracy(p, i), y_of_share((double)h->accuracies[i]));
    fprintf(p->out, "'/>\n");
    for (int64_t i = 0; i < h->step / ACCURACY_STEPS; i++)
        fprintf(p->out, "<circle cx='%.2f' cy='%.2f' r='3' fill='%s'/>\n", x_of_accuracy(p, i),
                y_of_share((double)h->accuracies[i]), RIGHT);
}

bool train_plot(const char *path, const settings *s, const history *h) {
    out_file file;
    if (!out_open(path, &file))
        return false;
    plot p = {.out = file.stream, .history = h};
    find_decades(&p);
    fprintf(p.out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='14'>\n"
            "<rect width='%d' height='%d' fill='white'/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(p.out,
            "<text x='%d' y='28' text-anchor='middle' font-size='17'>A decoder learns to %s %lld digits</text>\n",
            WIDTH / 2, s->task == TASK_SORT ? "sort" : "reverse", (long long)s->length);
    put_axes(&p);
    put_curves(&p);
    fprintf(p.out, "</svg>\n");
    return out_close(&file);
}
