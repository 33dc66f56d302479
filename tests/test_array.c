/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, the specs that name them in files, and that writing is all or nothing. */
#include "io_testing.h"

#include <clattn/io.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

TestSuite(array, .init = temp_dir_make, .fini = temp_dir_remove);

static clattn_array filled(float first, int64_t n) {
    clattn_array a;
    SUCCEEDS(clattn_array_create(CLATTN_F32, 1, &n, &a));
    for (int64_t i = 0; i < n; i++)
        ((float *)a.data)[i] = first + (float)i;
    return a;
}

static void assert_loads(const char *spec, float first, int64_t n) {
    clattn_array a;
    SUCCEEDS(clattn_array_load(spec, &a));
    cr_assert(a.dtype == CLATTN_F32 && a.rank == 1 && a.shape[0] == n, "%s", spec);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(((float *)a.data)[i], first + (float)i, "%s", spec);
    clattn_array_free(&a);
}

/* AddressSanitizer ends the program where malloc gives NULL. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MALLOC_ABORTS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MALLOC_ABORTS
#endif

/* ---- arrays ---- */

Test(array, create_gives_zeros_even_when_empty_or_scalar) {
    static const int64_t shape[] = {2, 3, 0};
    clattn_array a;
    SUCCEEDS(clattn_array_create(CLATTN_F64, 2, shape, &a));
    cr_assert(a.dtype == CLATTN_F64 && a.rank == 2 && a.shape[0] == 2 && a.shape[1] == 3 && a.bytes == 48);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(((double *)a.data)[i], 0.0);
    clattn_array_free(&a);
    cr_assert(!a.data && a.rank == 0 && a.bytes == 0);
    SUCCEEDS(clattn_array_create(CLATTN_U8, 3, shape, &a));
    cr_assert(a.bytes == 0 && a.data);
    clattn_array_free(&a);
    SUCCEEDS(clattn_array_create(CLATTN_I64, 0, NULL, &a));
    cr_assert(a.bytes == 8 && *(int64_t *)a.data == 0);
    clattn_array_free(&a);
    clattn_array_free(&a);
    clattn_array_free(NULL);
}

Test(array, create_refuses_shapes_that_cannot_be) {
    static const int64_t wraps[] = {INT64_C(1) << 32, INT64_C(1) << 32}, just_wraps[] = {INT64_MAX / 4 + 1},
                         huge[] = {INT64_MAX / 4}, negative[] = {3, -1}, many[CLATTN_MAX_RANK + 1] = {0};
    clattn_array a = {.rank = 3};
    FAILS(clattn_array_create(CLATTN_F32, 2, wraps, &a), CLATTN_E_SHAPE, "[4294967296, 4294967296]");
    cr_assert(a.rank == 0 && !a.data);
    FAILS(clattn_array_create(CLATTN_F32, 1, just_wraps, &a), CLATTN_E_SHAPE, "63 bits");
#ifndef MALLOC_ABORTS
    FAILS(clattn_array_create(CLATTN_F32, 1, huge, &a), CLATTN_E_MEMORY, "out of memory");
#endif
    FAILS(clattn_array_create(CLATTN_F32, 2, negative, &a), CLATTN_E_SHAPE, "axis 1");
    FAILS(clattn_array_create(CLATTN_F32, 9, many, &a), CLATTN_E_SHAPE, "rank 9");
    FAILS(clattn_array_create(CLATTN_F32, -1, many, &a), CLATTN_E_SHAPE, "rank -1");
    FAILS(clattn_array_create((clattn_dtype)99, 1, huge, &a), CLATTN_E_DTYPE, "99");
    FAILS(clattn_array_create(CLATTN_F32, 1, NULL, &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_array_create(CLATTN_F32, 1, huge, NULL), CLATTN_E_ARGUMENT, "NULL");
}

Test(array, tensor_is_a_view_of_the_whole) {
    static const int64_t shape[] = {2, 3};
    clattn_array a, scalar;
    SUCCEEDS(clattn_array_create(CLATTN_F16, 2, shape, &a));
    clattn_tensor t = clattn_array_tensor(&a);
    cr_assert(t.dtype == CLATTN_F16 && t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3 && t.host == a.data);
    cr_assert(t.stride[0] == 3 && t.stride[1] == 1 && t.offset == 0 && !t.buffer);
    SUCCEEDS(clattn_array_create(CLATTN_F32, 0, NULL, &scalar));
    t = clattn_array_tensor(&scalar);
    cr_assert(t.rank == 1 && t.shape[0] == 1 && t.stride[0] == 1 && t.host == scalar.data);
    clattn_array_free(&a);
    clattn_array_free(&scalar);
    cr_assert_eq(clattn_array_tensor(&a).rank, 0);
    cr_assert_eq(clattn_array_tensor(NULL).rank, 0);
}

Test(array, convert_copies_into_another_type) {
    clattn_array a = filled(-1.0f, 4), b;
    SUCCEEDS(clattn_array_convert(&a, CLATTN_BF16, &b));
    static const uint16_t bits[] = {0xbf80, 0, 0x3f80, 0x4000};
    cr_assert(b.dtype == CLATTN_BF16 && b.rank == 1 && b.shape[0] == 4 && b.bytes == 8);
    cr_assert_arr_eq(b.data, bits, sizeof bits);
    clattn_array_free(&b);
    SUCCEEDS(clattn_array_convert(&a, CLATTN_F32, &b));
    cr_assert_neq(a.data, b.data);
    cr_assert_arr_eq(a.data, b.data, a.bytes);
    clattn_array_free(&b);
    FAILS(clattn_array_convert(&a, (clattn_dtype)-1, &b), CLATTN_E_DTYPE, "-1");
    cr_assert_null(b.data);
    FAILS(clattn_array_convert(&a, CLATTN_F64, &a), CLATTN_E_ARGUMENT, "itself");
    cr_assert_not_null(a.data);
    FAILS(clattn_array_convert(&a, CLATTN_F64, NULL), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_array_convert(NULL, CLATTN_F64, &b), CLATTN_E_ARGUMENT, "NULL");
    a.bytes = 12;
    FAILS(clattn_array_convert(&a, CLATTN_F64, &b), CLATTN_E_ARGUMENT, "12 bytes");
    clattn_array_free(&a);
    static const int64_t none[] = {0};
    SUCCEEDS(clattn_array_create(CLATTN_I32, 1, none, &a));
    SUCCEEDS(clattn_array_convert(&a, CLATTN_F64, &b));
    cr_assert(b.bytes == 0 && b.data);
    clattn_array_free(&a);
    clattn_array_free(&b);
}

/* ---- specs ---- */

Test(array, saves_and_loads_by_spec_with_colons_and_slashes) {
    static const char *const specs[] = {"a.npy",
                                        "a:b.npy",
                                        "b.safetensors:q",
                                        "c:d.safetensors:layer/0:q:k",
                                        "e.safetensors:x.npy",
                                        "f.safetensors:g.safetensors:h"};
    clattn_array a = filled(5.0f, 3);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        SUCCEEDS(clattn_array_save(temp_path(specs[i]), &a));
        assert_loads(temp_path(specs[i]), 5.0f, 3);
    }
    clattn_array_free(&a);
    cr_assert_eq(temp_dir_count(), 6);
    assert_loads(temp_path("b.safetensors"), 5.0f, 3); /* the only tensor needs no name */
    clattn_safetensors *s = NULL;
    SUCCEEDS(clattn_safetensors_open(temp_path("c:d.safetensors"), &s));
    cr_assert(clattn_safetensors_find(s, "layer/0:q:k", NULL));
    clattn_safetensors_close(s);
}

