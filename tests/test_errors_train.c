/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls of gradients, the loss and optimizers: each is a right call with one thing changed, and is refused with a
 * status and words that say what. */
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>

static clattn_context *context;

static void begin(void) {
    fill_slots();
    context = op_open("cpu");
}
static void end(void) {
    expect_unwritten();
    clattn_context_destroy(context);
}
TestSuite(errors_train, .init = begin, .fini = end);

Test(errors_train, linear_backward) {
#define LINEAR(code, part, ...)                                                                                        \
    REFUSED(clattn_linear_backward_args, clattn_linear_backward(context, &a), code, part,                              \
            ARGS(.x = mat(0, 3, 4), .w = mat(1, 5, 4), .z = mat(2, 3, 5), .d_y = mat(3, 3, 5), .d_x = mat(4, 3, 4),    \
                 .d_w = mat(5, 5, 4), .d_bias = vec(6, 5), .activation = CLATTN_ACTIVATION_GELU),                      \
            __VA_ARGS__)
    LINEAR(CLATTN_E_ARGUMENT, "5 is no activation", a.activation = (clattn_activation)5);
    LINEAR(CLATTN_E_ARGUMENT, "x: is missing", a.x.rank = 0);
    LINEAR(CLATTN_E_ARGUMENT, "d_y: is missing", a.d_y.rank = 0);
    LINEAR(CLATTN_E_DTYPE, "w: is q8_0", a.w = as_type(mat(1, 5, 32), CLATTN_Q8_0));
    LINEAR(CLATTN_E_DTYPE, "d_w: is i32", a.d_w = ids(4));
    LINEAR(CLATTN_E_SHAPE, "d_x: its strides make elements share", a.d_x.stride[0] = 0);
    LINEAR(CLATTN_E_SHAPE, "d_y [2, 2, 2, 3, 5]: rank 5", a.d_y = repeated(5, 2, 3, 5));
    LINEAR(CLATTN_E_SHAPE, "more than", a.d_y = repeated(3, 65536, 65536, 1));
    LINEAR(CLATTN_E_SHAPE, "x [4]: should be d_y [3, 5] with a last axis of 4", a.x = vec(0, 4));
    LINEAR(CLATTN_E_SHAPE, "x [3, 3]: should be d_y", a.x = mat(0, 3, 3));
    LINEAR(CLATTN_E_SHAPE, "x [2, 4]: should be d_y", a.x = mat(0, 2, 4));
    LINEAR(CLATTN_E_SHAPE, "z [3, 4]: should be d_y [3, 5] with a last axis of 5", a.z = mat(2, 3, 4));
    LINEAR(CLATTN_E_SHAPE, "d_x [2, 4]: should be d_y", a.d_x = mat(4, 2, 4));
    LINEAR(CLATTN_E_SHAPE, "d_bias [4]: should be [5]", a.d_bias = vec(6, 4));
    LINEAR(CLATTN_E_SHAPE, "d_bias [5, 1]: should be [5]", a.d_bias = mat(6, 5, 1));
    LINEAR(CLATTN_E_SHAPE, "w [20]: should be [5, 4]", a.w = vec(1, 20));
    LINEAR(CLATTN_E_SHAPE, "w [4, 4]: should be [5, 4]", a.w = mat(1, 4, 4));
    LINEAR(CLATTN_E_SHAPE, "d_w [5, 3]: should be [5, 4]", a.d_w = mat(5, 5, 3));
    LINEAR(CLATTN_E_ARGUMENT, "d_x: shares memory with x", a.d_x = mat(0, 3, 4));
    LINEAR(CLATTN_E_ARGUMENT, "d_w: shares memory with d_x", a.d_w = mat(4, 5, 4));
    LINEAR(CLATTN_E_ARGUMENT, "d_bias: shares memory with z", a.d_bias = vec(2, 5));
    LINEAR(CLATTN_E_ARGUMENT, "algorithm", a.algorithm = "none such");
}

