/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of which nothing may be left out: cJSON gives NULL where memory is short, and goes on without. */
#ifndef CLA_JSON_PUT_H
#define CLA_JSON_PUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Adds the item, which is to's from then on, to an object, or without a name to an array. *whole becomes false where
 * one of the two is NULL, or memory is short. */
static inline void cla_json_put(cJSON *to, const char *name, cJSON *item, bool *whole) {
    if (item && to && (name ? cJSON_AddItemToObject(to, name, item) : cJSON_AddItemToArray(to, item)))
        return;
    cJSON_Delete(item);
    *whole = false;
}

#endif
