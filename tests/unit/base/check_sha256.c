/* SHA-256: the examples of FIPS 180-4, and lengths around the ends of blocks. */
#include "check_main.h"

#include "base/sha256.h"

#include <string.h>

START_TEST(hashes_are_those_of_the_standard)
{
    static const struct {
        const char *text, *hash;
    } cases[] = {
        {"", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
        {"abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
         "klmnopqrlmnopqrsmnopqrstnopqrstu",
         "z1sWp3ivg4ADbOWeewSSNwskmxHo8HpRr6xFA3r+6dE="},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char hash[45];
        mf_sha256_base64(cases[i].text, strlen(cases[i].text), hash);
        ck_assert_str_eq(hash, cases[i].hash);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sha256");
    TCase *c = tcase_create("sha256");
    tcase_add_test(c, hashes_are_those_of_the_standard);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