Test(errors_train, norm_backward) {
#define NORM(code, part, ...)                                                                                          \
    REFUSED(clattn_norm_backward_args, clattn_norm_backward(context, &a), code, part,                                  \
            ARGS(.x = mat(0, 3, 4), .residual = mat(1, 3, 4), .weight = vec(2, 4), .d_y = mat(3, 3, 4),                \
                 .d_sum = mat(4, 3, 4), .d_x = mat(5, 3, 4), .d_weight = vec(6, 4), .d_bias = vec(7, 4)),              \
            __VA_ARGS__)
    NORM(CLATTN_E_ARGUMENT, "x: is missing", a.x.rank = 0);
    NORM(CLATTN_E_ARGUMENT, "d_y: is missing", a.d_y.rank = 0);
    NORM(CLATTN_E_DTYPE, "weight: is i32", a.weight = ids(4));
    NORM(CLATTN_E_ARGUMENT, "2 is no kind of norm", a.kind = (clattn_norm_kind)2);
    NORM(CLATTN_E_ARGUMENT, "epsilon -1", a.epsilon = -1);
    NORM(CLATTN_E_ARGUMENT, "epsilon inf", a.epsilon = (double)INFINITY);
    NORM(CLATTN_E_SHAPE, "-1 axes of x", a.axes = -1);
    NORM(CLATTN_E_SHAPE, "3 axes of x", a.axes = 3);
    NORM(CLATTN_E_SHAPE, "residual [4, 3]: differs from x", a.residual = mat(1, 4, 3));
    NORM(CLATTN_E_SHAPE, "d_y [3, 3]: differs from x", a.d_y = mat(3, 3, 3));
    NORM(CLATTN_E_SHAPE, "d_sum [3]: differs from x", a.d_sum = vec(4, 3));
    NORM(CLATTN_E_SHAPE, "d_x [4, 3]: differs from x", a.d_x = mat(5, 4, 3));
    NORM(CLATTN_E_SHAPE, "d_weight [3, 4]: differs from weight [4]", a.d_weight = mat(6, 3, 4));
    NORM(CLATTN_E_ARGUMENT, "d_x: shares memory with x", a.d_x = mat(0, 3, 4));
    NORM(CLATTN_E_ARGUMENT, "d_bias: shares memory with d_weight", a.d_bias = vec(6, 4));
    NORM(CLATTN_E_SHAPE, "weight [3]: does not broadcast", a.weight = a.d_weight = vec(2, 3),
         a.d_weight.host = slots[6]);
    NORM(CLATTN_E_SHAPE, "d_bias [3]: does not broadcast", a.d_bias = vec(7, 3));
    NORM(CLATTN_E_LIMIT, "scratch of 2305843009213693952 numbers",
         a.x = a.d_y = as_type(repeated(3, 1 << 30, 1 << 30, 2), CLATTN_F16), a.d_weight = vec(6, 2),
         a.d_x.rank = a.d_sum.rank = 0, a.residual.rank = a.weight.rank = a.d_bias.rank = 0);
    NORM(CLATTN_E_LIMIT, "rows of 4294967296 elements", a.x = a.d_y = repeated(2, 65536, 65536, 1), a.axes = 2,
         a.d_x = vast(2, 65536, 65536, 1), a.residual.rank = a.weight.rank = a.d_sum.rank = 0,
         a.d_weight.rank = a.d_bias.rank = 0);
}

