/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs. Each takes what follows its name on the command line and returns the exit status (args.h).
 * `--help` is answered by main.c; a verb never sees it. */
#ifndef CLA_COMMANDS_H
#define CLA_COMMANDS_H

int cla_cmd_run(int argc, char **argv);
int cla_cmd_devices(int argc, char **argv);
int cla_cmd_inspect(int argc, char **argv);
int cla_cmd_check(int argc, char **argv);
int cla_cmd_bench(int argc, char **argv);
int cla_cmd_tune(int argc, char **argv);
int cla_cmd_study(int argc, char **argv);
int cla_cmd_doctor(int argc, char **argv);

/* Help texts, whole: usage line, options, examples; each ends in a newline. Defined beside the verb. */
extern const char *const cla_help_run, *const cla_help_run_more;
extern const char *const cla_help_devices;
extern const char *const cla_help_inspect;
extern const char *const cla_help_check;
extern const char *const cla_help_bench;
extern const char *const cla_help_tune;
extern const char *const cla_help_study;
extern const char *const cla_help_doctor;

#endif
