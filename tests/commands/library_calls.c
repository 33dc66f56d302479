/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* struct timespec */
#include "library_calls.h"

#include "args.h"
#include "base/error.h"
#include "devices_build.h"
#include "study_model.h"
#include "tensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void calls_end(void);

library_calls_state library = {.fails_at = -1, .interrupted_at = -1};
long library_numbers[LIBRARY_NUMBERS];
int library_number_count;

static struct place {
    const void *address;
    int times;
} places[LIBRARY_NUMBERS];

static const char *const variants[] = {"standard", "quick", "slow", "wrong", "other", "broken", "quicker"};
enum { VARIANTS = sizeof variants / sizeof *variants, PLANS = 64 };
static struct {
    const clattn_plan *plan;
    const char *variant;
    bool slow;
} plans[PLANS];
static int plan_count;
static const char *running; /* the variant that ran last */
static char products[64];   /* CLBlast's parameters */
static double now;          /* the time where `cpu` pretends */

void library_begin(void) {
    memset(places, 0, sizeof places);
    library.calls = library.questions = 0;
    library.fails_at = library.interrupted_at = -1;
    library.lists = false;
    library.failed = NULL;
    plan_count = 0;
    products[0] = '\0';
    running = "standard";
}

/* How often this was called from there before; from outside of the command line: -1. */
static int seen(const void *from) {
    if ((uintptr_t)from >= (uintptr_t)&calls_end)
        return -1;
    struct place *p = places;
    for (; p->address && p->address != from; p++)
        if (p == places + LIBRARY_NUMBERS - 1)
            return -1;
    p->address = from;
    return p->times++;
}

static void list(long number, int times) {
    if (library.lists && times < library.times && library_number_count < LIBRARY_NUMBERS)
        library_numbers[library_number_count++] = number;
}

static bool call_fails(const char *name, const void *from) {
    const int times = seen(from);
    if (times < 0)
        return false;
    list(library.calls, times);
    if (library.calls++ != library.fails_at)
        return false;
    library.failed = name;
    return true;
}
#define THIS_FAILS(name) call_fails(#name, __builtin_return_address(0))
#define FROM_COMMAND ((uintptr_t)__builtin_return_address(0) < (uintptr_t)&calls_end)

static clattn_status status_of_failure(void) { return cla_error(CLATTN_E_MEMORY, MADE_TO_FAIL); }
static bool tell(void) {
    cla_fail(CLA_EXIT_FAILED, MADE_TO_FAIL);
    return false;
}

/* ---- functions of the library that fail, and those that need not compute ---- */