Test(errors_train, activations_and_softmax_backward) {
#define ACTIVATE(code, part, ...)                                                                                      \
    REFUSED(                                                                                                           \
        clattn_activate_backward_args, clattn_activate_backward(context, &a), code, part,                              \
        ARGS(.x = mat(0, 3, 4), .up = mat(1, 3, 4), .d_y = mat(2, 3, 4), .d_x = mat(3, 3, 4), .d_up = mat(4, 3, 4)),   \
        __VA_ARGS__)
    ACTIVATE(CLATTN_E_ARGUMENT, "5 is no activation", a.activation = (clattn_activation)5);
    ACTIVATE(CLATTN_E_ARGUMENT, "d_up: is the gradient by up, which is missing", a.up.rank = 0);
    ACTIVATE(CLATTN_E_ARGUMENT, "x: is missing", a.x.rank = 0);
    ACTIVATE(CLATTN_E_ARGUMENT, "d_y: is missing", a.d_y.rank = 0);
    ACTIVATE(CLATTN_E_DTYPE, "d_x: is i32", a.d_x = ids(4));
    ACTIVATE(CLATTN_E_SHAPE, "up [4, 3]: differs from x", a.up = mat(1, 4, 3));
    ACTIVATE(CLATTN_E_SHAPE, "d_x [4]: differs from x", a.d_x = vec(3, 4));
    ACTIVATE(CLATTN_E_ARGUMENT, "d_x: shares memory with up", a.d_x = a.up, a.d_x.offset = 1);
    ACTIVATE(CLATTN_E_ARGUMENT, "d_up: shares memory with d_x; give it memory of its own", a.d_up = a.d_x);
#define SOFTMAX(code, part, ...)                                                                                       \
    REFUSED(clattn_softmax_backward_args, clattn_softmax_backward(context, &a), code, part,                            \
            ARGS(.y = mat(0, 3, 4), .d_y = mat(1, 3, 4), .d_x = mat(2, 3, 4)), __VA_ARGS__)
    SOFTMAX(CLATTN_E_DTYPE, "y: is i32", a.y = ids(4));
    SOFTMAX(CLATTN_E_ARGUMENT, "d_y: is missing", a.d_y.rank = 0);
    SOFTMAX(CLATTN_E_ARGUMENT, "d_x: is missing", a.d_x.rank = 0);
    SOFTMAX(CLATTN_E_SHAPE, "d_y [4, 3]: differs from y", a.d_y = mat(1, 4, 3));
    SOFTMAX(CLATTN_E_SHAPE, "d_x [3, 3]: differs from y", a.d_x = mat(2, 3, 3));
    SOFTMAX(CLATTN_E_ARGUMENT, "d_x: shares memory with y", a.d_x = a.y, a.d_x.offset = 1);
    SOFTMAX(CLATTN_E_ARGUMENT, "d_x: shares memory with d_y", a.d_x = a.d_y, a.d_x.offset = 1);
    SOFTMAX(CLATTN_E_SHAPE, "axis -3 of y [3, 4]; it is from -2 to 1", a.has_axis = true, a.axis = -3);
    SOFTMAX(CLATTN_E_SHAPE, "axis 2 of y", a.has_axis = true, a.axis = 2);
}

Test(errors_train, embed_backward) {
#define EMBED(code, part, ...)                                                                                         \
    REFUSED(clattn_embed_backward_args, clattn_embed_backward(context, &a), code, part,                                \
            ARGS(.ids = ids(3), .d_y = mat(0, 3, 4), .d_table = mat(1, 5, 4)), __VA_ARGS__)
    EMBED(CLATTN_E_ARGUMENT, "scale inf is not finite", a.has_scale = true, a.scale = (double)INFINITY);
    EMBED(CLATTN_E_ARGUMENT, "d_table: is missing", a.d_table.rank = 0);
    EMBED(CLATTN_E_SHAPE, "d_table [4]: should be [V, E]", a.d_table = vec(1, 4));
    EMBED(CLATTN_E_DTYPE, "ids: is f32", a.ids = vec(2, 3));
    EMBED(CLATTN_E_DTYPE, "d_y: is i32", a.d_y = ids(4));
    EMBED(CLATTN_E_SHAPE, "d_y [3, 3]: should be ids [3] and then 4", a.d_y = mat(0, 3, 3));
    EMBED(CLATTN_E_ARGUMENT, "d_table: shares memory with d_y", a.d_table = mat(0, 5, 4));
    EMBED(CLATTN_E_ARGUMENT, "d_table: shares memory with ids", a.d_table.host = a.ids.host);
    EMBED(CLATTN_E_LIMIT, "4294967296 ids", a.ids = as_type(repeated(2, 65536, 65536, 1), CLATTN_I32),
          a.d_y = repeated(3, 65536, 65536, 4));
    EMBED(CLATTN_E_ARGUMENT, "ids: number 1 is -1, and the table has 5 rows", a.ids.host = (void *)(uintptr_t)bad_ids);
    EMBED(CLATTN_E_ARGUMENT, "ids: number 1 is -1", a.ids.host = (void *)(uintptr_t)bad_ids, a.has_padding = true,
          a.padding = -2);
    EMBED(CLATTN_E_ARGUMENT, "ids: number 2 is 2, and the table has 2 rows", a.d_table = mat(1, 2, 4));
}

