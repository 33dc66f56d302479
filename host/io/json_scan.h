/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of a safetensors header, checked before a JSON parser allocates anything:
 *   { name: { key: "text" | [up to 8 whole numbers], ... }, ... }
 * Strict JSON in UTF-8 without U+0000, numbers in at most 16 plain digits, nothing nested deeper. */
#ifndef CLA_JSON_SCAN_H
#define CLA_JSON_SCAN_H

#include "base/str.h"

/* `path` is for messages. Errors  CLATTN_E_FORMAT, with the byte. */
clattn_status cla_json_scan(const char *path, const char *text, size_t length);

/* Appends "text" in quotes and escaped; false, and nothing appended, when it is not UTF-8. */
bool cla_json_append(cla_str *s, const char *text);

#endif
