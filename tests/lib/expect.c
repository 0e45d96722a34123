/* lib/expect.c: compares the status and the message of a call that fails. Only a part of the
 * message is compared, because messages begin with paths of the scratch folder. */
#include "tests/lib/expect.h"

#include <check.h>
#include <string.h>

#include "base/error.h"

void expect_message(const char *part)
{
    ck_assert_msg(strstr(mf_error_message(), part) != NULL, "expected \"%s\" in \"%s\"", part,
                  mf_error_message());
}

void expect_failure(int rc, int code, const char *part)
{
    ck_assert_msg(rc == code && strstr(mf_error_message(), part), "%d: %s; expected %d, %s", rc,
                  mf_error_message(), code, part);
    mf_error_clear();
}