Test(errors_train, cross_entropy) {
#define LOSS(code, part, ...)                                                                                          \
    REFUSED(clattn_cross_entropy_args, clattn_cross_entropy(context, &a), code, part,                                  \
            ARGS(.logits = mat(0, 3, 4), .targets = ids(3), .loss = vec(1, 1), .row_losses = vec(2, 3),                \
                 .d_logits = mat(3, 3, 4)),                                                                            \
            __VA_ARGS__)
    LOSS(CLATTN_E_ARGUMENT, "2 is no reduction", a.reduction = (clattn_loss_reduction)2);
    LOSS(CLATTN_E_ARGUMENT, "scale nan is not finite", a.has_scale = true, a.scale = (double)NAN);
    LOSS(CLATTN_E_ARGUMENT, "smoothing -0.1", a.smoothing = -0.1);
    LOSS(CLATTN_E_ARGUMENT, "smoothing 1.5", a.smoothing = 1.5);
    LOSS(CLATTN_E_ARGUMENT, "logits: is missing", a.logits.rank = 0);
    LOSS(CLATTN_E_DTYPE, "targets: is f32", a.targets = vec(4, 3));
    LOSS(CLATTN_E_DTYPE, "row_losses: is i32", a.row_losses = ids(3));
    LOSS(CLATTN_E_SHAPE, "loss [2]: should be [1]", a.loss = vec(1, 2));
    LOSS(CLATTN_E_ARGUMENT, "loss: shares memory with logits", a.loss = vec(0, 1));
    LOSS(CLATTN_E_ARGUMENT, "row_losses: shares memory with loss", a.row_losses = vec(1, 3));
    LOSS(CLATTN_E_ARGUMENT, "d_logits: shares memory with logits; it may be the same", a.d_logits.host = slots[0],
         a.d_logits.offset = 1);
    LOSS(CLATTN_E_ARGUMENT, "d_logits: shares memory with row_losses; give it memory of its own",
         a.d_logits = mat(2, 3, 4));
    LOSS(CLATTN_E_SHAPE, "logits [3, 4]: should be targets [2] and then 4", a.targets = ids(2));
    LOSS(CLATTN_E_SHAPE, "logits [3, 4]: should be row_losses [2] and then 4", a.row_losses = vec(2, 2));
    LOSS(CLATTN_E_SHAPE, "d_logits [4, 3]: differs from logits", a.d_logits = mat(3, 4, 3));
    LOSS(CLATTN_E_ARGUMENT, "targets: number 2 is 2, and logits have 2 classes", a.logits = mat(0, 3, 2),
         a.d_logits = mat(3, 3, 2));
    LOSS(CLATTN_E_LIMIT, "4294967296 rows", a.logits = repeated(3, 65536, 65536, 4),
         a.targets = as_type(repeated(2, 65536, 65536, 1), CLATTN_I32), a.row_losses.rank = a.d_logits.rank = 0);
    LOSS(CLATTN_E_ARGUMENT, "loss, row_losses and d_logits are missing; ask for one at least",
         a.loss.rank = a.row_losses.rank = a.d_logits.rank = 0);
    LOSS(CLATTN_E_ARGUMENT, "targets: number 1 is -1", a.targets.host = (void *)(uintptr_t)bad_ids, a.has_ignore = true,
         a.ignore = -100);
}

Test(errors_train, gradient_norm) {
    clattn_tensor two[] = {mat(0, 3, 4), vec(1, 5)};
#define GRADIENTS(code, part, ...)                                                                                     \
    REFUSED(clattn_gradient_norm_args, clattn_gradient_norm(context, &a), code, part,                                  \
            ARGS(.gradients = two, .count = 2, .max_norm = 1, .norm = vec(2, 1), .factor = vec(3, 1)), __VA_ARGS__)
    GRADIENTS(CLATTN_E_ARGUMENT, "gradients is NULL", a.gradients = NULL);
    GRADIENTS(CLATTN_E_ARGUMENT, "max_norm -1", a.max_norm = -1);
    GRADIENTS(CLATTN_E_ARGUMENT, "max_norm inf", a.max_norm = (double)INFINITY);
    GRADIENTS(CLATTN_E_DTYPE, "norm: is i32", a.norm = ids(1));
    GRADIENTS(CLATTN_E_SHAPE, "norm [2]: should be [1]", a.norm = vec(2, 2));
    GRADIENTS(CLATTN_E_ARGUMENT, "norm: shares memory with gradient 1", a.norm = vec(1, 1));
    GRADIENTS(CLATTN_E_SHAPE, "factor [3]: should be [1]", a.factor = vec(3, 3));
    GRADIENTS(CLATTN_E_ARGUMENT, "factor: shares memory with norm", a.factor = a.norm);
    two[1] = ids(3);
    GRADIENTS(CLATTN_E_DTYPE, "gradient 1: is i32", (void)a);
    /* Each is counted in pieces, all of them together in int: 2^40 elements are 2^20 pieces of 2^20. */
    enum { MANY = 2048 };
    static clattn_tensor many[MANY];
    for (int i = 0; i < MANY; i++)
        many[i] = repeated(2, 1 << 20, 1 << 20, 1);
    GRADIENTS(CLATTN_E_LIMIT, "too many elements", a.gradients = many, a.count = MANY, a.norm.rank = a.factor.rank = 0);
}

