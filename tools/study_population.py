#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The populations of `clattn study gradient`, for host/cli/study_gradient.c: value and error of a figure of 4000 trials.

    tools/study_population.py [trials]     1 000 000 unless said; needs numpy

A trial is a query q and 16 keys of N(0, 1)^d_k, and a value of N(0, 1) for each key. No key is drawn: with u = q / |q|
the scores are |q| times numbers of N(0, 1), and what of a key is across u does not depend on them. So
|dS K|^2 = (dS (K u))^2 + |dS|^2 chi^2 of d_k - 1 degrees, in which |q|^2 is chi^2 of d_k."""
import sys

import numpy

KEYS, FIGURE_OF = 16, 4000


def trials(rng, d_k, count):
    """For each scale of two: |J|, |dS|, |dQ| of each trial."""
    length = numpy.sqrt(rng.chisquare(d_k, (count, 1)))
    along, values = rng.standard_normal((count, KEYS)), rng.standard_normal((count, KEYS))
    across = rng.chisquare(d_k - 1, count)
    for scale in (1, d_k**-0.5):
        p = scale * length * along
        p = numpy.exp(p - p.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p2, p3 = (p**2).sum(1), (p**3).sum(1)
        d_s = p * (values - (p * values).sum(1, keepdims=True))
        d_s2 = (d_s**2).sum(1)
        d_q = scale * numpy.sqrt((d_s * along).sum(1) ** 2 + d_s2 * across)
        yield numpy.sqrt(numpy.maximum(0, p2 - 2 * p3 + p2**2)), numpy.sqrt(d_s2), d_q


def statement(values):
    """The mean over figures of 4000, and how far one of them is off."""
    return f"{{{values.mean():.4g}, {values.std(ddof=1):.2g}, NULL}}"


def main():
    rng = numpy.random.default_rng(1)
    figures = max(2, int(sys.argv[1] if len(sys.argv) > 1 else 1_000_000) // FIGURE_OF)
    for d_k in (4, 16, 64, 256, 1024):
        of = numpy.array([[[numpy.sqrt((s**2).sum() / (j**2).sum()), q.mean(), numpy.median(q), j.mean()]
                           for j, s, q in trials(rng, d_k, FIGURE_OF)] for _ in range(figures)])  # fmt: skip
        cells = [", ".join(statement(of[:, scaled, i]) for scaled in (0, 1)) for i in range(4)]
        print(f"    {{{{{cells[0]}}}, {{{cells[1]}}}, {{{cells[2]}}}}}, // d_k {d_k}; |J| {cells[3]}")


main()
