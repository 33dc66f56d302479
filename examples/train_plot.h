/* SPDX-License-Identifier: Apache-2.0 */
/* The curves of a training run as SVG: the loss on a logarithmic axis, and the share of unseen sequences that are
 * exactly right. Errors are printed. */
#ifndef TRAIN_PLOT_H
#define TRAIN_PLOT_H

#include "train_file.h"

bool train_plot(const char *path, const settings *s, const history *h);

#endif
