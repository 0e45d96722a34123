/* expect.h: functions that check a call that fails. */
#ifndef MF_TESTS_EXPECT_H
#define MF_TESTS_EXPECT_H

/* Checks that the last error's message contains `part`. */
void expect_message(const char *part);
/* Checks that the call failed with `code` and a message that contains `part`; clears
 * the error. */
void expect_failure(int rc, int code, const char *part);

#endif
