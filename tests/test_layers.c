/* SPDX-License-Identifier: Apache-2.0 */
/* Includes only point down the layers of docs/architecture.md. */
#define _XOPEN_SOURCE 700
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Folders of host/, with their height. Those of the same height never include each other. */
static const struct {
    const char *folder;
    int height;
} layers[] = {{"base", 0}, {"tensor", 1}, {"runtime", 2},   {"ref", 2},
              {"io", 2},   {"ops", 3},    {"attention", 4}, {"modules", 5}};
enum { LAYERS = sizeof layers / sizeof *layers };

static int layer_of(const char *name, size_t length) {
    for (int i = 0; i < LAYERS; i++)
        if (strlen(layers[i].folder) == length && strncmp(layers[i].folder, name, length) == 0)
            return i;
    return -1;
}

static bool is_source(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0);
}

/* What is between the quotes or brackets of an #include line; false for other lines. */
static bool included(const char *line, char *name, bool *quoted) {
    char open;
    if (sscanf(line, " # include %c%200[^\">]", &open, name) != 2)
        return false;
    *quoted = open == '"';
    return *quoted || open == '<';
}

typedef void (*visit)(const char *file, const char *folder, const char *name, bool quoted);

/* Calls visit for each #include of each source of host/FOLDER. */
static int each_include(const char *folder, visit call) {
    char path[1024];
    int files = 0;
    snprintf(path, sizeof path, "%s/../host/%s", TESTS_DIR, folder);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char line[512], name[256];
        bool quoted;
        if (!is_source(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/../host/%s/%s", TESTS_DIR, folder, e->d_name);
        FILE *f = fopen(path, "r");
        cr_assert_not_null(f, "%s", path);
        while (fgets(line, sizeof line, f))
            if (included(line, name, &quoted))
                call(e->d_name, folder, name, quoted);
        fclose(f);
        files++;
    }
    if (dir)
        closedir(dir);
    return files;
}

static void points_down(const char *file, const char *folder, const char *name, bool quoted) {
    const char *slash = strchr(name, '/');
    if (!quoted || !slash || strncmp(name, "clattn/", 7) == 0)
        return;
    const int from = layer_of(folder, strlen(folder)), to = layer_of(name, (size_t)(slash - name));
    cr_assert_geq(to, 0, "host/%s/%s includes \"%s\", which is in no layer", folder, file, name);
    cr_expect(from == to || layers[from].height > layers[to].height,
              "host/%s/%s includes \"%s\", which is not below it", folder, file, name);
}

Test(layers, an_include_only_points_down) {
    for (int i = 0; i < LAYERS; i++)
        cr_expect_gt(each_include(layers[i].folder, points_down), 0, "host/%s has no sources", layers[i].folder);
}

static void is_public(const char *file, const char *folder, const char *name, bool quoted) {
    cr_expect(!quoted || !strchr(name, '/'), "host/%s/%s includes \"%s\", and may use public headers only", folder,
              file, name);
}

Test(layers, the_command_line_uses_public_headers_only) { cr_assert_gt(each_include("cli", is_public), 0); }

static void is_public_or_low(const char *file, const char *folder, const char *name, bool quoted) {
    const char *slash = strchr(name, '/');
    const int to = quoted && slash ? layer_of(name, (size_t)(slash - name)) : -1;
    cr_expect(!quoted || (to >= 0 && (layers[to].height <= 1 || strcmp(layers[to].folder, folder) == 0)),
              "host/%s/%s includes \"%s\", and reaches devices through public headers only", folder, file, name);
}

Test(layers, modules_reach_devices_through_public_headers_only) {
    cr_assert_gt(each_include("modules", is_public_or_low), 0);
}

static void knows_no_device(const char *file, const char *folder, const char *name, bool quoted) {
    (void)quoted;
    cr_expect(!strstr(name, "CL/") && !strstr(name, "opencl.h") && !strstr(name, "clblast") && !strstr(name, "cblas"),
              "host/%s/%s includes \"%s\", and knows no device", folder, file, name);
}

Test(layers, base_views_reference_and_files_know_no_device) {
    static const char *const folders[] = {"base", "tensor", "ref", "io"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        cr_expect_gt(each_include(folders[i], knows_no_device), 0);
}

Test(layers, every_folder_of_host_is_a_layer) {
    DIR *dir = opendir(TESTS_DIR "/../host");
    cr_assert_not_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        cr_expect(e->d_name[0] == '.' || strcmp(e->d_name, "cli") == 0 || layer_of(e->d_name, strlen(e->d_name)) >= 0,
                  "host/%s is in no layer: add it to docs/architecture.md and here", e->d_name);
    closedir(dir);
}
