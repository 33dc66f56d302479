/* SPDX-License-Identifier: Apache-2.0 */
#include "run_profile.h"

#include "args.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int write_json(const cla_profile_report *report, const char *path) {
    cJSON *object = cla_profile_json(report);
    char *text = object ? cJSON_Print(object) : NULL;
    cJSON_Delete(object);
    if (!text)
        return cla_fail(CLA_EXIT_FAILED, "run: --profile-json: out of memory");
    FILE *file = fopen(path, "wb");
    bool ok = file && fprintf(file, "%s\n", text) > 0 && !ferror(file);
    if (file)
        ok = fclose(file) == 0 && ok;
    cJSON_free(text);
    return ok ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "run: --profile-json: %s: %s", path, strerror(errno));
}

int cla_run_profile(const clattn_device_info *device, const clattn_attention_args *args, cla_output *json,
                    cla_output *plot, cla_profile_report *report) {
    int exit_status = CLA_EXIT_OK;
    const clattn_attention_backward_args forward = {.forward = *args};
    const clattn_status status = cla_profile_measure(device->spec, &forward, report);
    if (status != CLATTN_OK)
        return cla_fail_status(status, "profile");
    if (json) {
        exit_status = write_json(report, json->staged);
        json->complete = exit_status == CLA_EXIT_OK;
    }
    if (plot && exit_status == CLA_EXIT_OK) {
        exit_status = cla_profile_plot((const cla_profile_report *const[]){report}, 1, "run: --roofline", plot->staged);
        plot->complete = exit_status == CLA_EXIT_OK;
    }
    return exit_status;
}