Test(errors_train, steps_of_adam_and_descent) {
#define ADAM(code, part, ...)                                                                                          \
    REFUSED(clattn_adam_args, clattn_adam_step(context, &a), code, part,                                               \
            ARGS(.parameter = mat(0, 3, 4), .gradient = mat(1, 3, 4), .moment1 = mat(2, 3, 4),                         \
                 .moment2 = mat(3, 3, 4), .gradient_factor = vec(4, 1), .step = 1, .has_betas = true, .beta1 = 0.9,    \
                 .beta2 = 0.99),                                                                                       \
            __VA_ARGS__)
    ADAM(CLATTN_E_ARGUMENT, "step 0; steps count from 1", a.step = 0);
    ADAM(CLATTN_E_ARGUMENT, "rate -1; it is finite and not negative", a.rate = -1);
    ADAM(CLATTN_E_ARGUMENT, "rate inf", a.rate = (double)INFINITY);
    ADAM(CLATTN_E_ARGUMENT, "beta1 1; it is from 0 on, and below 1", a.beta1 = 1);
    ADAM(CLATTN_E_ARGUMENT, "beta2 -0.5", a.beta2 = -0.5);
    ADAM(CLATTN_E_ARGUMENT, "epsilon -1", a.epsilon = -1);
    ADAM(CLATTN_E_ARGUMENT, "decay -1", a.decay = -1);
    ADAM(CLATTN_E_ARGUMENT, "parameter: is missing", a.parameter.rank = 0);
    ADAM(CLATTN_E_DTYPE, "gradient: is i32", a.gradient = ids(4));
    ADAM(CLATTN_E_SHAPE, "moment1 [4]: differs from parameter", a.moment1 = vec(2, 4));
    ADAM(CLATTN_E_ARGUMENT, "moment2: shares memory with gradient", a.moment2 = mat(1, 3, 4));
    ADAM(CLATTN_E_ARGUMENT, "gradient_factor: shares memory with parameter", a.gradient_factor = vec(0, 1));
    ADAM(CLATTN_E_SHAPE, "gradient_factor [2]: should be [1]", a.gradient_factor = vec(4, 2));
#define DESCENT(code, part, ...)                                                                                       \
    REFUSED(clattn_sgd_args, clattn_sgd_step(context, &a), code, part,                                                 \
            ARGS(.parameter = mat(0, 3, 4), .gradient = mat(1, 3, 4), .velocity = mat(2, 3, 4),                        \
                 .gradient_factor = vec(4, 1), .step = 1, .momentum = 0.9),                                            \
            __VA_ARGS__)
    DESCENT(CLATTN_E_ARGUMENT, "step -1", a.step = -1);
    DESCENT(CLATTN_E_ARGUMENT, "rate nan", a.rate = (double)NAN);
    DESCENT(CLATTN_E_ARGUMENT, "momentum 1", a.momentum = 1);
    DESCENT(CLATTN_E_ARGUMENT, "decay inf", a.decay = (double)INFINITY);
    DESCENT(CLATTN_E_ARGUMENT, "dampening nan is not finite", a.dampening = (double)NAN);
    DESCENT(CLATTN_E_ARGUMENT, "nesterov needs a momentum", a.nesterov = true, a.momentum = 0);
    DESCENT(CLATTN_E_ARGUMENT, "nesterov needs a momentum, and no dampening", a.nesterov = true, a.dampening = 0.5);
    DESCENT(CLATTN_E_SHAPE, "velocity [3]: differs from parameter", a.velocity = vec(2, 3));
    DESCENT(CLATTN_E_ARGUMENT, "velocity: shares memory with gradient", a.velocity = mat(1, 3, 4));
}
