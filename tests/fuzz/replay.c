/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target as a test: runs it on each file of the folders named, in the order of their names, and on no bytes. */
#define _XOPEN_SOURCE 700
#include "fuzz.h"
#include <dirent.h>

static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    uint8_t *data = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL; /* exact, for the address sanitizer */
    if (!data || fseek(file, 0, SEEK_SET) != 0 || fread(data, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "replay: %s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

int main(int argc, char **argv) {
    int runs = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct dirent **names = NULL;
        const int count = scandir(argv[i], &names, NULL, alphasort);
        for (int n = 0; n < count; n++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], names[n]->d_name);
            if (names[n]->d_name[0] != '.') {
                fprintf(stderr, "%s\n", path); /* the last line is that of the input which ended the program */
                runs += run_file(path);
            }
            free(names[n]);
        }
        free(names);
    }
    printf("%d inputs\n", runs);
    return runs > 0 ? 0 : 1;
}