Test(array, says_what_is_wrong_with_a_spec) {
    float x = 1;
    const clattn_array one = {.rank = 1, .shape = {1}, .data = &x, .bytes = 4};
    const clattn_named_array two[] = {{"k", one}, {"q", one}};
    clattn_array a = {.rank = 4};
    FAILS(clattn_array_load("x.txt", &a), CLATTN_E_ARGUMENT, "neither X.npy nor");
    cr_assert_eq(a.rank, 0);
    FAILS(clattn_array_load("", &a), CLATTN_E_ARGUMENT, "neither");
    FAILS(clattn_array_load(".npy", &a), CLATTN_E_ARGUMENT, "neither");
    FAILS(clattn_array_load(".safetensors:x", &a), CLATTN_E_ARGUMENT, "neither");
    FAILS(clattn_array_load("x.safetensors:", &a), CLATTN_E_ARGUMENT, "after the last colon");
    FAILS(clattn_array_load(temp_path("none.npy"), &a), CLATTN_E_IO, "none.npy");
    FAILS(clattn_array_load(temp_path("none.safetensors:x"), &a), CLATTN_E_IO, "none.safetensors: cannot be opened");
    FAILS(clattn_array_load(NULL, &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_array_load("x.npy", NULL), CLATTN_E_ARGUMENT, "NULL");
    SUCCEEDS(clattn_safetensors_write(temp_path("two.safetensors"), two, 2, NULL, 0));
    FAILS(clattn_array_load(temp_path("two.safetensors"), &a), CLATTN_E_ARGUMENT, "two.safetensors:k");
    FAILS(clattn_array_load(temp_path("two.safetensors:Q"), &a), CLATTN_E_ARGUMENT, "near names: \"q\"");
    SUCCEEDS(clattn_safetensors_write(temp_path("none.safetensors"), NULL, 0, NULL, 0));
    FAILS(clattn_array_load(temp_path("none.safetensors"), &a), CLATTN_E_ARGUMENT, "no tensor");
    FAILS(clattn_array_save(temp_path("w.safetensors"), &one), CLATTN_E_ARGUMENT, "needs a name");
    FAILS(clattn_array_save(temp_path("w.txt"), &one), CLATTN_E_ARGUMENT, "neither");
    FAILS(clattn_array_save(NULL, &one), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_array_save(temp_path("w.npy"), NULL), CLATTN_E_ARGUMENT, "NULL");
    cr_assert_eq(temp_dir_count(), 2);
}

/* ---- all or nothing ---- */

Test(array, a_write_that_fails_leaves_the_old_file_and_nothing_else) {
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    clattn_array small = filled(1.0f, 3), large = filled(2.0f, 5000);
    SUCCEEDS(clattn_array_save(temp_path("x.npy"), &small));
    SUCCEEDS(clattn_array_save(temp_path("x.safetensors:a"), &small));
    cr_assert_eq(signal(SIGXFSZ, SIG_IGN) == SIG_ERR, 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0); /* stands for a full disk */
    FAILS(clattn_array_save(temp_path("x.npy"), &large), CLATTN_E_IO, "x.npy: cannot be written");
    FAILS(clattn_array_save(temp_path("x.safetensors:a"), &large), CLATTN_E_IO, "cannot be written");
    FAILS(clattn_array_save(temp_path("new.npy"), &large), CLATTN_E_IO, "cannot be written");
    cr_assert_eq(temp_dir_count(), 2);
    assert_loads(temp_path("x.npy"), 1.0f, 3);
    assert_loads(temp_path("x.safetensors:a"), 1.0f, 3);
    clattn_array_free(&small);
    clattn_array_free(&large);
}

Test(array, a_reader_of_the_old_file_keeps_it_while_a_new_one_is_written) {
    clattn_array old = filled(1.0f, 3), other = filled(9.0f, 2), a;
    clattn_safetensors *s = NULL;
    SUCCEEDS(clattn_array_save(temp_path("x.safetensors:a"), &old));
    SUCCEEDS(clattn_safetensors_open(temp_path("x.safetensors"), &s));
    SUCCEEDS(clattn_array_save(temp_path("x.safetensors:a"), &other));
    SUCCEEDS(clattn_safetensors_read(s, "a", &a));
    cr_assert_eq(a.shape[0], 3);
    cr_assert_arr_eq(a.data, old.data, old.bytes);
    clattn_safetensors_close(s);
    assert_loads(temp_path("x.safetensors:a"), 9.0f, 2);
    cr_assert_eq(temp_dir_count(), 1);
    clattn_array_free(&a);
    clattn_array_free(&old);
    clattn_array_free(&other);
}

Test(array, a_write_follows_links_keeps_rights_and_replaces_only_regular_files) {
    clattn_array a = filled(1.0f, 3);
    struct stat info;
    SUCCEEDS(clattn_array_save(temp_path("x.npy"), &a));
    cr_assert_eq(chmod(temp_path("x.npy"), 0640), 0);
    cr_assert_eq(symlink("x.npy", temp_path("link.npy")), 0);
    ((float *)a.data)[0] = 0.0f;
    SUCCEEDS(clattn_array_save(temp_path("link.npy"), &a));
    cr_assert(lstat(temp_path("link.npy"), &info) == 0 && S_ISLNK(info.st_mode));
    cr_assert(lstat(temp_path("x.npy"), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0640);
    clattn_array b;
    SUCCEEDS(clattn_array_load(temp_path("x.npy"), &b));
    cr_assert_eq(*(float *)b.data, 0.0f);
    clattn_array_free(&b);
    cr_assert_eq(symlink("nowhere.npy", temp_path("loose.npy")), 0);
    FAILS(clattn_array_save(temp_path("loose.npy"), &a), CLATTN_E_IO, "link");
    cr_assert_eq(mkfifo(temp_path("pipe.npy"), 0600), 0);
    FAILS(clattn_array_save(temp_path("pipe.npy"), &a), CLATTN_E_IO, "pipe");
    FAILS(clattn_array_load(temp_path("pipe.npy"), &b), CLATTN_E_IO, "pipe"); /* and does not wait for a writer */
    cr_assert_eq(mkdir(temp_path("folder.npy"), 0700), 0);
    FAILS(clattn_array_save(temp_path("folder.npy"), &a), CLATTN_E_IO, "is a folder");
    FAILS(clattn_array_save(temp_path("none/x.npy"), &a), CLATTN_E_IO, "none/x.npy");
    cr_assert_eq(temp_dir_count(), 5);
    clattn_array_free(&a);
}

Test(array, a_write_passes_over_a_temporary_file_that_was_left_behind) {
    clattn_array a = filled(1.0f, 3);
    char name[64];
    snprintf(name, sizeof name, ".clattn-%ld-0.tmp", (long)getpid());
    temp_write(name, "left", 4);
    SUCCEEDS(clattn_array_save(temp_path("x.npy"), &a));
    assert_loads(temp_path("x.npy"), 1.0f, 3);
    cr_assert_eq(temp_dir_count(), 2);
    clattn_array_free(&a);
}
