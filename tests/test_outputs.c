/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run: all or none, also when the last rename fails; temporary names are nobody else's. */
#include "../host/cli/outputs.c" /* NOLINT(bugprone-suspicious-include): first, it asks for POSIX */

#include "../host/cli/args.c"         /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/args_text.c"    /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/interrupt.c"    /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/outputs_kept.c" /* NOLINT(bugprone-suspicious-include) */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dirent.h>

static char folder[200];

/* A path in a folder of the test's own. */
static const char *in(const char *name) {
    static char paths[8][300];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void make_folder(void) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.150s/clattn-outputs-XXXXXX", base ? base : "/tmp");
    cr_assert_not_null(mkdtemp(folder));
    cr_redirect_stderr();
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static const char *read_text(const char *path) {
    static char text[100];
    FILE *file = fopen(path, "r");
    memset(text, 0, sizeof text);
    if (!file)
        return "(none)";
    cr_assert_lt(fread(text, 1, sizeof text - 1, file), sizeof text - 1);
    fclose(file);
    return text;
}

/* Entries of the folder. */
static int entries(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    cr_assert_not_null(dir);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void remove_folder(void) {
    DIR *dir = opendir(folder);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            char path[600];
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            if (unlink(path) != 0)
                rmdir(path);
        }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

TestSuite(outputs, .init = make_folder, .fini = remove_folder);

/* Declares "a" and "b", and writes "new a" and "new b" under their temporary names. */
static void prepare(cla_outputs *o) {
    int index;
    *o = (cla_outputs){0};
    cr_assert_eq(cla_outputs_add_file(o, "--a", in("a"), &index), CLA_EXIT_OK);
    cr_assert_eq(cla_outputs_add_file(o, "--b", in("b"), &index), CLA_EXIT_OK);
    cr_assert_eq(cla_outputs_check(o, NULL, 0), CLA_EXIT_OK);
    write_text(o->files[0].staged, "new a");
    write_text(o->files[1].staged, "new b");
    o->files[0].complete = o->files[1].complete = true;
}

Test(outputs, all_are_there_and_nothing_else) {
    cla_outputs o;
    write_text(in("a"), "old a");
    prepare(&o);
    cr_assert_str_eq(read_text(in("a")), "old a");
    cr_assert_eq(cla_outputs_commit(&o), CLA_EXIT_OK);
    cla_outputs_free(&o);
    cr_assert_str_eq(read_text(in("a")), "new a");
    cr_assert_str_eq(read_text(in("b")), "new b");
    cr_assert_eq(entries(), 2);
}

Test(outputs, without_a_commit_nothing_is_left) {
    cla_outputs o;
    write_text(in("a"), "old a");
    prepare(&o);
    cla_outputs_free(&o);
    cr_assert_str_eq(read_text(in("a")), "old a");
    cr_assert_eq(entries(), 1);
}

/* The second place becomes a folder while the work is done. */
Test(outputs, a_second_rename_that_fails_takes_the_first_one_back) {
    cla_outputs o;
    write_text(in("a"), "old a");
    prepare(&o);
    cr_assert_eq(mkdir(in("b"), 0777), 0);
    cr_assert_eq(cla_outputs_commit(&o), CLA_EXIT_FAILED);
    cla_outputs_free(&o);
    cr_assert_str_eq(read_text(in("a")), "old a");
    cr_assert_eq(entries(), 2, "a, and the folder b");
}

Test(outputs, a_second_rename_that_fails_removes_a_first_file_that_was_not_there) {
    cla_outputs o;
    prepare(&o);
    cr_assert_eq(mkdir(in("b"), 0777), 0);
    cr_assert_eq(cla_outputs_commit(&o), CLA_EXIT_FAILED);
    cla_outputs_free(&o);
    cr_assert_eq(entries(), 1);
}

Test(outputs, a_temporary_name_that_is_taken_is_left_alone) {
    cla_outputs o;
    char taken[300], victim[300];
    snprintf(victim, sizeof victim, "%s", in("victim"));
    snprintf(taken, sizeof taken, "%s/.clattn-%ld-0", folder, (long)getpid());
    write_text(victim, "mine");
    cr_assert_eq(symlink(victim, taken), 0);
    prepare(&o);
    cr_assert_str_neq(o.files[0].staged, taken);
    cr_assert_eq(cla_outputs_commit(&o), CLA_EXIT_OK);
    cla_outputs_free(&o);
    cr_assert_str_eq(read_text(victim), "mine");
    cr_assert_str_eq(read_text(in("a")), "new a");
    cr_assert_eq(entries(), 4, "a, b, the victim, the link");
}

Test(outputs, a_link_stays_and_its_file_is_written_with_its_rights) {
    cla_outputs o;
    struct stat info;
    write_text(in("real"), "old");
    cr_assert_eq(chmod(in("real"), 0640), 0);
    cr_assert_eq(symlink("real", in("a")), 0);
    prepare(&o);
    cr_assert_eq(cla_outputs_commit(&o), CLA_EXIT_OK);
    cla_outputs_free(&o);
    cr_assert_eq(lstat(in("a"), &info), 0);
    cr_assert(S_ISLNK(info.st_mode));
    cr_assert_str_eq(read_text(in("real")), "new a");
    cr_assert_eq(stat(in("real"), &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0640);
}

static int checked(const char *path) {
    cla_outputs o = {0};
    int index;
    cr_assert_eq(cla_outputs_add_file(&o, "--a", path, &index), CLA_EXIT_OK);
    const int exit_status = cla_outputs_check(&o, NULL, 0);
    cla_outputs_free(&o);
    return exit_status;
}

Test(outputs, a_link_that_leads_nowhere_and_a_read_only_file_are_refused) {
    cr_assert_eq(symlink("nothing", in("a")), 0);
    cr_assert_eq(checked(in("a")), CLA_EXIT_FAILED);
    write_text(in("b"), "old");
    cr_assert_eq(chmod(in("b"), 0444), 0);
    cr_assert_eq(checked(in("b")), CLA_EXIT_FAILED);
    cr_assert_eq(checked(in("c")), CLA_EXIT_OK);
    cr_assert_eq(entries(), 2);
    cr_assert_str_eq(read_text(in("b")), "old");
}
