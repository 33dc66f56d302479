#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn doctor: a machine that is well, and loaders that are not.
#   doctor.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=doctor

run 0 "cpu" --device cpu
says "cpu: tested" '^  ok    cpu f32: right'
says "cpu: f64" '^  ok    cpu f64: right'
says "cpu: well" '^Nothing is wrong\.$'

mkdir "$work/none" "$work/wrong"
OCL_ICD_VENDORS=$work/none run 1 "no driver"
says "no driver" "WRONG $work/none: there is no driver"
says "no driver: remedy" '-> install a driver: pocl-opencl-icd'
says "no driver: cpu works" '^  ok    cpu f32: right'
says "no driver: count" '^[1-9][0-9]* problems?\.$'

echo libclattn_no_such_driver.so >"$work/wrong/a.icd"
: >"$work/wrong/b.icd"
OCL_ICD_VENDORS=$work/wrong run 1 "wrong drivers"
says "a driver that is gone" 'WRONG .*a\.icd: libclattn_no_such_driver\.so does not load: '
says "a driver without a name" 'WRONG .*b\.icd: names no library'
OCL_ICD_VENDORS=$work/wrong/a.icd run 1 "one file"
says "one file" 'WRONG .*a\.icd: '
OCL_ICD_VENDORS=$work/nowhere run 1 "no folder"
says "no folder" "WRONG $work/nowhere: No such file"
OCL_ICD_VENDORS=libclattn_no_such_driver.so run 1 "a library"
says "a library" 'WRONG OCL_ICD_VENDORS: libclattn_no_such_driver\.so does not load: '
OCL_ICD_VENDORS=$work/none OCL_ICD_FILENAMES=a.so:b.so run 1 "another loader's variable"
says "another loader's variable" 'note  OCL_ICD_FILENAMES is set: .*a\.so:b\.so'

# A driver that crashes as it is loaded.
cat >"$work/crash.c" <<'END'
#include <stdlib.h>
__attribute__((constructor)) static void crash(void) { abort(); } /* sanitizers catch SIGSEGV */
END
if cc -shared -fPIC -o "$work/libcrash.so" "$work/crash.c" 2>/dev/null; then
    echo "$work/libcrash.so" >"$work/wrong/a.icd"
    OCL_ICD_VENDORS=$work/wrong run 1 "a driver that crashes"
    says "a driver that crashes" "WRONG $work/libcrash.so: the driver crashed \(signal 6"
    says "a driver that crashes: goes on" '^Files$'
fi

: >"$work/plain"
CLATTN_CACHE_DIR=$work/none run 0 "cache" --device cpu
says "cache" "ok    $work/none: compiled kernels are kept there"
holds "cache: nothing left in it" [ -z "$(ls "$work/none")" ]
CLATTN_CACHE_DIR=$work/plain run 1 "a file as cache" --device cpu
says "a file as cache" "WRONG $work/plain: compiled kernels cannot be kept"
CLATTN_CACHE_DIR=$work/plain/below run 1 "a cache below a file" --device cpu
says "a cache below a file" "WRONG $work/plain/below: compiled kernels cannot be kept: Not a directory"
CLATTN_CACHE_DIR=$work/new/er run 0 "a cache that is not there" --device cpu
says "a cache that is not there" "ok    $work/new/er: compiled kernels will be kept there"
holds "a cache that is not there: nothing left of it" [ ! -e "$work/new" ]
if [ -d /proc/self ]; then
    CLATTN_CACHE_DIR=/proc/nocache run 1 "a cache where nothing can be made" --device cpu
    says "a cache where nothing can be made" 'WRONG /proc/nocache: compiled kernels cannot be kept: '
fi
echo "no record" >"$work/plain"
CLATTN_TUNING_FILE=$work/plain run 1 "a wrong record" --device cpu
says "a wrong record" 'WRONG .*not all of it is understood'

run 2 "no such device" --device nowhere
run 2 "a word" well
run 2 "an option" --devise cpu
if "$clattn" devices --device opencl >/dev/null 2>&1; then
    run 0 "the best device" --device opencl
    says "self-test" '^  ok    opencl f32: right'
    "$clattn" doctor >"$work/out" 2>"$work/err" # its status is that of this machine's GPUs too
    says "drivers" '^  ok    .*\.icd: .* loads'
    says "devices" '^  ok    opencl:0:0: '
    says "self-test of each" '^  ok    opencl:0:0 f32: right'
fi
finish
