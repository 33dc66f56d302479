/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and the message behind the last failure. Every fallible function returns a clattn_status. */
#ifndef CLATTN_STATUS_H
#define CLATTN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CLATTN_API __attribute__((visibility("default")))
#else
#define CLATTN_API
#endif

/* X(name, value, text): the one list of statuses. */
#define CLATTN_STATUS_LIST(X)                                                                                          \
    X(CLATTN_OK, 0, "success")                                                                                         \
    X(CLATTN_E_ARGUMENT, 1, "an argument is not valid")                                                                \
    X(CLATTN_E_SHAPE, 2, "shapes do not fit together")                                                                 \
    X(CLATTN_E_DTYPE, 3, "a data type is not the one needed")                                                          \
    X(CLATTN_E_UNSUPPORTED, 4, "this device or version cannot do it")                                                  \
    X(CLATTN_E_LIMIT, 5, "a limit of the caller or the device is too small")                                           \
    X(CLATTN_E_NO_DEVICE, 6, "no such device")                                                                         \
    X(CLATTN_E_MEMORY, 7, "out of memory")                                                                             \
    X(CLATTN_E_OPENCL, 8, "an OpenCL call failed")                                                                     \
    X(CLATTN_E_CLBLAST, 9, "a CLBlast call failed")                                                                    \
    X(CLATTN_E_BUILD, 10, "a kernel does not compile on this device")                                                  \
    X(CLATTN_E_IO, 11, "a file cannot be read or written")                                                             \
    X(CLATTN_E_FORMAT, 12, "a file is not what it claims to be")                                                       \
    X(CLATTN_E_VERIFY, 13, "a result is wrong")                                                                        \
    X(CLATTN_E_DEVICE_LOST, 14, "the device is lost to its context")

/* How a call ended. */
typedef enum clattn_status {
#define CLATTN_STATUS_ENUM(name, value, text) name = value,
    CLATTN_STATUS_LIST(CLATTN_STATUS_ENUM)
#undef CLATTN_STATUS_ENUM
} clattn_status;

/* "CLATTN_E_SHAPE"; never NULL. */
CLATTN_API const char *clattn_status_name(clattn_status status);
/* A short sentence without numbers; never NULL. */
CLATTN_API const char *clattn_status_text(clattn_status status);
/* One line about this thread's last failure, with tensor, numbers and remedy; "" before the first.
 * Valid until the thread's next failing call. */
CLATTN_API const char *clattn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
