/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of ref_attention.h, for one type of sums: a thread owns a key head, and adds the queries of its group
 * in order. Included after ref_attention_rows.h by the two files that define its macros and CLA_REF_GRADIENTS   the
 * function's full name */

/* Sums of one key head, and a row's numbers. */
typedef struct {
    SUM *s, *dp;  /* [M]: exp(score - m), -1 where excluded; the gradient by each weight */
    SUM *dq;      /* [D] */
    SUM *dk, *dv; /* [M, D], [M, Dv] */
    SUM *bias;    /* of the shape of d_bias, of all key heads; NULL: not wanted */
    SUM *sinks;   /* [B, H]; NULL: not wanted */
} gradient_sums;

/* dp[j] = the gradient by weight j before dropout; sum_j P dp. */
static SUM gradients_of_weights(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i,
                                SUM l, const gradient_sums *g) {
    SUM total = 0;
    for (int64_t j = 0; j < batch->keys; j++) {
        if (g->s[j] == -1)
            continue;
        const SUM factor = kept(a, b, h, i, j), weight = g->s[j] / l * factor;
        SUM dp = 0;
        for (int64_t d = 0; d < a->Dv; d++) {
            const SUM by_o = load(&a->d_o, b, h, batch->q_row + i, d);
            dp += by_o * load_key(a, &a->v, b, h, batch->k_row + j, d);
            g->dv[j * a->Dv + d] += weight * by_o;
        }
        g->dp[j] = factor * dp;
        total += g->s[j] / l * g->dp[j];
    }
    return total;
}

/* What is left of a score's gradient before the soft cap. */
static SUM through_cap(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i,
                       int64_t j) {
    const SUM t = a->softcap > 0 ? score(a, batch, b, h, i, j, CLA_REF_CAPPED) / (SUM)a->softcap : 0;
    return 1 - t * t;
}

static void add_bias_gradient(const cla_ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j, SUM ds,
                              SUM *bias) {
    const clattn_tensor *t = &a->d_bias;
    const int64_t at[4] = {b, h, i, j};
    int64_t place = 0;
    for (int axis = 0; axis < 4; axis++)
        place = place * t->shape[axis] + (t->stride[axis] == 0 ? 0 : at[axis]);
    bias[place] += ds;
}

static void one_gradient_row(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i,
                             const gradient_sums *g) {
    const row_sum r = weigh(a, batch, b, h, i, g->s, NULL);
    const SUM scale = (SUM)a->scale;
    for (int64_t d = 0; d < a->D; d++)
        g->dq[d] = 0;
    const SUM total = r.seen ? gradients_of_weights(a, batch, b, h, i, r.l, g) : 0;
    for (int64_t j = 0; j < batch->keys; j++) {
        if (g->s[j] == -1)
            continue;
        SUM ds = g->s[j] / r.l * (g->dp[j] - total);
        if (g->bias)
            add_bias_gradient(a, b, h, i, j, ds, g->bias);
        ds *= scale * through_cap(a, batch, b, h, i, j);
        for (int64_t d = 0; d < a->D; d++) {
            g->dq[d] += ds * load_key(a, &a->k, b, h, batch->k_row + j, d);
            g->dk[j * a->D + d] += ds * load(&a->q, b, h, batch->q_row + i, d);
        }
    }
    for (int64_t d = 0; d < a->D && a->d_q.rank; d++)
        store(&a->d_q, b, h, batch->q_row + i, d, g->dq[d]);
    if (g->sinks && r.seen) {
        const SUM sink = load(&a->sinks, 0, 0, 0, h);
        g->sinks[b * a->H + h] -= sink == (SUM)-INFINITY ? 0 : EXP(sink - r.m) / r.l * total;
    }
}