#define WRAP(type, name, parameters)                                                                                   \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters
#define FAILS(name, parameters, arguments)                                                                             \
    WRAP(clattn_status, name, parameters) { return THIS_FAILS(name) ? status_of_failure() : __real_##name arguments; }
#define SKIPS(name, parameters, arguments)                                                                             \
    WRAP(clattn_status, name, parameters) {                                                                            \
        if (THIS_FAILS(name))                                                                                          \
            return status_of_failure();                                                                                \
        return library.skips && FROM_COMMAND ? CLATTN_OK : __real_##name arguments;                                    \
    }

SKIPS(clattn_attention, (clattn_context * context, const clattn_attention_args *args), (context, args))
FAILS(clattn_plan_info_get, (const clattn_plan *plan, clattn_plan_info *info), (plan, info))
FAILS(clattn_algorithm_applies,
      (clattn_context * context, const clattn_attention_args *args, size_t index, bool *applies, const char **reason),
      (context, args, index, applies, reason))
SKIPS(clattn_attention_backward, (clattn_context * context, const clattn_attention_backward_args *args),
      (context, args))
FAILS(clattn_backward_plan_create,
      (clattn_context * context, const clattn_attention_backward_args *args, clattn_plan **plan), (context, args, plan))
FAILS(clattn_backward_plan_execute, (clattn_plan * plan, const clattn_attention_backward_args *tensors),
      (plan, tensors))
FAILS(clattn_backward_algorithm_applies,
      (clattn_context * context, const clattn_attention_backward_args *args, size_t index, bool *applies,
       const char **reason),
      (context, args, index, applies, reason))
SKIPS(clattn_rotary, (clattn_context * context, const clattn_rotary_args *args), (context, args))
FAILS(clattn_cache_append, (clattn_context * context, const clattn_cache_append_args *args), (context, args))
FAILS(clattn_context_sync, (clattn_context * context), (context))
FAILS(clattn_context_save_programs, (clattn_context * context), (context))
FAILS(clattn_buffer_create, (clattn_context * context, size_t bytes, clattn_buffer **buffer), (context, bytes, buffer))
FAILS(clattn_buffer_upload, (clattn_buffer * buffer, size_t offset_bytes, const void *data, size_t bytes),
      (buffer, offset_bytes, data, bytes))
FAILS(clattn_array_create, (clattn_dtype dtype, int rank, const int64_t *shape, clattn_array *array),
      (dtype, rank, shape, array))
FAILS(clattn_array_convert, (const clattn_array *array, clattn_dtype dtype, clattn_array *out), (array, dtype, out))
FAILS(clattn_npy_read, (const char *path, clattn_array *array), (path, array))
FAILS(clattn_npy_write, (const char *path, const clattn_array *array), (path, array))
FAILS(clattn_safetensors_open, (const char *path, clattn_safetensors **file), (path, file))
FAILS(clattn_safetensors_read, (clattn_safetensors * file, const char *name, clattn_array *array), (file, name, array))
FAILS(clattn_safetensors_write,
      (const char *path, const clattn_named_array *arrays, size_t count, const clattn_metadata_pair *metadata,
       size_t metadata_count),
      (path, arrays, count, metadata, metadata_count))
FAILS(clattn_array_load, (const char *spec, clattn_array *array), (spec, array))
SKIPS(clattn_multihead_create,
      (clattn_context * context, const clattn_multihead_weights *weights, const clattn_multihead_options *options,
       clattn_multihead **multihead),
      (context, weights, options, multihead))
FAILS(clattn_multihead_load,
      (clattn_context * context, const clattn_parameters *parameters, const char *prefix,
       const clattn_multihead_options *options, clattn_multihead **multihead),
      (context, parameters, prefix, options, multihead))
SKIPS(clattn_multihead_run, (clattn_multihead * multihead, const clattn_multihead_args *args), (multihead, args))
SKIPS(clattn_feedforward_create,
      (clattn_context * context, const clattn_feedforward_weights *weights, const clattn_feedforward_options *options,
       clattn_feedforward **feedforward),
      (context, weights, options, feedforward))
SKIPS(clattn_feedforward_run, (clattn_feedforward * feedforward, const clattn_tensor *x, const clattn_tensor *y),
      (feedforward, x, y))
SKIPS(clattn_encoder_create,
      (clattn_context * context, const clattn_encoder_weights *weights, const clattn_layer_options *options,
       clattn_encoder **encoder),
      (context, weights, options, encoder))
SKIPS(clattn_encoder_load,
      (clattn_context * context, const clattn_parameters *parameters, const char *prefix,
       const clattn_layer_options *options, clattn_encoder **encoder),
      (context, parameters, prefix, options, encoder))
SKIPS(clattn_encoder_run, (clattn_encoder * encoder, const clattn_encoder_args *args), (encoder, args))
SKIPS(clattn_decoder_load,
      (clattn_context * context, const clattn_parameters *parameters, const char *prefix,
       const clattn_layer_options *options, clattn_decoder **decoder),
      (context, parameters, prefix, options, decoder))
SKIPS(clattn_decoder_cache_create,
      (clattn_decoder * decoder, const clattn_decoder_cache_options *options, clattn_decoder_cache **cache),
      (decoder, options, cache))
SKIPS(clattn_decoder_run, (clattn_decoder * decoder, const clattn_decoder_args *args), (decoder, args))
SKIPS(clattn_linear, (clattn_context * context, const clattn_linear_args *args), (context, args))
SKIPS(clattn_norm, (clattn_context * context, const clattn_norm_args *args), (context, args))
SKIPS(clattn_embed, (clattn_context * context, const clattn_embed_args *args), (context, args))
SKIPS(clattn_add, (clattn_context * context, const clattn_add_args *args), (context, args))
SKIPS(clattn_pool, (clattn_context * context, const clattn_pool_args *args), (context, args))
SKIPS(clattn_positions, (clattn_context * context, const clattn_positions_args *args), (context, args))
SKIPS(clattn_random, (clattn_context * context, const clattn_random_args *args), (context, args))
SKIPS(clattn_softmax, (clattn_context * context, const clattn_softmax_args *args), (context, args))
FAILS(clattn_parameters_create, (clattn_context * context, clattn_parameters **parameters), (context, parameters))
FAILS(clattn_parameters_add,
      (clattn_parameters * parameters, const char *name, const clattn_array *array,
       const clattn_parameters_options *options),
      (parameters, name, array, options))
FAILS(clattn_convert, (void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype, size_t n),
      (to, to_dtype, from, from_dtype, n))
SKIPS(clattn_norm_backward, (clattn_context * context, const clattn_norm_backward_args *args), (context, args))
SKIPS(clattn_feedforward_backward, (clattn_feedforward * feedforward, const clattn_feedforward_backward_args *args),
      (feedforward, args))
SKIPS(clattn_multihead_backward, (clattn_multihead * multihead, const clattn_multihead_backward_args *args),
      (multihead, args))
SKIPS(clattn_encoder_backward, (clattn_encoder * encoder, const clattn_encoder_backward_args *args), (encoder, args))

/* ---- of the command line itself: the 44 million weights of the model of `stack` ---- */

WRAP(bool, cla_weights_drawn,
     (cla_study * study, const char *prefix, bool decoder, int64_t E, int64_t F, cla_weights *weights)) {
    if (THIS_FAILS(cla_weights_drawn))
        return tell();
    return library.skips || __real_cla_weights_drawn(study, prefix, decoder, E, F, weights);
}
WRAP(bool, cla_model_encode_exactly, (const cla_study *study, const cla_model *model, clattn_array *x)) {
    if (THIS_FAILS(cla_model_encode_exactly))
        return tell();
    return library.skips || __real_cla_model_encode_exactly(study, model, x);
}
WRAP(bool, cla_model_decode_exactly,
     (const cla_study *study, const cla_model *model, clattn_array *x, const clattn_array *memory)) {
    if (THIS_FAILS(cla_model_decode_exactly))
        return tell();
    return library.skips || __real_cla_model_decode_exactly(study, model, x, memory);
}
WRAP(clattn_status, cla_parameters_upload,
     (clattn_context * context, const clattn_named_array *arrays, size_t count, clattn_parameters **parameters)) {
    if (THIS_FAILS(cla_parameters_upload))
        return status_of_failure();
    return library.skips ? CLATTN_OK : __real_cla_parameters_upload(context, arrays, count, parameters);
}
WRAP(bool, cla_study_draw, (cla_study * study, uint64_t stream, clattn_array *array)) {
    return THIS_FAILS(cla_study_draw) ? tell() : __real_cla_study_draw(study, stream, array);
}
WRAP(clattn_array *, cla_study_new, (cla_study * study, clattn_dtype dtype, int rank, const int64_t *shape)) {
    if (!THIS_FAILS(cla_study_new))
        return __real_cla_study_new(study, dtype, rank, shape);
    tell();
    return NULL;
}

/* ---- of the command line itself: what gives an exit status ---- */

#define TELLS(name, parameters, arguments)                                                                             \
    WRAP(int, name, parameters) {                                                                                      \
        if (THIS_FAILS(name)) {                                                                                        \
            tell();                                                                                                    \
            return CLA_EXIT_FAILED;                                                                                    \
        }                                                                                                              \
        return __real_##name arguments;                                                                                \
    }

TELLS(cla_input_load, (cla_input * input, const char *name, const char *spec), (input, name, spec))
TELLS(cla_input_view, (cla_input * input, cla_layout layout, int64_t heads), (input, layout, heads))
TELLS(cla_input_retype, (cla_input * input, clattn_dtype dtype), (input, dtype))
TELLS(cla_numbers_load, (const char *option, const char *text, int64_t batch, int64_t **numbers),
      (option, text, batch, numbers))
TELLS(cla_numbers_load_all, (const char *option, const char *text, int64_t **numbers, int64_t *count),
      (option, text, numbers, count))
TELLS(cla_reals_load, (const char *option, const char *text, int64_t heads, float **numbers),
      (option, text, heads, numbers))

/* ---- memory, JSON, signals ---- */

WRAP(void *, malloc, (size_t bytes)) {
    if (THIS_FAILS(malloc)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_malloc(bytes);
}
WRAP(void *, calloc, (size_t count, size_t size)) {
    if (THIS_FAILS(calloc)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, size);
}
WRAP(cJSON_bool, cJSON_AddItemToArray, (cJSON * array, cJSON *item)) {
    return THIS_FAILS(cJSON_AddItemToArray) ? 0 : __real_cJSON_AddItemToArray(array, item);
}
WRAP(cJSON *, cJSON_AddNumberToObject, (cJSON * object, const char *name, double number)) {
    return THIS_FAILS(cJSON_AddNumberToObject) ? NULL : __real_cJSON_AddNumberToObject(object, name, number);
}
WRAP(cJSON *, cJSON_CreateArray, (void)) { return THIS_FAILS(cJSON_CreateArray) ? NULL : __real_cJSON_CreateArray(); }
WRAP(char *, cJSON_Print, (const cJSON *item)) { return THIS_FAILS(cJSON_Print) ? NULL : __real_cJSON_Print(item); }
WRAP(bool, cla_interrupted, (void)) {
    const int times = seen(__builtin_return_address(0));
    if (library.lists)
        list(library.questions, times);
    const long number = library.questions++;
    return library.interrupted_at >= 0 && number >= library.interrupted_at;
}

/* ---- `cpu` as an OpenCL device with variants to tune ---- */

WRAP(clattn_status, clattn_context_info, (const clattn_context *context, clattn_device_info *info)) {
    if (THIS_FAILS(clattn_context_info))
        return status_of_failure();
    const clattn_status status = __real_clattn_context_info(context, info);
    if (library.pretends && FROM_COMMAND)
        info->is_opencl = true;
    return status;
}
WRAP(clattn_status, clattn_context_create,
     (const char *device, const clattn_context_options *options, clattn_context **context)) {
    if (THIS_FAILS(clattn_context_create))
        return status_of_failure();
    return __real_clattn_context_create(device, library.pretends ? NULL : options, context);
}
WRAP(clattn_status, clattn_context_profile,
     (clattn_context * context, clattn_profile_entry *entries, size_t capacity, size_t *count)) {
    if (THIS_FAILS(clattn_context_profile))
        return status_of_failure();
    if (!library.pretends)
        return __real_clattn_context_profile(context, entries, capacity, count);
    entries[0] = (clattn_profile_entry){.name = "kernel", .count = 10, .total_ms = 1, .operations = 1e6};
    entries[0].moved_bytes = 1e6;
    *count = capacity + 1; /* more than there is room for */
    for (size_t i = 1; i < capacity; i++)
        entries[i] = entries[0];
    return CLATTN_OK;
}

static char meter;
WRAP(clattn_status, clattn_meter_create, (clattn_context * context, clattn_meter **made)) {
    if (THIS_FAILS(clattn_meter_create))
        return status_of_failure();
    if (!library.pretends)
        return __real_clattn_meter_create(context, made);
    *made = (clattn_meter *)(void *)&meter;
    return CLATTN_OK;
}
WRAP(void, clattn_meter_destroy, (clattn_meter * made)) {
    if ((void *)made != &meter)
        __real_clattn_meter_destroy(made);
}
WRAP(clattn_status, clattn_meter_fma, (clattn_meter * made, double *gflops)) {
    if (THIS_FAILS(clattn_meter_fma))
        return status_of_failure();
    *gflops = 100;
    return library.pretends ? CLATTN_OK : __real_clattn_meter_fma(made, gflops);
}
WRAP(clattn_status, clattn_meter_read, (clattn_meter * made, uint64_t bytes, double *gbytes)) {
    if (THIS_FAILS(clattn_meter_read))
        return status_of_failure();
    *gbytes = 10;
    return library.pretends ? CLATTN_OK : __real_clattn_meter_read(made, bytes, gbytes);
}

WRAP(const char *, clattn_plan_variant, (const clattn_plan *plan, size_t index)) {
    if (!library.pretends)
        return __real_clattn_plan_variant(plan, index);
    return index < VARIANTS ? variants[index] : NULL;
}
WRAP(const char *, clattn_plan_variant_key, (const clattn_plan *plan)) {
    return library.pretends ? "variant" : __real_clattn_plan_variant_key(plan);
}
WRAP(const char *, clattn_plan_algorithm_key, (const clattn_plan *plan)) {
    return library.pretends ? "algorithm" : __real_clattn_plan_algorithm_key(plan);
}
WRAP(const char *, clattn_tuning_clblast, (size_t index)) {
    if (!library.pretends)
        return __real_clattn_tuning_clblast(index);
    return index + 1 < VARIANTS ? variants[index + 1] : NULL;
}

WRAP(clattn_status, clattn_plan_create,
     (clattn_context * context, const clattn_attention_args *args, clattn_plan **plan)) {
    if (THIS_FAILS(clattn_plan_create))
        return status_of_failure();
    if (!library.pretends || !FROM_COMMAND)
        return __real_clattn_plan_create(context, args, plan);
    clattn_attention_args plain = *args;
    plain.variant = NULL;
    if (args->algorithm && strcmp(args->algorithm, "materialised") == 0)
        plain.algorithm = "blas";
    if (args->variant && strcmp(args->variant, "broken") == 0)
        return cla_error(CLATTN_E_BUILD, "broken");
    const clattn_status status = __real_clattn_plan_create(context, &plain, plan);
    for (int i = 0; i < plan_count; i++)
        if (plans[i].plan == *plan) /* an older one in the same place */
            plans[i].plan = NULL;
    clattn_plan_info info;
    if (status != CLATTN_OK || plan_count == PLANS || __real_clattn_plan_info_get(*plan, &info) != CLATTN_OK)
        return status;
    plans[plan_count].plan = *plan;
    plans[plan_count].variant = NULL;
    plans[plan_count].slow = library.slow && strcmp(info.algorithm, library.slow) == 0;
    for (int i = 0; i < VARIANTS && args->variant; i++)
        if (strcmp(args->variant, variants[i]) == 0)
            plans[plan_count].variant = variants[i];
    plan_count++;
    return status;
}
WRAP(clattn_status, clattn_plan_execute, (clattn_plan * plan, const clattn_attention_args *tensors)) {
    if (THIS_FAILS(clattn_plan_execute))
        return status_of_failure();
    if (library.pretends && FROM_COMMAND) {
        bool slow = false;
        running = *products ? products : "standard";
        for (int i = 0; i < plan_count; i++)
            if (plans[i].plan == plan) {
                running = plans[i].variant ? plans[i].variant : running;
                slow |= plans[i].slow;
            }
        now += library.slow ? (slow ? 0.002 : 0.0004)
                            : (strncmp(running, "quick", 5) == 0 ? 0.0002
                               : strcmp(running, "slow") == 0    ? 0.002
                                                                 : 0.0004);
    }
    return __real_clattn_plan_execute(plan, tensors);
}
WRAP(double, cla_seconds, (void)) {
    static unsigned moments;
    if (library.pretends)
        now += library.shakes ? 1e-4 * (double)(1 + moments++ % 7) : 1e-7;
    return library.pretends ? now : __real_cla_seconds();
}
/* Nothing is timed here that a pause would help. */
WRAP(int, nanosleep, (const struct timespec *moment, struct timespec *left)) {
    return FROM_COMMAND ? 0 : __real_nanosleep(moment, left);
}
WRAP(clattn_status, clattn_tuning_set, (clattn_context * context, const clattn_tuned *entry)) {
    if (THIS_FAILS(clattn_tuning_set))
        return status_of_failure();
    if (!library.pretends)
        return __real_clattn_tuning_set(context, entry);
    snprintf(products, sizeof products, "%s", entry->value ? entry->value : "");
    return strcmp(products, "broken") == 0 ? cla_error(CLATTN_E_BUILD, "broken") : CLATTN_OK;
}
WRAP(clattn_status, clattn_tuning_save, (clattn_context * context, const char *path)) {
    if (THIS_FAILS(clattn_tuning_save))
        return status_of_failure();
    return library.pretends ? CLATTN_OK : __real_clattn_tuning_save(context, path);
}
WRAP(clattn_status, clattn_buffer_download, (const clattn_buffer *buffer, size_t offset, void *data, size_t bytes)) {
    if (THIS_FAILS(clattn_buffer_download))
        return status_of_failure();
    const clattn_status status = __real_clattn_buffer_download(buffer, offset, data, bytes);
    if (library.pretends && strcmp(running, "other") == 0 && bytes >= sizeof(float))
        *(float *)data = 1000;
    return status;
}
WRAP(clattn_status, clattn_verify,
     (const clattn_attention_args *args, int64_t rows, const clattn_tensor exact[CLATTN_VERDICTS],
      clattn_verification *result)) {
    if (THIS_FAILS(clattn_verify))
        return status_of_failure();
    const clattn_status status = __real_clattn_verify(args, rows, exact, result);
    if (library.pretends)
        result->ok = strcmp(running, "wrong") != 0;
    return status;
}

/* ---- devices of every kind ---- */

/* `cpu` as devices that differ in what they have. */
WRAP(clattn_status, clattn_devices, (clattn_device_info * devices, size_t capacity, size_t *count)) {
    enum { COUNT = 4 };
    if (THIS_FAILS(clattn_devices))
        return status_of_failure();
    if (!library.pretends || !FROM_COMMAND)
        return __real_clattn_devices(devices, capacity, count);
    clattn_context *context = NULL;
    clattn_device_info info = {0};
    *count = COUNT;
    if (__real_clattn_context_create("cpu", NULL, &context) != CLATTN_OK)
        return status_of_failure();
    __real_clattn_context_info(context, &info);
    clattn_context_destroy(context);
    info.is_opencl = true;
    for (size_t i = 0; i < COUNT && i < capacity; i++) {
        devices[i] = info;
        devices[i].usable = i != 1;
        devices[i].has_f64 = i != 2;
        devices[i].has_f16 = i == 2;
        devices[i].dedicated_local_memory = i == 2;
        devices[i].device_class = i == 2 ? CLATTN_DEVICE_GPU : i == 3 ? (clattn_device_class)7 : info.device_class;
        devices[i].local_bytes = i == 2 ? 1536 : info.local_bytes;
        devices[i].global_bytes = i == 2 ? UINT64_MAX : info.global_bytes;
    }
    return CLATTN_OK;
}
WRAP(clattn_status, clattn_device_peak, (clattn_context * context, clattn_peak *peak)) {
    if (THIS_FAILS(clattn_device_peak))
        return status_of_failure();
    if (!library.pretends)
        return __real_clattn_device_peak(context, peak);
    *peak =
        (clattn_peak){.gflops = 100, .gbytes = 10, .memory_bytes = 1 << 30, .cached_gbytes = 20, .cached_bytes = 1000};
    return CLATTN_OK;
}
/* Building takes long, and computes. */
WRAP(bool, cla_devices_build, (const clattn_device_info *device, cla_build_report *report)) {
    if (!library.pretends)
        return __real_cla_devices_build(device, report);
    const bool fails = THIS_FAILS(cla_devices_build);
    *report = (cla_build_report){.problems = 9, .compiled = 3, .refused = device->has_f64 ? 0 : 2};
    snprintf(report->error, sizeof report->error, "%s", fails ? MADE_TO_FAIL : "");
    snprintf(report->folder, sizeof report->folder, "%s", device->has_f16 ? "/folder" : "");
    return !fails;
}
