/* SPDX-License-Identifier: Apache-2.0 */
/* Behind the command line's code and before the library's, as they are linked: test_command_failures.c asks which of
 * the two an address is in. */
void calls_end(void);
void calls_end(void) {}