static void one_key_head(const cla_ref_attention *a, int64_t n, const gradient_sums *g) {
    const int64_t b = n / a->Hk, hk = n % a->Hk, group = a->H / a->Hk;
    const cla_ref_batch batch = batch_at(a, b);
    const int64_t keys = a->ragged ? batch.keys : a->M;
    for (int64_t x = 0; x < keys * a->D; x++)
        g->dk[x] = 0;
    for (int64_t x = 0; x < keys * a->Dv; x++)
        g->dv[x] = 0;
    for (int64_t h = hk * group; h < (hk + 1) * group; h++)
        for (int64_t i = 0; i < (a->ragged ? batch.queries : a->N); i++)
            one_gradient_row(a, &batch, b, h, i, g);
    for (int64_t j = 0; j < keys; j++) {
        for (int64_t d = 0; d < a->D && a->d_k.rank; d++)
            store(&a->d_k, b, hk, batch.k_row + j, d, g->dk[j * a->D + d]);
        for (int64_t d = 0; d < a->Dv && a->d_v.rank; d++)
            store(&a->d_v, b, hk, batch.k_row + j, d, g->dv[j * a->Dv + d]);
    }
}

static void store_shared(const cla_ref_attention *a, const gradient_sums *g) {
    const int64_t *shape = a->d_bias.shape;
    for (int64_t x = 0; g->bias && x < shape[0] * shape[1] * shape[2] * shape[3]; x++) {
        const int64_t row = x / shape[3], head = row / shape[2];
        store(&a->d_bias, head / shape[1], head % shape[1], row % shape[2], x % shape[3], g->bias[x]);
    }
    for (int64_t h = 0; g->sinks && h < a->H; h++) {
        SUM sum = 0;
        for (int64_t b = 0; b < a->B; b++)
            sum += g->sinks[b * a->H + h];
        store(&a->d_sinks, 0, 0, 0, h, sum);
    }
}

static void free_sums(gradient_sums *g) {
    cla_free(g->s);
    cla_free(g->dp);
    cla_free(g->dq);
    cla_free(g->dk);
    cla_free(g->dv);
}

static clattn_status alloc_sums(const cla_ref_attention *a, gradient_sums *g) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(cla_alloc((size_t)a->M, sizeof(SUM), "scores", &g->s));
    CLA_TRY(cla_alloc((size_t)a->M, sizeof(SUM), "gradients of weights", &g->dp));
    CLA_TRY(cla_alloc((size_t)a->D, sizeof(SUM), "a row of dQ", &g->dq));
    CLA_TRY(cla_alloc((size_t)(a->M * a->D), sizeof(SUM), "sums of dK", &g->dk));
    CLA_TRY(cla_alloc((size_t)(a->M * a->Dv), sizeof(SUM), "sums of dV", &g->dv));
done:
    return status;
}

clattn_status CLA_REF_GRADIENTS(const cla_ref_attention *a) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor *bias = &a->d_bias;
    gradient_sums shared = {0};
    bool failed = false;
    if (bias->rank)
        CLA_TRY(cla_alloc((size_t)(bias->shape[0] * bias->shape[1] * bias->shape[2] * bias->shape[3]), sizeof(SUM),
                          "sums of d_bias", &shared.bias));
    if (a->d_sinks.rank)
        CLA_TRY(cla_alloc((size_t)(a->B * a->H), sizeof(SUM), "sums of d_sinks", &shared.sinks));
#pragma omp parallel if (!bias->rank) /* d_bias may be one for all heads */
    {
        gradient_sums mine = shared;
        const bool ready = alloc_sums(a, &mine) == CLATTN_OK;
        if (!ready) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t n = 0; n < a->B * a->Hk; n++)
            if (ready)
                one_key_head(a, n, &mine);
        free_sums(&mine);
    }
    CLA_CHECK(!failed, CLATTN_E_MEMORY, "reference: out of memory for %lld rows of gradients", (long long)a->M);
    store_shared(a, &shared);
done:
    cla_free(shared.bias);
    cla_free(shared.sinks);
    return status;
}
