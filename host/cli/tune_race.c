/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_race.h"

#include "progress.h"
#include "samples.h"

#define SAMPLE_SECONDS 0.002 /* what is quicker is run several times for a sample */
enum { MOST_REPEATS = 100, LEAST_ROUNDS = 3 };

static double sample(clattn_context *context, clattn_plan *plan, int repeats) {
    clattn_status status = CLATTN_OK;
    const double start = cla_seconds();
    for (int i = 0; i < repeats && status == CLATTN_OK; i++)
        status = clattn_plan_execute(plan, NULL);
    if (status == CLATTN_OK)
        status = clattn_context_sync(context);
    return status == CLATTN_OK ? (cla_seconds() - start) / repeats : -1;
}

double cla_race_once(clattn_context *context, clattn_plan *plan) { return sample(context, plan, 1); }

void cla_race_run(cla_race *race, int rounds, double end) {
    double times[2][CLA_RACE_ROUNDS], ratios[CLA_RACE_ROUNDS];
    const double first = cla_race_once(race->context, race->plans[0]);
    int repeats = first > 0 ? (int)(SAMPLE_SECONDS / first) : 1;
    repeats = repeats < 1 ? 1 : repeats > MOST_REPEATS ? MOST_REPEATS : repeats;
    race->rounds = 0;
    if (first < 0 || cla_race_once(race->context, race->plans[1]) < 0)
        return;
    for (int n = 0; n < rounds && n < CLA_RACE_ROUNDS && (n < LEAST_ROUNDS || cla_seconds() < end); n++) {
        const int leader = n % 2; /* who comes second finds other caches */
        for (int i = 0; i < 2; i++) {
            const int which = leader ^ i;
            times[which][n] = sample(race->context, race->plans[which], repeats);
            if (times[which][n] < 0) {
                race->rounds = 0;
                return;
            }
        }
        ratios[n] = times[0][n] > 0 ? times[1][n] / times[0][n] : 1;
        race->rounds = n + 1;
    }
    race->ratio = cla_median(ratios, race->rounds);
    for (int i = 0; i < 2; i++)
        race->ms[i] = 1e3 * cla_median(times[i], race->rounds);
}
